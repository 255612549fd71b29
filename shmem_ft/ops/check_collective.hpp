// The checks of collective data movement and reductions, before the operation: the addresses on each member, and what
// has to be alike on all of them.
#pragma once

#include "shmem_ft/ops/check.hpp"
#include "shmem_ft/ops/collectives.hpp"

namespace sft {

// The work arrays of the deprecated forms.
struct WorkArrays {
    const long* psync = nullptr;
    std::size_t psync_elements = 0;  // 0: the form has none
    long psync_value = 0;
    const void* pwrk = nullptr;
    std::size_t pwrk_elements = 0;
};

// A collective call as its entry knows it.
struct CollectiveCall {
    const char* routine;
    const PeGroup& group;
    std::size_t element_bytes = 0;  // also the alignment
    WorkArrays work;
};

void check_sync(Engine& e, const CollectiveCall& call) noexcept;

enum class CollectiveShape {
    same,      // source and dest have nelems elements; the two may be one (reductions, scans)
    gathered,  // dest has those of all members
    exchanged  // both have one part for each member
};
struct CollectiveData {
    void* dest;
    const void* source;
    std::size_t nelems;
    CollectiveShape shape;
    bool is_count_common = true;  // collect: no
    Strides strides;              // alltoalls
};
void check_data(Engine& e, const CollectiveCall& call, const CollectiveData& data) noexcept;
void check_broadcast(Engine& e, const CollectiveCall& call, const CollectiveData& data, BroadcastRoot root) noexcept;

}  // namespace sft
