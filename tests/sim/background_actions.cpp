// SimProcess: a checkpoint that is made while the program goes on, as RecoveryCalls::checkpoint_nb makes one.
//
// All come, each copies its memory word by word into a still, and all have copied before anybody goes on. Both times
// each tells each other by a put, and waits until it has heard of all, or that one of them is dead. From then on the
// participant works on the still. What the program calls next waits for it.
//
// With --held only one word, which stands for globals and the library's state, is copied before they go on. Of the
// others each says that they are held, all hear of it (one more barrier), and each guards what is held wherever it can
// write: it has a word copied before it writes there. So the participant begins later.
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

// In the next barrier.
void SimProcess::arrive(Line::Step step, bool leaves_at_once) {
    line_->step = step;
    tell_others();
    if (!is_alive()) {
        return;
    }
    if (leaves_at_once) {
        leave_line(true);
    } else {
        look_at_line();
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
        world_.scenario().has_held ? hold() : copy_to_still(0);
        return;
    }
    if (is_in_order && line_->step == Line::Step::held) {
        line_->step = Line::Step::copying;
        guard();
        return;
    }
    // Who has a still works on it, whether the program goes on or not.
    const bool has_still = line_->step == Line::Step::held || line_->step == Line::Step::copied;
    is_in_background_ = line_->step == Line::Step::copied && is_in_order;
    line_.reset();
    if (has_still && world_.scenario().has_held) {
        begin_saving();
    } else {
        world_.later(self_, is_in_background_ ? world_.random().between(0, 20 * kMicro) : 0,
                     [this] { make_version(); });
    }
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
        arrive(Line::Step::copied, is_mutated(Mutation::go_on_before_all_have_copied));
    });
}

// ---- the same, held ----

namespace {
constexpr std::size_t kRest = kInbox + 1;
}

void SimProcess::hold() {
    for (std::size_t word = 0; word < kWords; ++word) {
        held_[word] = word != kRest;
    }
    arrive(Line::Step::held, is_mutated(Mutation::guard_before_all_hold));
}

void SimProcess::guard() {
    for (std::int32_t pe = 0; pe < world_.scenario().shape.n_pes; ++pe) {
        guards_[PeId(pe)] = world_.process(world_.scenario().shape.holder(state(), PeId(pe))).held_;
    }
    world_.later(self_, work_delay(), [this] {
        (*still_)[kRest] = live_[kRest];
        arrive(Line::Step::copied, is_mutated(Mutation::go_on_before_all_have_copied));
    });
}

// Who was left in the middle has a rest that nobody wants: no version comes of it.
void SimProcess::begin_saving() {
    world_.later(self_, world_.random().between(0, 20 * kMicro), [this] { save(0); });
}

void SimProcess::save(std::size_t word) {
    world_.later(self_, work_delay(), [this, word] {
        if (held_[word]) {
            (*still_)[word] = live_[word];
            held_[word] = false;
        }
        world_.at_still(self_);
        if (!is_alive()) {
            return;
        }
        if (word + 1 < kWords) {
            save(word + 1);
        } else {
            make_version();
        }
    });
}

// The writer waits until it has been set aside.
void SimProcess::save_before(const SimProcess& writer, std::size_t word) {
    const auto guards = writer.guards_.find(pe_);
    if (held_[word] && guards != writer.guards_.end() && guards->second[word] &&
        !is_mutated(Mutation::write_what_is_held)) {
        (*still_)[word] = live_[word];
        held_[word] = false;
    }
}

void SimProcess::write(const SimProcess& writer, std::size_t word, std::uint32_t value) {
    save_before(writer, word);
    live_[word] = value;
}

void SimProcess::write_computed() {
    Content computed = live_;
    program_.compute(computed, pe_);
    for (std::size_t word = 0; word < kWords; ++word) {
        if (computed[word] != live_[word]) {
            write(*this, word, computed[word]);
        }
    }
}

void SimProcess::make_version() {
    is_in_call_ = true;
    act(participant_.checkpoint(state()));
}

// One of which nothing comes may have words of behind the line: whoever knows that guards nothing any more.
void SimProcess::end_still(Participant::Do result) {
    if (world_.scenario().has_held && still_ && result == Participant::Do::committed) {
        world_.tell(&Observer::still_taken, self_, pe_, version_.next(), *still_);
    }
    still_.reset();
    held_ = {};
    guards_.clear();
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
