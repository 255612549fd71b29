// How much memory the processes of this node may still take: what the system has to give, and what their control groups
// allow. Memory files count like any other memory; what the kernel only caches does not.
#pragma once

#include <cstdint>
#include <string>

namespace sft {

// Where the kernel tells: folders, for tests.
struct MemoryFiles {
    std::string proc = "/proc";
    std::string groups = "/sys/fs/cgroup";
};

struct MemoryLeft {
    std::uint64_t bytes = UINT64_MAX;  // more cannot be taken without somebody being killed
    std::uint64_t limit = UINT64_MAX;  // of whatever bounds it
    std::string group;                 // the control group that does; empty: the node's memory

    // The kernel needs some for itself, and what is left is known a moment late.
    [[nodiscard]] std::uint64_t may_be_taken() const noexcept { return bytes - bytes / 64; }
};

// UINT64_MAX: nobody tells. Takes some tens of microseconds.
[[nodiscard]] MemoryLeft memory_left(const MemoryFiles& files = {});

// How many processes the kernel has killed for want of memory, in the control group of this process and those below,
// or on the node where there are none.
[[nodiscard]] std::uint64_t out_of_memory_kills(const MemoryFiles& files = {});

// "512 MiB", "1.5 GiB"
[[nodiscard]] std::string memory_text(std::uint64_t bytes);

}  // namespace sft
