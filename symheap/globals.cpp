#include "symheap/globals.hpp"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "base/assert.hpp"
#include "base/raw_memory.hpp"

namespace sft {
namespace {

constexpr std::size_t kPage = 4096;

// Where the executable is loaded minus where its file says: the first object of the list is the executable.
std::uintptr_t load_bias() {
    std::uintptr_t bias = 0;
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* result) {
            *static_cast<std::uintptr_t*>(result) = info->dlpi_addr;
            return 1;
        },
        &bias);
    return bias;
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
    SFT_ASSERT(range_.begin % kPage == 0 && range_.bytes % kPage == 0);  // pages are replaced
    auto* pages = reinterpret_cast<void*>(range_.begin);
    if (Result<> done = segment_.create("shmem-ft-globals", range_.bytes); !done) {
        return done;
    }
    void* copy = ::mmap(nullptr, range_.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment_.fd(), 0);
    if (copy == MAP_FAILED) {
        return fails("cannot map the copy of the globals");
    }
    SFT_ASSERT(segment_.bytes() == range_.bytes);  // else the pages behind it would be replaced as well
    raw_copy(copy, pages, range_.bytes);
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
    raw_copy(copy, segment_.address(), range_.bytes);
    ::mremap(copy, range_.bytes, range_.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, segment_.address());
    segment_.forget_mapping();
    segment_.release();
}

}  // namespace sft
