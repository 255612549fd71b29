// The settings under arbitrary values. An input is lines of NAME=VALUE, as in an environment. Whatever they are,
// load_config accepts them, or leaves the settings alone and says why in one line; and what it accepts is printed in a
// form that it reads back as the same.

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/config.hpp"

namespace {

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::size_t begin = 0;
    while (begin < text.size()) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    using namespace sft;
    std::string text(reinterpret_cast<const char*>(data), bytes);
    std::erase(text, '\0');  // cannot be in an environment
    std::vector<std::string> variables = lines_of(text);
    // Reads a file: whichever name comes up, it is none of this test's business.
    std::erase_if(variables, [](const std::string& line) { return line.starts_with("SHMEM_FT_FAULTS_FILE="); });
    std::vector<char*> environment;
    for (std::string& variable : variables) {
        environment.push_back(variable.data());
    }
    environment.push_back(nullptr);
    char** const before = environ;
    environ = environment.data();

    Config config;
    config.spares = 7777;
    if (const Result<> loaded = load_config(config); !loaded) {
        const std::string& error = loaded.error().line;
        require(config.spares == 7777 && !error.empty() && error.find('\n') == std::string::npos);
    } else {
        for (const SettingInfo& setting : settings()) {
            const std::string value = setting_value(setting, config);
            Config again;
            require(value == "unset" || value == "none" || value.empty() ||
                    parse_setting(setting, value.c_str(), again).has_value());
            require(value == "unset" || value.empty() || value == "none" || setting_value(setting, again) == value);
        }
    }
    environ = before;
    return 0;
}
