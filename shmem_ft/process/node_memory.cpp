#include "shmem_ft/process/node_memory.hpp"

#include <fcntl.h>

#include "base/assert.hpp"
#include "base/memory_domain.hpp"
#include "base/pages.hpp"
#include "symheap/unreadable_pages.hpp"

namespace sft {

NodeFile NodeMemory::layout(std::int32_t n_pes, std::int32_t n_slots) const noexcept {
    return {.shadow_bytes = BackupStore::room_bytes(memory_.live()),
            .local_bytes = Image::bytes_for(memory_.live()),
            .parity_bytes = protector_.store().parity_bytes(memory_.live()),
            .records_bytes = ValueRecords::bytes_for(n_slots),
            .heap_bytes = whole_pages(memory_.heap_segment().bytes()),
            .globals_bytes = memory_.live().globals.bytes,
            .n_pes = n_pes};
}

Result<> NodeMemory::make(std::int32_t n_pes, std::int32_t n_slots) {
    return file_.create("shmem-ft-node", layout(n_pes, n_slots).bytes());
}

Result<> NodeMemory::open(std::int32_t pid, std::uint64_t start_time, int fd, std::size_t bytes) {
    return file_.open(pid, start_time, fd, bytes);
}

Result<NodeMemory::Places> NodeMemory::place_memory(PeId pe) {
    SFT_ASSERT(fd() >= 0);
    const NodeFile file = layout();
    Places places{.heap = file.heap(pe) + 1};
    Result<> moved = memory_.move_heap_to(fd(), file.heap(pe), Segment::Contents::copied);
    if (moved && file.globals_bytes != 0) {
        places.globals = file.globals(pe) + 1;
        moved = memory_.move_globals_to(fd(), file.globals(pe));
    }
    if (!moved) {
        return fails(moved.error());
    }
    return places;
}

Result<> NodeMemory::use(ProcId self) {
    SFT_ASSERT(fd() >= 0 && bytes() == layout().bytes());  // else the processes do not agree on what lies where
    const NodeFile file = layout();
    BackupStore::OnNode places{
        .local_copies = file.local(PeId(0)), .parity = file.parity(PeId(0)), .end = file.records()};
    if (file.parity_bytes != 0) {
        places.heaps = file.heap(PeId(0));
        places.heap_bytes = file.heap_bytes;
        places.heaps_end = file.heap(PeId(file.n_pes - 1)) + file.heap_bytes;
    }
    protector_.store().keep_on_node(fd(), places);
    is_used_ = true;
    control_.header().records_begin.store(file.records());
    return records_.open(fd(), layout().records(), control_.n_slots(), self);
}

void NodeMemory::place_copies(PeId pe, DomainId own, DomainId of_keeper) const noexcept {
    SFT_ASSERT(is_used_);
    const NodeFile file = layout();
    static_cast<void>(place_in_domain(fd(), file.local(pe), file.local_bytes, own));
    static_cast<void>(place_in_domain(fd(), file.shadow(pe), file.shadow_bytes, of_keeper));
}

// Refused: the pages stay until the job ends.
void NodeMemory::free_pages(std::size_t begin, std::size_t bytes) const noexcept {
    SFT_ASSERT(fd() >= 0 && begin % kPageBytes == 0 && begin + bytes <= this->bytes());
    if (bytes != 0) {
        static_cast<void>(::fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                                      static_cast<off_t>(bytes)));
    }
}

// Not of parity, which would be wrong and not bad: nothing says what it should be.
std::size_t NodeMemory::drop_unreadable_of(PeId pe, Version version) const {
    SFT_ASSERT(is_used_);
    const NodeFile file = layout();
    const std::size_t slot_bytes = file.shadow_bytes / 2;
    const std::size_t other = file.shadow(pe) + (version.value() + 1) % 2 * slot_bytes;
    const std::size_t n_of_other = drop_unreadable(fd(), other, slot_bytes);
    if (n_of_other != 0) {
        free_pages(other, slot_bytes);
    }
    return n_of_other + drop_unreadable(fd(), file.shadow(pe) + version.value() % 2 * slot_bytes, slot_bytes) +
           drop_unreadable(fd(), file.heap(pe), file.heap_bytes) +
           drop_unreadable(fd(), file.local(pe), file.local_bytes);
}

void NodeMemory::free_memory_of(PeId pe) const noexcept {
    const NodeFile file = layout();
    free_pages(file.local(pe), file.local_bytes);
    free_pages(file.heap(pe), file.heap_bytes);
    free_pages(file.globals(pe), file.globals_bytes);
}

void NodeMemory::free_shadow_of(PeId pe) const noexcept {
    const NodeFile file = layout();
    free_pages(file.shadow(pe), file.shadow_bytes);
    free_pages(file.parity(pe), file.parity_bytes);
}

Result<> NodeMemory::take_heap_over(ProcId self, PeId pe) {
    SFT_ASSERT(fd() >= 0);
    const std::size_t begin = layout().heap(pe);
    std::atomic<std::uint64_t>& told = control_.slot(self).heap_in_node_file;
    if (told.load() == begin + 1) {
        return {};  // in an attempt before
    }
    Result<> moved = memory_.move_heap_to(fd(), begin, Segment::Contents::lost);
    if (moved) {
        told.store(begin + 1);
    }
    return moved;
}

}  // namespace sft
