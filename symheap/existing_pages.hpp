// Which pages of a memory file exist: the others are holes, which read as zeros and cost nothing as long as nobody
// reads them through a mapping.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "base/assert.hpp"

namespace sft {

struct ExistingRun {
    std::size_t begin = 0;
    std::size_t end = 0;
};

// Where the first one of these pages begins that exists, as an offset from `file_offset`; `bytes`: none does.
[[nodiscard]] inline std::size_t next_existing_page(int fd, std::size_t file_offset, std::size_t bytes) noexcept {
    const auto begin = static_cast<off_t>(file_offset);
    const off_t data = ::lseek(fd, begin, SEEK_DATA);
    if (data < 0) {
        return errno == ENXIO ? bytes : 0;  // not told: to take data for a hole would lose it
    }
    return std::min(bytes, static_cast<std::size_t>(data - begin));
}

// The first run of pages that exist, of the `bytes` from `file_offset` on, as offsets from there; empty: none does.
// Where the kernel does not tell, all of it counts as existing: to take data for a hole would lose it.
[[nodiscard]] inline ExistingRun first_existing(int fd, std::size_t file_offset, std::size_t bytes) noexcept {
    const std::size_t first = next_existing_page(fd, file_offset, bytes);
    if (first == bytes) {
        return {};
    }
    const off_t hole = ::lseek(fd, static_cast<off_t>(file_offset + first), SEEK_HOLE);
    SFT_ASSERT(hole < 0 || static_cast<std::size_t>(hole) >= file_offset + first);
    const std::size_t end = hole < 0 ? bytes : std::min(bytes, static_cast<std::size_t>(hole) - file_offset);
    return {first, std::max(end, first + 1)};  // a hole by now: somebody has made one
}

// Calls visit(begin, end) for each of them; ascending.
template <class Visit>
void each_existing(int fd, std::size_t file_offset, std::size_t bytes, Visit&& visit) {
    for (std::size_t position = 0; position < bytes;) {
        const ExistingRun run = first_existing(fd, file_offset + position, bytes - position);
        if (run.begin == run.end) {
            return;
        }
        visit(position + run.begin, position + run.end);
        position += run.end;
    }
}

}  // namespace sft
