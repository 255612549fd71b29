// The agreed order of deaths: an append-only list of (process, reason) in shared memory.
//
// Fault model: any process may die between any two instructions of append. An entry changes exactly once, by
// compare-and-swap from empty, so it is either decided or not; whoever comes next fills the same entry.
//
// Invariants
//  1. Entries are filled without gaps; a filled entry never changes.
//  2. A process is in the list at most once: an appender reads every entry before the one that it fills.
//  3. A process is dead, for this job, exactly when it is in the list, and the reason is the one recorded there.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "shmem_ft/base/ids.hpp"
#include "shmem_ft/base/process_watch.hpp"
#include "shmem_ft/membership/agreed.hpp"

namespace sft {

class DeathLog {
public:
    struct Entry {
        ProcId process = kNoProc;
        FailureReason reason;
    };

    // Appends the death unless it is there; returns whether this call was the one that did it.
    bool append(ProcId process, FailureReason reason) noexcept {
        for (auto& word : words_) {
            std::uint64_t seen = word.load(std::memory_order_acquire);
            if (seen == 0 && word.compare_exchange_strong(seen, encode(process, reason), std::memory_order_acq_rel)) {
                return true;
            }
            if (decode(seen).process == process) {
                return false;
            }
        }
        return false;  // kDeathsMax processes at the most in a job: a full log holds every one of them
    }

    [[nodiscard]] DeathCount length() const noexcept {
        std::uint16_t length = 0;
        while (length < words_.size() && words_[length].load(std::memory_order_acquire) != 0) {
            ++length;
        }
        return DeathCount(length);
    }

    // REQUIRES: index < length().
    [[nodiscard]] Entry at(std::uint16_t index) const noexcept {
        return decode(words_[index].load(std::memory_order_acquire));
    }

    [[nodiscard]] bool contains(ProcId process, DeathCount prefix) const noexcept {
        for (std::uint16_t i = 0; i < prefix.value(); ++i) {
            if (at(i).process == process) {
                return true;
            }
        }
        return false;
    }

private:
    // process + 1 in the low half, so that an empty entry is 0.
    static constexpr std::uint64_t encode(ProcId process, FailureReason reason) noexcept {
        return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(reason.status())) << 32) |
               (static_cast<std::uint32_t>(process.value()) + 1U);
    }
    static constexpr Entry decode(std::uint64_t word) noexcept {
        return {ProcId(static_cast<std::int32_t>(static_cast<std::uint32_t>(word)) - 1),
                FailureReason::from_status(static_cast<std::int32_t>(word >> 32))};
    }

    std::array<std::atomic<std::uint64_t>, kDeathsMax> words_;
};

}  // namespace sft
