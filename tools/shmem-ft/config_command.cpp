// shmem-ft config: every setting with its value and where it comes from, out of the library's own table.

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/config.hpp"
#include "base/docs.hpp"
#include "tools/common/exit_codes.hpp"
#include "tools/common/text.hpp"
#include "tools/shmem-ft/commands.hpp"

namespace sft::tools {
namespace {

constexpr std::size_t kTextWidth = 92;

// Breaks a text at blanks, every line indented.
std::string wrapped(std::string_view text, std::size_t indent) {
    std::string out;
    std::size_t column = kTextWidth;
    while (!text.empty()) {
        const std::size_t blank = std::min(text.find(' '), text.size());
        const std::string_view word = text.substr(0, blank);
        if (column + 1 + word.size() > kTextWidth) {
            out += out.empty() ? "" : "\n";
            out.append(indent, ' ');
            column = indent;
        } else {
            out += ' ';
            ++column;
        }
        out += word;
        column += word.size();
        text.remove_prefix(std::min(blank + 1, text.size()));
    }
    return out;
}

void print_settings(const Config& config) {
    for (const SettingInfo& setting : settings()) {
        const char* origin = setting_origin(setting);
        const std::string value = setting_value(setting, config);
        fmt::print("{} = {}\n", setting.name, value.empty() ? "(none)" : value);
        fmt::print("    {}\n", origin == nullptr ? "the default" : fmt::format("from {} in the environment", origin));
        fmt::print("{}\n", wrapped(with_doc_paths(setting.help), 4));
        fmt::print("{}\n",
                   wrapped(fmt::format("Accepted: {}.{}{}", with_doc_paths(setting.range),
                                       *setting.default_value == '\0'
                                           ? ""
                                           : fmt::format(" Default: {}.", setting.default_value),
                                       *setting.alias == '\0' ? "" : fmt::format(" Older name: {}.", setting.alias)),
                           4));
        fmt::print("\n");
    }
}

constexpr const char* kMarkdownHead = R"(# Settings

<!-- Written by `shmem-ft config --markdown` from base/config.def; do not edit. -->

The library reads its settings from the environment, once, in `shmem_init`. Every process of a job must see the same
values; `oshrun` passes them on. A value that is not accepted, or an unknown variable whose name begins with `SHMEM_FT_`,
ends the job at its start with one line that says what would be right. `shmem-ft config` shows the values as a program
would see them now, and where each comes from.

| variable | type | accepted | default | unit |
|---|---|---|---|---|
)";

void print_markdown() {
    const auto cell = [](const char* text) { return *text == '\0' ? "" : text; };
    const auto code = [](const char* text) { return *text == '\0' ? std::string() : fmt::format("`{}`", text); };
    fmt::print("{}", kMarkdownHead);
    for (const SettingInfo& setting : settings()) {
        fmt::print("| {} | {} | {} | {} | {} |\n", code(setting.name), cell(setting.type), cell(setting.range),
                   code(setting.default_value), cell(setting.unit));
    }
    for (const SettingInfo& setting : settings()) {
        fmt::print("\n## {}\n\n{}\n", setting.name, setting.help);
        if (*setting.alias != '\0') {
            fmt::print("\nThe older name `{}` still works; if both are set, `{}` wins.\n", setting.alias, setting.name);
        }
    }
}

}  // namespace

int run_config(const ConfigCommand& command) {
    if (command.as_markdown) {
        print_markdown();
        return 0;
    }
    Config config;
    if (const Result<> loaded = load_config(config); !loaded) {
        print_line("shmem-ft: error: " + loaded.error().line);
        return kExitUsage;
    }
    print_settings(config);
    return 0;
}

}  // namespace sft::tools
