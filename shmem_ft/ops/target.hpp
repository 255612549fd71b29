// Where an operation goes: the engine and the PE, resolved from what a C entry point was given. The checks cost one
// compare each and turn a stray PE number or a dead handle into one line instead of a wild store.
#pragma once

#include "shmem_ft/ops/engine.hpp"

namespace sft {

struct Target {
    Engine& engine;
    PeId pe;  // kNoPe: nothing is to be done

    [[nodiscard]] bool is_nobody() const noexcept { return pe == kNoPe; }

    // This PE's view of the symmetric object on the target. Null when it is not mapped here: then one of the functions
    // of remote.hpp has to follow, which looks why.
    template <class T>
    [[nodiscard]] T* locate(T* symmetric) const noexcept {
        return static_cast<T*>(engine.peers.find(symmetric, pe));
    }
    // Behind every write to what locate() has given, if it takes notes. Where the write is the last thing of a hot
    // path, the note is made in a function of its own, so that the path without it stays as short as it was.
    [[nodiscard]] bool takes_notes() const noexcept { return engine.peers.notes.is_set(); }
    void wrote(const void* symmetric, std::size_t bytes) const noexcept { engine.peers.wrote(symmetric, pe, bytes); }
    // The same of one element, whose locate() that is.
    template <class T>
    void wrote_at(const T* located, const T* symmetric) const noexcept {
        engine.peers.wrote_at(located, symmetric, pe);
    }
};

// For a PE number or a context that does not exist: the process ends with one line. But while a fault is pending the
// number may be computed from what a call has left undone, and the context one that could not be created: then they
// come back, and the operation is dropped.
[[gnu::cold]] void no_such_pe(const Engine& e, const char* routine, int pe, std::int32_t n_pes) noexcept;
[[gnu::cold]] void no_such_context(const Engine& e, const char* routine) noexcept;
[[noreturn]] void report_bad_argument(const char* routine, const char* what, long value) noexcept;

inline Target target(const char* routine, int pe) noexcept {
    Engine& e = engine(routine);
    if (static_cast<std::uint32_t>(pe) >= static_cast<std::uint32_t>(e.peers.n_pes)) [[unlikely]] {
        no_such_pe(e, routine, pe, e.peers.n_pes);
        return {e, kNoPe};
    }
    return {e, PeId(pe)};
}

// pe counts in the team of the context.
inline Target target(const char* routine, CtxId context, int pe) noexcept {
    Engine& e = engine(routine);
    const ContextEntry* entry = e.contexts.find(context);
    if (entry == nullptr) [[unlikely]] {
        no_such_context(e, routine);
        return {e, kNoPe};
    }
    if (static_cast<std::uint32_t>(pe) >= static_cast<std::uint32_t>(entry->group.size)) [[unlikely]] {
        no_such_pe(e, routine, pe, entry->group.size);
        return {e, kNoPe};
    }
    return {e, entry->group.pe(pe)};
}

}  // namespace sft
