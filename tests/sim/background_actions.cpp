// SimProcess: a checkpoint that is made while the program goes on, as RecoveryCalls::checkpoint_nb makes one.
//
// All come, each copies its memory word by word into a still, and all have copied before anybody goes on. Both times
// each tells each other by a put, and waits until it has heard of all, or that one of them is dead. From then on the
// participant works on the still. What the program calls next waits for it.
#include <algorithm>

#include "base/report.hpp"
#include "recovery/membership/mutation.hpp"
#include "tests/sim/process.hpp"

namespace sft::sim {

// The first version is made in the call itself.
bool SimProcess::goes_on_meanwhile() const {
    return world_.scenario().has_background && version_ != kNoVersion && !is_substitute_;
}

void SimProcess::come_to_line() {
    line_ = Line{state().view, version_, Line::Step::come};
    const bool waits = !is_mutated(Mutation::copy_before_all_have_come);
    tell_others();
    if (waits) {
        look_at_line();
    } else {
        leave_line(true);
    }
}

void SimProcess::tell_others() {
    world_.at_still(self_);
    for (std::int32_t pe = 0; is_alive() && pe < world_.scenario().shape.n_pes; ++pe) {
        const ProcId holder = world_.scenario().shape.holder(state(), PeId(pe));
        const Line at = *line_;
        if (holder == self_) {
            arrived_.insert({at, PeId(pe)});
        } else if (!contains(agreement_.known_deaths(), holder)) {
            SimProcess& receiver = world_.process(holder);
            world_.put(
                self_, holder, [&receiver, from = self_, own = pe_, at] { receiver.take_arrival(from, own, at); },
                [] {});
        }
    }
}

void SimProcess::take_arrival(ProcId from, PeId pe, const Line& at) {
    if (takes_from(from)) {
        arrived_.insert({at, pe});
        look_at_line();
    }
}

void SimProcess::look_at_line() {
    if (!line_ || is_leaving_line_ || line_->step == Line::Step::copying) {
        return;
    }
    const JobShape& shape = world_.scenario().shape;
    bool is_any_dead = state().stage != Stage::running;
    bool have_all = true;
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        is_any_dead = is_any_dead || contains(agreement_.known_deaths(), shape.holder(state(), PeId(pe)));
        have_all = have_all && arrived_.contains({*line_, PeId(pe)});
    }
    if (is_any_dead || have_all) {
        is_leaving_line_ = true;
        world_.later(self_, world_.random().between(0, 5 * kMicro),
                     [this, is_in_order = !is_any_dead] { leave_line(is_in_order); });
    }
}

void SimProcess::leave_line(bool is_in_order) {
    is_leaving_line_ = false;
    world_.at_still(self_);
    if (!is_alive()) {
        return;
    }
    if (is_in_order && line_->step == Line::Step::come) {
        line_->step = Line::Step::copying;
        still_ = Content{};
        copy_to_still(0);
        return;
    }
    // Who has a still works on it, whether the program goes on or not.
    const bool is_whole = line_->step == Line::Step::copied;
    is_in_background_ = is_whole && is_in_order;
    line_.reset();
    world_.later(self_, is_in_background_ ? world_.random().between(0, 20 * kMicro) : 0, [this] {
        is_in_call_ = true;
        act(participant_.checkpoint(state()));
    });
    if (is_in_background_) {
        world_.note_progress();
        world_.trace(self_, "goes on meanwhile");
        compute();
    }
}

void SimProcess::copy_to_still(std::size_t word) {
    world_.later(self_, work_delay(), [this, word] {
        (*still_)[word] = live_[word];
        if (word + 1 < kWords) {
            copy_to_still(word + 1);
            return;
        }
        world_.tell(&Observer::still_taken, self_, pe_, version_.next(), *still_);
        line_->step = Line::Step::copied;
        tell_others();
        if (!is_alive()) {
            return;
        }
        if (is_mutated(Mutation::go_on_before_all_have_copied)) {
            leave_line(true);
        } else {
            look_at_line();
        }
    });
}

// What copies are made of.
const Content& SimProcess::source() const {
    return still_ && !is_mutated(Mutation::copy_live_memory) ? *still_ : live_;
}

// In the background: the program hears of it in what it calls next.
void SimProcess::returned_meanwhile(Participant::Do result) {
    is_in_background_ = false;
    has_failed_ = result != Participant::Do::committed;
    world_.tell(&Observer::settled, self_, result);
    if (next_call_) {
        const Call next = *next_call_;
        next_call_.reset();
        begin_call(next);
    }
}

// The version that the program has passed last, whether it is committed or not.
Version SimProcess::passed() const { return is_in_background_ || has_failed_ ? version_.next() : version_; }

// False: not yet, or another call in its place.
bool SimProcess::has_settled(Call call) {
    if (is_in_background_) {
        next_call_ = call;
        return false;
    }
    // A program that asks before it ends goes back; one that does not is at its end.
    const bool asks = call != Call::finish || world_.scenario().asks_before_end;
    if (has_failed_ && asks) {
        has_failed_ = false;
        begin_call(Call::restart);
        return false;
    }
    return true;
}

}  // namespace sft::sim
