// The permanent storage of this process's PE: which versions go to files (SHMEM_FT_STORE), and where the job goes on
// from if it does not begin (SHMEM_FT_RESTART).
//
// A job that goes on from a stored version: every PE is to its program what a substitute is, comes through the start-up
// again by its record, and gets its memory in shmem_restart_pes. To the protocols it is a job that begins: what was
// loaded is replicated and committed as the first version, with the number that it had. A death before that is a death
// before the first commit, which ends the job; the stored version is as it was.
//
// Arrays that a program has declared it may load from a stored version of whatever job (SHMEM_FT_LOAD), which changes
// nothing else of a job.
//
// Threads: that of the collective calls, where nothing else is said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "backup/protector.hpp"
#include "base/config.hpp"
#include "base/ids.hpp"
#include "base/mutex.hpp"
#include "base/own_pe.hpp"
#include "base/result.hpp"
#include "shmem_ft/ops/engine.hpp"
#include "shmem_ft/ops/fault_calls.hpp"
#include "storage/array_loader.hpp"
#include "storage/drain.hpp"
#include "storage/store_pace.hpp"
#include "storage/stored_state.hpp"
#include "symheap/symmetric_memory.hpp"

namespace sft {

class Storage {
public:
    // What the settings say. The failure names the one that is wrong.
    [[nodiscard]] Result<> read(const Config& config);
    // kNoVersion: the job begins.
    [[nodiscard]] Version begins_with() const noexcept { return begins_with_; }

    struct Options {
        const Config* config = nullptr;
        const SymmetricMemory* memory = nullptr;
        Protector* protector = nullptr;
        Engine* engine = nullptr;
        const OwnPe* me = nullptr;
        std::int32_t n_pes = 0;
        std::uint64_t program = 0;  // fingerprint
        std::uint64_t job = 0;      // a number that no other job has
        bool may_checkpoint = false;
        bool is_first = false;  // process 0, which prepares the folder
        // Those that are on the node which comes so many places before this PE's.
        std::function<std::vector<PeId>(std::uint32_t n)> pes_before = {};
        bool is_first_life = true;  // what is stored later could not be gone on from
    };
    // In every process, before the first version.
    [[nodiscard]] Result<> open(const Options& options);
    // What is being written is given up.
    void close() noexcept;
    // PE 0's process, when all have closed: nothing stays behind that is of no use.
    void tidy_up() noexcept;

    // The job goes on: what this PE needs before it joins, and all of it.
    [[nodiscard]] Result<> load_front(PeId pe);
    [[nodiscard]] Result<> load();

    // Of the version that SHMEM_FT_LOAD names. A load that fails says why. Any thread.
    [[nodiscard]] bool load_array(const char* name, void* to, const ArrayShape& shape) noexcept SFT_EXCLUDES(loads_);
    [[nodiscard]] std::size_t stored_elements(const char* name) noexcept SFT_EXCLUDES(loads_);

    // Collective, in each checkpoint: whether this version is to be stored. A fault shows in what follows.
    void choose(Version version) noexcept;
    // All PEs have gone back to the last version.
    void resume() noexcept;

private:
    [[nodiscard]] Result<> check(const Manifest& manifest) const;
    [[nodiscard]] Result<> check(const StoredHead& head, const Manifest& manifest, PeId pe) const;
    [[nodiscard]] Manifest about() const;
    [[nodiscard]] Result<ArrayLoader*> loader() SFT_REQUIRES(loads_);
    [[nodiscard]] const LiveState& live() const noexcept { return o_.memory->live(); }

    Options o_;
    Version begins_with_ = kNoVersion;
    std::optional<StoredState> state_;  // from load_front() to load()
    StorePace pace_;
    Drain drain_;
    bool has_drain_ = false;
    Mutex loads_{MutexRank::arrays};
    std::optional<ArrayLoader> loader_ SFT_GUARDED_BY(loads_);  // from the first call on
};

}  // namespace sft
