// Small text helpers of the command line tools.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sft::tools {

// A whole decimal number within the bounds, nothing else around it.
[[nodiscard]] std::optional<long> parse_number(std::string_view text, long lowest, long highest);

// The candidate that a mistyped word was probably meant to be, or an empty string.
[[nodiscard]] std::string nearest(std::string_view word, std::span<const std::string_view> candidates);

// "1 PE", "2 PEs"
[[nodiscard]] std::string counted(std::int64_t n, std::string_view what);

// A word as one would type it into a shell.
[[nodiscard]] std::string shell_quoted(std::string_view word);
[[nodiscard]] std::string shell_quoted(std::span<const std::string> words);

// Splits a line into words as a shell does: blanks separate, quotes and backslashes protect. Nothing is expanded.
// Empty: a quote is not closed.
[[nodiscard]] std::optional<std::vector<std::string>> split_words(std::string_view line);

// Text of others, made harmless for a terminal and one line: control characters, the bytes by which a terminal is told
// what to do, and what is no UTF-8 become '?'.
[[nodiscard]] std::string harmless(std::string_view text);

// One harmless line on stderr, in one write, so that it never mixes with those of other processes.
void print_line(std::string_view line);

}  // namespace sft::tools
