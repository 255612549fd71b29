#include "symheap/peer_map.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/assert.hpp"
#include "base/pages.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"
#include "transport/net/network.hpp"

namespace sft {
namespace {

std::byte* open_window(std::byte* window, std::size_t bytes) {
    return ::mprotect(window, bytes, PROT_READ | PROT_WRITE) == 0 ? window : nullptr;
}

}  // namespace

std::intptr_t PeerMap::distance(const Part& part, PeId pe, const AddressRange& own) {
    return part.windows.bytes() == 0 ? 0
                                     : reinterpret_cast<std::intptr_t>(part.windows.address(pe.index())) -
                                           static_cast<std::intptr_t>(own.begin);
}

void PeerMap::open(Options options) {
    SFT_ASSERT(options.n_pes > 0);
    SFT_ASSERT(options.heap.bytes != 0 && options.heap_window_bytes >= options.heap.bytes);
    SFT_ASSERT(options.is_dead && options.is_remote && options.gate != nullptr);
    options_ = std::move(options);
    const auto n_pes = static_cast<std::size_t>(options_.n_pes);
    entries_ = std::vector<PeerEntry>(n_pes);
    const Locked lock(mutex_);
    shown_.assign(n_pes, kNoProc);
    for (Part* const part : {&heaps_, &globals_}) {
        part->shown.assign(n_pes, 0);
    }
    heaps_.in_node_file = options_.node_heaps;
    globals_.in_node_file = options_.node_globals;
}

Result<> PeerMap::reserve(PeId me) {
    SFT_ASSERT(me.index() < entries_.size());
    me_ = me;
    entries_[me.index()].heap_difference.store(0);
    entries_[me.index()].globals_difference.store(0);
    return heaps_.windows.reserve(entries_.size(), whole_pages(options_.heap_window_bytes)).then([&] {
        return options_.globals.bytes == 0
                   ? Result<>()
                   : globals_.windows.reserve(entries_.size(), whole_pages(options_.globals.bytes));
    });
}

Result<> PeerMap::map_file(Part& part, PeId pe, ProcId holder, int fd) {
    const ProcessSlot& slot = options_.control->slot(holder);
    const Opening opening = open_descriptor_of(slot.pid, slot.start_time, fd);
    if (opening.reach != Reach::opened) {
        const bool is_gone = opening.reach == Reach::gone;
        return fails({is_gone ? Failure::gone : Failure::cannot_be_opened,
                      format("cannot open the %s of process %d (pid %d): %s", part.name, holder.value(), slot.pid,
                             is_gone ? "it is gone" : describe_error(opening.error).c_str()),
                      opening.error});
    }
    part.shown[pe.index()] = 0;
    part.is_any_shown = true;
    const Result<> shown = part.windows.show(pe.index(), opening.fd, 0);
    ::close(opening.fd);
    return shown ? shown
                 : fails({Failure::cannot_be_opened,
                          format("the %s of process %d: %s", part.name, holder.value(), shown.error().line.c_str()),
                          shown.error().number});
}

// All that is there, with the first one: it stays where it is, whoever holds the PEs.
Result<> PeerMap::map_of_node(Part& part, PeId pe, ProcId holder, std::uint64_t place) {
    const std::size_t stride = part.windows.bytes();
    SFT_ASSERT(options_.node_file >= 0 && place == part.in_node_file + pe.index() * stride + 1);
    if (part.shown[pe.index()] == place) {
        return {};
    }
    const Result<> shown = part.is_any_shown ? part.windows.show(pe.index(), options_.node_file, place - 1)
                                             : part.windows.show_all(options_.node_file, part.in_node_file);
    if (!shown) {
        return fails({Failure::cannot_be_opened,
                      format("the %s of process %d: %s", part.name, holder.value(), shown.error().line.c_str()),
                      shown.error().number});
    }
    for (std::size_t i = 0; i < part.shown.size() && !part.is_any_shown; ++i) {
        part.shown[i] = part.in_node_file + i * stride + 1;
    }
    part.is_any_shown = true;
    part.shown[pe.index()] = place;
    return {};
}

Result<> PeerMap::map_memory(PeId pe, ProcId holder) {
    const ProcessSlot& slot = options_.control->slot(holder);
    if (Result<> mapped = map_part(heaps_, pe, holder, slot.heap_in_node_file.load(), slot.heap_fd); !mapped) {
        return mapped;
    }
    return globals_.windows.bytes() == 0 ? Result<>()  // this job has no symmetric globals
                                         : map_part(globals_, pe, holder, slot.globals_in_node_file, slot.globals_fd);
}

// place: of the memory in the node's file, + 1; 0: it is all of the holder's `fd`.
Result<> PeerMap::map_part(Part& part, PeId pe, ProcId holder, std::uint64_t place, int fd) {
    return place != 0 ? map_of_node(part, pe, holder, place) : map_file(part, pe, holder, fd);
}

Result<> PeerMap::show(PeId pe, ProcId holder) {
    SFT_ASSERT(pe.index() < entries_.size() && holder != kNoProc);
    const Locked lock(mutex_);
    PeerEntry& entry = entries_[pe.index()];
    if (pe == me_ || shown_[pe.index()] == holder) {
        return {};
    }
    const bool is_remote = options_.is_remote(holder);
    if (options_.network != nullptr) {
        options_.network->set_holder(pe, is_remote ? holder : kNoProc);
    }
    if (!is_remote) {
        if (Result<> mapped = map_memory(pe, holder); !mapped) {
            return mapped;
        }
    }
    shown_[pe.index()] = holder;
    entry.globals_difference.store(is_remote ? kRemote : distance(globals_, pe, options_.globals));
    entry.heap_difference.store(is_remote ? kRemote : distance(heaps_, pe, options_.heap));
    return {};
}

ProcId PeerMap::shown(PeId pe) const {
    const Locked lock(mutex_);
    return shown_[pe.index()];
}

void PeerMap::retire_dead_locked() {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        if (shown_[i] != kNoProc && options_.is_dead(shown_[i])) {
            // First, because who finds the entry unreachable looks for a fault to meet.
            options_.gate->pending.store(true);
            entries_[i].heap_difference.store(kUnreachable);
            entries_[i].globals_difference.store(kUnreachable);
        }
    }
}

void PeerMap::retire_dead() {
    const Locked lock(mutex_);
    retire_dead_locked();
}

void PeerMap::end_fault() {
    const Locked lock(mutex_);
    options_.gate->pending.store(false);
    retire_dead_locked();
}

void* PeerMap::before_joining(PeId pe, const void* address) {
    if (pe == me_) {
        return const_cast<void*>(address);
    }
    const bool is_of_heap = options_.heap.contains(address);
    if (pe == kNoPe || (!is_of_heap && !options_.globals.contains(address))) {
        return nullptr;
    }
    const Part& part = is_of_heap ? heaps_ : globals_;
    std::byte* const window = open_window(part.windows.address(pe.index()), part.windows.bytes());
    const std::uintptr_t begin = is_of_heap ? options_.heap.begin : options_.globals.begin;
    return window == nullptr ? nullptr : window + (reinterpret_cast<std::uintptr_t>(address) - begin);
}

}  // namespace sft
