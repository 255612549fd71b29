// What an entry does behind its operation when a fault is pending: nothing, or what shmem_ft_on_fault has chosen.
//
// A jump to the application's rollback point, or its exception, leaves from here, where all of the library's frames
// above the entry have returned: it skips no destructor and leaves no lock behind. Entries may have no object with a
// destructor alive, and nothing between them and here is noexcept.
#pragma once

#include <type_traits>

#include "shmem_ft/ops/act_on_fault.hpp"
#include "shmem_ft/ops/check_transfer.hpp"
#include "shmem_ft/ops/engine.hpp"
#include "shmem_ft/ops/target.hpp"

namespace sft {

// Costs a load and a branch while there is no fault.
[[gnu::always_inline]] inline void look_for_fault(const Engine* e, const char* routine) {
    if (e->gate.is_pending()) [[unlikely]] {
        act_on_fault(routine);
    }
}

// The result of an operation that is dropped.
template <class T>
constexpr T nothing() noexcept {
    return T();
}

// An entry with a target whose hot path has no room for a call.
template <class T>
[[gnu::cold, gnu::noinline]] T after_fault(const char* routine, T result) {
    act_on_fault(routine);
    return result;
}

template <class T>
inline T result_unless_fault(const Target& to, const char* routine, T result) {
    return to.engine.gate.is_pending() ? after_fault(routine, result) : result;
}

// The fault is met when the target is gone: a jump would skip its destructor.
template <class T>
inline T result_unless_fault(const CheckedTarget& to, const char*, T result) noexcept {
    to.meet_fault_behind();
    return result;
}

// REQUIRES: inside init and finalize. `e` is one of the pointers to the engine, read again behind the operation: then
// no register has to be kept for it.
template <class Operation>
inline auto then_look_for_fault(Engine* const& e, const char* routine, Operation&& operation) {
    if constexpr (std::is_void_v<std::invoke_result_t<Operation>>) {
        operation();
        look_for_fault(e, routine);
    } else {
        const auto result = operation();
        look_for_fault(e, routine);
        return result;
    }
}

// For an operation with a CheckedTarget, which tells whether it is one that meets faults.
template <class Operation>
inline auto then_look_if(const bool& meets_fault, const char* routine, Operation&& operation) {
    if constexpr (std::is_void_v<std::invoke_result_t<Operation>>) {
        operation();
        if (meets_fault) {
            look_for_fault(g_engine, routine);
        }
    } else {
        const auto result = operation();
        if (meets_fault) {
            look_for_fault(g_engine, routine);
        }
        return result;
    }
}

}  // namespace sft
