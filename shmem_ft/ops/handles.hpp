// Teams and contexts as plain tables. A handle of the C interface is an index into a table of this PE, chosen alike on
// all members of a team, so it means the same in every process and may itself be kept in symmetric memory.
//
// Fault model: the tables are private to a process and plain data. A checkpoint saves them as bytes, a rollback
// overwrites them with those of the version; a substitute thereby has the handles of the PE it replaces although it
// never took part in their creation. What it does re-execute before it joins, the creation calls at the start of the
// program, begins with empty tables and is given the recorded indices (HandleReplay). So a team that the program
// destroys again, or whose index is another team's by the time of the version, is what it was when it was created.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "shmem_ft/base/ids.hpp"

namespace sft {

using TeamId = StrongId<struct TeamIdTag, std::uintptr_t>;
using CtxId = StrongId<struct CtxIdTag, std::uintptr_t>;

inline constexpr TeamId kTeamInvalid{0};
inline constexpr TeamId kTeamWorld{1};
inline constexpr TeamId kTeamShared{2};
inline constexpr CtxId kCtxInvalid{0};
inline constexpr CtxId kCtxDefault{1};

// PEs start, start + stride, ...: every team and every active set is one of these, because a strided part of a
// strided set is strided again. me is the position of this PE, -1 if it is not a member.
struct PeGroup {
    std::int32_t start = 0;
    std::int32_t stride = 1;
    std::int32_t size = 0;
    std::int32_t me = -1;

    [[nodiscard]] PeId pe(std::int32_t index) const noexcept { return PeId(start + index * stride); }

    // Position of a PE, -1 if it is not a member.
    [[nodiscard]] std::int32_t index_of(PeId pe) const noexcept {
        const std::int32_t distance = pe.value() - start;
        const std::int32_t index = stride == 0 ? 0 : distance / stride;
        return index * stride == distance && index >= 0 && index < size ? index : -1;
    }
};

struct TeamEntry {
    PeGroup group;
    std::int32_t num_contexts = 0;
    std::uint32_t in_use = 0;
};

struct ContextEntry {
    PeGroup group;
    std::uint32_t team = 0;
    std::uint32_t options = 0;
    std::uint32_t in_use = 0;  // claimed by a compare-and-swap: contexts may be created by several threads
};

// The handles that creation calls gave out, in the order of the calls; 0 for one that gave none.
template <std::size_t Capacity>
struct HandleLog {
    std::uint32_t count = 0;  // keeps counting when the log is full; results past the end cannot be replayed
    std::uint16_t results[Capacity] = {};

    void record(std::uintptr_t handle) noexcept {
        const std::uint32_t call = std::atomic_ref(count).fetch_add(1, std::memory_order_relaxed);
        if (call < Capacity) {
            results[call] = static_cast<std::uint16_t>(handle);
        }
    }
};

inline constexpr std::size_t kTeamsMax = 256;
inline constexpr std::size_t kContextsMax = 1024;

struct TeamTable {
    TeamEntry entries[kTeamsMax] = {};
    HandleLog<kTeamsMax> created;

    [[nodiscard]] const TeamEntry* find(TeamId id) const noexcept {
        return id.value() < kTeamsMax && entries[id.index()].in_use != 0 ? &entries[id.index()] : nullptr;
    }
};

struct ContextTable {
    ContextEntry entries[kContextsMax] = {};
    HandleLog<kContextsMax> created;

    [[nodiscard]] const ContextEntry* find(CtxId id) const noexcept {
        return id.value() < kContextsMax && entries[id.index()].in_use != 0 ? &entries[id.index()] : nullptr;
    }
};
static_assert(std::is_trivially_copyable_v<TeamTable> && std::is_trivially_copyable_v<ContextTable>);

// While active (a substitute that has not joined yet), creation calls take the recorded handles in order instead of
// agreeing on new ones.
struct HandleReplay {
    bool active = false;
    std::uint32_t teams = 0;
    std::uint32_t contexts = 0;
};

}  // namespace sft
