// What a PE has written into the memory of another lately, told in short queues: one for each pair of them, in the
// memory of the PE that is written to. Needed before the first checkpoint only, beside the marks (write_marks.hpp),
// which hold any number of writes but cost the owner a walk over them and both sides many lines of the cache. A queue
// costs one line for four writes. What does not fit, and what other threads write, is marked.
//
// Why no write is missed: the writer stores the data, then the entry, then whatever tells the program of it; stores are
// seen in their order. An entry says itself whether it is there, by the lap that it was written in.
//
// Only in jobs of few PEs: the owner looks at all queues with each call.
//
// Thread safety: a queue has one writing thread, and one reading thread in the owner.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "base/ids.hpp"

namespace sft {

class WriteQueues {
public:
    static constexpr std::int32_t kWritersMax = 32;
    static constexpr std::uint64_t kEntries = 124;

    // In memory that is all zeros at first.
    struct alignas(64) Queue {
        struct Entry {
            std::atomic<std::uint64_t> address;
            std::atomic<std::uint64_t> bytes_and_lap;  // written last
        };
        std::array<Entry, kEntries> entries;
        alignas(64) std::atomic<std::uint64_t> n_taken;  // as the owner says now and then
    };
    static_assert(sizeof(Queue) == 2048 && std::atomic<std::uint64_t>::is_always_lock_free);
    static_assert(kEntries % 4 == 0, "full lines");

    // Of one process: what it knows of a queue that it writes, or reads.
    struct Writing {
        std::uint64_t n = 0;
        std::uint64_t n_taken = 0;  // at least
    };
    struct Reading {
        std::uint64_t n = 0;
    };

    // However many PEs there are: what is not used is a hole.
    static constexpr std::size_t kBytes = kWritersMax * sizeof(Queue);

    WriteQueues() = default;
    // `base`: kBytes bytes, where they are mapped here.
    WriteQueues(std::byte* base, std::int32_t n_pes) noexcept
        : queues_(reinterpret_cast<Queue*>(base)), n_(n_pes <= kWritersMax ? n_pes : 0) {
        SFT_ASSERT(reinterpret_cast<std::uintptr_t>(base) % alignof(Queue) == 0);
    }
    // How many queues there are: as many as PEs, or none.
    [[nodiscard]] std::int32_t size() const noexcept { return n_; }

    enum class Put { queued, full, nobody_reads };
    // PE `from` says that it has written there. `there`: how far away the owner's memory is mapped.
    [[nodiscard]] Put put(PeId from, std::intptr_t there, Writing& so_far, std::uintptr_t address,
                          std::size_t bytes) const noexcept {
        Queue& queue = at(from, there);
        if (so_far.n - so_far.n_taken >= kEntries) [[unlikely]] {
            so_far.n_taken = queue.n_taken.load(std::memory_order_acquire);
            if (so_far.n_taken == kNobodyReads) {
                so_far.n_taken = so_far.n - kEntries;  // to look again
                return Put::nobody_reads;
            }
            SFT_ASSERT(so_far.n_taken <= so_far.n);
            if (so_far.n - so_far.n_taken >= kEntries) {
                return Put::full;
            }
        }
        if (bytes > kBytesMax) [[unlikely]] {
            return Put::full;
        }
        Queue::Entry& entry = queue.entries[so_far.n % kEntries];
        entry.address.store(address, std::memory_order_relaxed);
        entry.bytes_and_lap.store(bytes | lap_of(so_far.n) << kBytesBits, std::memory_order_release);
        ++so_far.n;
        return Put::queued;
    }

    // By the owner: whether PE `from` has told of something that is not taken yet.
    [[nodiscard]] bool has_any(PeId from, const Reading& so_far) const noexcept {
        return is_there(at(from, 0).entries[so_far.n % kEntries].bytes_and_lap.load(std::memory_order_relaxed),
                        so_far.n);
    }
    // Calls visit(address, bytes) for what PE `from` has told of since.
    template <class Visit>
    void take(PeId from, Reading& so_far, Visit&& visit) const {
        Queue& queue = at(from, 0);
        for (;;) {
            const Queue::Entry& entry = queue.entries[so_far.n % kEntries];
            const std::uint64_t value = entry.bytes_and_lap.load(std::memory_order_acquire);
            if (!is_there(value, so_far.n)) {
                return;
            }
            visit(static_cast<std::uintptr_t>(entry.address.load(std::memory_order_relaxed)),
                  static_cast<std::size_t>(value & kBytesMax));
            ++so_far.n;
            if (so_far.n % (kEntries / 4) == 0) {
                queue.n_taken.store(so_far.n, std::memory_order_release);
            }
        }
    }
    // By the owner, any thread of it: nothing is taken any more, and nothing need be marked instead.
    void stop_reading() const noexcept {
        for (std::int32_t pe = 0; pe < n_; ++pe) {
            at(PeId(pe), 0).n_taken.store(kNobodyReads, std::memory_order_relaxed);
        }
    }

private:
    static constexpr unsigned kBytesBits = 40;
    static constexpr std::uint64_t kBytesMax = (std::uint64_t{1} << kBytesBits) - 1;
    static constexpr std::uint64_t kNobodyReads = UINT64_MAX;

    // Never that of an entry that was not written; after 2^24 laps they come again, which an entry of the lap before
    // does not look like.
    [[nodiscard]] static std::uint64_t lap_of(std::uint64_t n) noexcept {
        return (n / kEntries + 1) & (UINT64_MAX >> kBytesBits);
    }
    [[nodiscard]] static bool is_there(std::uint64_t bytes_and_lap, std::uint64_t n) noexcept {
        return bytes_and_lap >> kBytesBits == lap_of(n);
    }
    [[nodiscard]] Queue& at(PeId from, std::intptr_t there) const noexcept {
        SFT_ASSERT(from.value() >= 0 && from.value() < n_);
        return *reinterpret_cast<Queue*>(reinterpret_cast<std::intptr_t>(queues_ + from.index()) + there);
    }

    Queue* queues_ = nullptr;
    std::int32_t n_ = 0;
};

}  // namespace sft
