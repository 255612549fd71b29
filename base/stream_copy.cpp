#include "base/stream_copy.hpp"

#include <cstdint>

#include "base/assert.hpp"
#include "base/raw_memory.hpp"
#include "base/sanitizers.hpp"

// Sanitizers look at what intrinsics touch: at red zones, too.
#if defined(__SSE2__) && !SFT_ADDRESS_SANITIZER && !SFT_THREAD_SANITIZER
#define SFT_STREAMS 1
#include <emmintrin.h>
#endif

namespace sft {

namespace {

[[nodiscard]] bool is_aligned(const void* place) noexcept {
    return reinterpret_cast<std::uintptr_t>(place) % kStreamUnit == 0;
}

}  // namespace

void stream_copy(void* to, void* kept, const void* from, std::size_t bytes) noexcept {
    SFT_ASSERT(bytes % kStreamUnit == 0 && is_aligned(to) && is_aligned(kept));
#ifdef SFT_STREAMS
    constexpr std::size_t kWords = kStreamUnit / sizeof(__m128i);
    const auto* source = static_cast<const __m128i*>(from);
    auto* const past = static_cast<__m128i*>(to);
    auto* const cached = static_cast<__m128i*>(kept);
    for (std::size_t i = 0; i < bytes / sizeof(__m128i); i += kWords) {
        const __m128i a = _mm_loadu_si128(source + i);
        const __m128i b = _mm_loadu_si128(source + i + 1);
        const __m128i c = _mm_loadu_si128(source + i + 2);
        const __m128i d = _mm_loadu_si128(source + i + 3);
        _mm_store_si128(cached + i, a);
        _mm_store_si128(cached + i + 1, b);
        _mm_store_si128(cached + i + 2, c);
        _mm_store_si128(cached + i + 3, d);
        _mm_stream_si128(past + i, a);
        _mm_stream_si128(past + i + 1, b);
        _mm_stream_si128(past + i + 2, c);
        _mm_stream_si128(past + i + 3, d);
    }
#else
    raw_copy(kept, from, bytes);
    raw_copy(to, kept, bytes);
#endif
}

void stream_copy(void* to, const void* from, std::size_t bytes) noexcept {
    SFT_ASSERT(bytes % kStreamUnit == 0 && is_aligned(to));
#ifdef SFT_STREAMS
    const auto* source = static_cast<const __m128i*>(from);
    auto* const past = static_cast<__m128i*>(to);
    for (std::size_t word = 0; word < bytes / sizeof(__m128i); ++word) {
        _mm_stream_si128(past + word, _mm_loadu_si128(source + word));
    }
#else
    raw_copy(to, from, bytes);
#endif
}

void ask_for(const void* from, std::size_t bytes) noexcept {
    for (std::size_t i = 0; i < bytes; i += kStreamUnit) {
        __builtin_prefetch(static_cast<const std::byte*>(from) + i, 0, 2);
    }
}

void stream_fence() noexcept {
#ifdef SFT_STREAMS
    _mm_sfence();
#endif
}

}  // namespace sft
