// What a process says of itself and of the job to whoever looks from outside (`shmem-ft status`). Nobody inside the
// job reads it, so nothing is decided by it.
//
// Fault model: the writer may die or be stopped at any instruction. There are two places, and a counter of the writings
// says which one holds the last of them; the other one is written next. So there is always a whole status to be read,
// however long ago the writer stood still, and the writer never waits for a reader.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sft {

// What the process does with the record of its start-up (ops/startup.hpp).
enum class StartupPhase : std::uint32_t { none, recording, closed, too_large, many_threads, repeating };

// As of one moment. Numbers of the job are those of the last agreed value that the process has heard of; a sleeping
// spare does not hear of all.
struct ProcessStatus {
    std::uint64_t index = 0;           // of that value
    std::int64_t published_ns = 0;     // CLOCK_MONOTONIC
    std::int64_t committed_ns = 0;     // when the version was committed; 0: this process was not there
    std::uint64_t stored_bytes = 0;    // of the process's state in the last checkpoint that it has shipped
    std::uint64_t blocks_checked = 0;  // the counters of BackupStore, since the start of the process
    std::uint64_t blocks_bad = 0;
    std::uint64_t blocks_repaired = 0;
    std::uint32_t version = 0;
    std::uint32_t view = 0;
    std::uint32_t attempt = 0;
    std::uint32_t incarnation = 0;  // how many spares this PE has had
    std::int32_t pe = -1;           // -1: a spare
    std::int32_t keeper = -1;       // the process that has the shadow of this PE; -1: nobody that lives
    std::int32_t protected_losses = 0;
    std::int32_t idle_spares = 0;
    std::int32_t n_deaths = 0;         // that this process knows
    std::uint8_t stage = 0;            // a Stage (recovery/membership/job_state.hpp)
    std::uint8_t keeps_copies = 0;     // 0: SHMEM_FT_BACKUP_MODE=none
    std::uint8_t waits_for_spare = 0;  // a PE has failed, nobody is there to take over, and the job is to wait
    std::uint8_t node_loss = 0;        // a NodeLoss (recovery/detection/node_loss.hpp): why fatal_node is one
    // Nodes where something of the job lives, and those of them that may be lost; 0 in a job on one.
    std::int32_t n_nodes = 0;
    std::int32_t n_node_losses = 0;
    std::int32_t fatal_node = -1;                // the lowest one that must not be lost
    std::int32_t spares_on_demand = 0;           // that oshrun would start in this job, which would wait for them
    std::uint64_t startup_bytes = 0;             // of the record of the start-up, once it is closed
    std::uint32_t startup = 0;                   // a StartupPhase
    std::uint16_t copies_outlive_processes = 0;  // 1: they are in memory of the only node
    // Not 0: instead of copies others keep parity, in groups that survive so many losses; these are the others.
    std::uint16_t group_parity = 0;
    // Of shmem_checkpoint_all, since the start of the process; 0: nothing was committed yet.
    std::uint64_t checkpoint_calls = 0;
    std::uint64_t checkpoints = 0;          // of them have made a version
    std::int64_t checkpoints_ns = 0;        // all of these together
    std::int64_t checkpoint_ns = 0;         // one of the last
    std::int64_t checkpoints_since_ns = 0;  // CLOCK_MONOTONIC
    std::int64_t best_interval_ns = 0;      // between two
    // In bytes; 0: nobody has asked yet.
    std::uint64_t room_most = 0;  // what the state and its copies will ever take
    std::uint64_t room_left = 0;  // what the process could take of its node or control group when it asked last
    // PEs that have failed and are not replaced yet, the lowest of them; -1 behind the last.
    std::array<std::int32_t, 8> failed = {-1, -1, -1, -1, -1, -1, -1, -1};
    // Processes that have a shadow besides `keeper`; -1 behind the last.
    std::array<std::int32_t, 8> further_keepers = {-1, -1, -1, -1, -1, -1, -1, -1};
};
static_assert(std::is_trivially_copyable_v<ProcessStatus> && sizeof(ProcessStatus) == 256);
static_assert(sizeof(ProcessStatus) % sizeof(std::uint64_t) == 0, "StatusBlock moves it word by word");
static_assert(std::has_unique_object_representations_v<ProcessStatus>, "onlookers see no bytes that nobody has set");

class alignas(64) StatusBlock {
public:
    // One thread at a time.
    void write(const ProcessStatus& status) noexcept {
        const std::uint64_t count = count_.load(std::memory_order_relaxed) + 1;
        const auto words = std::bit_cast<Words>(status);
        for (std::size_t i = 0; i < kWords; ++i) {
            // Release: whoever sees this word also sees the count of the writing before, and takes the whole for torn.
            places_[count % 2][i].store(words[i], std::memory_order_release);
        }
        count_.store(count, std::memory_order_release);
    }

    // False: nothing has been written yet, or the writer was faster each time, which it never is for long.
    [[nodiscard]] bool read(ProcessStatus& status) const noexcept {
        for (int i = 0; i < kTriesMax; ++i) {
            const std::uint64_t count = count_.load(std::memory_order_acquire);
            if (count == 0) {
                return false;
            }
            Words words{};
            for (std::size_t word = 0; word < kWords; ++word) {
                words[word] = places_[count % 2][word].load(std::memory_order_acquire);
            }
            if (count_.load(std::memory_order_relaxed) == count) {
                status = std::bit_cast<ProcessStatus>(words);
                return true;
            }
        }
        return false;
    }

private:
    static constexpr int kTriesMax = 1000;
    static constexpr std::size_t kWords = sizeof(ProcessStatus) / sizeof(std::uint64_t);
    using Words = std::array<std::uint64_t, kWords>;

    std::atomic<std::uint64_t> count_;
    std::atomic<std::uint64_t> places_[2][kWords];
    static_assert(sizeof places_ == 2 * sizeof(ProcessStatus));
};
static_assert(sizeof(StatusBlock) % 64 == 0 && std::is_standard_layout_v<StatusBlock>);
static_assert(std::is_trivially_destructible_v<StatusBlock>, "it lies in shared memory, and nobody ends it");

}  // namespace sft
