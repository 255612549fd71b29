// SimProcess: the work on memory. It takes simulated time, word by word, so that a death leaves it half done.
#include "base/report.hpp"
#include "recovery/membership/mutation.hpp"
#include "tests/sim/process.hpp"

namespace sft::sim {

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
        case Participant::Do::replicate: replicate(world_.scenario().shape.keeper(now, pe_), now.version.next()); break;
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

// As in the library: if the keeper is gone, so is the shadow in any case, and the checkpoint goes on.
void SimProcess::replicate(ProcId keeper, Version version) {
    if (keeper == kNoProc) {
        world_.later(self_, work_delay(), [this] { work_done(Participant::Outcome::ok); });
    } else {
        write_word({keeper, version.value() % 2, version, Participant::Outcome::ok}, 0);
    }
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
        protect_own();
        return;
    }
    const ProcId next = holders.back();
    holders.pop_back();
    open(next, [this, next, holders = std::move(holders)](Reach reach) {
        if (reach == Reach::gone) {
            work_done(Participant::Outcome::source_gone);
            return;
        }
        shown_.insert(next);
        show_new_holders(holders);
    });
}

void SimProcess::protect_own() {
    const JobState now = state();
    const JobShape& shape = world_.scenario().shape;
    const ProcId keeper = shape.keeper_to_be(now, pe_);
    const bool is_new = shape.needs_new_shadow(now, pe_);
    if (keeper == kNoProc || (!is_new && keeper == keeper_in_use_)) {
        keeper_in_use_ = keeper;
        world_.later(self_, work_delay(), [this] { work_done(Participant::Outcome::ok); });
        return;
    }
    keeper_in_use_ = kNoProc;
    open(keeper, [this, keeper, is_new, version = now.version](Reach reach) {
        if (reach == Reach::gone) {
            work_done(Participant::Outcome::source_gone);
            return;
        }
        keeper_in_use_ = keeper;
        if (!is_new) {
            work_done(Participant::Outcome::ok);
            return;
        }
        world_.tell(&Observer::shadow_sent_anew, self_);
        write_word({keeper, version.value() % 2, version, Participant::Outcome::source_gone}, 0);
    });
}

// The slot has no version while it is written: whoever dies on the way leaves it torn. The memory of a keeper on the
// own node can be written to whether it lives or not.
void SimProcess::write_word(const Writing& writing, std::size_t word) {
    world_.later(self_, work_delay(), [this, writing, word] {
        const ProcId keeper = writing.keeper;
        if (!is_near(keeper) && contains(agreement_.known_deaths(), keeper)) {
            keeper_in_use_ = kNoProc;
            work_done(writing.if_gone);
            return;
        }
        if (!can_reach(keeper)) {
            world_.later(self_, 50 * kMicro, [this, writing, word] { write_word(writing, word); });
            return;
        }
        Copy& copy = world_.process(keeper).shadows_[pe_].slots[writing.slot];
        const Place place{keeper, pe_, static_cast<std::int32_t>(writing.slot)};
        if (word == 0) {
            copy.version = kNoVersion;
            world_.tell(&Observer::copy_begun, place);
        }
        copy.content[word] = live_[word];
        if (word + 1 < kWords) {
            write_word(writing, word + 1);
            return;
        }
        copy.seal(writing.version);
        world_.tell(&Observer::copy_done, place, writing.version, copy.content);
        work_done(Participant::Outcome::ok);
    });
}

void SimProcess::update_local_copy(Version version) {
    local_.version = kNoVersion;
    const Place place{self_, pe_, -1};
    world_.tell(&Observer::copy_begun, place);
    world_.later(self_, work_delay(), [this, version, place] {
        local_.content = live_;
        local_.seal(version);
        world_.tell(&Observer::copy_done, place, version, local_.content);
        work_done(Participant::Outcome::ok);
    });
}

// A substitute has the shadow only. A survivor has its local copy, which is mended from the shadow if it is bad.
void SimProcess::restore(Version version) {
    world_.later(self_, work_delay(), [this, version] {
        const JobShape& shape = world_.scenario().shape;
        if (is_substitute_) {
            const bool is_misled = is_mutated(Mutation::fetch_from_keeper_to_be);
            fetch(is_misled ? shape.keeper_to_be(state(), pe_) : shape.keeper(state(), pe_), version);
        } else if (local_.version == version && local_.is_intact()) {
            live_ = local_.content;
            world_.tell(&Observer::restored, self_, state().view, RestoredFrom::own_copy);
            work_done(Participant::Outcome::ok);
        } else {
            mend(version);
        }
    });
}

// The memory of a keeper on the own node can be read whether it lives or not; without a shadow the job is given up.
void SimProcess::mend(Version version) {
    world_.later(self_, work_delay(), [this, version] {
        const ProcId keeper = keeper_in_use_;
        if (keeper == kNoProc || (!is_near(keeper) && contains(agreement_.known_deaths(), keeper))) {
            work_done(Participant::Outcome::corrupt);
        } else if (!can_reach(keeper)) {
            world_.later(self_, 50 * kMicro, [this, version] { mend(version); });
        } else {
            take_copy(world_.process(keeper).shadows_[pe_].slots[version.value() % 2], version,
                      RestoredFrom::shadow_to_mend);
        }
    });
}

void SimProcess::fetch(ProcId keeper, Version version) {
    if (keeper == kNoProc) {
        work_done(Participant::Outcome::corrupt);
        return;
    }
    open(keeper, [this, keeper, version](Reach reach) {
        if (reach == Reach::gone) {
            work_done(Participant::Outcome::source_gone);
            return;
        }
        // What was opened on the own node can be read whether its owner lives or not.
        world_.later(self_, 4 * work_delay(), [this, keeper, version] {
            if (!is_near(keeper) && !can_reach(keeper)) {
                fetch(keeper, version);
                return;
            }
            take_copy(world_.process(keeper).shadows_[pe_].slots[version.value() % 2], version, RestoredFrom::shadow);
        });
    });
}

void SimProcess::take_copy(const Copy& copy, Version version, RestoredFrom where) {
    if (copy.version != version || !copy.is_intact() || is_mutated(Mutation::shadow_reads_corrupt)) {
        work_done(Participant::Outcome::corrupt);
        return;
    }
    const Place place{self_, pe_, -1};
    world_.tell(&Observer::copy_begun, place);
    local_ = copy;
    live_ = copy.content;
    world_.tell(&Observer::copy_done, place, version, local_.content);
    world_.tell(&Observer::restored, self_, state().view, where);
    work_done(Participant::Outcome::ok);
}

// In shmem_init, before the program runs: the records of the version are read from the shadow.
void SimProcess::prepare_as_substitute() {
    const JobState now = state();
    if (now.stage == Stage::ended) {
        return;
    }
    const ProcId keeper = world_.scenario().shape.keeper(now, pe_);
    if (keeper == kNoProc) {
        act(Participant::Do::give_up);
        return;
    }
    open(keeper, [this, keeper, now](Reach reach) {
        if (reach == Reach::gone) {
            await_another_value(now.index);
            return;
        }
        const Copy& copy = world_.process(keeper).shadows_[pe_].slots[now.version.value() % 2];
        if (copy.version != now.version || !copy.is_intact()) {
            act(Participant::Do::give_up);  // nobody else would notice
            return;
        }
        join_as_substitute();
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
    Place place{self_, pe_, -1};
    if (of_local_copy) {
        copy = &local_;
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
