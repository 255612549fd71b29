// Prints the tables of settings and of oshrun's options as JSON, for the sweep (sweep.py): what is new in them is in
// it.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/config.hpp"
#include "tools/oshrun/options.hpp"

int main() {
    nlohmann::ordered_json tables = {{"settings", nlohmann::ordered_json::array()},
                                     {"options", nlohmann::ordered_json::array()}};
    for (const sft::SettingInfo& setting : sft::settings()) {
        tables["settings"].push_back({{"name", setting.name},
                                      {"alias", setting.alias},
                                      {"type", setting.type},
                                      {"default", setting.default_value},
                                      {"range", setting.range},
                                      {"unit", setting.unit}});
    }
    for (const sft::tools::KnownOption& option : sft::tools::known_options()) {
        tables["options"].push_back({{"name", option.name}, {"takes_value", option.takes_value}});
    }
    fmt::print("{}\n", tables.dump());
}
