// Where an operation goes: the engine and the PE, resolved from what a C entry point was given. The checks cost one
// compare each and turn a stray PE number or a dead handle into one line instead of a wild store.
#pragma once

#include "shmem_ft/ops/engine.hpp"

namespace sft {

struct Target {
    Engine& engine;
    PeId pe;

    // This PE's view of the symmetric object on the target, or null when the target is unreachable.
    template <class T>
    [[nodiscard]] T* locate(T* symmetric) const noexcept {
        return static_cast<T*>(engine.peers.locate(symmetric, pe));
    }
};

[[noreturn]] void report_bad_pe(const char* routine, int pe, std::int32_t n_pes) noexcept;
[[noreturn]] void report_bad_context(const char* routine) noexcept;
[[noreturn]] void report_bad_argument(const char* routine, const char* what, long value) noexcept;

inline Target target(const char* routine, int pe) noexcept {
    Engine& e = engine(routine);
    if (static_cast<std::uint32_t>(pe) >= static_cast<std::uint32_t>(e.peers.n_pes)) [[unlikely]] {
        report_bad_pe(routine, pe, e.peers.n_pes);
    }
    return {e, PeId(pe)};
}

// pe counts in the team of the context.
inline Target target(const char* routine, CtxId context, int pe) noexcept {
    Engine& e = engine(routine);
    const ContextEntry* entry = e.contexts.find(context);
    if (entry == nullptr) [[unlikely]] {
        report_bad_context(routine);
    }
    if (static_cast<std::uint32_t>(pe) >= static_cast<std::uint32_t>(entry->group.size)) [[unlikely]] {
        report_bad_pe(routine, pe, entry->group.size);
    }
    return {e, entry->group.pe(pe)};
}

}  // namespace sft
