// SimProcess: the work on memory. It takes simulated time, word by word, so that a death leaves it half done.
#include "shmem_ft/base/report.hpp"
#include "shmem_ft/membership/mutation.hpp"
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
        case Participant::Do::ship: ship(world_.scenario().shape.keeper(now, pe_), now.version.next()); break;
        case Participant::Do::fold: fold(now.version.next()); break;
        case Participant::Do::restore: restore(now.version); break;
        default: protect(); break;
    }
}

void SimProcess::work_done(Participant::Done result) {
    is_working_ = false;
    world_.note_progress();
    world_.trace(self_, result == Participant::Done::ok            ? "has done it"
                        : result == Participant::Done::source_gone ? "cannot: the other one is gone"
                                                                   : "cannot: the copy is corrupt");
    act(participant_.done(state(), result));
}

void SimProcess::ship(ProcId keeper, Version version) {
    if (keeper == kNoProc) {
        world_.later(self_, work_delay(), [this] { work_done(Participant::Done::ok); });
    } else {
        write_shadow(keeper, version, &live_);
    }
}

void SimProcess::protect() {
    const JobState& now = state();
    const JobShape& shape = world_.scenario().shape;
    if (shape.needs_new_shadow(now, pe_)) {
        world_.tell(&Observer::shadow_sent_anew, self_);
        write_shadow(shape.keeper_to_be(now, pe_), now.version, &live_);
    } else {
        world_.later(self_, work_delay(), [this] { work_done(Participant::Done::ok); });
    }
}

// The slot has no version while it is written: whoever dies on the way leaves it torn.
void SimProcess::write_shadow(ProcId keeper, Version version, const Content* source) {
    write_word(keeper, version.value() % 2, version, source, 0);
}

void SimProcess::write_word(ProcId keeper, std::size_t slot, Version version, const Content* source, std::size_t word) {
    world_.later(self_, work_delay(), [this, keeper, slot, version, source, word] {
        SimProcess& there = world_.process(keeper);
        if (!world_.is_alive(keeper) || contains(agreement_.known_deaths(), keeper)) {
            work_done(Participant::Done::source_gone);
            return;
        }
        if (!world_.is_reachable(self_, keeper) || !there.takes_from(self_)) {
            world_.later(self_, 50 * kMicro, [this, keeper, slot, version, source, word] {
                write_word(keeper, slot, version, source, word);
            });
            return;
        }
        Copy& copy = there.shadows_[pe_].slots[slot];
        const Place place{keeper, pe_, static_cast<std::int32_t>(slot)};
        if (word == 0) {
            copy.version = kNoVersion;
            world_.tell(&Observer::copy_begun, place);
        }
        copy.content[word] = (*source)[word];
        if (word + 1 < kWords) {
            write_word(keeper, slot, version, source, word + 1);
            return;
        }
        copy.seal(version);
        world_.tell(&Observer::copy_done, place, version, copy.content);
        work_done(Participant::Done::ok);
    });
}

void SimProcess::fold(Version version) {
    local_.version = kNoVersion;
    const Place place{self_, pe_, -1};
    world_.tell(&Observer::copy_begun, place);
    world_.later(self_, work_delay(), [this, version, place] {
        local_.content = live_;
        local_.seal(version);
        world_.tell(&Observer::copy_done, place, version, local_.content);
        work_done(Participant::Done::ok);
    });
}

// From the local copy; from the shadow if there is none, as in a substitute, or if it is corrupt.
void SimProcess::restore(Version version) {
    world_.later(self_, work_delay(), [this, version] {
        if (!is_substitute_ && local_.version == version && local_.is_intact()) {
            live_ = local_.content;
            world_.tell(&Observer::restored, self_, RestoredFrom::own_copy);
            work_done(Participant::Done::ok);
            return;
        }
        const JobShape& shape = world_.scenario().shape;
        const bool is_misled = is_mutated(Mutation::fetch_from_keeper_to_be) && is_substitute_;
        fetch(is_misled ? shape.keeper_to_be(state(), pe_) : shape.keeper(state(), pe_), version);
    });
}

void SimProcess::fetch(ProcId keeper, Version version) {
    world_.later(self_, 4 * work_delay(), [this, keeper, version] {
        if (keeper == kNoProc) {
            work_done(Participant::Done::corrupt);
            return;
        }
        if (!world_.is_alive(keeper) || contains(agreement_.known_deaths(), keeper)) {
            work_done(Participant::Done::source_gone);
            return;
        }
        if (!world_.is_reachable(self_, keeper)) {
            fetch(keeper, version);
            return;
        }
        const Copy& copy = world_.process(keeper).shadows_[pe_].slots[version.value() % 2];
        if (copy.version != version || !copy.is_intact() || is_mutated(Mutation::shadow_reads_corrupt)) {
            work_done(Participant::Done::corrupt);
            return;
        }
        const Place place{self_, pe_, -1};
        world_.tell(&Observer::copy_begun, place);
        local_ = copy;
        live_ = copy.content;
        world_.tell(&Observer::copy_done, place, version, local_.content);
        world_.tell(&Observer::restored, self_, is_substitute_ ? RestoredFrom::shadow : RestoredFrom::shadow_to_mend);
        work_done(Participant::Done::ok);
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
