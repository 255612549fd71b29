// A text as files come to look that were cut off or hit: for parsers, which are to answer to any with a line.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace sft {

inline std::string damaged(const std::string& good, std::mt19937& random) {
    std::string text = good.substr(0, random() % 3 == 0 ? random() % good.size() : good.size());
    for (std::uint32_t changes = random() % 4; changes > 0 && !text.empty(); --changes) {
        text[random() % text.size()] = static_cast<char>(random());
    }
    return text;
}

}  // namespace sft
