// Which pages of its memory this process has written, as its page tables tell: userfaultfd with asynchronous write
// protection, and the ioctl PAGEMAP_SCAN of /proc/self/pagemap (Linux 6.7). The first write to a page behind a look at
// it costs a fault.
//
// What does not show here are writes through other mappings of the same memory, of this process or another, and what a
// device writes to memory that it was given before the look (RDMA, XPMEM); nor does a hole that is made where a page
// was that had not been written.
//
// A page without an entry in the page tables counts as written unless it is a hole of its memory file: an entry also
// goes when the kernel needs the memory, and whether there was a write goes with it.
//
// Thread safety: one thread at a time; others may write to the memory meanwhile, and what they write is found by this
// look or by the next one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/address_range.hpp"
#include "base/result.hpp"

namespace sft {

class WrittenPages {
public:
    WrittenPages() = default;
    ~WrittenPages() { close(); }
    WrittenPages(const WrittenPages&) = delete;
    WrittenPages& operator=(const WrittenPages&) = delete;

    // Tries it on pages of its own. The failure says what this system lacks. Result: nanoseconds that the first write
    // to a page costs.
    [[nodiscard]] static Result<std::int64_t> probe();

    [[nodiscard]] Result<> open();
    void close() noexcept;
    [[nodiscard]] bool is_open() const noexcept { return pagemap_fd_ >= 0; }

    // Memory that is a mapping of a memory file: whole pages.
    struct Memory {
        AddressRange range;
        int fd = -1;
        std::size_t file_offset = 0;
    };
    // From now on. What has been written before counts as written.
    [[nodiscard]] Result<> watch(const Memory& memory);
    // exists: else these pages are holes, and were written if they were none before.
    using Visit = std::function<void(std::size_t begin, std::size_t end, bool exists)>;
    // Calls visit() for the runs of pages that may have been written since the last look, as offsets in the memory;
    // some more than once. REQUIRES: watch.
    [[nodiscard]] Result<> look(const Memory& memory, const Visit& visit);

private:
    struct Scan;
    [[nodiscard]] Result<> scan(const Memory& memory, const Scan& scan, const Visit& visit) const;

    int faults_fd_ = -1;
    int pagemap_fd_ = -1;
};

}  // namespace sft
