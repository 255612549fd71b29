// Who keeps the copies of this process's symmetric state, and what the protocols of recovery/ do with them. Who is
// dead, what is committed and what follows is for others to decide: functions take a version and a keeper, and a
// failure says what the keeper, or its copy, is found to be.
//
// Invariants
//  1. keepers() is where replicate() writes. None: nowhere, until the next use_keeper() that succeeds. A near keeper is
//  the only one.
//  2. What goes on in the background has ended before the copies are released.
//
// Threads: that of the protocols, which is another one than the program's while a still is used; stored_bytes() and the
// store's counters any. The scrubber has a thread of its own, which the store's mutex keeps apart.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backup/first_touch.hpp"
#include "backup/held_heap.hpp"
#include "backup/live_tracker.hpp"
#include "backup/scrubber.hpp"
#include "backup/still_state.hpp"
#include "backup/store.hpp"
#include "base/config.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "symheap/live_state.hpp"

namespace sft {

class Protector {
public:
    using KeeperLocation = BackupStore::KeeperLocation;

    // `live`: what copies are made of and loaded into; outlives this, and is there before create().
    explicit Protector(const LiveState& live) noexcept : live_(live) {}
    Protector(const Protector&) = delete;
    Protector& operator=(const Protector&) = delete;

    [[nodiscard]] Result<> create(BackupMode mode, std::int32_t n_pes);
    // Others note what they write to the memory of this process: copies need no comparisons where tracking pays. Before
    // the first version. The failure says what this system lacks; everything is compared then.
    [[nodiscard]] Result<> track_changes(const ChangeNotes& notes, Tracking tracking,
                                         std::atomic<std::uint32_t>& n_watching);
    // What goes on in the background, if the settings say so, once there is a keeper; may_checkpoint: the program does
    // make copies. The failure is a line for the user.
    [[nodiscard]] Result<> start_idle_work(const Config& config, bool may_checkpoint, std::int32_t pes_here);
    void stop_idle_work() noexcept;
    void release() noexcept;

    // ---- a PE that has its state ----

    // The shadow of `pe`, this process's own, is at that process from now on. Failures: gone, cannot_be_opened.
    [[nodiscard]] Result<> use_keeper(const KeeperLocation& keeper, PeId pe);
    // There is one at that process, too; it and those that are used already are on other nodes.
    [[nodiscard]] Result<> add_keeper(const KeeperLocation& keeper, PeId pe);
    [[nodiscard]] const std::vector<ProcId>& keepers() const noexcept { return keepers_; }
    // Own live state -> shadows; nothing if there is no keeper. Failure::refused: a keeper, on another node, does not
    // take the copy, which it does not when it is dead.
    [[nodiscard]] Result<> replicate(Version version);
    // Where copies may be made of what live memory was at one moment, the program going on meanwhile. Not in a group.
    // The failure is a line for the user.
    [[nodiscard]] Result<> prepare_still();
    [[nodiscard]] bool keeps_copies() const noexcept { return store_.mode() != BackupMode::none; }
    // replicate() and update_local_copy() of this version are of live memory as it is now, whatever is written there
    // later, until end_still(). REQUIRES: prepare_still().
    void take_still(Version version);
    // The same with the shadow in the place of a still, if that is on this node: replicate() copies live memory as it
    // is now, or what of it is not held, and calls what tell_when_saved() was given: nobody may write before, nor
    // before all writers know what is held. True: the heap is, which replicate() lets go of as it comes to it.
    // may_hold: writers look there; REQUIRES prepare_to_hold(), with the words of this PE.
    [[nodiscard]] bool has_near_shadow() const { return store_.has_near_shadow(); }
    [[nodiscard]] Result<> prepare_to_hold(const GuardWords& words);
    [[nodiscard]] bool begin_in_shadow(Version version, bool may_hold);
    void tell_when_saved(std::function<void()> saved) { saved_ = std::move(saved); }
    // Nothing is held any more, whether it has come to replicate() or not.
    void let_go() noexcept;
    void end_still() noexcept { source_ = &live_; }
    [[nodiscard]] bool uses_still() const noexcept { return source_ != &live_; }
    // Whom the last failure of replicate() or protect() is about.
    [[nodiscard]] ProcId failed_keeper() const noexcept { return failed_keeper_; }
    // `version` is committed: own live state -> local copy.
    void update_local_copy(Version version);
    // What the copies take on this node.
    [[nodiscard]] BackupStore::Room room() const {
        return store_.room(live_, has_near_shadow() ? nullptr : &still_, held_.is_created());
    }
    // Own live state <- the copies of `version`. The failure says what is missing.
    [[nodiscard]] Result<> roll_back(Version version);

    // After a restore of `version`: what the PE is protected by, where it belongs now.
    struct Shadow {
        KeeperLocation keeper;
        bool is_there = false;  // written by this process, or by the one before, as long as that keeper is the same
    };
    // At least one. Failures as of use_keeper() and replicate().
    [[nodiscard]] Result<> protect(PeId pe, std::span<const Shadow> shadows, Version version);
    // Nobody is there to keep it.
    void protect_by_nobody();

    // ---- a substitute ----

    // Own live state <- shadow of `pe`. Failures: gone, cannot_be_opened; failed: the copy is bad, and there is no
    // other.
    [[nodiscard]] Result<> fetch(const KeeperLocation& keeper, PeId pe, Version version);
    // The same on the node of the one before, whose memory and copies this process has from now on. Failures: as of
    // fetch().
    [[nodiscard]] Result<> take_over(const KeeperLocation& keeper, PeId pe, Version version);
    // Only the first `heap_bytes` of the heap, and the library's state.
    [[nodiscard]] Result<> fetch_front(const KeeperLocation& keeper, PeId pe, Version version, std::size_t heap_bytes);

    // ---- in a group that keeps parity (parity_shadow.hpp), instead of the above ----

    using GroupMember = BackupStore::GroupMember;
    // This process is `members[position]`. keepers() are the others that are not lost.
    [[nodiscard]] Result<> use_group(std::span<const GroupMember> members, std::int32_t position, std::int32_t n_parity,
                                     std::function<bool(ProcId)> await);
    // Own live state <- the copies of `version` on this node, or what the group has. Failures: as of fetch(); of `gone`
    // failed_keeper() says who.
    [[nodiscard]] Result<> bring_back(Version version);
    [[nodiscard]] Result<> bring_front_back(Version version, std::size_t heap_bytes);
    // After a restore of `version`: the shares at these positions are made anew. Failures: gone; refused.
    [[nodiscard]] Result<> protect_in_group(Version version, const std::vector<std::int32_t>& positions,
                                            std::uint32_t round);
    // What replicate() sends belongs to that round (BackupStore::begin_round).
    void begin_round(std::uint32_t round) noexcept { store_.begin_round(round); }

    // ---- for onlookers ----

    [[nodiscard]] const LiveState& live() const noexcept { return live_; }
    // Of the own state, in the last replicate().
    [[nodiscard]] std::uint64_t stored_bytes() const noexcept { return stored_bytes_.load(); }
    // The copies themselves, for those that serve, place, count or damage them.
    [[nodiscard]] BackupStore& store() noexcept { return store_; }
    [[nodiscard]] const BackupStore& store() const noexcept { return store_; }

private:
    [[nodiscard]] Result<> used(Reach reach, ProcId keeper, Trouble trouble);
    [[nodiscard]] Result<> replicate_to(ProcId only, Version version);
    [[nodiscard]] BackupStore::Replicated replicate_line(Version version);
    [[nodiscard]] bool is_in_shadow() const noexcept { return source_ == &line_.state(); }
    [[nodiscard]] Result<> brought_back(bool is_back);

    const LiveState& live_;
    const LiveState* source_ = &live_;  // of copies
    StillState still_;
    LineState line_;
    HeldHeap held_;
    bool holds_ = false;
    std::function<void()> saved_;
    BackupStore store_;
    std::unique_ptr<LiveTracker> tracker_;
    Scrubber scrubber_;
    FirstTouch first_touch_;
    std::vector<ProcId> keepers_;
    ProcId failed_keeper_ = kNoProc;
    std::atomic<std::uint64_t> stored_bytes_{0};
};

}  // namespace sft
