// SimProcess: what it can reach of another process's memory, as the library does it
// (recovery/memory_actions.cpp).
//
// On the own node memory is opened by the kernel's word about a process and stays mapped whatever becomes of its owner.
// That may fail although everybody lives: for lack of descriptors, say, or of permission. On another node it is reached
// by connections, which break and are made anew until one side knows the other to be dead.
#include <limits>

#include "base/report.hpp"
#include "recovery/membership/mutation.hpp"
#include "tests/sim/process.hpp"

namespace sft::sim {
namespace {

constexpr Time kPoll = 50 * kMicro;
// More than news of a death take: who has not heard of it by then knows that the other one lives.
constexpr Time kUntilGone = 10 * kMilli;
constexpr Time kNeverEnds = std::numeric_limits<Time>::max();

}  // namespace

// Where networks are cut without nodes everybody is far.
bool SimProcess::is_near(ProcId other) const {
    return world_.scenario().detection != Detection::heartbeats &&
           node_of(world_.scenario(), self_) == node_of(world_.scenario(), other);
}

// By what this process knows of deaths; others may be dead, or alive, without that it knows.
bool SimProcess::is_known_to_be_gone(ProcId other, Memory what) const {
    if (!contains(agreement_.known_deaths(), other)) {
        return false;
    }
    if (!is_near(other)) {
        return true;  // it answers no more, whoever has its memory
    }
    JobState known = state();
    known.deaths = agreement_.known_deaths();
    return !LeftMemory(world_.scenario().shape, known).has(other, what);
}

bool SimProcess::can_reach(ProcId other) {
    return is_near(other) || (world_.is_alive(other) && world_.is_data_reachable(self_, other) &&
                              world_.process(other).takes_from(self_));
}

// gone: the death is known here, and will be decided about.
void SimProcess::open(ProcId other, Memory what, Opened then) {
    world_.later(self_, work_delay(), [this, other, what, then = std::move(then)] {
        if (other != self_ && is_known_to_be_gone(other, what)) {
            then(Reach::gone);
        } else if (!is_near(other) && !can_reach(other)) {
            world_.later(self_, kPoll, [this, other, what, then] { open(other, what, then); });
        } else if (other == self_ || !is_near(other)) {
            then(Reach::opened);
        } else if (!world_.has_memory_of(other, what)) {
            await_death(other, what, kNeverEnds, then);
        } else if (world_.cannot_open(self_)) {
            world_.trace(self_, format("cannot open the memory of p%d", other.value()));
            world_.tell(&Observer::could_not_open, self_);
            await_death(other, what, world_.now() + kUntilGone, then);
        } else {
            then(Reach::opened);
        }
    });
}

// Nobody would decide anything about one that lives, or whose memory outlives it, so this process says what is wrong.
void SimProcess::await_death(ProcId other, Memory what, Time until, Opened then) {
    if (is_known_to_be_gone(other, what) || is_mutated(Mutation::take_closed_for_dead)) {
        then(Reach::gone);
    } else if (world_.now() >= until) {
        fail_job(other);
    } else {
        world_.later(self_, kPoll,
                     [this, other, what, until, then = std::move(then)] { await_death(other, what, until, then); });
    }
}

void SimProcess::fail_job(ProcId culprit) {
    world_.trace(self_, format("cannot reach the memory of p%d, which lives", culprit.value()));
    world_.tell(&Observer::blamed, self_, culprit);
    request_end(EndReason::requested);
}

}  // namespace sft::sim
