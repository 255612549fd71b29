#include "base/memory_domain.hpp"

#include <hwloc.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <memory>
#include <type_traits>

namespace sft {
namespace {

using Topology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, decltype(&hwloc_topology_destroy)>;
using ProcessorSet = std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)>;

bool is_bound() {
    constexpr std::size_t kProcessorsMax = 8192;  // the kernel's largest
    std::array<cpu_set_t, kProcessorsMax / CPU_SETSIZE> mask{};
    return ::sched_getaffinity(0, sizeof mask, mask.data()) == 0 &&
           CPU_COUNT_S(sizeof mask, mask.data()) < ::sysconf(_SC_NPROCESSORS_ONLN);
}

// Also processors that a container hides: its processes may see different ones, and the same number must mean the same
// domain in all of them.
Topology load_domains() {
    hwloc_topology_t loaded = nullptr;
    if (hwloc_topology_init(&loaded) != 0) {
        return {nullptr, &hwloc_topology_destroy};
    }
    Topology topology(loaded, &hwloc_topology_destroy);
    hwloc_topology_set_all_types_filter(loaded, HWLOC_TYPE_FILTER_KEEP_NONE);
    // Without what holds its processors together a NUMA node would seem to have those of the whole machine.
    hwloc_topology_set_type_filter(loaded, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
    hwloc_topology_set_type_filter(loaded, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
    hwloc_topology_set_flags(loaded, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    if (hwloc_topology_load(loaded) != 0) {
        topology.reset();
    }
    return topology;
}

bool has_own_policy() noexcept {
    int mode = MPOL_DEFAULT;
    return ::syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0) == 0 && mode != MPOL_DEFAULT;
}

}  // namespace

DomainId find_memory_domain() {
    if (!is_bound()) {
        return kNoDomain;
    }
    const Topology topology = load_domains();
    const ProcessorSet bound(hwloc_bitmap_alloc(), &hwloc_bitmap_free);
    if (topology == nullptr || bound == nullptr ||
        hwloc_get_cpubind(topology.get(), bound.get(), HWLOC_CPUBIND_PROCESS) != 0 ||
        hwloc_bitmap_iszero(bound.get())) {
        return kNoDomain;
    }
    DomainId found = kNoDomain;
    int fewest = hwloc_bitmap_weight(hwloc_topology_get_topology_cpuset(topology.get()));  // those of all are no domain
    hwloc_obj_t domain = nullptr;
    while ((domain = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, domain)) != nullptr) {
        const int n_processors = hwloc_bitmap_weight(domain->cpuset);
        if (n_processors < fewest && hwloc_bitmap_isincluded(bound.get(), domain->cpuset) != 0) {
            found = DomainId(static_cast<std::int32_t>(domain->os_index));
            fewest = n_processors;
        }
    }
    return found;
}

bool place_in_domain(int fd, std::size_t offset, std::size_t bytes, DomainId domain) noexcept {
    constexpr std::size_t kDomainsMax = 1024;  // the kernel's largest
    constexpr std::size_t kWordBits = sizeof(unsigned long) * CHAR_BIT;
    std::array<unsigned long, kDomainsMax / kWordBits> mask{};
    if (domain == kNoDomain || domain.index() >= kDomainsMax || bytes == 0 || has_own_policy()) {
        return false;
    }
    static_assert(kDomainsMax % kWordBits == 0);
    mask[domain.index() / kWordBits] = 1UL << (domain.index() % kWordBits);
    // The policy belongs to the file, not to the mapping through which it is set.
    void* const address = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, static_cast<off_t>(offset));
    if (address == MAP_FAILED) {
        return false;
    }
    const long result = ::syscall(SYS_mbind, address, bytes, MPOL_PREFERRED, mask.data(), kDomainsMax, 0);
    ::munmap(address, bytes);
    return result == 0;
}

}  // namespace sft
