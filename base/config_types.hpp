// The types of the rows of config.def: how a value is read and printed. parse returns false for a value that is not
// accepted and leaves `out` alone. For config.cpp only.
#pragma once

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/pages.hpp"

namespace sft::type {

inline constexpr std::uint64_t kHeapBaseMin = 0x10000;
inline constexpr std::uint64_t kHeapBaseMax = 0x7ffffffff000;  // the end of user addresses on x86-64
inline constexpr std::uint32_t kSparesMax = 4094;
inline constexpr std::uint32_t kMillisecondsMax = 24 * 3600 * 1000;
inline constexpr std::size_t kSocketNameMax = 100;  // sockaddr_un takes 107 after the leading zero
inline constexpr std::size_t kTextMax = 65536;
static_assert(kHeapBaseMin % kPageBytes == 0 && kHeapBaseMax % kPageBytes == 0 && kHeapBaseMin < kHeapBaseMax);

namespace size {
inline constexpr const char* kName = "size";
inline constexpr bool kIsInternal = false;

// A letter that is no suffix gives -1.
inline int suffix_shift(char letter) noexcept {
    switch (letter) {
        case 'k':
        case 'K': return 10;
        case 'm':
        case 'M': return 20;
        case 'g':
        case 'G': return 30;
        case 't':
        case 'T': return 40;
        default: return -1;
    }
}

// Specification: a non-negative number with an optional one-letter suffix of which only the first letter counts; the
// result is rounded up. from_chars and not strtod: the decimal point must not depend on the program's locale.
// Refused although one could make a number of it: digits behind the suffix (4G4), and a part of a byte (3.7), where the
// suffix has been forgotten.
inline bool parse_from(double least, std::string_view text, std::uint64_t& out) noexcept {
    if (text.empty() || !(text[0] == '.' || (text[0] >= '0' && text[0] <= '9'))) {
        return false;
    }
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{}) {
        return false;
    }
    int shift = 0;
    if (end != text.data() + text.size()) {
        shift = suffix_shift(*end);
        if (shift < 0 || std::any_of(end, text.data() + text.size(), [](char c) { return c >= '0' && c <= '9'; })) {
            return false;
        }
    } else if (number != std::floor(number)) {
        return false;
    }
    const double bytes = std::ceil(std::ldexp(number, shift));
    if (!(bytes >= least) || bytes > 0x1p62) {
        return false;
    }
    out = static_cast<std::uint64_t>(bytes);
    return true;
}

inline bool parse(std::string_view text, std::uint64_t& out) noexcept { return parse_from(1, text, out); }

inline std::string print(std::uint64_t value) {
    constexpr const char* kSuffixes[] = {"", "k", "M", "G", "T"};
    std::size_t power = 0;
    while (power < 4 && value != 0 && value % 1024 == 0) {
        value /= 1024;
        ++power;
    }
    return std::to_string(value) + kSuffixes[power];
}
}  // namespace size

// The specification lets a heap be of no size: it then has the smallest that the library works with. A limit of 0 is
// none.
namespace size_or_zero {
inline constexpr const char* kName = "size";
inline constexpr bool kIsInternal = false;

inline bool parse(std::string_view text, std::uint64_t& out) noexcept { return size::parse_from(0, text, out); }
inline std::string print(std::uint64_t value) { return size::print(value); }
}  // namespace size_or_zero

namespace presence {
inline constexpr const char* kName = "set or unset";
inline constexpr bool kIsInternal = false;

inline bool parse(std::string_view, bool& out) noexcept {
    out = true;
    return true;
}
inline std::string print(bool value) { return value ? "set" : "unset"; }
}  // namespace presence

namespace flag {
inline constexpr const char* kName = "0 or 1";
inline constexpr bool kIsInternal = false;

inline bool parse(std::string_view text, bool& out) noexcept {
    if (text != "0" && text != "1") {
        return false;
    }
    out = text == "1";
    return true;
}
inline std::string print(bool value) { return value ? "1" : "0"; }
}  // namespace flag

// What count and milliseconds have in common.
inline bool parse_whole(std::string_view text, std::uint32_t maximum, std::uint32_t& out) noexcept {
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number > maximum) {
        return false;
    }
    out = number;
    return true;
}

namespace count {
inline constexpr const char* kName = "number";
inline constexpr bool kIsInternal = false;

inline bool parse(std::string_view text, std::uint32_t& out) noexcept { return parse_whole(text, kSparesMax, out); }
inline std::string print(std::uint32_t value) { return std::to_string(value); }
}  // namespace count

namespace versions {
inline constexpr const char* kName = "number";
inline constexpr bool kIsInternal = false;
inline constexpr std::uint32_t kMost = 1'000'000;

inline bool parse(std::string_view text, std::uint32_t& out) noexcept {
    return parse_whole(text, kMost, out) && out != 0;
}
inline std::string print(std::uint32_t value) { return std::to_string(value); }
}  // namespace versions

namespace milliseconds {
inline constexpr const char* kName = "number";
inline constexpr bool kIsInternal = false;

inline bool parse(std::string_view text, std::uint32_t& out) noexcept {
    return parse_whole(text, kMillisecondsMax, out);
}
inline std::string print(std::uint32_t value) { return std::to_string(value); }
}  // namespace milliseconds

// A whole number with a unit.
namespace duration {
inline constexpr const char* kName = "duration";
inline constexpr bool kIsInternal = false;

struct Unit {
    std::string_view name;
    std::int64_t ns;
};
inline constexpr Unit kUnits[] = {{"d", 86'400 * kNsPerSecond},
                                  {"h", 3600 * kNsPerSecond},
                                  {"m", 60 * kNsPerSecond},
                                  {"s", kNsPerSecond},
                                  {"ms", kNsPerMs}};
inline constexpr std::int64_t kMostNs = 10'000 * kUnits[0].ns;

inline bool parse(std::string_view text, std::int64_t& out) noexcept {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || number <= 0) {
        return false;
    }
    const std::string_view name(end, text.data() + text.size());
    for (const Unit& unit : kUnits) {
        if (unit.name == name && number <= kMostNs / unit.ns) {
            out = number * unit.ns;
            return true;
        }
    }
    return false;
}

inline std::string print(std::int64_t value) {
    for (const Unit& unit : kUnits) {
        if (value % unit.ns == 0) {
            return std::to_string(value / unit.ns) + std::string(unit.name);
        }
    }
    return std::to_string(value) + "ns";
}
}  // namespace duration

namespace interval {
inline constexpr const char* kName = "interval";
inline constexpr bool kIsInternal = false;
inline constexpr std::uint32_t kCallsMax = 1'000'000'000;

inline bool parse(std::string_view text, CheckpointInterval& out) noexcept {
    using Kind = CheckpointInterval::Kind;
    std::uint32_t calls = 0;
    std::int64_t ns = 0;
    if (text == "auto") {
        out = {Kind::automatic, 0};
    } else if (parse_whole(text, kCallsMax, calls) && calls != 0) {
        out = {Kind::calls, calls};
    } else if (duration::parse(text, ns)) {
        out = {Kind::time, static_cast<std::uint64_t>(ns)};
    } else {
        return false;
    }
    return true;
}

inline std::string print(const CheckpointInterval& value) {
    switch (value.kind) {
        case CheckpointInterval::Kind::calls: return std::to_string(value.amount);
        case CheckpointInterval::Kind::time: return duration::print(static_cast<std::int64_t>(value.amount));
        case CheckpointInterval::Kind::automatic: return "auto";
    }
    SFT_UNREACHABLE();
}
}  // namespace interval

namespace address {
inline constexpr const char* kName = "address";
inline constexpr bool kIsInternal = false;

inline bool parse(std::string_view text, std::uint64_t& out) noexcept {
    if (text.starts_with("0x") || text.starts_with("0X")) {
        text.remove_prefix(2);
    }
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
    if (error != std::errc{} || end != text.data() + text.size() || number % kPageBytes != 0 || number < kHeapBaseMin ||
        number > kHeapBaseMax) {
        return false;
    }
    out = number;
    return true;
}
inline std::string print(std::uint64_t value) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%" PRIx64, value);
    return text;
}
}  // namespace address

template <class T>
struct Choice {
    std::string_view name;
    T value;
};

template <class T, std::size_t kCount>
inline bool choose(std::string_view text, const Choice<T> (&choices)[kCount], T& out) noexcept {
    for (const Choice<T>& choice : choices) {
        if (choice.name == text) {
            out = choice.value;
            return true;
        }
    }
    return false;
}

template <class T, std::size_t kCount>
inline std::string chosen(T value, const Choice<T> (&choices)[kCount]) {
    for (const Choice<T>& choice : choices) {
        if (choice.value == value) {
            return std::string(choice.name);
        }
    }
    return {};
}

namespace compression {
inline constexpr const char* kName = "choice";
inline constexpr bool kIsInternal = false;
inline constexpr std::uint32_t kLevelMax = 9;
inline constexpr Choice<StoreCompression> kChoices[] = {
    {"none", {StoreCompression::Kind::none, 0}},
    {"lz4", {StoreCompression::Kind::lz4, 0}},
    {"zstd", {StoreCompression::Kind::zstd, 1}}};  // higher levels take several times as long for little
inline constexpr std::string_view kZstdLevel = "zstd:";

inline bool parse(std::string_view text, StoreCompression& out) noexcept {
    if (choose(text, kChoices, out)) {
        return true;
    }
    std::uint32_t level = 0;
    const bool is_level =
        text.starts_with(kZstdLevel) && parse_whole(text.substr(kZstdLevel.size()), kLevelMax, level) && level != 0;
    if (is_level) {
        out = {StoreCompression::Kind::zstd, static_cast<std::int32_t>(level)};
    }
    return is_level;
}

inline std::string print(const StoreCompression& value) {
    const std::string name = chosen(value, kChoices);
    return name.empty() ? std::string(kZstdLevel) + std::to_string(value.level) : name;
}
}  // namespace compression

namespace backup {
inline constexpr const char* kName = "choice";
inline constexpr bool kIsInternal = false;
inline constexpr Choice<BackupMode> kChoices[] = {
    {"none", BackupMode::none}, {"single", BackupMode::single_copy}, {"double", BackupMode::double_copy}};
inline constexpr std::string_view kReplica = "replica:";
inline constexpr std::string_view kXor = "xor:";
inline constexpr std::string_view kReedSolomon = "rs:";

inline bool parse(std::string_view text, Backup& out) noexcept {
    if (text.substr(0, kXor.size()) == kXor) {
        std::uint32_t size = 0;
        const bool is_size = count::parse(text.substr(kXor.size()), size) && size >= 2 && size <= kParityGroupMax;
        if (is_size) {
            out = {.mode = BackupMode::double_copy, .data = static_cast<std::int32_t>(size) - 1, .parity = 1};
        }
        return is_size;
    }
    if (text.substr(0, kReedSolomon.size()) == kReedSolomon) {
        const std::string_view rest = text.substr(kReedSolomon.size());
        const std::size_t plus = rest.find('+');
        std::uint32_t data = 0;
        std::uint32_t parity = 0;
        const bool are_counts = plus != std::string_view::npos && count::parse(rest.substr(0, plus), data) &&
                                count::parse(rest.substr(plus + 1), parity) && data >= 1 && parity >= 1 &&
                                parity <= kParityMax && data <= kParityGroupMax - parity;
        if (are_counts) {
            out = {.mode = BackupMode::double_copy,
                   .data = static_cast<std::int32_t>(data),
                   .parity = static_cast<std::int32_t>(parity)};
        }
        return are_counts;
    }
    if (text.substr(0, kReplica.size()) != kReplica) {
        Backup chosen_one;
        const bool is_one = choose(text, kChoices, chosen_one.mode);
        out = is_one ? chosen_one : out;
        return is_one;
    }
    std::uint32_t partners = 0;
    if (!count::parse(text.substr(kReplica.size()), partners) || partners < 1 || partners > kPartnersMax) {
        return false;
    }
    out = {.mode = BackupMode::double_copy, .partners = static_cast<std::int32_t>(partners)};
    return true;
}
inline std::string print(const Backup& value) {
    if (value.parity == 1) {
        return std::string(kXor) + std::to_string(value.data + 1);
    }
    if (value.parity > 1) {
        return std::string(kReedSolomon) + std::to_string(value.data) + "+" + std::to_string(value.parity);
    }
    return value.partners == 1 ? chosen(value.mode, kChoices) : std::string(kReplica) + std::to_string(value.partners);
}
}  // namespace backup

namespace fault_action {
inline constexpr const char* kName = "choice";
inline constexpr bool kIsInternal = false;
inline constexpr Choice<FaultAction> kChoices[] = {
    {"jump", FaultAction::jump}, {"return", FaultAction::go_on}, {"abort", FaultAction::abort}};

inline bool parse(std::string_view text, FaultAction& out) noexcept { return choose(text, kChoices, out); }
inline std::string print(FaultAction value) { return chosen(value, kChoices); }
}  // namespace fault_action

namespace unreplaced {
inline constexpr const char* kName = "choice";
inline constexpr bool kIsInternal = false;
inline constexpr Choice<Unreplaced> kChoices[] = {
    {"abort", Unreplaced::abort}, {"wait", Unreplaced::wait}, {"handler", Unreplaced::handler}};

inline bool parse(std::string_view text, Unreplaced& out) noexcept { return choose(text, kChoices, out); }
inline std::string print(Unreplaced value) { return chosen(value, kChoices); }
}  // namespace unreplaced

namespace transport {
inline constexpr const char* kName = "choice";
inline constexpr bool kIsInternal = false;
inline constexpr Choice<Transport> kChoices[] = {
    {"auto", Transport::automatic}, {"ucx", Transport::ucx}, {"ofi", Transport::ofi}};

inline bool parse(std::string_view text, Transport& out) noexcept { return choose(text, kChoices, out); }
inline std::string print(Transport value) { return chosen(value, kChoices); }
}  // namespace transport

namespace port_guard {
inline constexpr const char* kName = "choice";
inline constexpr bool kIsInternal = false;
inline constexpr Choice<PortGuard> kChoices[] = {
    {"0", PortGuard::none}, {"1", PortGuard::nodes}, {"sign", PortGuard::signatures}};

inline bool parse(std::string_view text, PortGuard& out) noexcept { return choose(text, kChoices, out); }
inline std::string print(PortGuard value) { return chosen(value, kChoices); }
}  // namespace port_guard

namespace globals {
inline constexpr const char* kName = "choice";
inline constexpr bool kIsInternal = false;
inline constexpr Choice<GlobalsMode> kChoices[] = {
    {"auto", GlobalsMode::automatic}, {"yes", GlobalsMode::yes}, {"no", GlobalsMode::no}};

inline bool parse(std::string_view text, GlobalsMode& out) noexcept { return choose(text, kChoices, out); }
inline std::string print(GlobalsMode value) { return chosen(value, kChoices); }
}  // namespace globals

namespace check {
inline constexpr const char* kName = "choice";
inline constexpr bool kIsInternal = false;
inline constexpr Choice<CheckMode> kChoices[] = {
    {"off", CheckMode::off}, {"warn", CheckMode::warn}, {"abort", CheckMode::abort}};

inline bool parse(std::string_view text, CheckMode& out) noexcept { return choose(text, kChoices, out); }
inline std::string print(CheckMode value) { return chosen(value, kChoices); }
}  // namespace check

namespace tracking {
inline constexpr const char* kName = "choice";
inline constexpr bool kIsInternal = false;
inline constexpr Choice<Tracking> kChoices[] = {
    {"off", Tracking::off}, {"auto", Tracking::automatic}, {"on", Tracking::always}, {"check", Tracking::check}};

inline bool parse(std::string_view text, Tracking& out) noexcept { return choose(text, kChoices, out); }
inline std::string print(Tracking value) { return chosen(value, kChoices); }
}  // namespace tracking

namespace background_mode {
inline constexpr const char* kName = "choice";
inline constexpr bool kIsInternal = false;
inline constexpr Choice<BackgroundMode> kChoices[] = {{"copy", BackgroundMode::copy},
                                                      {"protect", BackgroundMode::protect}};

inline bool parse(std::string_view text, BackgroundMode& out) noexcept { return choose(text, kChoices, out); }
inline std::string print(BackgroundMode value) { return chosen(value, kChoices); }
}  // namespace background_mode

namespace text {
inline constexpr const char* kName = "text";
inline constexpr bool kIsInternal = false;

inline bool parse(std::string_view text, std::string& out) {
    if (text.size() > kTextMax) {
        return false;
    }
    out = text;
    return true;
}
inline std::string print(const std::string& value) { return value; }
}  // namespace text

namespace internal_count {
inline constexpr const char* kName = count::kName;
inline constexpr bool kIsInternal = true;

inline bool parse(std::string_view text, std::uint32_t& out) noexcept { return count::parse(text, out); }
inline std::string print(std::uint32_t value) { return count::print(value); }
}  // namespace internal_count

namespace internal_text {
inline constexpr const char* kName = "text";
inline constexpr bool kIsInternal = true;

inline bool parse(std::string_view text, std::string& out) {
    if (text.size() > kSocketNameMax) {
        return false;
    }
    out = text;
    return true;
}
inline std::string print(const std::string& value) { return value; }
}  // namespace internal_text

}  // namespace sft::type
