// Which chunks of a PE's heap must not be written yet, because what they were at the line of a version is still being
// saved (symheap/heap_guard.hpp).
//
// The words of a PE lie behind its heap in the same memory file, so whoever can write to the heap has them: for each
// chunk a byte while it is held, and one for those who wait for it.
//
// Fault model: the owner may die and leave chunks held. Who waits for one looks whether it lives, from time to time;
// the next owner sets all words before it holds anything again. A waiting process that dies leaves a count behind that
// costs the owner system calls, until it holds the next time.
//
// Thread safety: hold(), let_go() and take_wanted() by one thread of the owner at a time; the rest by anybody, and
// await() in signal handlers too.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "base/assert.hpp"
#include "base/pages.hpp"

namespace sft {

class GuardWords {
public:
    static constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

    GuardWords() = default;
    // `base`: bytes_for() bytes, where they are mapped here.
    GuardWords(std::byte* base, std::size_t heap_bytes) noexcept
        : head_(reinterpret_cast<Head*>(base)),
          held_(reinterpret_cast<std::uint8_t*>(base) + kHeadBytes),
          wanted_(held_ + room_for(chunks_of(heap_bytes))),
          n_chunks_(chunks_of(heap_bytes)) {
        SFT_ASSERT(base != nullptr && reinterpret_cast<std::uintptr_t>(base) % kHeadBytes == 0);
    }
    [[nodiscard]] bool is_set() const noexcept { return head_ != nullptr; }
    [[nodiscard]] static constexpr std::size_t bytes_for(std::size_t heap_bytes) noexcept {
        return kHeadBytes + 2 * room_for(chunks_of(heap_bytes));
    }
    [[nodiscard]] std::size_t n_chunks() const noexcept { return n_chunks_; }

    // ---- the owner ----

    // Nothing is held or wanted.
    void reset() const noexcept {
        for (std::size_t chunk = 0; chunk < n_chunks_; ++chunk) {
            if (byte(held_, chunk).load(std::memory_order_relaxed) != 0) {
                byte(held_, chunk).store(0);
            }
            if (byte(wanted_, chunk).load(std::memory_order_relaxed) != 0) {
                byte(wanted_, chunk).store(0);
            }
        }
        head_->n_wanted.store(0);
        head_->n_waiting.store(0);
        wake();
    }
    void hold(std::size_t chunk) const noexcept { byte(held_, chunk).store(kHeld); }
    // It may be written, but its owner still asks the memory file which of it exists.
    void set_aside(std::size_t chunk) const noexcept { change(chunk, kAside); }
    void let_go(std::size_t chunk) const noexcept { change(chunk, kFree); }
    [[nodiscard]] bool is_any_wanted() const noexcept { return head_->n_wanted.load(std::memory_order_relaxed) != 0; }
    // Calls visit(chunk) for each that is held and that somebody waits for.
    template <class Visit>
    void take_wanted(Visit&& visit) const {
        head_->n_wanted.store(0);
        for (std::size_t chunk = 0; chunk < n_chunks_; ++chunk) {
            if (byte(wanted_, chunk).load(std::memory_order_relaxed) == 0) {
                continue;
            }
            byte(wanted_, chunk).store(0);
            if (is_held(chunk)) {
                visit(chunk);
            }
        }
    }

    // ---- whoever writes ----

    [[nodiscard]] bool is_held(std::size_t chunk) const noexcept { return byte(held_, chunk).load() == kHeld; }
    // Until it has been let go of, by another thread of this process: who makes holes there waits for that.
    void await_saved(std::size_t chunk) const noexcept {
        head_->n_waiting.fetch_add(1);
        for (;;) {
            const std::uint32_t seen = head_->n_wakes.load();
            if (byte(held_, chunk).load() == kFree) {
                break;
            }
            await_wake(seen);
        }
        head_->n_waiting.fetch_sub(1);
    }
    // Until it is not held any more, or is_over().
    template <class IsOver>
    void await(std::size_t chunk, IsOver&& is_over) const noexcept {
        if (!is_held(chunk)) {
            return;
        }
        head_->n_waiting.fetch_add(1);
        for (;;) {
            const std::uint32_t seen = head_->n_wakes.load();
            if (!is_held(chunk) || is_over()) {
                break;
            }
            byte(wanted_, chunk).store(1);
            head_->n_wanted.fetch_add(1);
            await_wake(seen);
        }
        head_->n_waiting.fetch_sub(1);
    }

    // A process whose writes nothing would hold up: nobody may hold anything any more. For good.
    void refuse() const noexcept { head_->is_refused.store(1); }
    [[nodiscard]] bool is_refused() const noexcept { return head_->is_refused.load() != 0; }

private:
    struct Head {
        std::atomic<std::uint32_t> n_wanted;   // since take_wanted()
        std::atomic<std::uint32_t> n_waiting;  // in await()
        std::atomic<std::uint32_t> n_wakes;    // a futex
        std::atomic<std::uint32_t> is_refused;
    };
    static constexpr std::size_t kHeadBytes = 64;
    static constexpr std::uint8_t kFree = 0;
    static constexpr std::uint8_t kHeld = 1;
    static constexpr std::uint8_t kAside = 2;
    static_assert(sizeof(Head) <= kHeadBytes && std::atomic<std::uint32_t>::is_always_lock_free);

    [[nodiscard]] static constexpr std::size_t chunks_of(std::size_t heap_bytes) noexcept {
        return (heap_bytes + kChunkBytes - 1) / kChunkBytes;
    }
    // Whole lines of the cache.
    [[nodiscard]] static constexpr std::size_t room_for(std::size_t chunks) noexcept { return (chunks + 63) / 64 * 64; }

    [[nodiscard]] std::atomic_ref<std::uint8_t> byte(std::uint8_t* of, std::size_t chunk) const noexcept {
        SFT_ASSERT(chunk < n_chunks_);
        return std::atomic_ref(of[chunk]);
    }
    void change(std::size_t chunk, std::uint8_t to) const noexcept {
        byte(held_, chunk).store(to);
        if (head_->n_waiting.load() != 0) {
            wake();
        }
    }
    void await_wake(std::uint32_t seen) const noexcept {
        constexpr long kUntilNextLookNs = 1'000'000;
        const timespec bound{0, kUntilNextLookNs};
        ::syscall(SYS_futex, &head_->n_wakes, FUTEX_WAIT, seen, &bound, nullptr, 0);
    }
    void wake() const noexcept {
        head_->n_wakes.fetch_add(1);
        ::syscall(SYS_futex, &head_->n_wakes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }

    Head* head_ = nullptr;
    std::uint8_t* held_ = nullptr;
    std::uint8_t* wanted_ = nullptr;
    std::size_t n_chunks_ = 0;
};

}  // namespace sft
