// The copies that one process has to do with: its local copy, its shadow at its keeper, and the shadows that it
// keeps for others.
//
//   local copy   what the PE rolls back from without asking anybody (mode double_copy); private memory, or its node's
//   shadow       two slots at the keeper, version v in slot v mod 2, so v stays whole while v + 1 is written;
//                the owner maps the keeper's memory and writes there itself, or writes through the network if the
//                keeper is on another node ("far"); the keeper need not take part. Of far shadows there may be several,
//                each at another keeper, all of the same versions
//   own store    a memory file with room for the shadow of every PE of the job; only what is used costs memory. In a
//                job of several PEs all processes of a node have one together, and a shadow is in one place there,
//                whoever keeps it; the local copies lie there as well
//
// Ownership: a store of its own belongs to the keeper's process. When that process dies its memory stays as long as an
// owner has it mapped, which is how a PE in mode single_copy can still roll back after its keeper's death. The common
// one stays as long as any process of the node lives (keep_on_node). A far shadow is reached through its keeper, and
// when that is dead through others of its node, whom the owner is told of. In mode single_copy the owner has nothing to
// go back to until then, and says so in roll_back().
//
// A near shadow: of the slot that replicate() writes it is known in which blocks it may have differed from the local
// copy before (slot_differs_), so with what it has written there is all in which live memory differs from the local
// copy. What is compared once is not compared again.
//
// What is sent to a far shadow: replicate() compares live memory with the local copy, and knows for each slot in which
// blocks it may differ from the local copy (slot_differs_); see image.hpp. What it has found serves
// update_local_copy() as well.
//
// Damage: the owner, while it lives, is the only one who writes either copy, so it mends each from the other (equal
// version, equal contents): when it rolls back, in mend(), and in the background (scrubber.hpp). A substitute has both
// if its node holds them (take_over), else the shadow alone, because its predecessor's local copy went with the
// predecessor; if that is bad the version is lost.
//
// Threads: the protocols call from the application's thread, the scrubber from its own. A mutex keeps them apart; the
// scrubber lets go of it after each batch and does not take it again while somebody waits, so that a checkpoint waits
// for one batch at most (of a far shadow, that takes as long as the network needs to bring it).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backup/change_tracker.hpp"
#include "backup/far_shadow.hpp"
#include "backup/image.hpp"
#include "backup/parity_shadow.hpp"
#include "backup/still_state.hpp"
#include "backup/version_store.hpp"
#include "base/assert.hpp"
#include "base/config.hpp"
#include "base/ids.hpp"
#include "base/mutex.hpp"
#include "base/process_watch.hpp"
#include "base/result.hpp"
#include "symheap/segment.hpp"

namespace sft {

class BackupStore {
public:
    // Where a keeper's store can be opened: on this node through its process, else through the network.
    struct KeeperLocation {
        std::int32_t pid = 0;
        std::uint64_t start_time = 0;
        int store_fd = -1;
        int node_file = -1;  // not -1: memory of this node, which this process has open; what is not far is there
        std::size_t local_copies = 0;  // where the local copies begin there
        ProcId process = kNoProc;
        Network* network = nullptr;  // null: on this node
        StoreWire* wire = nullptr;   // in place of the network, for tests, which keep it
        [[nodiscard]] bool is_far() const noexcept { return network != nullptr || wire != nullptr; }
    };

    [[nodiscard]] Result<> create(BackupMode mode, const LiveState& live, std::int32_t n_pes);
    // The shadow of a PE: two slots.
    [[nodiscard]] static std::size_t room_bytes(const LiveState& live) noexcept { return 2 * Image::bytes_for(live); }
    // Memory of the node, with room for the shadows of all PEs, and from `local_copies` on for their local copies, and
    // from `parity` on for their places there: all is there from now on instead of in each process. Before
    // use_keeper(). file: outlives this. end: of all that others may read and write.
    struct OnNode {
        std::size_t local_copies = 0;
        std::size_t parity = 0;
        std::size_t end = 0;
        std::size_t heaps = 0;       // where the heaps of PEs begin, with parity; each takes
        std::size_t heap_bytes = 0;  // so much
        std::size_t heaps_end = 0;
    };
    void keep_on_node(int file, OnNode places) noexcept;
    BackupStore();
    ~BackupStore();
    [[nodiscard]] BackupMode mode() const noexcept { return mode_; }
    // For KeeperLocation: that memory; -1: there is none.
    [[nodiscard]] int node_file() const noexcept { return node_file_; }
    [[nodiscard]] std::size_t local_copies() const noexcept { return places_.local_copies; }
    // A substitute, with the local copy that its predecessor may have left on this node: from that if it holds the
    // version, mended from the shadow, else from the shadow, wherever that is. As roll_back(). REQUIRES: use_keeper,
    // node_file.
    [[nodiscard]] bool take_over(Version version, const LiveState& live);
    // Since the last use_keeper(): a far keeper was found dead. So what could not be had may be had elsewhere.
    [[nodiscard]] bool has_lost_keeper() const;
    // Not if it has to be made anew.
    [[nodiscard]] bool has_local_copy_of(Version version) const;
    // Lets processes of other nodes write and read what they keep here. Until release(), which the network outlives.
    [[nodiscard]] Result<> serve(Network& network, const LiveState& live);
    void release() noexcept;
    // From the first version on; both outlive this. is_checked: what the tracker does not name is compared as well.
    void track_changes_by(ChangeTracker& tracker, bool is_checked = false) noexcept;
    void give_versions_to(VersionStore& versions) noexcept;
    [[nodiscard]] int fd() const noexcept { return kept_.fd(); }
    // The memory file with the shadows that are kept here.
    [[nodiscard]] const Segment& segment() const noexcept { return kept_; }

    // Opens the room for `pe`'s shadow at a keeper, whatever was used before; what the old keeper has stays there.
    // Unless it is opened: `trouble` says what failed and why.
    [[nodiscard]] Reach use_keeper(const KeeperLocation& location, PeId pe, const LiveState& live, Trouble& trouble);
    // The same for a far keeper besides those that are used, which are all far. One that is used already is opened
    // anew.
    [[nodiscard]] Reach add_keeper(const KeeperLocation& location, PeId pe, const LiveState& live, Trouble& trouble);
    // Of the far keepers only these stay in use; those that have died do not, nor does a near one beside which there
    // are to be others.
    void keep_only(std::span<const ProcId> keepers) noexcept;
    void forget_keeper() noexcept;

    // keeper_gone: a far keeper has died, and its shadow is lost; which one.
    struct Replicated : ImageStats {
        bool keeper_gone = false;
        ProcId gone = kNoProc;
    };
    // only: to that far keeper; the others have the version.
    // source: of a near shadow, where the heap is read from.
    Replicated replicate(Version version, const LiveState& live, ProcId only = kNoProc,
                         BlockSource* source = nullptr) noexcept;
    // Live memory of now becomes what replicate() and update_local_copy() are given for this version.
    void take_still(Version version, const LiveState& live, StillState& still);
    // A tracker looks now, and not in replicate(), which goes to a near shadow. Whether it is worth it to hold up
    // writers of these blocks (null: of all) until that has been done.
    struct Hold {
        bool is_worth_it = false;
        const BlockSet* only = nullptr;
    };
    [[nodiscard]] Hold begin_in_shadow(Version version, const LiveState& live);
    // Also says that `version` is the committed one, which is what scrubbing checks.
    // from_shadow: from the near shadow, since live memory has gone on.
    ImageStats update_local_copy(Version version, const LiveState& live, bool from_shadow = false) noexcept;
    // Its shadow is on this node: so it can be.
    [[nodiscard]] bool has_near_shadow() const;
    // From the local copy, mended from the shadow where it is bad, or else from the shadow. False: neither has all;
    // explanation() says what is missing.
    [[nodiscard]] bool roll_back(Version version, const LiveState& live);

    enum class Fetched { done, keeper_gone, cannot_be_opened, corrupt };
    // `pe`'s state of `version`, from the store of its keeper, into the live memory of this process. `trouble`, if
    // given, gets the explanation of anything but `done`.
    [[nodiscard]] static Fetched fetch(const KeeperLocation& location, PeId pe, Version version, const LiveState& live,
                                       Trouble* trouble = nullptr);
    // Only what Image::load_front loads.
    [[nodiscard]] static Fetched fetch_front(const KeeperLocation& location, PeId pe, Version version,
                                             const LiveState& live, std::size_t heap_bytes, Trouble* trouble = nullptr);

    // ---- parity (store_parity.cpp): instead of a keeper, where the job has it ----

    // The most units that parity of a stripe takes, in any group; 0: there is none. Before create().
    void keep_parity(std::int32_t most) noexcept { most_parity_ = most; }
    // Of the place of a PE, in memory of the node.
    [[nodiscard]] std::size_t parity_bytes(const LiveState& live) const noexcept;
    struct GroupMember {
        PeId pe = kNoPe;
        KeeperLocation location;  // of this process's PE: where its local copy is, if that is on another node
        bool is_lost = false;
    };
    // This process is `pe`, at that position of its group. Others are reached as they are told here from now on.
    // await: waits for a moment, or for the death of that process; whether that has died.
    [[nodiscard]] Reach use_group(std::span<const GroupMember> members, std::int32_t position, std::int32_t n_parity,
                                  const LiveState& live, std::function<bool(ProcId)> await, Trouble& trouble);
    [[nodiscard]] bool is_in_group() const noexcept;
    // Checkpoints and recoveries, in the order of time: what is sent from now on is of that one.
    void begin_round(std::uint32_t round) noexcept;
    // Own live state <- local copy of `version`, which is first brought back, from what this node has and from the
    // group. False: explanation() says what is missing, or has_lost_keeper().
    [[nodiscard]] bool bring_back(Version version, const LiveState& live);
    // The same for the first `heap_bytes` of the heap and the library's state only; but the local copy is whole then,
    // which the heap of the one before may be needed for.
    [[nodiscard]] bool bring_front_back(Version version, const LiveState& live, std::size_t heap_bytes);
    // What the process that was `pe` has left on this node is made whole, as far as it is here.
    void mend_left_copy(PeId pe, Version version, const LiveState& live);
    // After a restore of `version`: what this node has of a later one goes, and the shares of members at these
    // positions are made anew. False: somebody is dead, or refuses it.
    [[nodiscard]] bool make_anew(Version version, const std::vector<std::int32_t>& positions, const LiveState& live);
    // Who was found dead in the last call; kNoProc: nobody.
    [[nodiscard]] ProcId lost_member() const;
    // Empty, or what the application has done to its memory in the middle of the last checkpoint.
    [[nodiscard]] std::string complaint() const;

    // ---- integrity ----

    // Why the last roll_back() or mend() failed: one clause that names the PE, the copy and the block.
    [[nodiscard]] std::string explanation() const;
    // Checks both copies of the committed version completely and mends each from the other. True: all is well now, or
    // nothing is committed yet.
    bool mend(const LiveState& live);

    // The same in pieces. One step checks up to `blocks` existing blocks of each copy, from where the last one ended.
    struct ScrubPlace {
        std::size_t next = 0;
        Version described = kNoVersion;  // header and table of both copies of this version have been checked
    };
    enum class Scrubbed { more, end, busy };  // busy: a protocol has or wants the copies; nothing was done
    [[nodiscard]] Scrubbed scrub(ScrubPlace& place, std::size_t blocks, const LiveState& live);

    // ---- pages ----

    // Touches what the next checkpoints are going to write on this node and have not written yet, up to so many blocks,
    // from where the last call ended. Contents stay.
    enum class Round { next, later };  // what the next checkpoint writes, and what the one after it does
    struct TouchPlace {
        Round round = Round::next;
        std::size_t next = 0;
        std::size_t end = 0;  // of the run of blocks that it is in
    };
    // skipped: these had been touched before; busy: as of scrub(); refused: the system has no pages, or does not know
    // the call.
    enum class Touched { more, skipped, end, busy, refused };
    [[nodiscard]] Touched touch(TouchPlace& place, std::size_t blocks, const LiveState& live);
    // While this stays the same, and is known, nothing has come that a look which went to the end has not seen, but for
    // pages that have come in place of as many that went: those are left to the next look, or the checkpoint. Costs two
    // system calls, and no lock that others wait for, which a look does.
    struct TouchSign {
        std::int64_t heap = -1;  // memory of the file that it is in, also others' there; -1: not known
        std::int64_t globals = -1;
        std::uint32_t places = 0;  // how many times the copies have had other places

        [[nodiscard]] bool is_known() const noexcept { return heap >= 0 && globals >= 0; }
        friend bool operator==(const TouchSign&, const TouchSign&) = default;
    };
    [[nodiscard]] TouchSign touch_sign(const LiveState& live) const noexcept;

    // ---- room ----

    // Bytes of this node's memory, by what exists of the live state now.
    struct Room {
        std::size_t used = 0;  // by it and its copies
        std::size_t next = 0;  // that the next checkpoint takes in addition
        std::size_t most = 0;  // that the state and its copies will ever take in addition
    };
    // Takes as long as it takes to ask for all runs of pages. still: what belongs to it as well, if there is any;
    // is_held: the program may change all of the heap while it
    // is copied.
    [[nodiscard]] Room room(const LiveState& live, const StillState* still = nullptr, bool is_held = false) const;

    // Since the start of the process, from any thread.
    struct Counters {
        std::uint64_t checked = 0;     // blocks
        std::uint64_t bad = 0;         // of them; header and table of a copy count as one block
        std::uint64_t repaired = 0;    // of the bad ones
        std::uint64_t replicated = 0;  // bytes that differed and were written into shadows
    };
    [[nodiscard]] Counters counters() const noexcept;

    enum class Copy { local, shadow };
    // For the fault laboratory: flips one bit that matters in a copy of the committed version and says which; empty:
    // there is no such copy.
    std::string flip_bit(Copy copy, std::uint64_t seed, const LiveState& live);

private:
    [[nodiscard]] static Image slot(std::byte* room, Version version, const LiveState& live) noexcept {
        SFT_ASSERT(room != nullptr);
        return {room + (version.value() % 2) * Image::bytes_for(live), live};
    }

    template <class Load>
    [[nodiscard]] static Fetched with_shadow(const KeeperLocation& location, PeId pe, Version version,
                                             const LiveState& live, Trouble* trouble, Load&& load);
    [[nodiscard]] static Reach show_room(Window& window, const KeeperLocation& location, PeId pe, const LiveState& live,
                                         Trouble& trouble);

    // A shadow at a keeper on another node.
    struct Far {
        std::unique_ptr<FarShadow> shadow;
        Version versions[2] = {kNoVersion, kNoVersion};  // as shadow_versions_
        BlockSet differs[2] = {};                        // as slot_differs_, of slots that this process has written;
        bool is_written[2] = {};                         // of others only checksums tell
    };

    // The copies, as far as they are expected to hold the committed version.
    struct Copies {
        Image local;
        bool has_local = false;
        std::vector<Image> shadows;
        std::vector<Image> group;  // what can be computed, of the local copy only; not looked at on its own

        static constexpr std::size_t kLocal = SIZE_MAX;
        // The copies from which that one can be mended; shadow: its number, or kLocal.
        [[nodiscard]] std::vector<Image> others_of(std::size_t shadow) const;
    };
    [[nodiscard]] Copies copies(const LiveState& live) const noexcept SFT_REQUIRES(mutex_);
    [[nodiscard]] bool has_local_copy() const noexcept { return mode_ == BackupMode::double_copy; }
    // What may differ between live memory, of which copies are made as `now`, and a copy of `then`. Null: not known.
    [[nodiscard]] const BlockSet* may_differ(Version then, Version now) const SFT_REQUIRES(mutex_);
    [[nodiscard]] ImageStats replicate_near(Version version, const LiveState& live, BlockSource* source) noexcept
        SFT_REQUIRES(mutex_);
    void note_local_copy(Version version, const LiveState& live, const BlockSet& changed, bool has_followed) noexcept
        SFT_REQUIRES(mutex_);
    void forget_differences() noexcept SFT_REQUIRES(mutex_);
    [[nodiscard]] Image shadow_slot(Version version, const LiveState& live) const noexcept SFT_REQUIRES(mutex_);
    [[nodiscard]] static Reach open_far(FarShadow& far, const KeeperLocation& location, PeId pe, const LiveState& live,
                                        Trouble& trouble);
    [[nodiscard]] Reach show_local_copy(PeId pe, const LiveState& live, Trouble& trouble) SFT_REQUIRES(mutex_);
    [[nodiscard]] bool load_copy(Version version, const LiveState& live, bool has_local) SFT_REQUIRES(mutex_);
    [[nodiscard]] Reach use_far(const KeeperLocation& location, PeId pe, const LiveState& live, Trouble& trouble)
        SFT_REQUIRES(mutex_);
    [[nodiscard]] ImageStats replicate_far(Far& far, Version version, const LiveState& live) noexcept
        SFT_REQUIRES(mutex_);
    void look_for_dead_keepers() noexcept SFT_REQUIRES(mutex_);
    [[nodiscard]] std::vector<Image> readable_shadows(Version version, const LiveState& live) SFT_REQUIRES(mutex_);
    [[nodiscard]] bool is_far() const noexcept SFT_REQUIRES(mutex_) { return !fars_.empty() || parity_ != nullptr; }
    class Folder;
    void serve_parity(Network& network, const LiveState& live) SFT_REQUIRES(mutex_);
    void replicate_to_group(Version version, const LiveState& live, Replicated& replicated) noexcept
        SFT_REQUIRES(mutex_);
    void note_group_gone() SFT_REQUIRES(mutex_);
    void drop_parity() noexcept SFT_REQUIRES(mutex_);
    [[nodiscard]] bool bring_local_back(Version version, const LiveState& live) SFT_REQUIRES(mutex_);
    void compare_with_parity(const Image& local, const BlockSet& changed, Version version) SFT_REQUIRES(mutex_);
    [[nodiscard]] std::string lost_with_keeper(Version version) const SFT_REQUIRES(mutex_);
    [[nodiscard]] Findings mend_front(Image& image, const Image* other) const SFT_REQUIRES(mutex_);
    void describe_once(ScrubPlace& place, const Copies& all) SFT_REQUIRES(mutex_);
    [[nodiscard]] static std::string tell(PeId pe, const Findings& findings, const Image& image,
                                          const std::string& where);
    // Counts what was found; false, with an explanation, if something is bad for good.
    bool take_in(const Findings& findings, const Image& image, const std::string& where) SFT_REQUIRES(mutex_);

    // Held by a protocol while it uses the copies.
    class Use;
    std::string flip_bit_here(Copy copy, std::uint64_t seed, const LiveState& live) SFT_REQUIRES(mutex_);

    mutable Mutex mutex_{MutexRank::store};
    mutable std::atomic<int> wanted_{0};        // protocols that have or wait for the mutex
    mutable std::atomic<pthread_t> holder_{0};  // the thread of the one that has it
    BackupMode mode_ = BackupMode::none;        // constant from create() on
    std::int32_t most_parity_ = 0;              // the same
    std::unique_ptr<Folder> folder_;            // while it is served
    std::unique_ptr<ParityShadow> parity_ SFT_GUARDED_BY(mutex_);
    std::uint32_t round_ SFT_GUARDED_BY(mutex_) = 0;
    std::string complaint_ SFT_GUARDED_BY(mutex_);
    ChangeTracker* tracker_ SFT_GUARDED_BY(mutex_) = nullptr;  // null: everything is compared
    bool checks_tracker_ SFT_GUARDED_BY(mutex_) = false;
    VersionStore* versions_ SFT_GUARDED_BY(mutex_) = nullptr;  // null: copies are all there is
    Segment kept_;                                             // shadows kept for others
    std::size_t kept_bytes_ = 0;                               // of all of them
    int node_file_ = -1;                                       // or here
    OnNode places_;                                            // where things begin there
    bool is_local_shown_ SFT_GUARDED_BY(mutex_) = false;       // the place of pe_ there, in local_
    bool is_shadow_shown_ SFT_GUARDED_BY(mutex_) = false;      // the same in shadow_
    Window served_memory_ SFT_GUARDED_BY(mutex_);              // what others may read and write there
    Network* served_ SFT_GUARDED_BY(mutex_) = nullptr;
    Window shadow_ SFT_GUARDED_BY(mutex_);          // own shadow, in the keeper's memory
    std::vector<Far> fars_ SFT_GUARDED_BY(mutex_);  // or they are on other nodes; some of the keepers may have died
    ProcId lost_keeper_ SFT_GUARDED_BY(mutex_) = kNoProc;  // the last far one that was found dead
    bool has_shadow_ SFT_GUARDED_BY(mutex_) = false;
    bool shadow_readable_ SFT_GUARDED_BY(mutex_) = false;  // it stays so when the keeper has died
    Window local_ SFT_GUARDED_BY(mutex_);                  // private memory

    PeId pe_ SFT_GUARDED_BY(mutex_) = kNoPe;                     // whose copies these are
    Version committed_ SFT_GUARDED_BY(mutex_) = kNoVersion;      // what both copies should hold
    Version local_version_ SFT_GUARDED_BY(mutex_) = kNoVersion;  // as this process has updated it
    Version still_version_ SFT_GUARDED_BY(mutex_) = kNoVersion;  // of the last still, if nothing was rolled back since:
                                                                 // its number may be used again for something else
    Version shadow_versions_[2] SFT_GUARDED_BY(
        mutex_) = {};                                  // by slot: written by this process, or found at a near keeper
    BlockSet slot_differs_[2] SFT_GUARDED_BY(mutex_);  // by slot: blocks in which it may differ from the local copy
    // That is so while the slot holds the one version and the local copy the other. Of a near shadow.
    struct Fit {
        Version slot = kNoVersion;
        Version local = kNoVersion;
    };
    Fit fits_[2] SFT_GUARDED_BY(mutex_);
    // As a near slot was written; no holes have been made in live memory since, if there was no rollback either and
    // heap calls are as many.
    struct Present {
        Version slot = kNoVersion;
        std::uint64_t heap_calls = 0;
    };
    Present present_[2] SFT_GUARDED_BY(mutex_);
    BlockSet changed_ SFT_GUARDED_BY(mutex_);  // blocks in which live memory differs from the local copy,
    Version changed_in_ SFT_GUARDED_BY(mutex_) =
        kNoVersion;                                          // as this version was replicated, or kNoVersion: not known
    std::size_t existing_bytes_ SFT_GUARDED_BY(mutex_) = 0;  // of live memory, as that was replicated to a near shadow
    BlockSet updated_ SFT_GUARDED_BY(mutex_);                // blocks of the local copy, in the last update of it
    BlockSet touched_[2] SFT_GUARDED_BY(mutex_);             // by slot; the local copy with each
    std::atomic<std::uint32_t> touch_places_{0};             // how many times they have been forgotten
    std::string explanation_ SFT_GUARDED_BY(mutex_);
    std::atomic<std::uint64_t> checked_{0};
    std::atomic<std::uint64_t> bad_{0};
    std::atomic<std::uint64_t> repaired_{0};
    std::atomic<std::uint64_t> replicated_{0};
};

}  // namespace sft
