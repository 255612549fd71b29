// Where every PE's symmetric memory is mapped in this process.
//
// Invariants
//  1. The heap and the globals of a PE lie at the same virtual addresses in every process that holds a PE,
//     so one difference per PE and region translates every symmetric address.
//  2. entries[me] has both differences 0.
//  3. An entry of a PE known to be dead holds kUnreachable until a substitute has taken its place.
//  4. Both differences of a PE of another node are kRemote.
//
// Thread safety: differences are atomics. The service thread marks an entry unreachable; the thread that
// runs a recovery sets it again. Readers use relaxed loads: a put that races with a death goes to memory
// nobody reads any more, which is what "dropped" means.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/address_range.hpp"
#include "base/assert.hpp"
#include "base/ids.hpp"
#include "transport/shm/change_notes.hpp"

namespace sft {

inline constexpr std::intptr_t kUnreachable = INTPTR_MIN;
// On another node: reached by messages only (net/network.hpp).
inline constexpr std::intptr_t kRemote = INTPTR_MIN + 1;

struct alignas(64) PeerEntry {
    std::atomic<std::intptr_t> heap_difference{kUnreachable};
    std::atomic<std::intptr_t> globals_difference{kUnreachable};
};

static_assert(sizeof(PeerEntry) == 64 && std::atomic<std::intptr_t>::is_always_lock_free);
static_assert(kUnreachable < kRemote, "find() compares once");

struct PeerTable {
    AddressRange heap;
    AddressRange globals;
    PeerEntry* entries = nullptr;  // n_pes of them, owned by the runtime
    std::int32_t n_pes = 0;
    PeId me = kNoPe;
    ChangeNotes notes;      // of this process's own memory; not set: nobody asks for them now,
    ChangeNotes own_notes;  // or will ever

    [[nodiscard]] bool is_symmetric(const void* address) const noexcept {
        return heap.contains(address) || globals.contains(address);
    }

    [[nodiscard]] bool is_reachable(PeId pe) const noexcept {
        SFT_ASSERT_SLOW(pe.value() >= 0 && pe.value() < n_pes);
        return entries[pe.index()].heap_difference.load(std::memory_order_relaxed) != kUnreachable;
    }

    [[nodiscard]] bool is_remote(PeId pe) const noexcept {
        SFT_ASSERT_SLOW(pe.value() >= 0 && pe.value() < n_pes);
        return entries[pe.index()].heap_difference.load(std::memory_order_relaxed) == kRemote;
    }

    // The address of pe's instance of the symmetric object, or null when it is not mapped here: pe is unreachable or
    // remote, or the address is not symmetric.
    [[nodiscard]] void* find(const void* address, PeId pe) const noexcept {
        SFT_ASSERT_SLOW(pe.value() >= 0 && pe.value() < n_pes);
        const PeerEntry& entry = entries[pe.index()];
        std::intptr_t difference;
        if (heap.contains(address)) [[likely]] {
            difference = entry.heap_difference.load(std::memory_order_relaxed);
        } else if (globals.contains(address)) {
            difference = entry.globals_difference.load(std::memory_order_relaxed);
        } else {
            return nullptr;
        }
        if (difference <= kRemote) [[unlikely]] {
            return nullptr;
        }
        void* const found = reinterpret_cast<void*>(reinterpret_cast<std::intptr_t>(address) + difference);
        if (found == nullptr) {
            __builtin_unreachable();  // spares the caller a comparison
        }
        return found;
    }

    // A non-symmetric address ends the process with one line that names it, unless some PE is unreachable: then the
    // program may have read the pointer where nothing has arrived.
    void require_symmetric(const void* address, PeId pe) const noexcept {
        if (!is_symmetric(address)) [[unlikely]] {
            not_symmetric(address, pe);
        }
    }

    // Both.
    [[nodiscard]] void* locate(const void* address, PeId pe) const noexcept {
        void* const found = find(address, pe);
        if (found == nullptr) [[unlikely]] {
            require_symmetric(address, pe);
        }
        return found;
    }

    // Follows every write through an address of find() that is another PE's.
    void wrote(const void* address, PeId pe, std::size_t bytes) const noexcept {
        if (notes.is_set()) [[unlikely]] {
            note(address, pe, bytes);
        }
    }
    // The same of one element, of which find() has given that.
    template <class T>
    void wrote_at(const T* found, const T* address, PeId pe) const noexcept {
        if (notes.is_set()) [[unlikely]] {
            const std::intptr_t difference =
                reinterpret_cast<std::intptr_t>(found) - reinterpret_cast<std::intptr_t>(address);
            if (difference != 0 && !notes.is_noted(difference, address, sizeof(T))) {
                note(address, pe, sizeof(T));
            }
        }
    }
    // Whether what is written from now on is noted. No other thread is writing.
    void take_notes(bool are_wanted) noexcept { notes = are_wanted ? own_notes : ChangeNotes(); }
    // Such addresses are given to the program, which may write there whenever it likes from now on. REQUIRES:
    // own_notes.
    void expose(const AddressRange& object, PeId pe) const noexcept;

private:
    void note(const void* address, PeId pe, std::size_t bytes) const noexcept;
    [[gnu::cold]] void not_symmetric(const void* address, PeId pe) const noexcept;
};

}  // namespace sft
