#include "symheap/unreadable_pages.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/assert.hpp"
#include "base/faults/fault_points.hpp"
#include "base/pages.hpp"
#include "symheap/existing_pages.hpp"

namespace sft {
namespace {

constexpr std::size_t kReadBytes = 256 * kPageBytes;

ssize_t read_file(int fd, void* to, std::size_t bytes, off_t from) {
    return fails(FaultPoint::call_read_left) ? -1 : ::pread(fd, to, bytes, from);
}

}  // namespace

std::size_t drop_unreadable(int fd, std::size_t offset, std::size_t bytes,
                            ssize_t (*read)(int fd, void* to, std::size_t bytes, off_t from)) {
    SFT_ASSERT(fd >= 0 && offset % kPageBytes == 0 && bytes % kPageBytes == 0);
    std::vector<std::byte> piece(kReadBytes);
    const auto is_unreadable = [&](std::size_t begin, std::size_t end) {
        const auto from = static_cast<off_t>(offset + begin);
        return (read != nullptr ? read : read_file)(fd, piece.data(), end - begin, from) < 0 && errno == EIO;
    };
    std::size_t n_dropped = 0;
    each_existing(fd, offset, bytes, [&](std::size_t run_begin, std::size_t run_end) {
        for (std::size_t begin = run_begin; begin < run_end; begin += kReadBytes) {
            const std::size_t end = std::min(begin + kReadBytes, run_end);
            if (!is_unreadable(begin, end)) {
                continue;
            }
            for (std::size_t page = begin; page < end; page += kPageBytes) {
                if (is_unreadable(page, std::min(page + kPageBytes, end)) &&
                    ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset + page),
                                kPageBytes) == 0) {
                    ++n_dropped;
                }
            }
        }
    });
    return n_dropped;
}

}  // namespace sft
