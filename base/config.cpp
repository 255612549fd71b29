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
#include "base/config_types.hpp"
#include "base/edit_distance.hpp"
#include "base/instruments.hpp"

namespace sft {
namespace {

constexpr std::string_view kPrefix = "SHMEM_FT_";

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
