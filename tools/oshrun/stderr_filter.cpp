#include "tools/oshrun/stderr_filter.hpp"

#include <algorithm>
#include <cctype>

namespace sft::tools {
namespace {

// Stand for one or more letters of a kind; what follows them in a line is never of that kind.
constexpr char kHost = '\1';
constexpr char kNumber = '\2';
constexpr char kFile = '\3';

constexpr std::string_view kFileEnd = "pmix_event_notification.c";
constexpr std::array<std::string_view, StderrFilter::kKnownLines> kLines{
    "[\1:\2] PMIX ERROR: BAD-PARAM in file \3 at line \2\n",
    "[\1:\2] plm:rsh: Warning: setpgid(\2,\2) failed in parent with errno=Permission denied(13)\n"};
constexpr std::size_t kHeldMax = 512;

bool is_of_kind(char kind, char letter) {
    const auto byte = static_cast<unsigned char>(letter);
    switch (kind) {
        case kHost: return std::isalnum(byte) != 0 || letter == '-' || letter == '.' || letter == '_';
        case kNumber: return std::isdigit(byte) != 0;
        case kFile: return std::isgraph(byte) != 0;
        default: return false;
    }
}

}  // namespace

// Whether `letter`, which comes after what is held, goes on with the line.
bool StderrFilter::goes_on(Place& place, std::string_view line, char letter) const {
    if (is_of_kind(line[place.at], letter)) {
        place.is_inside = true;
        return true;
    }
    if (place.is_inside) {
        if (line[place.at] == kFile && !std::string_view(held_).ends_with(kFileEnd)) {
            return false;
        }
        place.is_inside = false;
        ++place.at;
    }
    const char wanted = line[place.at++];
    return wanted > kFile && wanted == letter;
}

StderrFilter::Verdict StderrFilter::take(char letter) {
    Verdict verdict = Verdict::mismatch;
    for (std::size_t i = 0; i < kLines.size(); ++i) {
        Place& place = places_[i];
        place.is_possible = place.is_possible && goes_on(place, kLines[i], letter);
        if (place.is_possible) {
            verdict = std::max(verdict, place.at == kLines[i].size() ? Verdict::complete : Verdict::partial);
        }
    }
    return verdict;
}

void StderrFilter::feed(std::string_view bytes, std::string& out) {
    for (const char letter : bytes) {
        if (is_holding()) {
            const Verdict verdict = held_.size() < kHeldMax ? take(letter) : Verdict::mismatch;
            if (verdict == Verdict::partial) {
                held_ += letter;
                continue;
            }
            if (verdict == Verdict::complete) {
                held_.clear();
                continue;
            }
            flush(out);
        }
        if (letter == '[') {
            held_ = letter;
            places_.fill({});
        } else {
            out += letter;
        }
    }
}

void StderrFilter::flush(std::string& out) {
    out += held_;
    held_.clear();
}

}  // namespace sft::tools
