// What this process does with its memory and its copies when the protocols say so: in a checkpoint, in a restart, and
// as a substitute before it joins.
//
// Fault model: any open, map, connect, send or receive may fail at any time, for this process alone, once or for ever.
// What fails says nothing about the process at the other end: only the kernel's word about that one does. So there are
// three ends: it works when tried again; the other one turns out to be dead, and its death is decided about; or, within
// a bound, the job ends with a line that names what failed.
//
// Threads: that of the collective calls; of a checkpoint in the background another one (take_still), while that one is
// in no collective call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backup/protector.hpp"
#include "base/own_pe.hpp"
#include "base/result.hpp"
#include "recovery/coordinator.hpp"
#include "recovery/init_calls.hpp"
#include "recovery/membership/scheme.hpp"
#include "symheap/peer_map.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class MemoryActions final : public CheckpointActions {
public:
    struct Options {
        Coordinator* coordinator = nullptr;
        Protector* protector = nullptr;
        PeerMap* peers = nullptr;
        InitCalls* init_calls = nullptr;
        const ControlSegment* control = nullptr;
        Network* network = nullptr;  // in a job on several nodes
        const OwnPe* me = nullptr;
        std::uint64_t* saved_init_calls = nullptr;  // in what is saved with a version
        std::function<bool(ProcId)> is_remote = {};
        // The rest of the library: before what is saved is replicated, when it is committed, when it is restored, and
        // after any attempt at that.
        std::function<void()> before_replicating = {};
        // The heap of a PE on this node whose holder has died becomes that of this process; in jobs whose nodes hold
        // it.
        std::function<Result<>(PeId pe)> take_heap_over = {};
        // In such jobs too, of what this node has of a PE, with copies of that version: pages that cannot be read any
        // more become zeros. How many.
        std::function<std::size_t(PeId pe, Version version)> drop_unreadable_of = {};
        // In such jobs on several nodes: what this node has of a PE that is elsewhere, and of one that it does not keep
        // for.
        std::function<void(PeId pe)> free_memory_of = {};
        std::function<void(PeId pe)> free_shadow_of = {};
        std::function<void(Version)> committed = {};
        std::function<void()> restored = {};
        std::function<void()> after_restoring = {};
        // Everybody is protected again: what the communication between PEs counts begins anew.
        std::function<void(const JobState&)> reset_channels = {};
        std::function<void(const std::string& line)> end_job = {};  // does not return
    };
    // Before the first action is asked for.
    void open(Options options);

    // CheckpointActions
    void replicate(Version version) override;
    void update_local_copy(Version version) override;
    Outcome restore(const JobState& state) override;
    Outcome protect(const JobState& state) override;

    // A checkpoint that is made in the background: what replicate() and update_local_copy() make copies of is the
    // memory of now. They are called by another thread from then on, until end_still(), which tells the rest of the
    // library that the version is committed, if it is. By the thread of the collective calls. REQUIRES:
    // may_take_still(), which all PEs answer alike; Protector::prepare_still().
    [[nodiscard]] bool may_take_still() const noexcept;
    void take_still(Version version);
    // The same, of Protector.
    [[nodiscard]] bool begin_in_shadow(Version version, bool may_hold);
    void end_still();

    // At the start, of a process that is a PE from the beginning: shows the memory of the others, and finds its
    // keepers. Who of them is gone will be known in a moment, and is no failure.
    [[nodiscard]] Result<> show_first_holders();
    [[nodiscard]] Result<> use_first_keepers();
    // A PE whose memory was loaded from a stored version: it is from now on as if it had begun.
    [[nodiscard]] Result<> begin_with_loaded();
    // A substitute: the first bytes of the heap, and the library's state, as of the committed version. False: the job
    // is over.
    [[nodiscard]] bool fetch_front(std::size_t heap_bytes);
    // What dead processes of other nodes have sent may be on its way into memory still. The service thread does it,
    // too, when it comes to it.
    void retire_dead_peers() noexcept;

    // After an action that has found something corrupt: what.
    [[nodiscard]] const std::string& why_lost() const noexcept { return why_lost_; }
    // The value of the last protect() that was done.
    [[nodiscard]] const JobState& recovered_from() const noexcept { return recovered_from_; }

private:
    [[nodiscard]] Outcome become_restored(const JobState& state);
    // memory_actions_group.cpp: where the job has parity
    [[nodiscard]] Result<> use_group(std::span<const Share> shares, ProcId copy);
    [[nodiscard]] Result<> use_group_to_restore(const JobState& state, std::span<const Share> sources);
    [[nodiscard]] Outcome restore_from_group(const JobState& state);
    [[nodiscard]] Outcome protect_in_group(const JobState& state);
    [[nodiscard]] Outcome group_failed(const Error& error);
    [[nodiscard]] Result<> fetch_front_from_group(std::span<const Share> sources, const JobState& state,
                                                  std::size_t heap_bytes);
    [[nodiscard]] bool is_in_group() const noexcept;
    [[nodiscard]] Outcome is_protected(const JobState& state);
    void drop_unreadable(const JobState& state);
    // Of checkpoints and recoveries, in the order of time; attempt 0: a checkpoint.
    [[nodiscard]] static std::uint32_t round_of(const JobState& state, std::uint32_t attempt) noexcept;
    [[nodiscard]] Result<> roll_back(const JobState& state);
    [[nodiscard]] bool is_any_source_gone(const JobState& state) const;
    [[nodiscard]] Outcome take_over_from(const std::vector<Share>& sources, const JobState& state);
    [[nodiscard]] Result<> take_over(ProcId keeper, Version version);
    [[nodiscard]] Result<> fetch_front_from(const std::vector<Share>& sources, const JobState& state,
                                            std::size_t heap_bytes);
    [[nodiscard]] std::optional<std::pair<ProcId, Error>> show_holders(const JobState& state);
    [[nodiscard]] Outcome must_be_gone(ProcId process, const Error& error) noexcept;
    void end_the_dead_here(const JobState& state);
    void free_what_is_left();
    void save_library() noexcept;
    void save_library_of_still() noexcept;
    [[nodiscard]] Protector::KeeperLocation location_of(ProcId keeper) const;
    [[nodiscard]] PeId me() const noexcept { return o_.me->get(); }

    Options o_;
    std::string why_lost_;
    bool has_dropped_ = false;  // drop_unreadable() did, and copies were not mended yet
    JobState recovered_from_;
    Version committed_still_ = kNoVersion;  // by update_local_copy(), and nobody has been told yet
    std::uint32_t still_init_calls_ = 0;    // InitCalls::count() as of take_still()
    bool has_moved_ = false;                // there was a recovery, and what it has left behind was not looked for yet
};

}  // namespace sft
