// How an entry of the C interface is made: a strong definition under the profiling name pshmem_x and shmem_x as a weak
// alias of it, so that a tool may redefine shmem_x, in a program linked statically as well as dynamically. The public
// headers are included, so a definition that differs from its prototype does not compile.
//
// An entry is one line: it resolves its target and calls an operation. No logic here.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>

#include "include/pshmem.h"
#include "include/shmem.h"
#include "shmem_ft/api/fault_action.hpp"
#include "shmem_ft/api/startup_call.hpp"
#include "shmem_ft/api/types.def"
#include "shmem_ft/ops/check_transfer.hpp"
#include "shmem_ft/ops/target.hpp"

#define SFT_TEXT_(x) #x
#define SFT_TEXT(x) SFT_TEXT_(x)
#define SFT_JOIN_(a, b) a##b
#define SFT_JOIN(a, b) SFT_JOIN_(a, b)
#define SFT_OPEN(...) __VA_ARGS__

// Every entry begins with the same branch: calls that are to be checked or recorded, and calls outside init and
// finalize, evaluate the entry's expression elsewhere. The copies of the parameters for that are made there: were they
// captured by reference, every call would have to spill them. The second form finds in `site` where the entry returns
// to.
#define SFT_ELSEWHERE(RESULT, ...)                                          \
    if (sft::is_looked_at()) [[unlikely]] {                                 \
        return [=]() __attribute__((noinline, cold))->RESULT __VA_ARGS__(); \
    }
#define SFT_ELSEWHERE_FROM(RESULT, ...)                                                                           \
    if (sft::is_looked_at()) [[unlikely]] {                                                                       \
        return [ =, site = __builtin_return_address(0) ]() __attribute__((noinline, cold))->RESULT __VA_ARGS__(); \
    }
#define SFT_ALIAS(RESULT, NAME, PARAMETERS) \
    extern "C" __attribute__((weak, alias(SFT_TEXT(SFT_JOIN(p, NAME))))) RESULT NAME PARAMETERS;

// The entry NAME with the parenthesised PARAMETERS; the rest is the expression it evaluates.
#define SFT_ENTRY(RESULT, NAME, PARAMETERS, ...)       \
    extern "C" RESULT SFT_JOIN(p, NAME) PARAMETERS {   \
        SFT_ELSEWHERE(RESULT, { return __VA_ARGS__; }) \
        return __VA_ARGS__;                            \
    }                                                  \
    SFT_ALIAS(RESULT, NAME, PARAMETERS)

// An entry that brings something to the program without waiting. TOLD is an expression for what the record of the
// start-up has to know of the call (ops/startup.hpp), made of `told` and the engine `e`.
#define SFT_TOLD_ENTRY(RESULT, NAME, PARAMETERS, TOLD, ...)                                                   \
    extern "C" RESULT SFT_JOIN(p, NAME) PARAMETERS {                                                          \
        SFT_ELSEWHERE_FROM(RESULT, {                                                                          \
            return sft::looked_at<RESULT, sft::MeetsFault::no>(                                               \
                sft::CallSite{SFT_TEXT(NAME), site},                                                          \
                [&](const sft::StartupCall& told, [[maybe_unused]] sft::Engine& e) noexcept { return TOLD; }, \
                [&]() noexcept -> RESULT { return __VA_ARGS__; });                                            \
        })                                                                                                    \
        return __VA_ARGS__;                                                                                   \
    }                                                                                                         \
    SFT_ALIAS(RESULT, NAME, PARAMETERS)

// An entry that waits for other PEs, or that programs wait with: it is where a fault is met, and behind it the program
// may read what others have written. The expression finds in `call` whether its arguments are to be checked.
#define SFT_WAITING_ENTRY(RESULT, NAME, PARAMETERS, ...) \
    SFT_WAITING_TOLD_ENTRY(RESULT, NAME, PARAMETERS, told, __VA_ARGS__)
#define SFT_WAITING_TOLD_ENTRY(RESULT, NAME, PARAMETERS, TOLD, ...)                                           \
    extern "C" RESULT SFT_JOIN(p, NAME) PARAMETERS {                                                          \
        SFT_ELSEWHERE_FROM(RESULT, {                                                                          \
            return sft::looked_at<RESULT>(                                                                    \
                sft::CallSite{SFT_TEXT(NAME), site},                                                          \
                [&](const sft::StartupCall& told, [[maybe_unused]] sft::Engine& e) noexcept { return TOLD; }, \
                [&]() noexcept -> RESULT {                                                                    \
                    const sft::CheckedCall call(SFT_TEXT(NAME));                                              \
                    return __VA_ARGS__;                                                                       \
                });                                                                                           \
        })                                                                                                    \
        return sft::then_look_for_fault(sft::g_fast_engine, SFT_TEXT(NAME), [&]() noexcept -> RESULT {        \
            [[maybe_unused]] constexpr sft::UncheckedCall call{};                                             \
            return __VA_ARGS__;                                                                               \
        });                                                                                                   \
    }                                                                                                         \
    SFT_ALIAS(RESULT, NAME, PARAMETERS)

// An entry with a parameter pe. The expression finds the target in `to`, which checks or does not, and the name of the
// routine in `routine`. These are the hot paths: flatten puts all of it, down to the store, into the entry.
#define SFT_ENTRY_TO(RESULT, NAME, PARAMETERS, PE, ...)                                              \
    extern "C" __attribute__((flatten)) RESULT SFT_JOIN(p, NAME) PARAMETERS {                        \
        [[maybe_unused]] constexpr const char* routine = SFT_TEXT(NAME);                             \
        SFT_ELSEWHERE_FROM(RESULT, {                                                                 \
            bool meets_fault = false;                                                                \
            return sft::then_look_if(meets_fault, routine, [&]() noexcept -> RESULT {                \
                const sft::CheckedTarget to(meets_fault, sft::CallSite{routine, site}, SFT_OPEN PE); \
                if (to.is_nobody()) {                                                                \
                    return sft::nothing<RESULT>();                                                   \
                }                                                                                    \
                return __VA_ARGS__;                                                                  \
            });                                                                                      \
        })                                                                                           \
        const sft::Target to = sft::target(routine, SFT_OPEN PE);                                    \
        if (to.is_nobody()) [[unlikely]] {                                                           \
            return sft::nothing<RESULT>();                                                           \
        }                                                                                            \
        return __VA_ARGS__;                                                                          \
    }                                                                                                \
    SFT_ALIAS(RESULT, NAME, PARAMETERS)

// The same twice: shmem_TAIL for the world and shmem_ctx_TAIL for the team of a context.
#define SFT_ENTRY_AND_CTX(RESULT, TAIL, PARAMETERS, ...)              \
    SFT_ENTRY_TO(RESULT, shmem_##TAIL, PARAMETERS, (pe), __VA_ARGS__) \
    SFT_ENTRY_TO(RESULT, shmem_ctx_##TAIL, (shmem_ctx_t ctx, SFT_OPEN PARAMETERS), (sft::ctx_id(ctx), pe), __VA_ARGS__)

// SFT_FOR_<column>(M): M(name, type) for every row of types.def with a 1 in the column.
#define SFT_WHEN_0(...)
#define SFT_WHEN_1(...) __VA_ARGS__
#define SFT_FOR_RMA(M) SFT_TYPES(SFT_PICK_RMA, M)
#define SFT_FOR_AMO(M) SFT_TYPES(SFT_PICK_AMO, M)
#define SFT_FOR_EXT(M) SFT_TYPES(SFT_PICK_EXT, M)
#define SFT_FOR_BIT(M) SFT_TYPES(SFT_PICK_BIT, M)
#define SFT_FOR_P2P(M) SFT_TYPES(SFT_PICK_P2P, M)
#define SFT_FOR_WAIT(M) SFT_TYPES(SFT_PICK_WAIT, M)
#define SFT_FOR_OLD_EXT(M) SFT_TYPES(SFT_PICK_OLD_EXT, M)
#define SFT_FOR_OLD_AMO(M) SFT_TYPES(SFT_PICK_OLD_AMO, M)
#define SFT_FOR_LOGIC(M) SFT_TYPES(SFT_PICK_LOGIC, M)
#define SFT_FOR_MINMAX(M) SFT_TYPES(SFT_PICK_MINMAX, M)
#define SFT_FOR_SUM(M) SFT_TYPES(SFT_PICK_SUM, M)
#define SFT_FOR_LOGIC_ALL(M) SFT_TYPES(SFT_PICK_LOGIC_ALL, M)
#define SFT_FOR_MINMAX_ALL(M) SFT_TYPES(SFT_PICK_MINMAX_ALL, M)
#define SFT_FOR_SUM_ALL(M) SFT_TYPES(SFT_PICK_SUM_ALL, M)

// clang-format off
#define SFT_PICK_RMA(M, N, T, rma, ...) SFT_WHEN_##rma(M(N, T))
#define SFT_PICK_AMO(M, N, T, rma, amo, ...) SFT_WHEN_##amo(M(N, T))
#define SFT_PICK_EXT(M, N, T, rma, amo, ext, ...) SFT_WHEN_##ext(M(N, T))
#define SFT_PICK_BIT(M, N, T, rma, amo, ext, bit, ...) SFT_WHEN_##bit(M(N, T))
#define SFT_PICK_P2P(M, N, T, rma, amo, ext, bit, p2p, ...) SFT_WHEN_##p2p(M(N, T))
#define SFT_PICK_WAIT(M, N, T, rma, amo, ext, bit, p2p, wait, ...) SFT_WHEN_##wait(M(N, T))
#define SFT_PICK_OLD_EXT(M, N, T, rma, amo, ext, bit, p2p, wait, old_ext, ...) SFT_WHEN_##old_ext(M(N, T))
#define SFT_PICK_OLD_AMO(M, N, T, rma, amo, ext, bit, p2p, wait, old_ext, old_amo, ...) SFT_WHEN_##old_amo(M(N, T))
#define SFT_PICK_LOGIC(M, N, T, rma, amo, ext, bit, p2p, wait, old_ext, old_amo, logic, ...) SFT_WHEN_##logic(M(N, T))
#define SFT_PICK_MINMAX(M, N, T, rma, amo, ext, bit, p2p, wait, old_ext, old_amo, logic, minmax, ...) \
    SFT_WHEN_##minmax(M(N, T))
#define SFT_PICK_SUM(M, N, T, rma, amo, ext, bit, p2p, wait, old_ext, old_amo, logic, minmax, sum, ...) \
    SFT_WHEN_##sum(M(N, T))
#define SFT_PICK_LOGIC_ALL(M, N, T, rma, amo, ext, bit, p2p, wait, old_ext, old_amo, logic, minmax, sum, l, ...) \
    SFT_WHEN_##l(M(N, T))
#define SFT_PICK_MINMAX_ALL(M, N, T, rma, amo, ext, bit, p2p, wait, old_ext, old_amo, logic, minmax, sum, l, m, ...) \
    SFT_WHEN_##m(M(N, T))
#define SFT_PICK_SUM_ALL(M, N, T, rma, amo, ext, bit, p2p, wait, old_ext, old_amo, logic, minmax, sum, l, m, s) \
    SFT_WHEN_##s(M(N, T))
// clang-format on

namespace sft {

// Handles are indices in disguise.
inline TeamId team_id(shmem_team_t team) noexcept { return TeamId(reinterpret_cast<std::uintptr_t>(team)); }
inline CtxId ctx_id(shmem_ctx_t ctx) noexcept { return CtxId(reinterpret_cast<std::uintptr_t>(ctx)); }
inline shmem_team_t team_handle(TeamId id) noexcept { return reinterpret_cast<shmem_team_t>(id.value()); }
inline shmem_ctx_t ctx_handle(CtxId id) noexcept { return reinterpret_cast<shmem_ctx_t>(id.value()); }

}  // namespace sft
