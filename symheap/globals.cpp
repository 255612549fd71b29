#include "symheap/globals.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "base/pages.hpp"
#include "base/raw_memory.hpp"
#include "symheap/existing_pages.hpp"
#include "symheap/load_bias.hpp"

namespace sft {
namespace {

// Whether a page of private memory has been touched. Where the kernel does not tell: it has.
class TouchedPages {
public:
    TouchedPages() noexcept : fd_(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}
    ~TouchedPages() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    TouchedPages(const TouchedPages&) = delete;
    TouchedPages& operator=(const TouchedPages&) = delete;

    [[nodiscard]] bool contains(const std::byte* page) noexcept {
        const std::uintptr_t number = reinterpret_cast<std::uintptr_t>(page) / kPageBytes;
        if (number < first_ || number >= first_ + count_) {
            const ssize_t bytes = ::pread(fd_, entries_.data(), sizeof entries_, static_cast<off_t>(number * 8));
            first_ = number;
            count_ = bytes < 0 ? 0 : static_cast<std::size_t>(bytes) / 8;
        }
        constexpr std::uint64_t kPresentOrSwapped = std::uint64_t{3} << 62;
        return count_ == 0 || (entries_[number - first_] & kPresentOrSwapped) != 0;
    }

private:
    int fd_;
    std::uintptr_t first_ = 0;
    std::size_t count_ = 0;
    std::array<std::uint64_t, 4096> entries_;
};

// Copies what is in the file, and what has been written of the rest, which began as zeros: a large array of which
// little is used costs little.
void copy_written(std::byte* to, const std::byte* from, std::size_t bytes, std::size_t of_file) noexcept {
    static constexpr std::byte kZeros[kPageBytes] = {};
    TouchedPages touched;
    raw_copy(to, from, of_file);
    for (std::size_t at = of_file; at < bytes; at += kPageBytes) {
        if (touched.contains(from + at) && !raw_equal(from + at, kZeros, kPageBytes)) {
            raw_copy(to + at, from + at, kPageBytes);
        }
    }
}

}  // namespace

Result<bool> has_symmetric_globals(GlobalsMode mode) {
    LibraryUse use;
    if (mode != GlobalsMode::automatic) {
        return mode == GlobalsMode::yes;
    }
    if (Result<> read = read_library_use("/proc/self/exe", use); !read) {
        return fails(read.error());
    }
    return use.is_used;
}

Result<> Globals::share(GlobalsMode mode) {
    ElfImage image;
    const Result<bool> has = has_symmetric_globals(mode);
    if (!has) {
        return fails(has.error());
    }
    if (!*has) {
        return {};
    }
    if (const Result<> read = read_elf_image("/proc/self/exe", image); !read) {
        return fails("this program cannot be used: " + read.error().line);
    }
    range_ = {image.begin + load_bias(), image.end - image.begin};
    saved_.clear();
    for (const ElfRange& range : image.saved) {
        saved_.push_back({range.begin - image.begin, range.bytes()});
        SFT_ASSERT(range.begin >= image.begin && range.begin < range.end && range.end <= image.end);
    }
    // Sorted and disjoint: each byte that goes back does so once.
    SFT_ASSERT_SLOW(std::adjacent_find(saved_.begin(), saved_.end(), [](const Extent& a, const Extent& b) {
                        return a.offset + a.bytes > b.offset;
                    }) == saved_.end());
    if (range_.bytes == 0) {
        return {};
    }
    SFT_ASSERT(range_.begin % kPageBytes == 0 && range_.bytes % kPageBytes == 0);  // pages are replaced
    auto* pages = reinterpret_cast<void*>(range_.begin);
    if (Result<> done = segment_.create("shmem-ft-globals", range_.bytes); !done) {
        return done;
    }
    void* copy = ::mmap(nullptr, range_.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment_.fd(), 0);
    if (copy == MAP_FAILED) {
        return fails("cannot map the copy of the globals");
    }
    SFT_ASSERT(segment_.bytes() == range_.bytes);  // else the pages behind it would be replaced as well
    SFT_ASSERT(image.file_end >= image.begin && image.file_end - image.begin <= range_.bytes);
    copy_written(static_cast<std::byte*>(copy), static_cast<const std::byte*>(pages), range_.bytes,
                 image.file_end - image.begin);
    ::munmap(copy, range_.bytes);
    return segment_.map_over(pages);
}

void Globals::unshare() noexcept {
    if (range_.bytes == 0 || segment_.address() == nullptr) {
        return;
    }
    void* copy = ::mmap(nullptr, range_.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) {
        return;  // stays shared: the file is unnamed and nobody else maps it once the job is over
    }
    SFT_ASSERT(segment_.bytes() == range_.bytes);
    SFT_ASSERT(reinterpret_cast<std::uintptr_t>(segment_.address()) == range_.begin);
    each_existing(segment_.fd(), segment_.offset(), range_.bytes, [&](std::size_t begin, std::size_t end) {
        raw_copy(static_cast<std::byte*>(copy) + begin, segment_.address() + begin, end - begin);
    });
    ::mremap(copy, range_.bytes, range_.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, segment_.address());
    segment_.forget_mapping();
    segment_.release();
}

}  // namespace sft
