#include "backup/protector.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/faults/fault_points.hpp"

namespace sft {
namespace {

Result<> result_of(BackupStore::Fetched fetched, Trouble trouble) {
    Failure failure = Failure::failed;
    switch (fetched) {
        case BackupStore::Fetched::done: return {};
        case BackupStore::Fetched::keeper_gone: failure = Failure::gone; break;
        case BackupStore::Fetched::cannot_be_opened: failure = Failure::cannot_be_opened; break;
        case BackupStore::Fetched::corrupt: break;
    }
    SFT_ASSERT(!trouble.what.empty());  // it is what the user reads
    return fails(Error{failure, std::move(trouble.what), trouble.error});
}

}  // namespace

Result<> Protector::create(BackupMode mode, std::int32_t n_pes) {
    SFT_ASSERT(n_pes > 0 && live_.heap.bytes != 0);
    if (Result<> done = store_.create(mode, live_, n_pes); !done) {
        return done;
    }
    return {};
}

Result<> Protector::track_changes(const ChangeNotes& notes, Tracking tracking, std::atomic<std::uint32_t>& n_watching) {
    SFT_ASSERT(tracking != Tracking::off);
    const Result<std::int64_t> fault_ns = WrittenPages::probe();
    if (!fault_ns) {
        return fails(fault_ns.error());
    }
    tracker_ =
        std::make_unique<LiveTracker>(live_, notes, tracking == Tracking::automatic ? *fault_ns : 0, &n_watching);
    store_.track_changes_by(*tracker_, tracking == Tracking::check);
    return {};
}

Result<> Protector::start_idle_work(const Config& config, bool may_checkpoint, std::int32_t pes_here) {
    if (!scrubber_.start(store_, live_, config)) {
        return fails("SHMEM_FT_SCRUB: the system gives no thread for it");
    }
    if (config.first_touch && may_checkpoint && config.memory_limit_bytes == 0 &&
        !first_touch_.start(store_, live_, pes_here)) {
        return fails("SHMEM_FT_FIRST_TOUCH: the system gives no thread for it");
    }
    return {};
}

void Protector::stop_idle_work() noexcept {
    first_touch_.stop();
    scrubber_.stop();
}

void Protector::release() noexcept {
    stop_idle_work();
    keepers_.clear();
    end_still();
    held_.release();
    still_.release();
    store_.release();
    tracker_.reset();
}

Result<> Protector::used(Reach reach, ProcId keeper, Trouble trouble) {
    if (reach == Reach::opened) {
        keepers_.push_back(keeper);
        return {};
    }
    SFT_ASSERT(!trouble.what.empty());  // it is what the user reads
    failed_keeper_ = keeper;
    const Failure failure = reach == Reach::gone ? Failure::gone : Failure::cannot_be_opened;
    return fails(Error{failure, std::move(trouble.what), trouble.error});
}

Result<> Protector::use_keeper(const KeeperLocation& keeper, PeId pe) {
    SFT_ASSERT(keeper.process != kNoProc && pe != kNoPe);
    keepers_.clear();
    Trouble trouble;
    const Reach reach = store_.use_keeper(keeper, pe, live_, trouble);
    return used(reach, keeper.process, std::move(trouble));
}

Result<> Protector::add_keeper(const KeeperLocation& keeper, PeId pe) {
    SFT_ASSERT(keeper.process != kNoProc && pe != kNoPe);
    std::erase(keepers_, keeper.process);
    Trouble trouble;
    const Reach reach = store_.add_keeper(keeper, pe, live_, trouble);
    return used(reach, keeper.process, std::move(trouble));
}

Result<> Protector::prepare_still() { return still_.is_created() ? Result<>() : still_.create(live_); }

void Protector::take_still(Version version) {
    SFT_ASSERT(!uses_still() && still_.is_created());
    store_.take_still(version, live_, still_);
    source_ = &still_.state();
}

Result<> Protector::prepare_to_hold(const GuardWords& words) {
    return held_.is_created() ? Result<>() : held_.create(live_, words);
}

bool Protector::begin_in_shadow(Version version, bool may_hold) {
    SFT_ASSERT(!uses_still() && (!may_hold || held_.is_created()));
    const BackupStore::Hold hold = store_.begin_in_shadow(version, live_);
    holds_ = may_hold && hold.is_worth_it;
    if (holds_) {
        held_.hold(hold.only);
    }
    line_.take(live_);
    source_ = &line_.state();
    return holds_;
}

void Protector::let_go() noexcept {
    if (std::exchange(holds_, false)) {
        held_.let_go();
    }
}

// In the place of replicate_to().
BackupStore::Replicated Protector::replicate_line(Version version) {
    SFT_ASSERT(saved_);
    const auto saved = [this] {
        fault_point(FaultPoint::still_middle);
        saved_();
    };
    if (holds_) {
        held_.tell_of_rest(saved);
    }
    const BackupStore::Replicated replicated = store_.replicate(version, *source_, kNoProc, holds_ ? &held_ : nullptr);
    if (!holds_) {
        saved();
    }
    let_go();
    fault_point(FaultPoint::still_end);
    return replicated;
}

Result<> Protector::replicate(Version version) { return replicate_to(kNoProc, version); }

// kNoProc: to all.
Result<> Protector::replicate_to(ProcId only, Version version) {
    SFT_ASSERT(version != kNoVersion);
    const BackupStore::Replicated replicated =
        is_in_shadow() ? replicate_line(version) : store_.replicate(version, *source_, only);
    stored_bytes_.store(replicated.bytes_stored);
    SFT_ASSERT(replicated.bytes_stored == 0 || !keepers_.empty());  // nobody else is written to
    if (replicated.keeper_gone) {
        failed_keeper_ = replicated.gone;
        std::erase(keepers_, replicated.gone);
        return fails(Error{Failure::refused, "it does not take the copy"});
    }
    return {};
}

void Protector::update_local_copy(Version version) {
    SFT_ASSERT(version != kNoVersion);
    store_.update_local_copy(version, *source_, is_in_shadow());
}

Result<> Protector::roll_back(Version version) {
    SFT_ASSERT(version != kNoVersion && !uses_still());
    if (!store_.roll_back(version, live_)) {
        SFT_ASSERT(!store_.explanation().empty());
        return fails(store_.explanation());
    }
    return {};
}

// A shadow that is there is looked for again, too, if the keeper before in this recovery, which died, was to get it.
Result<> Protector::protect(PeId pe, std::span<const Shadow> shadows, Version version) {
    SFT_ASSERT(version != kNoVersion && pe != kNoPe && !shadows.empty() && !uses_still());
    std::vector<ProcId> wanted;
    for (const Shadow& shadow : shadows) {
        wanted.push_back(shadow.keeper.process);
    }
    const auto is_among = [](ProcId keeper, const std::vector<ProcId>& all) {
        return std::find(all.begin(), all.end(), keeper) != all.end();
    };
    std::erase_if(keepers_, [&](ProcId keeper) { return !is_among(keeper, wanted); });
    store_.keep_only(wanted);
    for (const Shadow& shadow : shadows) {
        if (shadow.is_there && is_among(shadow.keeper.process, keepers_)) {
            continue;
        }
        if (Result<> opened = shadows.size() == 1 ? use_keeper(shadow.keeper, pe) : add_keeper(shadow.keeper, pe);
            !opened) {
            return opened;
        }
    }
    SFT_ASSERT(keepers_.size() == shadows.size());
    for (const Shadow& shadow : shadows) {
        if (shadow.is_there) {
            continue;
        }
        if (Result<> done = replicate_to(shadows.size() == 1 ? kNoProc : shadow.keeper.process, version); !done) {
            return done;
        }
    }
    return {};
}

void Protector::protect_by_nobody() {
    keepers_.clear();
    store_.forget_keeper();
}

Result<> Protector::fetch(const KeeperLocation& keeper, PeId pe, Version version) {
    SFT_ASSERT(pe != kNoPe && version != kNoVersion);
    Trouble trouble;
    const BackupStore::Fetched fetched = BackupStore::fetch(keeper, pe, version, live_, &trouble);
    return result_of(fetched, std::move(trouble));
}

Result<> Protector::take_over(const KeeperLocation& keeper, PeId pe, Version version) {
    SFT_ASSERT(pe != kNoPe && version != kNoVersion);
    return use_keeper(keeper, pe).then([&] {
        if (store_.take_over(version, live_)) {
            return Result<>();
        }
        const Failure failure = store_.has_lost_keeper() ? Failure::gone : Failure::failed;
        return Result<>(fails(Error{failure, store_.explanation(), 0}));
    });
}

Result<> Protector::fetch_front(const KeeperLocation& keeper, PeId pe, Version version, std::size_t heap_bytes) {
    SFT_ASSERT(pe != kNoPe && version != kNoVersion);
    Trouble trouble;
    const BackupStore::Fetched fetched = BackupStore::fetch_front(keeper, pe, version, live_, heap_bytes, &trouble);
    return result_of(fetched, std::move(trouble));
}

// ---- in a group ----

Result<> Protector::use_group(std::span<const GroupMember> members, std::int32_t position, std::int32_t n_parity,
                              std::function<bool(ProcId)> await) {
    keepers_.clear();
    Trouble trouble;
    if (store_.use_group(members, position, n_parity, live_, std::move(await), trouble) != Reach::opened) {
        return fails(Error{Failure::cannot_be_opened, std::move(trouble.what), trouble.error});
    }
    for (const GroupMember& member : members) {
        if (!member.is_lost && member.pe != members[static_cast<std::size_t>(position)].pe) {
            keepers_.push_back(member.location.process);
        }
    }
    return {};
}

Result<> Protector::brought_back(bool is_back) {
    if (is_back) {
        return {};
    }
    failed_keeper_ = store_.lost_member();
    const Failure failure = failed_keeper_ != kNoProc ? Failure::gone : Failure::failed;
    SFT_ASSERT(!store_.explanation().empty());
    return fails(Error{failure, store_.explanation(), 0});
}

Result<> Protector::bring_back(Version version) { return brought_back(store_.bring_back(version, live_)); }

Result<> Protector::bring_front_back(Version version, std::size_t heap_bytes) {
    return brought_back(store_.bring_front_back(version, live_, heap_bytes));
}

Result<> Protector::protect_in_group(Version version, const std::vector<std::int32_t>& positions, std::uint32_t round) {
    store_.begin_round(round);
    if (store_.make_anew(version, positions, live_)) {
        return {};
    }
    failed_keeper_ = store_.lost_member();
    return fails(Error{failed_keeper_ != kNoProc ? Failure::gone : Failure::refused, "it does not take parity", 0});
}

}  // namespace sft
