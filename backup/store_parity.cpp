// The part of BackupStore that deals with parity in a group, instead of a keeper.
#include <algorithm>
#include <utility>

#include "backup/image_layout.hpp"
#include "backup/store_use.hpp"
#include "base/assert.hpp"
#include "base/pages.hpp"
#include "base/report.hpp"
#include "transport/net/network.hpp"

namespace sft {

// What others fold into the places on this node. Constant while it is served.
class BackupStore::Folder final : public StoreFolder {
public:
    Folder(const LiveState& live, std::int32_t most_parity, std::byte* memory, int file, OnNode places)
        : layout_(ParityUnits(live), most_parity), memory_(memory), file_(file), places_(places) {}

    [[nodiscard]] bool fold(std::size_t offset, std::uint64_t build, bool is_anew, const std::byte* data,
                            std::size_t bytes) noexcept override {
        if (offset < places_.parity || offset >= places_.end) {
            return false;
        }
        return ParityPlace::fold_at(memory_, layout_, file_, places_.parity, offset, build, is_anew, data, bytes);
    }

private:
    ParityLayout layout_;
    std::byte* memory_;
    int file_;
    OnNode places_;
};

BackupStore::BackupStore() = default;
BackupStore::~BackupStore() = default;

std::size_t BackupStore::parity_bytes(const LiveState& live) const noexcept {
    return most_parity_ == 0 ? 0 : ParityLayout(ParityUnits(live), most_parity_).bytes;
}

void BackupStore::serve_parity(Network& network, const LiveState& live) {
    if (most_parity_ != 0 && node_file_ >= 0) {
        folder_ = std::make_unique<Folder>(live, most_parity_, served_memory_.address(), node_file_, places_);
        network.set_folder(folder_.get());
    }
}

Reach BackupStore::use_group(std::span<const GroupMember> members, std::int32_t position, std::int32_t n_parity,
                             const LiveState& live, std::function<bool(ProcId)> await, Trouble& trouble) {
    const Use use(*this);
    const PeId pe = members[static_cast<std::size_t>(position)].pe;
    SFT_ASSERT(most_parity_ != 0 && has_local_copy() && node_file_ >= 0 && (pe_ == kNoPe || pe_ == pe));
    pe_ = pe;
    has_shadow_ = shadow_readable_ = false;
    parity_.reset();
    fars_.clear();
    lost_keeper_ = kNoProc;
    forget_differences();
    if (const Reach shown = show_local_copy(pe, live, trouble); shown != Reach::opened) {
        return shown;
    }
    if (served_memory_.address() == nullptr) {
        Result<> mapped = served_memory_.reserve(std::max(places_.end, places_.heaps_end));
        if (mapped) {
            mapped = served_memory_.show(node_file_, 0);
        }
        if (!mapped) {
            trouble = {std::move(mapped.error().line), mapped.error().number};
            return Reach::cannot_be_opened;
        }
    }
    std::vector<ParityShadow::Member> all;
    for (const GroupMember& member : members) {
        ParityShadow::Member& other = all.emplace_back();
        other.pe = member.pe;
        other.process = member.location.process;
        other.is_lost = member.is_lost;
        if (!member.is_lost && member.location.is_far()) {
            if (member.location.wire == nullptr) {
                other.own_wire = make_network_wire(*member.location.network, member.location.process);
            }
            other.wire = member.location.wire != nullptr ? member.location.wire : other.own_wire.get();
        }
    }
    parity_ = std::make_unique<ParityShadow>(live, most_parity_, n_parity, position, std::move(all), std::move(await),
                                             ParityShadow::NodeStore{.memory = served_memory_.address(),
                                                                     .file = node_file_,
                                                                     .local_copies = places_.local_copies,
                                                                     .image_bytes = Image::bytes_for(live),
                                                                     .places = places_.parity});
    has_shadow_ = shadow_readable_ = true;
    return Reach::opened;
}

void BackupStore::drop_parity() noexcept {
    parity_.reset();
    folder_.reset();
    round_ = 0;
}

bool BackupStore::is_in_group() const noexcept {
    const Use use(*this);
    return parity_ != nullptr;
}

void BackupStore::begin_round(std::uint32_t round) noexcept {
    const Use use(*this);
    SFT_ASSERT(round >= round_);
    round_ = round;
}

void BackupStore::note_group_gone() {
    if (parity_->gone()) {
        lost_keeper_ = parity_->who_is_gone();
        has_shadow_ = shadow_readable_ = false;
    }
}

void BackupStore::replicate_to_group(Version version, const LiveState& live, Replicated& replicated) noexcept {
    Image local(local_.address(), live);
    const bool has_base = committed_ != kNoVersion;
    SFT_ASSERT(!has_base || local_version_ == committed_);
    if (has_base) {
        static_cast<void>(parity_->bring_back(committed_, local));  // its header or table may have a flipped bit
    }
    parity_->begin({.version = version, .round = round_}, committed_, has_base ? &local : nullptr);
    BlockSet none;
    none.reset(local.blocks());
    Image::Shipping shipping;
    shipping.checks = checks_tracker_;
    if (has_base) {
        shipping.local = &local;
        shipping.slot_differs = &none;
        shipping.live_differs = &changed_;
        shipping.may_differ = may_differ(local_version_, version);
        shipping.written = shipping.may_differ;
    }
    Image image = parity_->image(version);
    static_cast<void>(image.ship(version, live, shipping));
    changed_in_ = has_base ? version : kNoVersion;
    const bool is_there = parity_->finish();
    static_cast<ImageStats&>(replicated) = shipping.stats;
    if (!is_there) {
        replicated.keeper_gone = true;
        replicated.gone = parity_->who_is_gone();
        note_group_gone();
    }
}

bool BackupStore::bring_local_back(Version version, const LiveState& live) {
    SFT_ASSERT(parity_ != nullptr && version != kNoVersion);
    Image local(local_.address(), live);
    if (parity_->bring_back(version, local)) {
        return true;
    }
    note_group_gone();
    explanation_ = lost_keeper_ != kNoProc
                       ? format("process %d, which is needed to compute what is lost, is gone", lost_keeper_.value())
                       : format("too little is left in the group of PE %d to compute its checkpoint %u", pe_.value(),
                                version.value());
    return false;
}

bool BackupStore::bring_back(Version version, const LiveState& live) {
    const Use use(*this);
    if (!bring_local_back(version, live) || !load_copy(version, live, true)) {
        return false;
    }
    if (versions_ != nullptr) {
        versions_->committed(version, Image(local_.address(), live));
    }
    return true;
}

bool BackupStore::bring_front_back(Version version, const LiveState& live, std::size_t heap_bytes) {
    const Use use(*this);
    if (!bring_local_back(version, live)) {
        return false;
    }
    Image local(local_.address(), live);
    const Findings findings = local.load_front(version, live, heap_bytes);
    if (!findings.intact()) {
        explanation_ = tell(pe_, findings, local, "its local copy and in what its group has");
    }
    return findings.intact();
}

void BackupStore::mend_left_copy(PeId pe, Version version, const LiveState& live) {
    const Use use(*this);
    SFT_ASSERT(parity_ != nullptr && pe != pe_);
    const std::size_t own = places_.heaps + pe_.index() * places_.heap_bytes;
    SFT_ASSERT(live.heap_file_offset >= own && live.heap_file_offset < own + places_.heap_bytes);
    const std::size_t heap = places_.heaps + pe.index() * places_.heap_bytes + (live.heap_file_offset - own);
    parity_->mend_torn(pe, served_memory_.address() + heap, version);
}

bool BackupStore::make_anew(Version version, const std::vector<std::int32_t>& positions, const LiveState& live) {
    const Use use(*this);
    SFT_ASSERT(parity_ != nullptr && version == committed_ && local_version_ == version);
    parity_->drop_after(version);
    const Image local(local_.address(), live);
    if (positions.empty() ||
        parity_->make_anew({.version = version, .round = round_, .is_anew = true}, positions, local)) {
        return true;
    }
    note_group_gone();
    return false;
}

ProcId BackupStore::lost_member() const {
    const Use use(*this);
    return lost_keeper_;
}

std::string BackupStore::complaint() const {
    const Use use(*this);
    return complaint_;
}

// Own live state -> local copy, which has to be what went into parity.
void BackupStore::compare_with_parity(const Image& local, const BlockSet& changed, Version version) {
    if (parity_->heap_differs(local, changed, version)) {
        complaint_ = format(
            "PE %d: a thread of the program has written to the symmetric heap while shmem_checkpoint_all was copying "
            "it, "
            "which SHMEM_FT_BACKUP_MODE=xor and rs cannot allow",
            pe_.value());
    }
}

}  // namespace sft
