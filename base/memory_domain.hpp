// Memory domains: the NUMA nodes of a machine, found with hwloc.
//
// What is meant to survive the loss of one domain has to be in the memory of another one, and the binding of processes
// to processors alone does not say where memory is: a page of a memory file comes from where the process runs that
// touches it first, which for a shadow is its owner and not its keeper. So there are two functions: in which domain a
// process is, and that a file's pages come from there.
//
// Threads: any; hwloc's objects live as long as a call.
#pragma once

#include <cstddef>

#include "base/ids.hpp"

namespace sft {

// The domain whose processors include all those that this process is bound to. Of several, like the two kinds of memory
// beside the same processors, the closest, then the lowest. kNoDomain: there is none but such as all processors share.
// Takes a look at one mask if the calling thread is bound to nothing, and some milliseconds else.
[[nodiscard]] DomainId find_memory_domain();

// Pages of that part of the memory file that nobody has touched yet will come from that domain as long as it has any,
// whoever touches them, through whichever mapping. False: nothing has changed, because the system does not permit it or
// the process has a memory policy of its own (numactl), which is its user's choice.
[[nodiscard]] bool place_in_domain(int fd, std::size_t offset, std::size_t bytes, DomainId domain) noexcept;

}  // namespace sft
