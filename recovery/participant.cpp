#include "recovery/participant.hpp"

#include "base/assert.hpp"
#include "recovery/membership/mutation.hpp"

namespace sft {

// ---- the calls ----

Participant::Do Participant::checkpoint(const JobState& state) {
    SFT_ASSERT(call_ == Call::none && work_ == Do::wait);  // one collective call at a time
    call_ = Call::checkpoint;
    has_replicated_ = false;
    has_updated_ = false;
    return decided(state);
}

Participant::Do Participant::restart(const JobState& state, std::uint64_t list_hash, bool joins) {
    SFT_ASSERT(call_ == Call::none && work_ == Do::wait);
    call_ = Call::restart;
    list_hash_ = list_hash;
    joins_ = joins;
    view_before_ = state.view;
    rejections_before_ = state.rejections;
    has_restored_ = false;
    return decided(state);
}

Participant::Do Participant::finish(const JobState& state) {
    SFT_ASSERT(call_ == Call::none && work_ == Do::wait);
    call_ = Call::finish;
    return decided(state);
}

Participant::Do Participant::decided(const JobState& state) {
    if (work_ != Do::wait) {
        return work_;  // it is completed first, whatever has been decided meanwhile
    }
    SFT_ASSERT(state.index >= begun_index_ && state.index >= index_);  // values come in the order of their indices
    ready_ = {};
    if (call_ != Call::none && state.stage == Stage::ended) {
        return leave(Do::ended);
    }
    switch (call_) {
        case Call::none: return Do::wait;
        case Call::checkpoint: return step_checkpoint(state);
        case Call::restart: return step_restart(state);
        case Call::finish: return step_finish(state);
    }
    return Do::wait;
}

Participant::Do Participant::done(const JobState& state, Outcome result) {
    const Do work = std::exchange(work_, Do::wait);
    SFT_ASSERT(work != Do::wait && call_ != Call::none);
    SFT_ASSERT(state.index >= begun_index_);
    SFT_ASSERT(result == Outcome::ok || work == Do::restore || work == Do::protect);  // only these read copies
    if (result == Outcome::corrupt) {
        return leave(Do::give_up);
    }
    const bool is_ok = result == Outcome::ok;
    switch (work) {
        case Do::replicate: has_replicated_ = is_ok; break;
        case Do::update_local_copy: has_updated_ = is_ok; break;
        case Do::restore: has_restored_ = is_ok; break;
        case Do::protect:
            if (is_ok) {
                protected_under_ = begun_index_;
            }
            break;
        default: break;
    }
    if (!is_ok && state.index == begun_index_) {
        return Do::wait;  // the source is dead; what follows from its death will be decided
    }
    return decided(state);
}

// ---- helpers ----

Participant::Do Participant::become_ready(const JobState& state, Goal goal, std::uint64_t hash) {
    SFT_ASSERT(call_ != Call::none && work_ == Do::wait);
    SFT_ASSERT(goal != Goal::none && goal != Goal::any);
    SFT_ASSERT(!is_over(state) && state.index >= index_);
    ready_ = {goal, hash};
    index_ = state.index;
    return Do::wait;
}

Participant::Do Participant::work(const JobState& state, Do what) {
    SFT_ASSERT(work_ == Do::wait);
    SFT_ASSERT(what == Do::replicate || what == Do::update_local_copy || what == Do::restore || what == Do::protect);
    SFT_ASSERT(what != Do::restore || state.version != kNoVersion);
    work_ = what;
    begun_index_ = state.index;
    return what;
}

Participant::Do Participant::leave(Do result) {
    SFT_ASSERT(work_ == Do::wait);  // no work is under way when the application goes on
    SFT_ASSERT(result >= Do::give_up);
    call_ = Call::none;
    return result;
}

// ---- what a value means for a call ----

Participant::Do Participant::step_checkpoint(const JobState& state) {
    switch (state.stage) {
        case Stage::replicating:
            return has_replicated_ ? become_ready(state, Goal::replicate) : work(state, Do::replicate);
        case Stage::updating:
            // It was proposed when everybody had replicated, and nobody comes into this call meanwhile.
            SFT_ASSERT(has_replicated_ || is_mutated(Mutation::commit_before_replicated));
            has_updated_ = has_updated_ || is_mutated(Mutation::skip_updating);
            return has_updated_ ? become_ready(state, Goal::update) : work(state, Do::update_local_copy);
        case Stage::finished: return leave(Do::ended);
        default: break;
    }
    // Whoever has updated its local copy has seen the commit; a fault that was declared straight after it is the next
    // call's.
    if (has_updated_) {
        SFT_ASSERT(state.version != kNoVersion);
        return leave(Do::committed);
    }
    return state.stage == Stage::running ? become_ready(state, Goal::arrive) : leave(Do::fault);
}

Participant::Do Participant::step_restart(const JobState& state) {
    SFT_ASSERT(state.view >= view_before_ && state.rejections >= rejections_before_);
    // A slow process may find that the others have resumed, and even met the next fault already.
    if (state.view != view_before_) {
        return leave(Do::resumed);
    }
    switch (state.stage) {
        case Stage::running:
        case Stage::faulted:
            if (joins_) {
                return leave(Do::resumed);
            }
            return state.rejections != rejections_before_ ? leave(Do::rejected)
                                                          : become_ready(state, Goal::restart, list_hash_);
        case Stage::planned: return has_restored_ ? become_ready(state, Goal::restore) : work(state, Do::restore);
        case Stage::restored:
            SFT_ASSERT(has_restored_);  // everybody was ready for it
            return protected_under_ == state.index ? become_ready(state, Goal::protect) : work(state, Do::protect);
        default: return Do::wait;
    }
}

Participant::Do Participant::step_finish(const JobState& state) {
    switch (state.stage) {
        case Stage::running: return become_ready(state, Goal::finish);
        case Stage::finished: return leave(Do::finished);
        default: return leave(Do::fault);
    }
}

}  // namespace sft
