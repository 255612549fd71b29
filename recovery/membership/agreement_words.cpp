// Words of readiness ("Words of readiness" in agreement.hpp).

#include <algorithm>
#include <vector>

#include "base/assert.hpp"
#include "base/faults/fault_points.hpp"
#include "recovery/membership/agreement.hpp"

namespace sft {

bool Agreement::is_open() const noexcept {
    return world_->has_ready_words() && goal_by_words(state_.stage) != Goal::none && closed_index_ != state_.index &&
           is_participant_ && !is_stopped_;
}

// A word is that of the value for which its process was ready last. Who is further has come there by the words as well:
// while this process has joined no ballot about its value, nothing else leads on from it.
bool Agreement::has_word(ProcId process) const { return world_->ready_word_of(process) >= word_of(state_); }

std::vector<ProcId> Agreement::missing_words() const {
    std::vector<ProcId> missing;
    for (std::int32_t pe = 0; pe < shape_.n_pes; ++pe) {
        const ProcId holder = shape_.holder(state_, PeId(pe));
        if (!has_word(holder)) {
            missing.push_back(holder);
        }
    }
    return missing;
}

bool Agreement::are_all_words_there() const {
    if (!world_->has_ready_words() || goal_by_words(state_.stage) == Goal::none) {
        return false;
    }
    const std::int32_t n_awaited = shape_.n_pes - (is_mutated(Mutation::decide_without_word) ? 1 : 0);
    for (std::int32_t pe = 0; pe < n_awaited; ++pe) {
        if (!has_word(shape_.holder(state_, PeId(pe)))) {
            return false;
        }
    }
    return true;
}

void Agreement::vote() {
    if (!has_word(self_)) {
        world_->write_ready_word(word_of(state_));
        SFT_ASSERT(has_word(self_));
        fault_point(FaultPoint::word_written);
    }
    if (are_all_words_there()) {
        world_->wake_for_words();
        look();
    }
}

void Agreement::look() {
    if ((is_open() || is_mutated(Mutation::vote_in_ballot)) && !is_over() && are_all_words_there()) {
        SFT_ASSERT_SLOW(missing_words().empty());
        adopt(rules_->after_ready(state_, goal_by_words(state_.stage)));
        progress();
    }
}

// This process is ready for something that words cannot say.
void Agreement::want_ballot() {
    SFT_ASSERT(is_participant_ && own_ready_.goal != Goal::none);
    const ProcId leading = leader();
    if (leading == self_) {
        progress();
    } else if (leading != kNoProc) {
        world_->send(leading, make(MessageKind::ballot_wanted));
    }
}

// Who asks may be further than this process, which comes there without anybody's help.
void Agreement::take_ballot_wanted(const Message& message) {
    SFT_ASSERT(message.kind == MessageKind::ballot_wanted);
    if (message.index >= state_.index) {
        wanted_index_ = std::max(wanted_index_.value_or(0), message.index);
        progress();
    }
}

// The leader of an open value: whether anything but words may have to lead on from it.
bool Agreement::has_to_choose() const {
    const bool is_ready_otherwise = own_ready_.goal != Goal::none && own_ready_.goal != goal_by_words(state_.stage);
    return is_ready_otherwise || wanted_index_ == state_.index || end_request_.is_set || heard_end_.is_set ||
           (!joining_.empty() && can_join_now()) ||
           std::any_of(dead_.begin(), dead_.end(), [&](const Death& death) { return is_participant(death.process); });
}

}  // namespace sft
