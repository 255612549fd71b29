// What the program has been compiled with, or runs under, that gets between the library and memory: a sanitizer, of
// which a library without one learns at run time only.
#pragma once

#include <cstdint>

namespace sft {

[[nodiscard]] bool is_address_sanitized() noexcept;
[[nodiscard]] bool is_thread_sanitized() noexcept;
// Valgrind runs the program on a processor of its own, with the system calls that it knows.
[[nodiscard]] bool is_under_valgrind() noexcept;

// ThreadSanitizer keeps most of the addresses for its shadow. Here is a part that it leaves to the program, from the
// mapping that GCC and Clang have on x86-64 with 48 bits; programs that are position independent lie behind it.
inline constexpr std::uint64_t kHeapBaseUnderThreadSanitizer = 0x550000000000;

// While one lives, what this thread allocates is no leak of the program: PMIx keeps some of its memory until the end.
class OthersLeaks {
public:
    OthersLeaks() noexcept;
    ~OthersLeaks();
    OthersLeaks(const OthersLeaks&) = delete;
    OthersLeaks& operator=(const OthersLeaks&) = delete;
};

}  // namespace sft
