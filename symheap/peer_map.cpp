#include "symheap/peer_map.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/assert.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"
#include "transport/net/network.hpp"

namespace sft {
namespace {

std::byte* open_window(Window& window) {
    const bool is_open =
        window.address() != nullptr && ::mprotect(window.address(), window.bytes(), PROT_READ | PROT_WRITE) == 0;
    return is_open ? window.address() : nullptr;
}

std::intptr_t distance(const Window& window, const AddressRange& own) {
    return reinterpret_cast<std::intptr_t>(window.address()) - static_cast<std::intptr_t>(own.begin);
}

}  // namespace

void PeerMap::open(Options options) {
    SFT_ASSERT(options.n_pes > 0);
    SFT_ASSERT(options.heap.bytes != 0 && options.heap_window_bytes >= options.heap.bytes);
    SFT_ASSERT(options.is_dead && options.is_remote && options.gate != nullptr);
    options_ = std::move(options);
    const auto n_pes = static_cast<std::size_t>(options_.n_pes);
    entries_ = std::vector<PeerEntry>(n_pes);
    heap_windows_.resize(n_pes);
    globals_windows_.resize(n_pes);
    const Locked lock(mutex_);
    shown_.assign(n_pes, kNoProc);
    heap_shown_.assign(n_pes, 0);
}

Result<> PeerMap::reserve(PeId me) {
    SFT_ASSERT(me.index() < entries_.size());
    me_ = me;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
        if (i == me.index()) {
            entries_[i].heap_difference.store(0);
            entries_[i].globals_difference.store(0);
            continue;
        }
        if (Result<> reserved = heap_windows_[i].reserve(options_.heap_window_bytes); !reserved) {
            return reserved;
        }
        if (options_.globals.bytes != 0) {
            if (Result<> reserved = globals_windows_[i].reserve(options_.globals.bytes); !reserved) {
                return reserved;
            }
        }
    }
    return {};
}

Result<> PeerMap::map_part(const char* name, ProcId holder, int fd, Window& window) {
    const ProcessSlot& slot = options_.control->slot(holder);
    const Opening opening = open_descriptor_of(slot.pid, slot.start_time, fd);
    if (opening.reach != Reach::opened) {
        const bool is_gone = opening.reach == Reach::gone;
        return fails({is_gone ? Failure::gone : Failure::cannot_be_opened,
                      format("cannot open the %s of process %d (pid %d): %s", name, holder.value(), slot.pid,
                             is_gone ? "it is gone" : describe_error(opening.error).c_str()),
                      opening.error});
    }
    const Result<> shown = window.show(opening.fd, 0);
    ::close(opening.fd);
    return shown ? shown
                 : fails({Failure::cannot_be_opened,
                          format("the %s of process %d: %s", name, holder.value(), shown.error().line.c_str()),
                          shown.error().number});
}

Result<> PeerMap::map_heap(PeId pe, ProcId holder) {
    const ProcessSlot& slot = options_.control->slot(holder);
    const std::uint64_t in_node_file = slot.heap_in_node_file.load();
    if (in_node_file == 0) {
        heap_shown_[pe.index()] = 0;
        return map_part("heap", holder, slot.heap_fd, heap_windows_[pe.index()]);
    }
    SFT_ASSERT(options_.node_file >= 0);
    if (heap_shown_[pe.index()] == in_node_file) {
        return {};
    }
    const Result<> shown = heap_windows_[pe.index()].show(options_.node_file, in_node_file - 1);
    if (!shown) {
        return fails({Failure::cannot_be_opened,
                      format("the heap of process %d: %s", holder.value(), shown.error().line.c_str()),
                      shown.error().number});
    }
    heap_shown_[pe.index()] = in_node_file;
    return {};
}

Result<> PeerMap::map_memory(PeId pe, ProcId holder) {
    if (Result<> mapped = map_heap(pe, holder); !mapped) {
        return mapped;
    }
    Window& globals = globals_windows_[pe.index()];
    if (globals.bytes() == 0) {
        return {};  // this job has no symmetric globals
    }
    return map_part("globals", holder, options_.control->slot(holder).globals_fd, globals);
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
    entry.globals_difference.store(is_remote ? kRemote : distance(globals_windows_[pe.index()], options_.globals));
    entry.heap_difference.store(is_remote ? kRemote : distance(heap_windows_[pe.index()], options_.heap));
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
    SFT_ASSERT(pe.value() >= 0 && pe.index() < heap_windows_.size() && pe.index() < globals_windows_.size());
    std::byte* const window = open_window(is_of_heap ? heap_windows_[pe.index()] : globals_windows_[pe.index()]);
    const std::uintptr_t begin = is_of_heap ? options_.heap.begin : options_.globals.begin;
    return window == nullptr ? nullptr : window + (reinterpret_cast<std::uintptr_t>(address) - begin);
}

}  // namespace sft
