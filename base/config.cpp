#include "base/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/assert.hpp"
#include "base/edit_distance.hpp"
#include "base/instruments.hpp"

namespace sft {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kHeapBaseMin = 0x10000;
constexpr std::uint64_t kHeapBaseMax = 0x7ffffffff000;  // the end of user addresses on x86-64
constexpr std::uint32_t kSparesMax = 4094;
constexpr std::uint32_t kMillisecondsMax = 24 * 3600 * 1000;
constexpr std::size_t kSocketNameMax = 100;  // sockaddr_un takes 107 after the leading zero
constexpr std::size_t kTextMax = 65536;
constexpr std::string_view kPrefix = "SHMEM_FT_";
static_assert(kHeapBaseMin % kPageBytes == 0 && kHeapBaseMax % kPageBytes == 0 && kHeapBaseMin < kHeapBaseMax);

// What one type of row can do. parse returns false for a value that is not accepted and leaves `out` alone.
namespace type {

namespace size {
constexpr const char* kName = "size";
constexpr bool kIsInternal = false;

// A letter that is no suffix gives -1.
int suffix_shift(char letter) noexcept {
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
bool parse_from(double least, std::string_view text, std::uint64_t& out) noexcept {
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

bool parse(std::string_view text, std::uint64_t& out) noexcept { return parse_from(1, text, out); }

std::string print(std::uint64_t value) {
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
constexpr const char* kName = "size";
constexpr bool kIsInternal = false;

bool parse(std::string_view text, std::uint64_t& out) noexcept { return size::parse_from(0, text, out); }
std::string print(std::uint64_t value) { return size::print(value); }
}  // namespace size_or_zero

namespace presence {
constexpr const char* kName = "set or unset";
constexpr bool kIsInternal = false;

bool parse(std::string_view, bool& out) noexcept {
    out = true;
    return true;
}
std::string print(bool value) { return value ? "set" : "unset"; }
}  // namespace presence

namespace flag {
constexpr const char* kName = "0 or 1";
constexpr bool kIsInternal = false;

bool parse(std::string_view text, bool& out) noexcept {
    if (text != "0" && text != "1") {
        return false;
    }
    out = text == "1";
    return true;
}
std::string print(bool value) { return value ? "1" : "0"; }
}  // namespace flag

// What count and milliseconds have in common.
bool parse_whole(std::string_view text, std::uint32_t maximum, std::uint32_t& out) noexcept {
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number > maximum) {
        return false;
    }
    out = number;
    return true;
}

namespace count {
constexpr const char* kName = "number";
constexpr bool kIsInternal = false;

bool parse(std::string_view text, std::uint32_t& out) noexcept { return parse_whole(text, kSparesMax, out); }
std::string print(std::uint32_t value) { return std::to_string(value); }
}  // namespace count

namespace milliseconds {
constexpr const char* kName = "number";
constexpr bool kIsInternal = false;

bool parse(std::string_view text, std::uint32_t& out) noexcept { return parse_whole(text, kMillisecondsMax, out); }
std::string print(std::uint32_t value) { return std::to_string(value); }
}  // namespace milliseconds

namespace address {
constexpr const char* kName = "address";
constexpr bool kIsInternal = false;

bool parse(std::string_view text, std::uint64_t& out) noexcept {
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
std::string print(std::uint64_t value) {
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
bool choose(std::string_view text, const Choice<T> (&choices)[kCount], T& out) noexcept {
    for (const Choice<T>& choice : choices) {
        if (choice.name == text) {
            out = choice.value;
            return true;
        }
    }
    return false;
}

template <class T, std::size_t kCount>
std::string chosen(T value, const Choice<T> (&choices)[kCount]) {
    for (const Choice<T>& choice : choices) {
        if (choice.value == value) {
            return std::string(choice.name);
        }
    }
    return {};
}

namespace backup_mode {
constexpr const char* kName = "choice";
constexpr bool kIsInternal = false;
constexpr Choice<BackupMode> kChoices[] = {
    {"none", BackupMode::none}, {"single", BackupMode::single_copy}, {"double", BackupMode::double_copy}};

bool parse(std::string_view text, BackupMode& out) noexcept { return choose(text, kChoices, out); }
std::string print(BackupMode value) { return chosen(value, kChoices); }
}  // namespace backup_mode

namespace fault_action {
constexpr const char* kName = "choice";
constexpr bool kIsInternal = false;
constexpr Choice<FaultAction> kChoices[] = {
    {"jump", FaultAction::jump}, {"return", FaultAction::go_on}, {"abort", FaultAction::abort}};

bool parse(std::string_view text, FaultAction& out) noexcept { return choose(text, kChoices, out); }
std::string print(FaultAction value) { return chosen(value, kChoices); }
}  // namespace fault_action

namespace unreplaced {
constexpr const char* kName = "choice";
constexpr bool kIsInternal = false;
constexpr Choice<Unreplaced> kChoices[] = {
    {"abort", Unreplaced::abort}, {"wait", Unreplaced::wait}, {"handler", Unreplaced::handler}};

bool parse(std::string_view text, Unreplaced& out) noexcept { return choose(text, kChoices, out); }
std::string print(Unreplaced value) { return chosen(value, kChoices); }
}  // namespace unreplaced

namespace transport {
constexpr const char* kName = "choice";
constexpr bool kIsInternal = false;
constexpr Choice<Transport> kChoices[] = {
    {"auto", Transport::automatic}, {"ucx", Transport::ucx}, {"ofi", Transport::ofi}};

bool parse(std::string_view text, Transport& out) noexcept { return choose(text, kChoices, out); }
std::string print(Transport value) { return chosen(value, kChoices); }
}  // namespace transport

namespace port_guard {
constexpr const char* kName = "choice";
constexpr bool kIsInternal = false;
constexpr Choice<PortGuard> kChoices[] = {
    {"0", PortGuard::none}, {"1", PortGuard::nodes}, {"sign", PortGuard::signatures}};

bool parse(std::string_view text, PortGuard& out) noexcept { return choose(text, kChoices, out); }
std::string print(PortGuard value) { return chosen(value, kChoices); }
}  // namespace port_guard

namespace globals {
constexpr const char* kName = "choice";
constexpr bool kIsInternal = false;
constexpr Choice<GlobalsMode> kChoices[] = {
    {"auto", GlobalsMode::automatic}, {"yes", GlobalsMode::yes}, {"no", GlobalsMode::no}};

bool parse(std::string_view text, GlobalsMode& out) noexcept { return choose(text, kChoices, out); }
std::string print(GlobalsMode value) { return chosen(value, kChoices); }
}  // namespace globals

namespace check {
constexpr const char* kName = "choice";
constexpr bool kIsInternal = false;
constexpr Choice<CheckMode> kChoices[] = {
    {"off", CheckMode::off}, {"warn", CheckMode::warn}, {"abort", CheckMode::abort}};

bool parse(std::string_view text, CheckMode& out) noexcept { return choose(text, kChoices, out); }
std::string print(CheckMode value) { return chosen(value, kChoices); }
}  // namespace check

namespace tracking {
constexpr const char* kName = "choice";
constexpr bool kIsInternal = false;
constexpr Choice<Tracking> kChoices[] = {
    {"off", Tracking::off}, {"auto", Tracking::automatic}, {"on", Tracking::always}, {"check", Tracking::check}};

bool parse(std::string_view text, Tracking& out) noexcept { return choose(text, kChoices, out); }
std::string print(Tracking value) { return chosen(value, kChoices); }
}  // namespace tracking

namespace text {
constexpr const char* kName = "text";
constexpr bool kIsInternal = false;

bool parse(std::string_view text, std::string& out) {
    if (text.size() > kTextMax) {
        return false;
    }
    out = text;
    return true;
}
std::string print(const std::string& value) { return value; }
}  // namespace text

namespace internal_count {
constexpr const char* kName = count::kName;
constexpr bool kIsInternal = true;

bool parse(std::string_view text, std::uint32_t& out) noexcept { return count::parse(text, out); }
std::string print(std::uint32_t value) { return count::print(value); }
}  // namespace internal_count

namespace internal_text {
constexpr const char* kName = "text";
constexpr bool kIsInternal = true;

bool parse(std::string_view text, std::string& out) {
    if (text.size() > kSocketNameMax) {
        return false;
    }
    out = text;
    return true;
}
std::string print(const std::string& value) { return value; }
}  // namespace internal_text

}  // namespace type

constexpr SettingInfo kSettings[] = {
#define SFT_SETTING(member, kind, name, alias, default_value, range, unit, help) \
    {name, alias, type::kind::kName, default_value, range, unit, help, type::kind::kIsInternal},
#include "base/config.def"
#undef SFT_SETTING
};

// The row's position in the table chooses the member: a switch, because a table of member pointers of several types
// would need a variant for nothing.
enum class Row : std::size_t {
#define SFT_SETTING(member, kind, name, alias, default_value, range, unit, help) member,
#include "base/config.def"
#undef SFT_SETTING
};

constexpr bool is_each_named_once() noexcept {
    for (const SettingInfo& one : kSettings) {
        const auto is_same = [&](const SettingInfo& other) {
            return &other != &one && std::string_view(other.name) == one.name;
        };
        if (*one.name == '\0' || std::any_of(std::begin(kSettings), std::end(kSettings), is_same)) {
            return false;
        }
    }
    return true;
}
static_assert(is_each_named_once(), "of two rows with one name the second would never be found");

Row row_of(const SettingInfo& setting) noexcept {
    SFT_ASSERT(&setting >= std::begin(kSettings) && &setting < std::end(kSettings));
    return static_cast<Row>(&setting - kSettings);
}

bool parse_into(const SettingInfo& setting, std::string_view text, Config& config) {
    switch (row_of(setting)) {
#define SFT_SETTING(member, kind, name, alias, default_value, range, unit, help) \
    case Row::member:                                                            \
        return type::kind::parse(text, config.member);
#include "base/config.def"
#undef SFT_SETTING
    }
    return false;
}

// "unset" is the default of variables that count as set with any value: for them the default is not parsed.
bool has_default(const SettingInfo& setting) noexcept { return std::strcmp(setting.default_value, "unset") != 0; }

std::string unknown_variable_line(std::string_view name) {
    std::string_view nearest;
    std::size_t best = std::max<std::size_t>(3, (name.size() - kPrefix.size()) / 2);
    for (const SettingInfo& setting : kSettings) {
        if (setting.is_internal || !std::string_view(setting.name).starts_with(kPrefix)) {
            continue;
        }
        const std::size_t distance = edit_distance(name, setting.name);
        if (distance <= best) {
            best = distance;
            nearest = setting.name;
        }
    }
    std::string line = std::string(name) + ": no such setting";
    return nearest.empty() ? line + "; `shmem-ft config` lists them all"
                           : line + "; did you mean " + std::string(nearest) + "?";
}

bool is_known(std::string_view name) noexcept {
    return std::any_of(std::begin(kSettings), std::end(kSettings),
                       [name](const SettingInfo& setting) { return name == setting.name; });
}

// Of the first variable that begins like one of ours and is none; empty if there is none.
std::string unknown_variable() {
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const std::string_view name = text.substr(0, text.find('='));
        if (name.starts_with(kPrefix) && !is_known(name)) {
            return unknown_variable_line(name);
        }
    }
    return {};
}

struct Found {
    const char* variable = nullptr;  // null: not set
    const char* text = "";
};

Found find_in_environment(const SettingInfo& setting) {
    for (const char* variable : {setting.name, setting.alias}) {
        const char* text = *variable == '\0' ? nullptr : std::getenv(variable);
        if (text != nullptr) {
            return {variable, text};
        }
    }
    return {};
}

std::string bad_value_line(const char* variable, std::string_view value, const SettingInfo& setting) {
    constexpr std::size_t kShownMax = 60;
    std::string shown(value.substr(0, kShownMax));
    if (value.size() > kShownMax) {
        shown += "...";
    }
    // A control character in the value must not break the one line.
    std::replace_if(
        shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
    return std::string(variable) + "=" + shown + ": not " + setting.range;
}

}  // namespace

std::span<const SettingInfo> settings() noexcept { return kSettings; }

const char* setting_origin(const SettingInfo& setting) { return find_in_environment(setting).variable; }

std::string setting_value(const SettingInfo& setting, const Config& config) {
    switch (row_of(setting)) {
#define SFT_SETTING(member, kind, name, alias, default_value, range, unit, help) \
    case Row::member:                                                            \
        return type::kind::print(config.member);
#include "base/config.def"
#undef SFT_SETTING
    }
    return {};
}

Result<> parse_setting(const SettingInfo& setting, const char* text, Config& config) {
    if (!parse_into(setting, text, config)) {
        return fails(bad_value_line(setting.name, text, setting));
    }
    return {};
}

Result<> load_config(Config& config) {
    if (std::string line = unknown_variable(); !line.empty()) {
        return fails(std::move(line));
    }
    Config loaded;
    for (const SettingInfo& setting : kSettings) {
        Found found = find_in_environment(setting);
        const bool is_default = found.variable == nullptr;
        if (is_default) {
            if (!has_default(setting)) {
                continue;
            }
            found = {setting.name, setting.default_value};
        }
        if (!parse_into(setting, found.text, loaded)) {
            SFT_ASSERT(!is_default);  // nobody but the table is to blame for it
            return fails(bad_value_line(found.variable, found.text, setting));
        }
    }
    if (is_thread_sanitized() &&
        setting_origin(kSettings[static_cast<std::size_t>(Row::heap_base_address)]) == nullptr) {
        loaded.heap_base_address = kHeapBaseUnderThreadSanitizer;
    }
    // What is inside these texts has errors of its own, more exact than a row of the table could be.
    if (Result<> done = load_fault_schedule(loaded.faults, loaded.faults_file, loaded.fault_schedule); !done) {
        return done;
    }
    config = std::move(loaded);
    return {};
}

}  // namespace sft
