// How an entry that brings data or a decision is carried out before the first checkpoint: it is recorded, or, in a
// substitute, delivered from the record (ops/startup.hpp). Reached only from the branch for calls that are looked at.
#pragma once

#include <cstdint>
#include <type_traits>

#include "shmem_ft/api/fault_action.hpp"
#include "shmem_ft/ops/startup.hpp"

namespace sft {

// An argument as it is recorded, and as PEs compare it.
[[nodiscard]] inline std::uint64_t bits(int value) noexcept { return static_cast<std::uint64_t>(std::int64_t{value}); }

// Whether the entry is one where a fault is met.
enum class MeetsFault { no, yes };

template <MeetsFault Meets, class Run>
inline auto carry_out(const char* routine, Run&& run) {
    if constexpr (Meets == MeetsFault::yes) {
        return then_look_for_fault(g_engine, routine, run);
    } else {
        return run();
    }
}

// tell(call, e): what there is to know of the call before. run(): the operation.
template <class Result, MeetsFault Meets = MeetsFault::yes, class Tell, class Run>
inline Result looked_at(CallSite where, Tell&& tell, Run&& run) {
    Engine& e = running_engine(where.routine);
    if (e.startup == nullptr) {
        return carry_out<Meets>(where.routine, run);
    }
    StartupCall told;
    told.where = where;
    const StartupCall call = tell(told, e);
    if (call.makes_handles()) {
        e.startup->prepare_handles(call);
    }
    if constexpr (std::is_void_v<Result>) {
        if (!e.startup->replay(call, nullptr, 0)) {
            carry_out<Meets>(where.routine, run);
            e.startup->record(call, nullptr, 0);
        }
    } else {
        Result result{};
        if (e.startup->is_replaying() && call.is_carried_out()) {
            result = run();
        }
        if (!e.startup->replay(call, &result, sizeof result)) {
            result = carry_out<Meets>(where.routine, run);
            e.startup->record(call, &result, sizeof result);
        }
        return result;
    }
}

}  // namespace sft
