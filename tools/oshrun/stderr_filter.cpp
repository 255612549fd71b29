#include "tools/oshrun/stderr_filter.hpp"

#include <cctype>

namespace sft::tools {
namespace {

constexpr std::string_view kText = "] PMIX ERROR: BAD-PARAM in file ";
constexpr std::string_view kFile = "pmix_event_notification.c";
constexpr std::string_view kLineWord = " at line ";
constexpr std::size_t kHeldMax = 512;

bool is_digit(char letter) { return std::isdigit(static_cast<unsigned char>(letter)) != 0; }
bool is_host_letter(char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-' || letter == '.' || letter == '_';
}

}  // namespace

StderrFilter::Verdict StderrFilter::take(char letter) {
    switch (step_) {
        case Step::outside: break;
        case Step::host:
            if (letter == ':') {
                step_ = Step::pid;
                return Verdict::partial;
            }
            return is_host_letter(letter) ? Verdict::partial : Verdict::mismatch;
        case Step::pid:
            if (is_digit(letter)) {
                return Verdict::partial;
            }
            step_ = Step::text;
            position_ = 0;
            [[fallthrough]];
        case Step::text:
            if (letter != kText[position_]) {
                return Verdict::mismatch;
            }
            if (++position_ == kText.size()) {
                step_ = Step::path;
                path_begin_ = held_.size() + 1;
            }
            return Verdict::partial;
        case Step::path:
            if (letter != ' ') {
                return std::isgraph(static_cast<unsigned char>(letter)) != 0 ? Verdict::partial : Verdict::mismatch;
            }
            if (!std::string_view(held_).substr(path_begin_).ends_with(kFile)) {
                return Verdict::mismatch;
            }
            step_ = Step::line_word;
            position_ = 1;  // the blank has just been seen
            return Verdict::partial;
        case Step::line_word:
            if (letter != kLineWord[position_]) {
                return Verdict::mismatch;
            }
            if (++position_ == kLineWord.size()) {
                step_ = Step::line_number;
            }
            return Verdict::partial;
        case Step::line_number:
            if (letter == '\n') {
                return Verdict::complete;
            }
            return is_digit(letter) ? Verdict::partial : Verdict::mismatch;
    }
    return Verdict::mismatch;
}

void StderrFilter::feed(std::string_view bytes, std::string& out) {
    for (const char letter : bytes) {
        if (step_ != Step::outside) {
            const Verdict verdict = held_.size() < kHeldMax ? take(letter) : Verdict::mismatch;
            if (verdict == Verdict::partial) {
                held_ += letter;
                continue;
            }
            if (verdict == Verdict::complete) {
                held_.clear();
                step_ = Step::outside;
                continue;
            }
            flush(out);
        }
        if (letter == '[') {
            held_ = '[';
            step_ = Step::host;
        } else {
            out += letter;
        }
    }
}

void StderrFilter::flush(std::string& out) {
    out += held_;
    held_.clear();
    step_ = Step::outside;
}

}  // namespace sft::tools
