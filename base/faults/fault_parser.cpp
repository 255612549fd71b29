// Reads the language of fault_schedule.hpp.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/assert.hpp"
#include "base/edit_distance.hpp"
#include "base/faults/fault_schedule.hpp"

namespace sft {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f:";
constexpr std::string_view kVictims[] = {"pe", "process", "spare", "any", "leader", "substitute", "partner"};
constexpr std::string_view kClauses[] = {"at", "visit", "incarnation", "every", "after"};
constexpr std::uint64_t kNumberMax = 1'000'000'000;
constexpr std::uint64_t kSeedMax = UINT64_MAX;
constexpr std::size_t kQuotedMax = 100;
constexpr std::size_t kFileBytesMax = 1U << 20U;
static_assert(kFaultKindWords[static_cast<std::size_t>(FaultKind::stop)] == "stop" && kClauses[0] == "at");
static_assert(kNumberMax <= INT32_MAX, "FaultEntry::number, FaultEntry::incarnation");

// What comes from outside, fit for one line.
std::string quoted(std::string_view text) {
    std::string shown(text.substr(0, kQuotedMax));
    std::replace_if(
        shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
    return "'" + shown + (text.size() > kQuotedMax ? "...'" : "'");
}

template <class Names>
std::string suggestion(std::string_view word, const Names& names) {
    std::string_view nearest;
    std::size_t best = std::max<std::size_t>(1, std::min<std::size_t>(word.size(), 40) / 3) + 1;
    for (const std::string_view name : names) {
        const std::size_t distance = edit_distance(word.substr(0, 40), name);
        if (distance < best) {
            best = distance;
            nearest = name;
        }
    }
    return std::string(nearest);
}

// Reads the words of one entry from left to right. The first problem is kept; after it everything fails.
class EntryParser {
public:
    explicit EntryParser(std::string_view text) {
        while (!text.empty()) {
            const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
            text.remove_prefix(begin);
            const std::size_t length = std::min(text.find_first_of(kBlanks), text.size());
            if (length != 0) {
                words_.push_back(text.substr(0, length));
            }
            text.remove_prefix(length);
        }
    }

    [[nodiscard]] bool parse(FaultEntry& entry) {
        return parse_fault(entry) && parse_victim(entry) && parse_clauses(entry) && check(entry);
    }
    [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

private:
    [[nodiscard]] bool at_end() const noexcept { return next_ == words_.size(); }
    [[nodiscard]] std::string_view peek() const noexcept { return at_end() ? std::string_view() : words_[next_]; }
    bool take_if(std::string_view word) noexcept {
        const bool is_next = !at_end() && words_[next_] == word;
        next_ += is_next ? 1 : 0;
        return is_next;
    }
    bool fail(std::string problem) {
        SFT_ASSERT(!problem.empty());
        problem_ = std::move(problem);
        return false;
    }
    [[nodiscard]] std::string next_word() const { return at_end() ? "the end" : quoted(peek()); }

    [[nodiscard]] bool next_is_number() const noexcept {
        return !at_end() && words_[next_][0] >= '0' && words_[next_][0] <= '9';
    }

    // `what` names the number in the error.
    bool take_number(const std::string& what, std::uint64_t highest, std::uint64_t& out) {
        const std::string_view word = peek();
        std::uint64_t number = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
        if (at_end() || error != std::errc{} || end != word.data() + word.size() || number > highest) {
            return fail(what + " is a number from 0 to " + std::to_string(highest) + ", not " + next_word());
        }
        ++next_;
        out = number;
        return true;
    }

    bool take_seed(std::uint64_t& seed) { return !take_if("seed") || take_number("a seed", kSeedMax, seed); }

    // A number with its unit in the same word or in the next one.
    bool take_duration(std::int64_t& duration_ms) {
        const std::string_view word = peek();
        std::uint64_t number = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
        std::string_view unit(end, static_cast<std::size_t>(word.data() + word.size() - end));
        if (at_end() || error != std::errc{} || number > kNumberMax || (unit != "" && unit != "ms" && unit != "s")) {
            return fail("a duration is a number of ms or s, such as 500 ms, not " + next_word());
        }
        ++next_;
        if (unit.empty()) {
            unit = take_if("s") ? "s" : "";
            take_if("ms");
        }
        duration_ms = static_cast<std::int64_t>(number) * (unit == "s" ? 1000 : 1);
        return true;
    }

    // As a duration, but for the unit us, which is finer than any that a program is stopped for.
    bool take_later(std::int64_t& us) {
        std::int64_t number = 0;
        const std::size_t at = next_;
        std::uint64_t finer = 0;
        const std::string_view unit = next_ + 1 < words_.size() ? words_[next_ + 1] : std::string_view();
        if (unit == "us" || unit == "percent") {
            const bool taken = take_number("a time in us or percent", kNumberMax, finer);
            ++next_;
            us = static_cast<std::int64_t>(finer) * (unit == "us" ? 1 : -1);
            return taken;
        }
        const bool taken = take_duration(number);
        us = number * 1000;
        return taken || fail("after is followed by a time such as 500 us, 20 ms or 40 percent, not by " +
                             (at < words_.size() ? quoted(words_[at]) : std::string("the end")));
    }

    bool parse_fault(FaultEntry& entry) {
        const auto* found = std::find(std::begin(kFaultKindWords), std::end(kFaultKindWords), peek());
        if (found == std::end(kFaultKindWords)) {
            const std::string near = suggestion(peek(), kFaultKindWords);
            return fail(next_word() + " is no fault; " +
                        (near.empty() ? "there are kill, segv, abort, exit N, stop [N ms], delay N ms, flip "
                                        "[local|shadow], cut, fail ERRNO"
                                      : "did you mean " + near + "?"));
        }
        ++next_;
        entry.kind = static_cast<FaultKind>(found - std::begin(kFaultKindWords));
        switch (entry.kind) {
            case FaultKind::exit: {
                std::uint64_t status = 0;
                if (!take_number("the status of exit", 255, status)) {
                    return false;
                }
                entry.status = static_cast<int>(status);
                return true;
            }
            case FaultKind::delay: return take_duration(entry.duration_ms);
            case FaultKind::stop:
            case FaultKind::cut:
                entry.duration_ms = kForEver;
                return !next_is_number() || take_duration(entry.duration_ms);
            case FaultKind::flip:
                entry.copy = take_if("local") ? FaultCopy::local : FaultCopy::shadow;
                if (entry.copy == FaultCopy::shadow) {
                    take_if("shadow");
                }
                if (!take_seed(entry.bit_seed)) {
                    return false;
                }
                take_if("of");
                return true;
            case FaultKind::fail: return take_failure(entry);
            default: return true;
        }
    }

    bool take_failure(FaultEntry& entry) {
        std::string all;
        for (const FailureName& failure : failure_names()) {
            if (take_if(failure.name)) {
                entry.status = failure.error;
                break;
            }
            all += std::string(all.empty() ? "" : ", ") + failure.name;
        }
        if (entry.status == 0) {
            return fail("fail is followed by one of " + all + ", not by " + next_word());
        }
        std::uint64_t times = 1;
        if (next_is_number()) {
            if (!take_number("how often a call fails", kNumberMax, times)) {
                return false;
            }
            if (times == 0 || !take_if("times")) {
                return fail("how often a call fails is a number from 1 and the word times");
            }
        }
        entry.times = static_cast<std::uint32_t>(times);
        return true;
    }

    bool take_number_or_any(FaultEntry& entry, const std::string& what) {
        if (take_if("any")) {
            entry.is_any = true;
            return take_seed(entry.victim_seed);
        }
        std::uint64_t number = 0;
        if (!next_is_number()) {
            return fail(what + " is followed by its number or by any, not by " + next_word());
        }
        if (!take_number("the number after " + what, kNumberMax, number)) {
            return false;
        }
        entry.number = static_cast<std::int32_t>(number);
        return true;
    }

    bool parse_victim(FaultEntry& entry) {
        if (take_if("leader")) {
            entry.victim = FaultVictim::leader;
            return true;
        }
        if (take_if("substitute")) {
            entry.victim = FaultVictim::substitute;
            return true;
        }
        if (take_if("partner")) {
            entry.victim = FaultVictim::partner;
            std::uint64_t number = 0;
            if (!take_if("of") || !take_if("pe")) {
                return fail("partner is followed by 'of pe N', not by " + next_word());
            }
            const bool taken = take_number("the number of the PE", kNumberMax, number);
            entry.number = static_cast<std::int32_t>(number);
            return taken;
        }
        if (peek() == "any") {
            entry.victim = FaultVictim::process;
            return take_number_or_any(entry, "process");
        }
        for (const auto& [word, victim] : {std::pair{"pe", FaultVictim::pe}, std::pair{"process", FaultVictim::process},
                                           std::pair{"spare", FaultVictim::spare}}) {
            if (take_if(word)) {
                entry.victim = victim;
                return take_number_or_any(entry, word);
            }
        }
        const std::string near = suggestion(peek(), kVictims);
        return fail(
            next_word() + " is no victim; " +
            (near.empty()
                 ? "there are pe N, process N, spare N, any, leader, substitute and partner of pe N; N may be any"
                 : "did you mean " + near + "?"));
    }

    bool parse_point(FaultEntry& entry) {
        const std::string_view word = peek();
        std::vector<std::string_view> names;
        for (const FaultPointInfo& info : fault_point_infos()) {
            if (word == info.name) {
                entry.point = info.point;
                ++next_;
                return true;
            }
            names.emplace_back(info.name);
        }
        const std::string near = suggestion(word, names);
        return fail(next_word() + " is no fault point; " +
                    (near.empty() ? "`shmem-ft points` lists them" : "did you mean " + near + "?"));
    }

    bool parse_clauses(FaultEntry& entry) {
        bool seen[std::size(kClauses)] = {};
        while (!at_end()) {
            const auto* found = std::find(std::begin(kClauses), std::end(kClauses), peek());
            if (found == std::end(kClauses)) {
                const std::string near = suggestion(peek(), kClauses);
                return fail(next_word() + " is not understood here; " +
                            (near.empty() ? "there may follow at POINT, visit N, incarnation N, after TIME and every"
                                          : "did you mean " + near + "?"));
            }
            bool& is_seen = seen[found - std::begin(kClauses)];
            if (is_seen) {
                return fail(quoted(*found) + " is there twice");
            }
            is_seen = true;
            ++next_;
            std::uint64_t number = 0;
            if (*found == "at" && !parse_point(entry)) {
                return false;
            }
            if (*found == "visit") {
                if (!take_number("a visit", kNumberMax, number)) {
                    return false;
                }
                entry.visit = static_cast<std::uint32_t>(number);
            }
            if (*found == "incarnation") {
                if (!take_number("an incarnation", kNumberMax, number)) {
                    return false;
                }
                entry.incarnation = static_cast<std::int32_t>(number);
            }
            if (*found == "after" && !take_later(entry.after_us)) {
                return false;
            }
            entry.is_every = entry.is_every || *found == "every";
        }
        return seen[0] || fail("where is missing: at POINT (`shmem-ft points` lists them)");
    }

    bool check(const FaultEntry& entry) {
        if (entry.visit == 0) {
            return fail("visits are counted from 1");
        }
        if (entry.kind == FaultKind::fail && !is_call(entry.point)) {
            return fail("only system calls fail: at one of the points call_... (`shmem-ft points` lists them)");
        }
        const bool may_be_later = entry.kind <= FaultKind::stop;
        if (entry.after_us != 0 && (!may_be_later || entry.is_every)) {
            return fail("after is for one kill, segv, abort, exit or stop");
        }
        if (entry.is_every && entry.incarnation >= 0) {
            return fail("every is for all incarnations: leave out one of the two");
        }
        return true;
    }

    std::vector<std::string_view> words_;
    std::size_t next_ = 0;
    std::string problem_;
};

Result<> read_file(const std::string& path, std::string& text) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fails("cannot read " + quoted(path) + ": " + std::strerror(errno));
    }
    std::string contents;
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::read(fd, buffer, sizeof buffer)) > 0 && contents.size() <= kFileBytesMax) {
        contents.append(buffer, static_cast<std::size_t>(got));
    }
    const int problem = errno;
    ::close(fd);
    if (got < 0) {
        return fails("cannot read " + quoted(path) + ": " + std::strerror(problem));
    }
    if (contents.size() > kFileBytesMax) {
        return fails(quoted(path) + " is too long for a schedule");
    }
    text = std::move(contents);
    return {};
}

}  // namespace

Result<> parse_fault_schedule(std::string_view text, FaultSchedule& schedule) {
    FaultSchedule parsed;
    std::size_t number = 0;
    while (!text.empty()) {
        const std::size_t line_end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, line_end);
        text.remove_prefix(std::min(line_end + 1, text.size()));
        line = line.substr(0, line.find('#'));
        while (!line.empty()) {
            const std::size_t end = std::min(line.find(';'), line.size());
            std::string_view entry_text = line.substr(0, end);
            line.remove_prefix(std::min(end + 1, line.size()));
            const std::size_t begin = entry_text.find_first_not_of(kBlanks);
            if (begin == std::string_view::npos) {
                continue;
            }
            entry_text = entry_text.substr(begin, entry_text.find_last_not_of(kBlanks) - begin + 1);
            ++number;
            EntryParser parser(entry_text);
            FaultEntry entry;
            if (!parser.parse(entry)) {
                return fails("entry " + std::to_string(number) + " " + quoted(entry_text) + ": " + parser.problem());
            }
            SFT_ASSERT(parser.problem().empty() && entry.visit != 0 && entry.duration_ms >= kForEver);
            parsed.push_back(entry);
        }
    }
    if (parsed.size() > kFaultEntriesMax) {
        return fails(std::to_string(parsed.size()) + " entries; a schedule has at most " +
                     std::to_string(kFaultEntriesMax));
    }
    schedule = std::move(parsed);
    return {};
}

Result<> load_fault_schedule(const std::string& entries, const std::string& path, FaultSchedule& schedule) {
    FaultSchedule loaded;
    if (const Result<> parsed = parse_fault_schedule(entries, loaded); !parsed) {
        return fails("SHMEM_FT_FAULTS: " + parsed.error().line);
    }
    if (!path.empty()) {
        std::string text;
        FaultSchedule of_file;
        const Result<> read = read_file(path, text).then([&] { return parse_fault_schedule(text, of_file); });
        if (!read) {
            return fails("SHMEM_FT_FAULTS_FILE: " + read.error().line);
        }
        loaded.insert(loaded.end(), of_file.begin(), of_file.end());
        if (loaded.size() > kFaultEntriesMax) {
            return fails("SHMEM_FT_FAULTS_FILE: together with SHMEM_FT_FAULTS there are " +
                         std::to_string(loaded.size()) + " entries; a schedule has at most " +
                         std::to_string(kFaultEntriesMax));
        }
    }
    schedule = std::move(loaded);
    return {};
}

}  // namespace sft
