#include "tools/common/text.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/edit_distance.hpp"

namespace sft::tools {

std::optional<long> parse_number(std::string_view text, long lowest, long highest) {
    long number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || number < lowest || number > highest) {
        return std::nullopt;
    }
    return number;
}

std::string nearest(std::string_view word, std::span<const std::string_view> candidates) {
    std::string_view found;
    // A third of the letters may be wrong: more is no typing error.
    std::size_t best = std::max<std::size_t>(1, word.size() / 3);
    for (const std::string_view candidate : candidates) {
        const std::size_t distance = edit_distance(word, candidate);
        if (distance <= best && (found.empty() || distance < best)) {
            best = distance;
            found = candidate;
        }
    }
    return std::string(found);
}

std::string counted(std::int64_t n, std::string_view what) {
    return std::to_string(n) + " " + std::string(what) + (n == 1 ? "" : "s");
}

std::string shell_quoted(std::string_view word) {
    constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%_-+=:,./";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
        return std::string(word);
    }
    std::string quoted = "'";
    for (const char letter : word) {
        if (letter == '\'') {
            quoted += "'\\''";
        } else {
            quoted += letter;
        }
    }
    return quoted + "'";
}

std::string shell_quoted(std::span<const std::string> words) {
    std::string line;
    for (const std::string& word : words) {
        line += line.empty() ? "" : " ";
        line += shell_quoted(word);
    }
    return line;
}

std::optional<std::vector<std::string>> split_words(std::string_view line) {
    std::vector<std::string> words;
    std::string word;
    bool in_word = false;
    char quote = '\0';
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char letter = line[i];
        if (quote != '\0') {
            if (letter == quote) {
                quote = '\0';
            } else if (letter == '\\' && quote == '"' && i + 1 < line.size() &&
                       (line[i + 1] == '"' || line[i + 1] == '\\')) {
                word += line[++i];
            } else {
                word += letter;
            }
        } else if (letter == ' ' || letter == '\t' || letter == '\n') {
            if (in_word) {
                words.push_back(std::exchange(word, {}));
                in_word = false;
            }
        } else {
            in_word = true;
            if (letter == '\'' || letter == '"') {
                quote = letter;
            } else if (letter == '\\' && i + 1 < line.size()) {
                word += line[++i];
            } else {
                word += letter;
            }
        }
    }
    if (quote != '\0') {
        return std::nullopt;
    }
    if (in_word) {
        words.push_back(word);
    }
    return words;
}

namespace {

// Of the UTF-8 character at the beginning of text; 0: there is none. Neither longer forms nor surrogates are any.
std::size_t bytes_of_character(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned first = byte(0);
    const std::size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || text.size() < length) {
        return 0;
    }
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) {
            return 0;
        }
    }
    const bool is_too_long = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
    const bool is_none = (first == 0xed && byte(1) >= 0xa0) || (first == 0xf4 && byte(1) >= 0x90);
    return is_too_long || is_none ? 0 : length;
}

// C0 and C1 (in UTF-8 behind 0xc2), and what turns the direction of writing round.
bool is_control(std::string_view character) {
    const auto first = static_cast<unsigned char>(character[0]);
    if (character.size() == 1) {
        return first < 0x20 || first == 0x7f;
    }
    if (character.size() == 2) {
        return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
    }
    return (character >= "\u202a" && character <= "\u202e") || (character >= "\u2066" && character <= "\u2069") ||
           character == "\u200e" || character == "\u200f" || character == "\u2028" || character == "\u2029";
}

}  // namespace

std::string harmless(std::string_view text) {
    std::string clean;
    clean.reserve(text.size());
    while (!text.empty()) {
        const std::size_t length = bytes_of_character(text);
        const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
        if (length == 0 || is_control(character)) {
            clean += '?';
        } else {
            clean += character;
        }
        text.remove_prefix(character.size());
    }
    return clean;
}

void print_line(std::string_view line) {
    std::string text = harmless(line);
    text += '\n';
    // A failing write to stderr has nobody to be reported to.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace sft::tools
