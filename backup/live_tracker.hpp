// Which blocks of a PE's live memory have changed, without comparing them: what this process has written shows in its
// page tables (symheap/written_pages.hpp), what others on the node have written they have noted
// (transport/shm/change_notes.hpp). Blocks of the library's state always count.
//
// Fault model: the system may refuse a look at any time. Then nothing is known from there on, for good, and everything
// is compared again. Writers that die before they have noted what they wrote: change_notes.hpp.
//
// Invariant: for every version in `since_`, each block that has been written since the beginning of begin(version) is
// in its set, or will be found by the next look at page tables and notes. A version whose copies were not committed
// stays where it is: sets only grow. After a rollback, what lies behind the version is forgotten; what is written back
// counts as any write.
//
// When it pays. The first write to a page behind a look costs a fault, from under one microsecond to forty, depending
// on the machine; a page that is not written costs the comparison with two copies otherwise. So pages are watched while
// few enough of them change for that cost, as it was measured by WrittenPages::probe(); until then, and while more do,
// comparing tells how many. A look at the page tables of a heap that is hardly used takes as long as half a megabyte
// that is compared, so with less than that nothing is watched.
//
// Threads: as of ChangeTracker.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backup/change_tracker.hpp"
#include "symheap/live_state.hpp"
#include "symheap/written_pages.hpp"
#include "transport/shm/change_notes.hpp"

namespace sft {

class LiveTracker final : public ChangeTracker {
public:
    // fault_ns: of WrittenPages::probe(); 0: pages are always watched. Both outlive this; pages and notes of `live`
    // stay where they are from the first checkpoint on. n_watching, if given, counts those who need notes: from the
    // checkpoint on behind that in which it has become larger.
    LiveTracker(const LiveState& live, const ChangeNotes& notes, std::int64_t fault_ns,
                std::atomic<std::uint32_t>* n_watching = nullptr);
    ~LiveTracker() override { set_on(false); }
    LiveTracker(const LiveTracker&) = delete;
    LiveTracker& operator=(const LiveTracker&) = delete;

    void begin(Version version) override;
    void restart(Version version) override;
    [[nodiscard]] const BlockSet* changed_since(Version version) override;
    void heard(std::size_t stored_bytes, std::size_t changed_bytes) override;

    // Pages are watched.
    [[nodiscard]] bool is_on() const noexcept { return is_on_; }
    // Why they will not be any more; empty: the system has not refused it.
    [[nodiscard]] const std::string& refusal() const noexcept { return refusal_; }

private:
    struct Interval {
        Version since;
        BlockSet changed;
    };
    [[nodiscard]] Result<> start();
    [[nodiscard]] Result<> look(BlockSet& changed, std::size_t& written_pages);
    void look_at_exclusions(BlockSet& changed);
    void set_on(bool is_on) noexcept;
    [[nodiscard]] Result<> look_at(const WrittenPages::Memory& memory, std::size_t first_block, BlockSet& changed,
                                   std::size_t& written_pages);

    const LiveState& live_;
    const ChangeNotes notes_;
    std::atomic<std::uint32_t>* const n_watching_;
    const double most_changed_;  // of what exists: with more, comparing is cheaper
    WrittenPages pages_;
    std::string refusal_;
    bool is_on_ = false;
    bool is_first_look_ = false;
    unsigned n_low_ = 0;      // versions one after the other of which little had changed
    unsigned n_low_min_ = 1;  // that many before pages are watched
    std::size_t stored_bytes_ = 0;
    BlockSet noted_;       // by the last look
    Exclusions excluded_;  // as of the last look
    std::vector<Interval> since_;
};

}  // namespace sft
