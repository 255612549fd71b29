// Teams and contexts as plain tables. A handle of the C interface is an index into a table of this PE, chosen alike on
// all members of a team, so it means the same in every process and may itself be kept in symmetric memory.
//
// Fault model: the tables are private to a process and plain data. A checkpoint saves them as bytes, a rollback
// overwrites them with those of the version; a substitute thereby has the handles of the PE it replaces although it
// never took part in their creation. What it does re-execute before it joins, the creation calls at the start of the
// program, begins with empty tables and is given the recorded indices (HandleReplay). So a team that the program
// destroys again, or whose index is another team's by the time of the version, is what it was when it was created.
//
// Thread safety: an entry is claimed, filled and then shown (SlotState), so contexts may be created and destroyed, and
// teams split and destroyed, by several threads at once. Whoever uses a handle has got it from the thread that created
// it, and nobody uses one that another thread destroys.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/assert.hpp"
#include "base/ids.hpp"
#include "transport/shm/channels.hpp"

namespace sft {

using TeamId = StrongId<struct TeamIdTag, std::uintptr_t>;
using CtxId = StrongId<struct CtxIdTag, std::uintptr_t>;

inline constexpr TeamId kTeamInvalid{0};
inline constexpr TeamId kTeamWorld{1};
inline constexpr TeamId kTeamShared{2};
inline constexpr CtxId kCtxInvalid{0};
inline constexpr CtxId kCtxDefault{1};

// The lane of a team is its index, and that of index 0, which no team has, is the one of all active sets.
inline constexpr LaneId kLaneOfActiveSets{0};
[[nodiscard]] constexpr LaneId lane_of(TeamId team) noexcept {
    return LaneId(static_cast<std::uint32_t>(team.value()));
}

// PEs start, start + stride, ...: every team and every active set is one of these, because a strided part of a
// strided set is strided again. me is the position of this PE, -1 if it is not a member. Its collectives use the
// channels of `lane`.
struct PeGroup {
    std::int32_t start = 0;
    std::int32_t stride = 1;
    std::int32_t size = 0;
    std::int32_t me = -1;
    LaneId lane = kLaneOfActiveSets;

    [[nodiscard]] PeId pe(std::int32_t index) const noexcept { return PeId(start + index * stride); }

    // Position of a PE, -1 if it is not a member.
    [[nodiscard]] std::int32_t index_of(PeId pe) const noexcept {
        const std::int32_t distance = pe.value() - start;
        const std::int32_t index = stride == 0 ? 0 : distance / stride;
        return index * stride == distance && index >= 0 && index < size ? index : -1;
    }
};

enum class SlotState : std::uint32_t { free = 0, claimed = 1, shown = 2 };

// Whether this thread has it now.
[[nodiscard]] inline bool claim(SlotState& state) noexcept {
    SlotState expected = SlotState::free;
    return std::atomic_ref(state).compare_exchange_strong(expected, SlotState::claimed, std::memory_order_acq_rel);
}

inline void set_state(SlotState& state, SlotState to) noexcept {
    SFT_ASSERT_SLOW(to != SlotState::claimed);  // only claim() does that
    std::atomic_ref(state).store(to, std::memory_order_release);
}

[[nodiscard]] inline SlotState state_of(const SlotState& state) noexcept {
    return std::atomic_ref(const_cast<SlotState&>(state)).load(std::memory_order_acquire);
}

struct TeamEntry {
    PeGroup group;
    std::int32_t num_contexts = 0;
    SlotState state = SlotState::free;
};

struct ContextEntry {
    PeGroup group;
    std::uint32_t team = 0;
    std::uint32_t options = 0;
    SlotState state = SlotState::free;
};

// The handles that creation calls gave out, in the order of the calls; 0 for one that gave none.
template <std::size_t Capacity>
struct HandleLog {
    std::uint32_t count = 0;  // keeps counting when the log is full; results past the end cannot be replayed
    std::uint16_t results[Capacity] = {};

    void record(std::uintptr_t handle) noexcept {
        SFT_ASSERT(handle < Capacity);
        const std::uint32_t call = std::atomic_ref(count).fetch_add(1, std::memory_order_relaxed);
        if (call < Capacity) {
            results[call] = static_cast<std::uint16_t>(handle);
        }
    }
};

inline constexpr std::size_t kTeamsMax = 256;
inline constexpr std::size_t kContextsMax = 1024;
static_assert(kTeamsMax <= kLanesMax);
static_assert(kTeamsMax % 64 == 0, "members agree on free ones by bitmaps");
static_assert(kTeamsMax <= UINT16_MAX && kContextsMax <= UINT16_MAX, "HandleLog::results");
static_assert(kTeamShared.value() < kTeamsMax && kCtxDefault.value() < kContextsMax);

struct TeamTable {
    TeamEntry entries[kTeamsMax] = {};
    HandleLog<kTeamsMax> created;

    [[nodiscard]] const TeamEntry* find(TeamId id) const noexcept {
        const bool is_team = id.value() < kTeamsMax && state_of(entries[id.index()].state) == SlotState::shown;
        return is_team ? &entries[id.index()] : nullptr;
    }
};

struct ContextTable {
    ContextEntry entries[kContextsMax] = {};
    HandleLog<kContextsMax> created;

    [[nodiscard]] const ContextEntry* find(CtxId id) const noexcept {
        const bool is_context = id.value() < kContextsMax && state_of(entries[id.index()].state) == SlotState::shown;
        return is_context ? &entries[id.index()] : nullptr;
    }
};
static_assert(std::is_trivially_copyable_v<TeamTable> && std::is_trivially_copyable_v<ContextTable>);
static_assert(std::is_standard_layout_v<TeamTable> && std::is_standard_layout_v<ContextTable>);
static_assert(std::atomic_ref<SlotState>::is_always_lock_free);
static_assert(std::has_unique_object_representations_v<TeamTable> &&
                  std::has_unique_object_representations_v<ContextTable>,
              "they are saved as bytes, and have checksums");
static_assert(static_cast<std::uint32_t>(SlotState::free) == 0 && sizeof(PeGroup) == 20);

// While active (a substitute that has not joined yet), creation calls take the recorded handles in order instead of
// agreeing on new ones. One thread makes these calls: the order of calls by several would be another one in each
// run.
struct HandleReplay {
    bool active = false;
    std::uint32_t teams = 0;
    std::uint32_t contexts = 0;
    // What the next call is to give, if the record of the start-up has it (startup.hpp), instead of what the logs have.
    bool has_given = false;
    std::uint16_t given[2] = {};
};

}  // namespace sft
