// The memory file that the processes of a node have in common, in a job of several PEs that keeps copies: who has it
// open, and what of this process lies there (node_file.hpp). The lowest process of the node makes it, the others open
// it, and it goes with the last of them. So what lies there outlives every process of the node.
//
// Threads: that of the collective calls. fd() and records() do not change behind use().
#pragma once

#include <cstddef>
#include <cstdint>

#include "backup/protector.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "recovery/value_records.hpp"
#include "shmem_ft/process/node_file.hpp"
#include "symheap/segment.hpp"
#include "symheap/symmetric_memory.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class NodeMemory {
public:
    NodeMemory(SymmetricMemory& memory, Protector& protector, const ControlSegment& control) noexcept
        : memory_(memory), protector_(protector), control_(control) {}

    // By the lowest process of the node, and by the others. The symmetric memory is there, which says how much it
    // takes.
    [[nodiscard]] Result<> make(std::int32_t n_pes, std::int32_t n_slots);
    [[nodiscard]] Result<> open(std::int32_t pid, std::uint64_t start_time, int fd, std::size_t bytes);
    // -1: there is none.
    [[nodiscard]] int fd() const noexcept { return file_.fd(); }
    [[nodiscard]] std::size_t bytes() const noexcept { return file_.bytes(); }

    // Heap and globals go there. Before anybody else can see them, in a PE from the beginning. Result: as ProcessSlot
    // has it.
    struct Places {
        std::uint64_t heap = 0;
        std::uint64_t globals = 0;
    };
    [[nodiscard]] Result<Places> place_memory(PeId pe);
    // Copies are there from now on, and records.
    [[nodiscard]] Result<> use(ProcId self);
    [[nodiscard]] bool is_used() const noexcept { return is_used_; }
    // Whose pages come from where, as far as nobody has touched them: the PE's own copy, and the one that others have.
    // kNoDomain: as the system likes.
    void place_copies(PeId pe, DomainId own, DomainId of_keeper) const noexcept;
    // Whoever becomes a PE later has the heap of the one before. Others find it there before they show it as the PE's.
    [[nodiscard]] Result<> take_heap_over(ProcId self, PeId pe);
    // Of what is the PE's there: pages that cannot be read any more read as zeros from now on. How many these were. So
    // blocks of `version`, the committed one, are bad, as their checksums say; a slot of another version that has such
    // pages begins anew.
    [[nodiscard]] std::size_t drop_unreadable_of(PeId pe, Version version) const;
    // Gives the pages back of a PE that is on another node now, or of a shadow that is kept elsewhere.
    void free_memory_of(PeId pe) const noexcept;
    void free_shadow_of(PeId pe) const noexcept;
    // Null before use().
    [[nodiscard]] ValueRecords* records() noexcept { return records_.is_open() ? &records_ : nullptr; }

    // What lies where there. REQUIRES: the control segment is there.
    [[nodiscard]] NodeFile layout() const noexcept { return layout(control_.n_pes(), control_.n_slots()); }
    // Where heaps and globals of the PEs begin.
    [[nodiscard]] std::size_t heaps() const noexcept { return fd() < 0 ? 0 : layout().heap(PeId(0)); }
    [[nodiscard]] std::size_t globals() const noexcept { return fd() < 0 ? 0 : layout().globals(PeId(0)); }

private:
    [[nodiscard]] NodeFile layout(std::int32_t n_pes, std::int32_t n_slots) const noexcept;
    void free_pages(std::size_t begin, std::size_t bytes) const noexcept;

    SymmetricMemory& memory_;
    Protector& protector_;
    const ControlSegment& control_;
    Segment file_;
    bool is_used_ = false;
    ValueRecords records_;
};

}  // namespace sft
