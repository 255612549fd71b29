// What an entry does behind its operation when a fault is pending: nothing, or what shmem_ft_on_fault has chosen.
//
// A jump to the application's rollback point leaves from here, where all of the library's frames above the entry have
// returned: it skips no destructor and leaves no lock behind. Entries may have no object with a destructor alive.
#pragma once

#include <type_traits>

#include "shmem_ft/ops/engine.hpp"

namespace sft {

// Comes back, unless the chosen action is a jump or the end of the job.
void act_on_fault(const char* routine) noexcept;

// REQUIRES: inside init and finalize. Costs a load and a branch while there is no fault.
inline void look_for_fault(const char* routine) noexcept {
    if (g_engine->gate.is_pending()) [[unlikely]] {
        act_on_fault(routine);
    }
}

// The result of an operation that is dropped.
template <class T>
constexpr T nothing() noexcept {
    return T();
}

// The same for an entry whose hot path has no room for a call.
template <class T>
[[gnu::cold, gnu::noinline]] T after_fault(const char* routine, T result) noexcept {
    act_on_fault(routine);
    return result;
}

template <class T>
inline T result_unless_fault(const char* routine, T result) noexcept {
    return g_engine->gate.is_pending() ? after_fault(routine, result) : result;
}

template <class Operation>
inline auto then_look_for_fault(const char* routine, Operation&& operation) noexcept {
    if constexpr (std::is_void_v<std::invoke_result_t<Operation>>) {
        operation();
        look_for_fault(routine);
    } else {
        const auto result = operation();
        look_for_fault(routine);
        return result;
    }
}

}  // namespace sft
