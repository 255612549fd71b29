// SimProcess: the work on memory. It takes simulated time, word by word, so that a death leaves it half done.
#include <algorithm>

#include "base/report.hpp"
#include "recovery/membership/mutation.hpp"
#include "recovery/membership/parity_scheme.hpp"
#include "tests/sim/process.hpp"

namespace sft::sim {

std::vector<ProcId> holders_of(std::span<const Share> shares) {
    std::vector<ProcId> holders;
    for (const Share& share : shares) {
        holders.push_back(share.holder);
    }
    return holders;
}

Time SimProcess::work_delay() { return world_.random().between(100, 10 * kMicro); }

void SimProcess::begin_work(Participant::Do work) {
    is_working_ = true;
    world_.trace(self_, format("begins to %s", name_of(work)));
    world_.at_work(self_, work);
    if (!is_alive()) {
        return;
    }
    const JobState now = state();
    switch (work) {
        case Participant::Do::replicate:
            if (has_parity(world_.scenario().shape)) {
                replicate_to_group(now.version.next());
                break;
            }
            replicate(holders_of(sources_of(world_.scenario().shape, now, pe_)), now.version.next());
            break;
        case Participant::Do::update_local_copy: update_local_copy(now.version.next()); break;
        case Participant::Do::restore: restore(now.version); break;
        default: protect(); break;
    }
}

void SimProcess::work_done(Participant::Outcome result) {
    is_working_ = false;
    world_.note_progress();
    world_.trace(self_, result == Participant::Outcome::ok            ? "has done it"
                        : result == Participant::Outcome::source_gone ? "cannot: the other one is gone"
                                                                      : "cannot: the copy is corrupt");
    act(participant_.done(state(), result));
}

// As in the library: if a holder is gone, so is the share in any case, and the checkpoint goes on; but not where the
// node may have the share, torn.
void SimProcess::replicate(std::vector<ProcId> holders, Version version) {
    if (holders.empty()) {
        world_.later(self_, work_delay(), [this] { work_done(Participant::Outcome::ok); });
        return;
    }
    const ProcId next = holders.front();
    holders.erase(holders.begin());
    write_word({next, version.value() % 2, version,
                [this, version, holders = std::move(holders)](bool is_gone) {
                    if (is_gone && world_.scenario().has_node_memory && !is_mutated(Mutation::ready_with_torn_share)) {
                        await_fault();
                    } else if (holders.empty()) {
                        work_done(Participant::Outcome::ok);
                    } else {
                        replicate(holders, version);
                    }
                }},
               0);
}

void SimProcess::await_fault() {
    world_.later(self_, 20 * kMicro, [this] {
        if (state().stage != Stage::replicating) {
            work_done(Participant::Outcome::ok);
        } else {
            await_fault();
        }
    });
}

void SimProcess::protect() {
    std::vector<ProcId> holders;
    for (const Replacement& replacement : state().replacements) {
        if (replacement.process != self_ && is_near(replacement.process) && !shown_.contains(replacement.process)) {
            holders.push_back(replacement.process);
        }
    }
    show_new_holders(std::move(holders));
}

// Their memory has to be opened to be mapped.
void SimProcess::show_new_holders(std::vector<ProcId> holders) {
    if (holders.empty()) {
        if (has_parity(world_.scenario().shape)) {
            protect_in_group();
        } else {
            protect_own();
        }
        return;
    }
    const ProcId next = holders.back();
    holders.pop_back();
    open(next, Memory::heap, [this, next, holders = std::move(holders)](Reach reach) {
        if (reach == Reach::gone) {
            work_done(Participant::Outcome::source_gone);
            return;
        }
        shown_.insert(next);
        show_new_holders(holders);
    });
}

void SimProcess::protect_own() {
    const JobShape& shape = world_.scenario().shape;
    const std::vector<Share> missing = missing_shares(shape, state(), pe_);
    std::vector<Protecting> left;
    std::vector<ProcId> in_use;
    for (const Share& share : targets_of(shape, state(), pe_)) {
        const bool is_missing = std::find(missing.begin(), missing.end(), share) != missing.end();
        const bool is_in_use =
            std::find(share_holders_.begin(), share_holders_.end(), share.holder) != share_holders_.end();
        if (is_missing || !is_in_use) {
            left.push_back({share.holder, is_missing});
        } else {
            in_use.push_back(share.holder);
        }
    }
    share_holders_ = std::move(in_use);
    if (left.empty()) {
        world_.later(self_, work_delay(), [this] { work_done(Participant::Outcome::ok); });
    } else {
        protect_next(std::move(left));
    }
}

void SimProcess::protect_next(std::vector<Protecting> left) {
    if (left.empty()) {
        work_done(Participant::Outcome::ok);
        return;
    }
    const Protecting next = left.front();
    left.erase(left.begin());
    open(next.holder, Memory::kept_shadows,
         [this, next, left = std::move(left), version = state().version](Reach reach) {
             if (reach == Reach::gone) {
                 work_done(Participant::Outcome::source_gone);
                 return;
             }
             share_holders_.push_back(next.holder);
             if (!next.is_missing) {
                 protect_next(left);
                 return;
             }
             world_.tell(&Observer::shadow_sent_anew, self_);
             write_word({next.holder, version.value() % 2, version,
                         [this, left](bool is_gone) {
                             if (is_gone) {
                                 work_done(Participant::Outcome::source_gone);
                             } else {
                                 protect_next(left);
                             }
                         }},
                        0);
         });
}

// The slot has no version while it is written: whoever dies on the way leaves it torn. The memory of a holder on the
// own node can be written to whether it lives or not.
void SimProcess::write_word(const Writing& writing, std::size_t word) {
    world_.later(self_, work_delay(), [this, writing, word] {
        const ProcId holder = writing.holder;
        if (!is_near(holder) && is_known_to_be_gone(holder, Memory::kept_shadows)) {
            std::erase(share_holders_, holder);
            writing.then(true);
            return;
        }
        if (!can_reach(holder)) {
            world_.later(self_, 50 * kMicro, [this, writing, word] { write_word(writing, word); });
            return;
        }
        Copy& copy = shadow_at(holder).slots[writing.slot];
        const Place place = place_of(holder, writing.slot);
        if (word == 0) {
            copy.version = kNoVersion;
            world_.tell(&Observer::copy_begun, place);
        }
        copy.content[word] = source()[word];
        if (word + 1 < kWords) {
            write_word(writing, word + 1);
            return;
        }
        copy.seal(writing.version);
        world_.tell(&Observer::copy_done, place, writing.version, copy.content);
        writing.then(false);
    });
}

void SimProcess::update_local_copy(Version version) {
    local().version = kNoVersion;
    const Place place = local_place();
    world_.tell(&Observer::copy_begun, place);
    world_.later(self_, work_delay(), [this, version, place] {
        local().content = source();
        local().seal(version);
        world_.tell(&Observer::copy_done, place, version, local().content);
        work_done(Participant::Outcome::ok);
    });
}

Copy& SimProcess::local() {
    const Scenario& scenario = world_.scenario();
    return scenario.has_node_memory ? world_.local_of_node(node_of(scenario, self_), pe_) : local_;
}

Place SimProcess::local_place() const {
    const Scenario& scenario = world_.scenario();
    return scenario.has_node_memory ? Place{kNoProc, pe_, -1, node_of(scenario, self_)} : Place{self_, pe_, -1};
}

// Of a node that was taken for lost and has been asleep: the memory is the same.
void SimProcess::end_the_dead_here() {
    for (const Death& death : state().deaths) {
        if (world_.scenario().has_node_memory && is_near(death.process) && !is_mutated(Mutation::leave_dead_alive)) {
            world_.end_for_certain(death.process);
        }
    }
}

// A survivor has its local copy, which is mended from the shadow if it is bad. A substitute has the shadow; and the
// local copy of the one before, if the node has it and it holds the version, which that one may not have lived to see.
void SimProcess::restore(Version version) {
    end_the_dead_here();
    if (has_parity(world_.scenario().shape)) {
        restore_from_group(version);
        return;
    }
    world_.later(self_, work_delay(), [this, version] {
        const JobShape& shape = world_.scenario().shape;
        const bool is_careless = is_substitute_ && is_mutated(Mutation::adopt_stale_copy);
        const bool is_here = local().is_good(version) || (is_careless && local().is_intact());
        if (is_substitute_ && !(is_here && world_.scenario().has_node_memory)) {
            const bool is_misled = is_mutated(Mutation::fetch_from_keeper_to_be);
            fetch(holders_of(is_misled ? targets_of(shape, state(), pe_) : sources_of(shape, state(), pe_)), version);
        } else if (is_here) {
            live_ = local().content;
            world_.tell(&Observer::restored, self_, state().view,
                        is_substitute_ ? RestoredFrom::copy_of_the_dead : RestoredFrom::own_copy);
            work_done(Participant::Outcome::ok);
        } else {
            mend(version);
        }
    });
}

// The memory of a holder on the own node can be read whether it lives or not; without a share the job is given up.
void SimProcess::mend(Version version) {
    world_.later(self_, work_delay(), [this, version] {
        std::vector<ProcId> holders = share_holders_;
        const std::vector<ProcId> now = holders_of(sources_of(world_.scenario().shape, state(), pe_));
        if (world_.scenario().has_node_memory) {  // those that others of their node can give
            holders.insert(holders.end(), now.begin(), now.end());
        }
        const auto is_gone = [&](ProcId holder) {
            return !is_near(holder) && is_known_to_be_gone(holder, Memory::kept_shadows);
        };
        // By the next value somebody else there may have it.
        const bool is_any_gone = std::any_of(now.begin(), now.end(), is_gone);
        std::erase_if(holders, is_gone);
        const auto is_good = [&](ProcId holder) { return share_at(holder, version).is_good(version); };
        if (holders.empty() || (is_any_gone && std::none_of(holders.begin(), holders.end(), is_good))) {
            work_done(is_any_gone ? Participant::Outcome::source_gone : Participant::Outcome::corrupt);
            return;
        }
        if (!std::all_of(holders.begin(), holders.end(), [&](ProcId holder) { return can_reach(holder); })) {
            world_.later(self_, 50 * kMicro, [this, version] { mend(version); });
            return;
        }
        const auto good = std::find_if(holders.begin(), holders.end(), is_good);
        take_copy(share_at(good == holders.end() ? holders.front() : *good, version), version,
                  RestoredFrom::shadow_to_mend);
    });
}

Shadow& SimProcess::shadow_at(ProcId holder) {
    const Scenario& scenario = world_.scenario();
    return scenario.has_node_memory ? world_.shadow_of_node(node_of(scenario, holder), pe_)
                                    : world_.process(holder).shadows_[pe_];
}

Place SimProcess::place_of(ProcId holder, std::size_t slot) const {
    const auto number = static_cast<std::int32_t>(slot);
    const Scenario& scenario = world_.scenario();
    return scenario.has_node_memory ? Place{kNoProc, pe_, number, node_of(scenario, holder)}
                                    : Place{holder, pe_, number};
}

const Copy& SimProcess::share_at(ProcId holder, Version version) {
    return shadow_at(holder).slots[version.value() % 2];
}

// From the first one that is there and good.
void SimProcess::fetch(std::vector<ProcId> holders, Version version) {
    if (holders.empty()) {
        work_done(Participant::Outcome::corrupt);
        return;
    }
    open(holders.front(), Memory::kept_shadows, [this, holders, version](Reach reach) {
        const ProcId holder = holders.front();
        const std::vector<ProcId> others(holders.begin() + 1, holders.end());
        if (reach == Reach::gone) {
            if (others.empty()) {
                work_done(Participant::Outcome::source_gone);
            } else {
                fetch(others, version);
            }
            return;
        }
        // What was opened on the own node can be read whether its owner lives or not.
        world_.later(self_, 4 * work_delay(), [this, holder, holders, others, version] {
            if (!is_near(holder) && !can_reach(holder)) {
                fetch(holders, version);
            } else if (!share_at(holder, version).is_good(version) && !others.empty()) {
                fetch(others, version);
            } else {
                take_copy(share_at(holder, version), version, RestoredFrom::shadow);
            }
        });
    });
}

void SimProcess::take_copy(const Copy& copy, Version version, RestoredFrom where) {
    if (!copy.is_good(version) || is_mutated(Mutation::shadow_reads_corrupt)) {
        work_done(Participant::Outcome::corrupt);
        return;
    }
    const Place place = local_place();
    world_.tell(&Observer::copy_begun, place);
    local() = copy;
    live_ = copy.content;
    world_.tell(&Observer::copy_done, place, version, local().content);
    world_.tell(&Observer::restored, self_, state().view, where);
    work_done(Participant::Outcome::ok);
}

// In shmem_init, before the program runs: the records of the version are read from the shadow.
void SimProcess::prepare_as_substitute() {
    const JobState now = state();
    if (now.stage == Stage::ended) {
        return;
    }
    if (has_parity(world_.scenario().shape)) {
        prepare_in_group();
        return;
    }
    const std::vector<ProcId> holders = holders_of(sources_of(world_.scenario().shape, now, pe_));
    prepare_from({holders, now.index, now.version, false});
}

void SimProcess::prepare_from(const Preparing& from) {
    if (from.holders.empty() && from.is_any_gone) {
        await_another_value(from.index);
        return;
    }
    if (from.holders.empty() && world_.scenario().has_node_memory && local().is_good(from.version)) {
        join_as_substitute();  // the local copy of the one before will do
        return;
    }
    if (from.holders.empty()) {
        act(Participant::Do::give_up);  // nobody else would notice
        return;
    }
    open(from.holders.front(), Memory::kept_shadows, [this, from](Reach reach) {
        if (reach == Reach::opened && share_at(from.holders.front(), from.version).is_good(from.version)) {
            join_as_substitute();
            return;
        }
        Preparing others = from;
        others.holders.erase(others.holders.begin());
        others.is_any_gone = from.is_any_gone || reach == Reach::gone;
        prepare_from(others);
    });
}

void SimProcess::await_another_value(std::uint64_t index) {
    if (state().index != index) {
        prepare_as_substitute();
        return;
    }
    world_.later(self_, 20 * kMicro, [this, index] { await_another_value(index); });
}

// The program runs from its beginning to a checkpoint that fails, or asks.
void SimProcess::join_as_substitute() {
    world_.later(self_, world_.random().between(0, 300 * kMicro), [this] {
        world_.note_progress();
        const bool is_premature = world_.random().percent(world_.scenario().premature_checkpoint_percent);
        begin_call(is_premature ? Call::checkpoint : Call::restart);
    });
}

// A bit flips in a copy that is complete.
void SimProcess::corrupt_a_copy(bool of_local_copy, Random& random) {
    Copy* copy = nullptr;
    Place place = local_place();
    if (of_local_copy) {
        copy = &local();
    } else if (world_.scenario().has_node_memory) {
        const std::vector<Share> shares =
            pe_ == kNoPe ? std::vector<Share>{} : targets_of(world_.scenario().shape, state(), pe_);
        if (!shares.empty()) {
            const std::size_t slot = random.percent(50) ? 1 : 0;
            copy = &shadow_at(shares.front().holder).slots[slot];
            place = place_of(shares.front().holder, slot);
        }
    } else if (!shadows_.empty()) {
        auto& [pe, shadow] = *shadows_.begin();
        const std::size_t slot = random.percent(50) ? 1 : 0;
        copy = &shadow.slots[slot];
        place = {self_, pe, static_cast<std::int32_t>(slot)};
    }
    if (copy == nullptr || copy->version == kNoVersion) {
        return;
    }
    const auto word = static_cast<std::size_t>(random.between(0, kWords - 1));
    copy->content[word] ^= 1U << random.between(0, 31);
    world_.tell(&Observer::bit_flipped, place);
    world_.trace(self_, format("a bit flips in a copy of PE %d", place.pe.value()));
}

}  // namespace sft::sim
