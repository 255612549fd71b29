// What can be seen of a simulated job from outside. The checkers get these events and nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recovery/membership/agreement.hpp"
#include "recovery/membership/job_state.hpp"
#include "recovery/membership/message.hpp"
#include "recovery/participant.hpp"
#include "tests/sim/memory.hpp"

namespace sft::sim {

using Time = std::int64_t;  // ns
inline constexpr Time kMicro = 1000;
inline constexpr Time kMilli = 1000 * kMicro;

enum class Call : std::uint8_t { checkpoint, restart, finish };
[[nodiscard]] const char* name_of(Call call) noexcept;
[[nodiscard]] const char* name_of(Participant::Do what) noexcept;

// Where a copy is: the local copy of the process, or one of the two slots in which it keeps a shadow of `pe`.
struct Place {
    ProcId process = kNoProc;
    PeId pe = kNoPe;
    std::int32_t slot = -1;  // -1: the local copy
    // In memory of the node: instead of the process. It stays when the keeper is another one.
    NodeId node = kNoNode;

    friend auto operator<=>(const Place&, const Place&) noexcept = default;
};

// How a simulated process came to its end.
enum class Gone : std::uint8_t { killed, stopped_itself, finished, ended };

enum class RestoredFrom : std::uint8_t {
    own_copy,
    shadow,            // as a substitute
    shadow_to_mend,    // the own copy was bad
    copy_of_the_dead,  // the local copy that the one before has left, as a substitute
};

class Observer {
public:
    virtual ~Observer() = default;

    // All participants' words of readiness are there, as this process finds.
    virtual void found_all_words(ProcId /*process*/) {}
    virtual void recorded(ProcId /*process*/, const JobState& /*value*/) {}
    virtual void decided(ProcId /*process*/, const JobState& /*before*/, const JobState& /*after*/) {}
    virtual void gone(ProcId /*process*/, Gone /*how*/) {}
    // Somebody was told by the world, or by others, that `death.process` is dead.
    virtual void told_of_death(ProcId /*process*/, const Death& /*death*/) {}
    virtual void heard_of_death(ProcId /*process*/, const Death& /*death*/) {}
    virtual void requested_end(ProcId /*process*/, EndReason /*reason*/) {}
    // version: of the last checkpoint or restart that this program knows of.
    virtual void entered(ProcId /*process*/, PeId /*pe*/, Call /*call*/, std::uint32_t /*view*/, Version /*version*/) {}
    virtual void returned(ProcId /*process*/, PeId /*pe*/, Call /*call*/, Participant::Do /*result*/,
                          std::uint32_t /*view*/, Version /*version*/) {}
    virtual void gave_list(ProcId /*process*/, std::uint32_t /*view*/, const std::vector<FailedPe>& /*list*/) {}
    virtual void gave_list_as_substitute(PeId /*pe*/, const std::vector<FailedPe>& /*list*/) {}
    // state: the last value that it has decided.
    virtual void gave_up(ProcId /*process*/, PeId /*pe*/, const JobState& /*state*/) {}
    virtual void must_stop(ProcId /*process*/, const JobState& /*state*/, const Stop& /*why*/) {}
    // view: of the value under which it goes back.
    virtual void restored(ProcId /*process*/, std::uint32_t /*view*/, RestoredFrom /*where*/) {}
    virtual void could_not_open(ProcId /*process*/) {}
    // It ends the job because it cannot reach the memory of `culprit`, which lives.
    virtual void blamed(ProcId /*process*/, ProcId /*culprit*/) {}
    virtual void shadow_sent_anew(ProcId /*process*/) {}
    virtual void bit_flipped(const Place& /*place*/) {}
    virtual void live_memory(ProcId /*process*/, PeId /*pe*/, Version /*version*/, const Content& /*content*/) {}
    // Of what `version` is going to be made, while the program goes on; and what has become of it.
    virtual void still_taken(ProcId /*process*/, PeId /*pe*/, Version /*version*/, const Content& /*content*/) {}
    virtual void settled(ProcId /*process*/, Participant::Do /*result*/) {}
    virtual void copy_begun(const Place& /*place*/) {}
    virtual void copy_done(const Place& /*place*/, Version /*version*/, const Content& /*content*/) {}
    virtual void put_applied(ProcId /*from*/, std::uint32_t /*view*/, PeId /*pe*/, ProcId /*to*/,
                             std::uint32_t /*view_there*/) {}
    virtual void sent(ProcId /*from*/, ProcId /*to*/, const Message& /*message*/, std::int32_t /*hops*/) {}
    virtual void handled(ProcId /*by*/, bool /*is_idle_spare*/, const Message& /*message*/) {}
    virtual void over() {}
};

// What the checkers found: the first violation ends the run.
class Verdict {
public:
    void fail(const char* checker, std::string text) {
        if (text_.empty()) {
            text_ = std::string(checker) + ": " + std::move(text);
        }
    }
    [[nodiscard]] bool has_failed() const noexcept { return !text_.empty(); }
    [[nodiscard]] const std::string& text() const noexcept { return text_; }

private:
    std::string text_;
};

}  // namespace sft::sim
