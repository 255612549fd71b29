#include "symheap/written_pages.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <set>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/instruments.hpp"
#include "base/pages.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"
#include "symheap/existing_pages.hpp"
#include "symheap/segment.hpp"

namespace sft {
namespace {

// What the headers of older systems lack (linux/userfaultfd.h, linux/fs.h).
constexpr std::uint64_t kFeatureOnSharedMemory = 1U << 12;
constexpr std::uint64_t kFeatureOnHoles = 1U << 13;
constexpr std::uint64_t kFeatureAsync = 1U << 15;
constexpr int kUserModeOnly = 1;

struct PageRegion {
    std::uint64_t begin;
    std::uint64_t end;
    std::uint64_t categories;
};
struct PageScan {
    std::uint64_t size;
    std::uint64_t flags;
    std::uint64_t begin;
    std::uint64_t end;
    std::uint64_t walk_end;
    std::uint64_t regions;
    std::uint64_t n_regions;
    std::uint64_t max_pages;
    std::uint64_t category_inverted;
    std::uint64_t category_mask;
    std::uint64_t category_anyof;
    std::uint64_t return_mask;
};
static_assert(sizeof(PageRegion) == 24 && sizeof(PageScan) == 96);
constexpr unsigned long kPageScan = _IOWR('f', 16, PageScan);
constexpr std::uint64_t kProtectMatching = 1U << 0;
constexpr std::uint64_t kCheckWatched = 1U << 1;
constexpr std::uint64_t kIsWritten = 1U << 1;
constexpr std::uint64_t kIsPresent = 1U << 3;

Result<> refused(const char* call) { return fails(format("%s: %s", call, describe_error(errno).c_str())); }

}  // namespace

struct WrittenPages::Scan {
    std::uint64_t flags;
    std::uint64_t mask;
    std::size_t begin;
    std::size_t end;
};

Result<> WrittenPages::open() {
    SFT_ASSERT(faults_fd_ < 0);
    faults_fd_ = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | kUserModeOnly));
    if (faults_fd_ < 0) {
        return refused("userfaultfd");
    }
    uffdio_api api{};
    api.api = UFFD_API;
    api.features = kFeatureOnSharedMemory | kFeatureOnHoles | kFeatureAsync;
    if (::ioctl(faults_fd_, UFFDIO_API, &api) != 0) {
        return refused("userfaultfd with asynchronous write protection");
    }
    pagemap_fd_ = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    return pagemap_fd_ >= 0 ? Result<>() : refused("/proc/self/pagemap");
}

void WrittenPages::close() noexcept {
    for (int* const fd : {&faults_fd_, &pagemap_fd_}) {
        if (*fd >= 0) {
            ::close(std::exchange(*fd, -1));
        }
    }
}

Result<> WrittenPages::watch(const Memory& memory) {
    SFT_ASSERT(faults_fd_ >= 0 && memory.range.begin % kPageBytes == 0 && memory.range.bytes % kPageBytes == 0);
    uffdio_register watched{};
    watched.range = {memory.range.begin, memory.range.bytes};
    watched.mode = UFFDIO_REGISTER_MODE_WP;
    return ::ioctl(faults_fd_, UFFDIO_REGISTER, &watched) == 0 ? Result<>() : refused("UFFDIO_REGISTER");
}

Result<> WrittenPages::scan(const Memory& memory, const Scan& scan, const Visit& visit) const {
    SFT_ASSERT(scan.begin <= scan.end && scan.end <= memory.range.bytes);
    constexpr std::size_t kRegions = 512;
    PageRegion regions[kRegions];
    const std::uint64_t end = memory.range.begin + scan.end;
    for (std::uint64_t begin = memory.range.begin + scan.begin; begin < end;) {
        PageScan call{};
        call.size = sizeof call;
        call.flags = scan.flags | kCheckWatched;
        call.begin = begin;
        call.end = end;
        call.regions = reinterpret_cast<std::uint64_t>(regions);
        call.n_regions = kRegions;
        call.category_mask = scan.mask;
        call.return_mask = kIsWritten | kIsPresent;
        const int n = ::ioctl(pagemap_fd_, kPageScan, &call);
        if (n < 0) {
            return refused("PAGEMAP_SCAN");
        }
        for (int i = 0; i < n; ++i) {
            SFT_ASSERT(regions[i].begin >= begin && regions[i].begin < regions[i].end && regions[i].end <= end);
            visit(regions[i].begin - memory.range.begin, regions[i].end - memory.range.begin,
                  (regions[i].categories & kIsPresent) != 0);
        }
        SFT_ASSERT(call.walk_end > begin && call.walk_end <= end);  // else it never ends
        begin = call.walk_end;
    }
    return {};
}

// Pages are protected again only where they exist: the kernel would give every hole an entry in the page tables. What
// has become written between the two scans is found by the second one.
Result<> WrittenPages::look(const Memory& memory, const Visit& visit) {
    std::size_t first_present = memory.range.bytes;
    std::size_t end_present = 0;
    std::vector<std::pair<std::size_t, std::size_t>> without_entry;
    const Visit seen = [&](std::size_t begin, std::size_t end, bool is_present) {
        if (is_present) {
            first_present = std::min(first_present, begin);
            end_present = std::max(end_present, end);
            visit(begin, end, true);
            return;
        }
        std::size_t done = begin;
        each_existing(memory.fd, memory.file_offset + begin, end - begin, [&](std::size_t from, std::size_t to) {
            const std::size_t first = std::max(done, begin + from / kPageBytes * kPageBytes);
            const std::size_t last = std::min(end, begin + whole_pages(to));
            SFT_ASSERT(first <= last);
            if (done < first) {
                visit(done, first, false);
            }
            visit(first, last, true);
            without_entry.emplace_back(first, last);
            done = last;
        });
        if (done < end) {
            visit(done, end, false);
        }
    };
    Result<> looked = scan(memory, {0, kIsWritten, 0, memory.range.bytes}, seen);
    const Visit again = [&](std::size_t begin, std::size_t end, bool /*is_present*/) { visit(begin, end, true); };
    if (looked && first_present < end_present) {
        looked = scan(memory, {kProtectMatching, kIsWritten | kIsPresent, first_present, end_present}, again);
    }
    for (const auto& [begin, end] : without_entry) {
        if (looked) {
            looked = scan(memory, {kProtectMatching, kIsWritten, begin, end}, again);
        }
    }
    return looked;
}

Result<std::int64_t> WrittenPages::probe() {
    if (is_under_valgrind()) {
        return fails("valgrind does not know the calls that it takes");  // and says so at length
    }
    constexpr std::size_t kPages = 32;
    Segment pages;
    Result<> had = pages.create("shmem-ft-probe", kPages * kPageBytes);
    if (had) {
        had = pages.map_at(nullptr);
    }
    WrittenPages tried;
    const Memory memory{{reinterpret_cast<std::uintptr_t>(pages.address()), pages.bytes()}, pages.fd(), 0};
    had = std::move(had).then([&] { return tried.open(); }).then([&] { return tried.watch(memory); });
    if (!had) {
        return fails(had.error());
    }
    std::set<std::size_t> written;
    const auto look = [&] {
        written.clear();
        had = tried.look(memory, [&](std::size_t begin, std::size_t end, bool exists) {
            for (; exists && begin < end; begin += kPageBytes) {
                written.insert(begin / kPageBytes);
            }
        });
        return had.has_value();
    };
    const auto write = [&](std::size_t page) {
        std::atomic_ref(*reinterpret_cast<std::uint8_t*>(pages.address() + page * kPageBytes)).store(1);
    };
    for (std::size_t page = 0; page < kPages / 2; ++page) {
        write(page);
    }
    bool is_right = look() && written.size() == kPages / 2 && look() && written.empty();
    std::vector<std::int64_t> fault_ns;
    for (std::size_t page = 0; page < kPages / 2; ++page) {
        const std::int64_t begin_ns = now_ns();
        write(page);
        fault_ns.push_back(now_ns() - begin_ns);
    }
    const auto median = fault_ns.begin() + kPages / 4;  // others may have had the processor meanwhile
    std::nth_element(fault_ns.begin(), median, fault_ns.end());
    // A page that was written and has lost its entry, one that has lost it without, and one that was a hole.
    is_right = is_right && look() && written.size() == kPages / 2;
    write(1);
    write(kPages - 1);
    ::madvise(pages.address() + kPageBytes, 2 * kPageBytes, MADV_DONTNEED);
    is_right = is_right && look() && written.contains(1) && written.contains(kPages - 1) && !written.contains(3);
    if (!had) {
        return fails(had.error());
    }
    return is_right ? Result<std::int64_t>(std::max<std::int64_t>(1, *median))
                    : fails("the kernel does not tell which pages have been written");
}

}  // namespace sft
