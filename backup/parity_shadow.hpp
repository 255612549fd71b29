// What a group of PEs has of the state of one of them, as its owner sees it: parity at other members, which it brings
// up to date, and from which, with the local copies of others, it computes what is lost.
//
// To an image (image.hpp) it is a far one: bytes at offsets. What is written there goes as a change, against the local
// copy, to the m members that keep parity of that piece; what is read is computed. There is one content only, that of
// the committed version; the next one is made beside it (parity_place.hpp). Header and table of each version lie in the
// owner's own place, which is the mirror of the far image, and go into parity byte by byte.
//
// A checkpoint of version v + 1: begin() makes the mirror equal to that of v; Image::ship() writes what differs from
// the local copy; finish() adds what is gone, and the header. Nothing else changes before the decision. Then the local
// copy follows (BackupStore::update_local_copy), from live memory for the heap, and from the stash for what other
// threads may have written meanwhile: it has to have exactly what went into parity, since changes are against it and
// others compute with it. heap_differs() says if a thread of the program has written to the heap in the middle of it.
//
// A PE whose process died while its local copy followed: what of it is right is told by the checksums in the front of
// v + 1, which was complete before the decision, and the rest is in the heap of the dead, or in the stash (mend_torn).
// What is in none of them, and everything of a PE whose node is lost, is computed (bring_back). A PE that goes on
// elsewhere though its node lives reads what it has left there, which a neighbour has made whole. A member whose local
// copy is torn still is waited for.
//
// Fault model: as of far_image.hpp; further, another member's local copy or parity may have flipped bits. A unit of a
// local copy counts only if it fits its checksum, and what is computed only if it fits the owner's; with m > 1, what
// does not is computed from other pieces.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backup/far_image.hpp"
#include "backup/image.hpp"
#include "backup/parity_code.hpp"
#include "backup/parity_place.hpp"
#include "base/ids.hpp"

namespace sft {

class ParityShadow final : public StoreWire {
public:
    // Of the group, in the order of positions.
    struct Member {
        PeId pe = kNoPe;
        ProcId process = kNoProc;  // who can give what it has
        bool is_lost = false;      // nobody can
        // Null: on this node, or lost. Of the owner: the local copy that it had on another node may be there.
        StoreWire* wire = nullptr;
        std::unique_ptr<StoreWire> own_wire = {};  // if it is this one's
    };
    // Memory of the node, as this process has it mapped: offsets in it are those in every store of the job.
    struct NodeStore {
        std::byte* memory = nullptr;
        int file = -1;
        std::size_t local_copies = 0;
        std::size_t image_bytes = 0;
        std::size_t places = 0;
    };
    ParityShadow(const LiveState& live, std::int32_t most_parity, std::int32_t n_parity, std::int32_t position,
                 std::vector<Member> members, std::function<bool(ProcId)> await, const NodeStore& store);

    // The far image of `version`.
    [[nodiscard]] Image image(Version version);
    [[nodiscard]] bool gone() const noexcept { return gone_ != kNoProc || far_->gone(); }
    // Who was found dead; kNoProc: nobody.
    [[nodiscard]] ProcId who_is_gone() const noexcept { return gone_; }
    [[nodiscard]] const ParityCode& code() const noexcept { return code_; }

    // ---- a checkpoint ----

    // base: the version of `local`; kNoVersion: there is none.
    void begin(ParityBuild build, Version base, const Image* local);
    // After ship(). False: a member is dead, or does not take it.
    [[nodiscard]] bool finish();
    // What went into parity of globals and the library's state; at their offsets in the image.
    [[nodiscard]] const std::byte* stash() const noexcept { return own_place() + layout_.stash; }
    // Of these blocks of the local copy.
    [[nodiscard]] bool heap_differs(const Image& local, const BlockSet& changed, Version version);

    // ---- a restart ----

    // local: in memory of this node, of whatever it holds. It holds `version` afterwards, but for blocks that nobody
    // has. False: a member has died, or header and table are lost.
    [[nodiscard]] bool bring_back(Version version, Image& local);
    // What the process that was `pe` has left here is made whole, as far as it is here, for others to compute with.
    void mend_torn(PeId pe, const std::byte* heap, Version version) const;
    // What this node has of a later version of others was not committed.
    void drop_after(Version version) noexcept;
    // The parity of these members, which lies elsewhere now, made anew: what there has to be of `local`. False: as of
    // finish().
    [[nodiscard]] bool make_anew(ParityBuild build, const std::vector<std::int32_t>& positions, const Image& local);

    // ---- StoreWire: for the image ----

    void write(std::size_t offset, const void* source, std::size_t bytes) override;
    void read(std::size_t offset, void* dest, std::size_t bytes) override;
    [[nodiscard]] bool flush() override;
    [[nodiscard]] std::size_t piece_bytes() const noexcept override { return 4 * kUnitBytes; }
    void drain_to(std::size_t /*bytes*/) override {}

private:
    static constexpr std::size_t kHeadBytes = 64;  // of a header; what else is in its page is zero
    struct Wanted {
        std::size_t unit = 0;
        std::size_t offset = 0;
        std::size_t bytes = 0;
        std::byte* dest = nullptr;
    };
    // A piece of a stripe, on its way.
    struct Source {
        std::int32_t member = -1;
        std::int32_t parity = -1;
        std::size_t unit = 0;             // of the member, or the parity unit's number
        const std::byte* data = nullptr;  // null: zeros
        std::size_t buffer = SIZE_MAX;    // read to there
    };
    // What is known of another member when something is computed.
    struct Known {
        bool is_left = false;
        std::vector<std::byte> front;  // header and table, if it is on another node
        Image image;                   // of that, or of the front in memory of this node
        std::vector<std::uint64_t> stamps;
    };
    struct Stripe;

    [[nodiscard]] std::byte* place_of(PeId pe) const noexcept {
        return store_.memory + store_.places + pe.index() * layout_.bytes;
    }
    [[nodiscard]] std::byte* own_place() const noexcept { return place_of(members_[self()].pe); }
    [[nodiscard]] std::size_t self() const noexcept { return static_cast<std::size_t>(position_); }
    [[nodiscard]] std::byte* front(Version version) const noexcept { return own_place() + layout_.front(version); }

    // parity_shadow.cpp
    void send_change(std::size_t unit, std::size_t at, const std::byte* now, const std::byte* before,
                     std::size_t bytes);
    void send_to(std::int32_t keeper, std::size_t kept, std::size_t at, const std::byte* data, std::size_t bytes);
    void send(std::size_t unit, std::int32_t parity, std::size_t at, const std::byte* data, std::size_t bytes);
    [[nodiscard]] std::byte* room(std::size_t bytes);
    [[nodiscard]] bool flush_folds();
    void copy_front(Version from, Version to);
    [[nodiscard]] const std::byte* base_of(std::size_t unit);
    void mend_base(std::size_t block);

    // parity_shadow_read.cpp
    [[nodiscard]] bool bring_front_back(Version version);
    [[nodiscard]] bool take_front_from_before(Version version);
    void bring_from_before(Version version, Image& local);
    void fill_front(Version version, std::size_t at, const std::byte* data, std::size_t bytes) const noexcept;
    void know_others(Version version);
    void know(std::int32_t position, Version version);
    [[nodiscard]] bool flush_wires();
    void compute(std::vector<Wanted> wanted);
    void compute_some(const std::vector<std::size_t>& units);
    void add_sources(Stripe& stripe);
    void ask_for(Source& source);
    [[nodiscard]] const std::byte* data_of(const Source& source) const noexcept;
    [[nodiscard]] bool is_good(const Source& source) const noexcept;
    void wait_for(std::int32_t member);
    void settle(Stripe& stripe);
    [[nodiscard]] bool fits(std::size_t unit, const std::byte* data) const noexcept;

    ParityUnits units_;
    ParityLayout layout_;
    ParityCode code_;
    std::int32_t position_;
    std::vector<Member> members_;
    std::function<bool(ProcId)> await_;  // BackupStore::use_group()
    NodeStore store_;
    std::optional<FarImage> far_;
    const LiveState& live_;
    ProcId gone_ = kNoProc;
    bool is_refused_ = false;

    // A build.
    ParityBuild build_;
    bool is_building_ = false;
    Version base_ = kNoVersion;
    const Image* local_ = nullptr;  // as of base_
    Image base_front_;
    std::vector<bool> has_folds_;     // by position: something was sent since the last flush
    std::vector<std::byte> changes_;  // under way
    std::size_t changes_used_ = 0;

    // A computation.
    Version read_version_ = kNoVersion;
    Version known_version_ = kNoVersion;
    std::vector<Known> known_;
    std::vector<Wanted> wanted_;
    std::vector<bool> has_reads_;
    std::vector<std::byte> buffers_;
    std::size_t n_buffers_ = 0;
    std::vector<std::byte> units_computed_;
};

}  // namespace sft
