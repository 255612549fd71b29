// Which pages of a memory file exist: the others are holes, which read as zeros and cost nothing as long as nobody
// reads them through a mapping.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "base/assert.hpp"

namespace sft {

// Calls visit(begin, end) for each run of pages that exist, of the `bytes` from `file_offset` on, with offsets from
// there; ascending. Where the kernel does not tell, all of it counts as existing: to take data for a hole would lose
// it.
template <class Visit>
void each_existing(int fd, std::size_t file_offset, std::size_t bytes, Visit&& visit) {
    const auto begin = static_cast<off_t>(file_offset);
    for (std::size_t position = 0; position < bytes;) {
        const off_t data = ::lseek(fd, begin + static_cast<off_t>(position), SEEK_DATA);
        if (data < 0 && errno == ENXIO) {
            return;  // no more data
        }
        const std::size_t first = data < 0 ? position : static_cast<std::size_t>(data - begin);
        if (first >= bytes) {
            return;  // of what lies behind
        }
        const off_t hole = ::lseek(fd, begin + static_cast<off_t>(first), SEEK_HOLE);
        SFT_ASSERT(first >= position && (hole < 0 || hole - begin >= static_cast<off_t>(first)));
        const std::size_t end = hole < 0 ? bytes : std::min(bytes, static_cast<std::size_t>(hole - begin));
        if (end > first) {
            visit(first, end);
        }
        position = std::max(end, first + 1);
    }
}

}  // namespace sft
