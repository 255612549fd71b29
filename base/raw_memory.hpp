// Copying and comparing memory that holds other people's objects, red zones and all.
//
// In ordinary builds these are memcpy and memcmp of libc. AddressSanitizer's would (rightly, for an application) object
// to the red zones between globals, and ThreadSanitizer's to bytes that other threads own; a checkpoint copies whole
// pages and means it. A program with a sanitizer puts the sanitizer's functions before libc's for an ordinary library,
// too: so libc is asked for its own (find_raw_memory). In a library with a sanitizer the loops are written out and not
// instrumented.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/sanitizers.hpp"

namespace sft {

#if SFT_ADDRESS_SANITIZER || SFT_THREAD_SANITIZER
#define SFT_NOT_INSTRUMENTED __attribute__((no_sanitize("address", "thread"), noinline))

SFT_NOT_INSTRUMENTED inline void raw_copy(void* to, const void* from, std::size_t bytes) noexcept {
    auto* target = static_cast<volatile unsigned char*>(to);
    const auto* source = static_cast<const volatile unsigned char*>(from);
    std::size_t i = 0;
    for (; i + 8 <= bytes && reinterpret_cast<std::uintptr_t>(to) % 8 == reinterpret_cast<std::uintptr_t>(from) % 8 &&
           reinterpret_cast<std::uintptr_t>(to) % 8 == 0;
         i += 8) {
        *reinterpret_cast<volatile std::uint64_t*>(target + i) =
            *reinterpret_cast<const volatile std::uint64_t*>(source + i);
    }
    for (; i < bytes; ++i) {
        target[i] = source[i];
    }
}

SFT_NOT_INSTRUMENTED inline bool raw_equal(const void* a, const void* b, std::size_t bytes) noexcept {
    const auto* first = static_cast<const volatile unsigned char*>(a);
    const auto* second = static_cast<const volatile unsigned char*>(b);
    std::size_t i = 0;
    for (;
         i + 8 <= bytes && reinterpret_cast<std::uintptr_t>(a) % 8 == 0 && reinterpret_cast<std::uintptr_t>(b) % 8 == 0;
         i += 8) {
        if (*reinterpret_cast<const volatile std::uint64_t*>(first + i) !=
            *reinterpret_cast<const volatile std::uint64_t*>(second + i)) {
            return false;
        }
    }
    for (; i < bytes; ++i) {
        if (first[i] != second[i]) {
            return false;
        }
    }
    return true;
}

SFT_NOT_INSTRUMENTED inline std::uintptr_t raw_word(std::uintptr_t address) noexcept {
    return *reinterpret_cast<const volatile std::uintptr_t*>(address);
}

#undef SFT_NOT_INSTRUMENTED

inline void find_raw_memory() noexcept {}

#else

struct RawMemory {
    void* (*copy)(void*, const void*, std::size_t) = std::memcpy;
    int (*compare)(const void*, const void*, std::size_t) = std::memcmp;
};
extern RawMemory g_raw_memory;

// REQUIRES: before the first copy, by one thread.
void find_raw_memory() noexcept;

inline void raw_copy(void* to, const void* from, std::size_t bytes) noexcept { g_raw_memory.copy(to, from, bytes); }
inline bool raw_equal(const void* a, const void* b, std::size_t bytes) noexcept {
    return g_raw_memory.compare(a, b, bytes) == 0;
}

inline std::uintptr_t raw_word(std::uintptr_t address) noexcept {
    std::uintptr_t word = 0;
    std::memcpy(&word, reinterpret_cast<const void*>(address), sizeof word);
    return word;
}

#endif

}  // namespace sft
