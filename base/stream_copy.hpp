// Copies that go past the caches, for what is written and not read again soon.
//
// An ordinary store reads the line that it changes from memory first, so a copy of more than the caches hold moves
// three bytes for each one that is copied. A streaming store does not, and moves two. (libc's memcpy does the same, but
// only for very large copies, and then nobody can look at what has been copied without reading it from memory again.)
//
// Threads: no state. What was streamed is seen by others only behind stream_fence().
#pragma once

#include <cstddef>

namespace sft {

// Of these many bytes, at addresses that are multiples of that.
inline constexpr std::size_t kStreamUnit = 64;

// The same bytes to two places: past the caches to `to`, and to `kept`, where they are in the cache afterwards. What
// another thread writes meanwhile is in both or in neither.
// REQUIRES: to and kept aligned, and bytes a multiple of the unit.
void stream_copy(void* to, void* kept, const void* from, std::size_t bytes) noexcept;
// Past the caches only.
void stream_copy(void* to, const void* from, std::size_t bytes) noexcept;
// Has these bytes brought into the cache, while other things go on. Any address will do.
void ask_for(const void* from, std::size_t bytes) noexcept;
void stream_fence() noexcept;

}  // namespace sft
