// Deaths of which no leader shows that it knows ("News" in agreement.hpp).

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/assert.hpp"
#include "recovery/membership/agreement.hpp"

namespace sft {

bool Agreement::is_participant(ProcId process) const {
    return shape_.held_by(state_, process) != kNoPe || state_.witness == process;
}

void Agreement::note_what_leader_knows(ProcId from, std::span<const Death> deaths) {
    const bool does_know_all = std::all_of(dead_.begin(), dead_.end(), [&](const Death& death) {
        return contains(deaths, death.process) || !is_participant(death.process);
    });
    SFT_ASSERT(n_confirmed_deaths_ <= dead_.size());  // deaths are never forgotten
    if (does_know_all && from == leader()) {
        confirmed_by_ = from;
        n_confirmed_deaths_ = dead_.size();
    }
}

bool Agreement::is_in_doubt(ProcId leading) const {
    if (is_over() || is_stopped_ || is_dismissed_ || leading == self_) {
        return false;
    }
    if (leading == kNoProc) {
        return true;
    }
    const bool does_leader_know = is_participant_ ? ballot_.leader == leading.value() && deaths_since_ballot().empty()
                                                  : confirmed_by_ == leading && n_confirmed_deaths_ == dead_.size();
    // In the value deaths are in the order in which they were agreed on.
    const auto is_agreed = [&](ProcId process) {
        return std::any_of(state_.deaths.begin(), state_.deaths.end(),
                           [&](const Death& death) { return death.process == process; });
    };
    return !does_leader_know && std::any_of(dead_.begin(), dead_.end(), [&](const Death& death) {
        return is_participant(death.process) && !is_agreed(death.process);
    });
}

// Unlike `deaths` it does not mean that the sender takes this process for the leader and has missed a value. A
// participant that knew of one before its parent in the tree would say things that the parent does not understand yet;
// a sleeping spare may have to know who has joined, to miss it.
void Agreement::take_news(ProcId from, const Message& message) {
    if (!message.state) {
        return;
    }
    const JobState& known = *message.state;
    const bool believes_to_take_part = shape_.held_by(known, from) != kNoPe || known.witness == from;
    bool is_news = learn_told(message.deaths);
    if (message.index > state_.index && !is_participant_) {
        take_later_state(message);
        is_news = true;
    } else if (message.index < state_.index && is_participant(from) && !believes_to_take_part) {
        tell_of_later_value(from);
    }
    if (is_news) {
        react_to_deaths();
    }
}

Message Agreement::news() const {
    Message message = make(MessageKind::news);
    message.state = state_;
    message.deaths = dead_;
    return message;
}

void Agreement::give_way() {
    if (is_over() || is_stopped_) {
        return;
    }
    const NodeId own = shape_.node_of(state_, self_);
    const auto tell = [&](ProcId process) {
        if (process != self_ && shape_.node_of(state_, process) == own && !contains(dead_, process)) {
            world_->send(process, make(MessageKind::excluded));
        }
    };
    for (std::int32_t process = 0; process < shape_.n_processes; ++process) {
        tell(ProcId(process));
    }
    for (const Joined& joined : state_.joined) {
        tell(joined.process);
    }
    stop({.reason = Stop::Reason::gives_way});
}

void Agreement::remind() {
    constexpr std::int32_t kPatience = 2;  // periods; a ballot takes far less
    const ProcId leading = leader();
    if (!is_in_doubt(leading)) {
        doubt_ = {};
        return;
    }
    if (doubt_.n_deaths != dead_.size() || doubt_.leader != leading) {
        doubt_ = {leading, dead_.size(), 0};
    }
    const std::int32_t n_done = doubt_.n_periods++ - kPatience;
    if (n_done < 0 || n_done > 30 || is_mutated(Mutation::remind_nobody)) {
        return;
    }
    // The first in the line has been told: the leader, or the spare who asks the others.
    const Tree tree(shape_, state_, dead_, fan_out_);
    const std::vector<ProcId> idle = shape_.idle_spares(state_, dead_);
    const auto n_participants = static_cast<std::size_t>(tree.size());
    const std::size_t begin = std::size_t{1} << n_done;
    const std::size_t end = std::min(2 * begin, n_participants + idle.size());
    const Message message = news();
    for (std::size_t i = begin; i < end; ++i) {
        SFT_ASSERT(i >= 1);  // the first one has been told already
        const ProcId to = i < n_participants ? tree.process_at(static_cast<std::int32_t>(i)) : idle[i - n_participants];
        if (to != self_) {
            world_->send(to, message);
        }
    }
}

}  // namespace sft
