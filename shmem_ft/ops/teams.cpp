#include "shmem_ft/ops/teams.hpp"

#include <atomic>
#include <bit>
#include <iterator>

#include "base/assert.hpp"
#include "base/report.hpp"
#include "shmem_ft/ops/check.hpp"
#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/order.hpp"
#include "shmem_ft/ops/query.hpp"
#include "shmem_ft/ops/reductions.hpp"

namespace sft {
namespace {

constexpr std::size_t kWords = kTeamsMax / 64;
constexpr std::uintptr_t kFirstOwnTeam = kTeamShared.value() + 1;
constexpr std::uintptr_t kOwnTeams = kTeamsMax - kFirstOwnTeam;
constexpr std::uintptr_t kFirstOwnContext = kCtxDefault.value() + 1;

// What a call for no team, or no active set, works on while a fault is pending: collectives return at once then.
constexpr PeGroup kNobody{};

// A part of a group: members start, start + stride, ... of it. The caller's position is worked out anew.
PeGroup part_of(const PeGroup& parent, Triplet part, PeId me, TeamId id) noexcept {
    SFT_ASSERT(part.size > 0 && part.start >= 0 && part.start < parent.size);
    PeGroup group{parent.start + part.start * parent.stride, part.size == 1 ? 1 : parent.stride * part.stride,
                  part.size, -1, lane_of(id)};
    group.me = group.index_of(me);
    return group;
}

bool is_valid(Triplet part, std::int32_t members) noexcept {
    const std::int64_t last = part.start + static_cast<std::int64_t>(part.size - 1) * part.stride;
    return part.size > 0 && (part.stride != 0 || part.size == 1) && part.start >= 0 && part.start < members &&
           last >= 0 && last < members;
}

struct TeamBits {
    std::uint64_t words[kWords] = {};

    [[nodiscard]] static std::uint64_t bit(std::uintptr_t index) noexcept { return std::uint64_t{1} << (index % 64); }
    void add(std::uintptr_t index) noexcept {
        SFT_ASSERT(index < kTeamsMax);
        words[index / 64] |= bit(index);
    }
    [[nodiscard]] bool has(std::uintptr_t index) const noexcept { return (words[index / 64] & bit(index)) != 0; }
};

// The first `wanted` indices from `start` on, going round, that are free on all members of the parent. False: a fault,
// or not enough of them.
bool find_free(Engine& e, const PeGroup& parent, std::uintptr_t start, TeamId* ids, int wanted) noexcept {
    TeamBits free;
    for (std::uintptr_t i = kFirstOwnTeam; i < kTeamsMax; ++i) {
        if (state_of(e.teams.entries[i].state) == SlotState::free) {
            free.add(i);
        }
    }
    if (!reduce(e, parent, free.words, free.words, kWords, element_kind<And, std::uint64_t>())) {
        return false;
    }
    int found = 0;
    for (std::uintptr_t n = 0; n < kOwnTeams && found < wanted; ++n) {
        const std::uintptr_t index = kFirstOwnTeam + (start + n) % kOwnTeams;
        if (free.has(index)) {
            SFT_ASSERT(index >= kFirstOwnTeam && index < kTeamsMax);
            ids[found++] = TeamId(index);
        }
    }
    return found == wanted;
}

// Where the search begins: with the lowest, so that handles are the same in every run unless threads race. Then
// elsewhere for each parent, because two splits that have met once would go on meeting.
std::uintptr_t search_start(const PeGroup& parent, std::uintptr_t attempt) noexcept {
    return attempt == 0 ? 0 : (parent.lane.value() * std::uintptr_t{37} + attempt * std::uintptr_t{101}) % kOwnTeams;
}

// True: all members have claimed the same indices. Another thread of any member may be splitting another team and have
// taken one of them since it was seen free; then nobody keeps them, and all members try again.
bool agree_on_free(Engine& e, const PeGroup& parent, TeamId* ids, int wanted) noexcept {
    constexpr std::uintptr_t kAttemptsMax = 10'000;
    for (std::uintptr_t attempt = 0; attempt < kAttemptsMax; ++attempt) {
        if (!find_free(e, parent, search_start(parent, attempt), ids, wanted)) {
            return false;
        }
        int claimed = 0;
        while (claimed < wanted && claim(e.teams.entries[ids[claimed].index()].state)) {
            ++claimed;
        }
        std::uint32_t is_ours = claimed == wanted ? 1 : 0;
        const bool is_known = reduce(e, parent, &is_ours, &is_ours, 1, element_kind<And, std::uint32_t>());
        if (is_known && is_ours != 0) {
            return true;
        }
        for (int i = 0; i < claimed; ++i) {
            SFT_ASSERT(state_of(e.teams.entries[ids[i].index()].state) == SlotState::claimed);
            set_state(e.teams.entries[ids[i].index()].state, SlotState::free);
        }
        if (!is_known) {
            return false;
        }
    }
    return false;
}

// A creation call of a substitute that has not joined yet: the recorded result of that call.
template <class Id, std::size_t Capacity>
Id replayed(const HandleLog<Capacity>& log, std::uint32_t& position) noexcept {
    const std::uint32_t call = std::atomic_ref(position).fetch_add(1, std::memory_order_relaxed);
    return Id(call < log.count && call < Capacity ? log.results[call] : 0);
}

// The indices of the teams of a split: agreed on now, or in a replay those of then.
bool obtain(Engine& e, const PeGroup& parent, bool is_valid_split, TeamId* ids, int wanted) noexcept {
    SFT_ASSERT(wanted >= 1 && wanted <= static_cast<int>(std::size(e.replay.given)));
    if (e.replay.active) {
        for (int i = 0; i < wanted; ++i) {
            ids[i] = e.replay.has_given ? TeamId(e.replay.given[i]) : replayed<TeamId>(e.teams.created, e.replay.teams);
        }
        return is_valid_split;
    }
    if (is_valid_split && agree_on_free(e, parent, ids, wanted)) {
        return true;
    }
    for (int i = 0; i < wanted; ++i) {
        e.teams.created.record(kTeamInvalid.value());
    }
    return false;
}

// The index is claimed, or recorded. A PE outside of the new team gives it back.
// False for a member that was given no index, which happens in a replay only: the split of then had failed.
bool enter(Engine& e, TeamId id, const PeGroup& group, int num_contexts, TeamId* team) noexcept {
    if (id != kTeamInvalid) {
        SFT_ASSERT(id.value() < kTeamsMax && (e.replay.active || id.value() >= kFirstOwnTeam));
        TeamEntry& entry = e.teams.entries[id.index()];
        SFT_ASSERT(e.replay.active || state_of(entry.state) == SlotState::claimed);
        SFT_ASSERT(group.me < group.size && group.lane == lane_of(id));
        if (group.me >= 0) {
            entry.group = group;
            entry.num_contexts = num_contexts;
            *team = id;
        }
        set_state(entry.state, group.me >= 0 ? SlotState::shown : SlotState::free);
    }
    if (!e.replay.active) {
        e.teams.created.record(team->value());
    }
    return group.me < 0 || *team != kTeamInvalid;
}

void release_context(ContextEntry& entry) noexcept {
    entry.group.size = 0;
    set_state(entry.state, SlotState::free);
}

}  // namespace

void reset_handles(Engine& e) noexcept {
    e.teams = TeamTable{};
    e.contexts = ContextTable{};
    e.replay = HandleReplay{};
    SFT_ASSERT(e.peers.n_pes > 0 && e.peers.me.value() >= 0 && e.peers.me.value() < e.peers.n_pes);
    const PeGroup all = world(e);
    PeGroup shared = all;
    shared.lane = lane_of(kTeamShared);
    if (e.network != nullptr) {
        shared = e.nodes.group_here(e.peers.me, shared.lane);
    }
    SFT_ASSERT(all.size == e.peers.n_pes && shared.me >= 0 && shared.me < shared.size);
    e.teams.entries[kTeamWorld.index()] = {all, 0, SlotState::shown};
    e.teams.entries[kTeamShared.index()] = {shared, 0, SlotState::shown};
    e.contexts.entries[kCtxDefault.index()] = {all, static_cast<std::uint32_t>(kTeamWorld.value()), 0,
                                               SlotState::shown};
}

void begin_replay(Engine& e) noexcept {
    SFT_ASSERT(!e.replay.active);
    const HandleLog<kTeamsMax> teams = e.teams.created;
    const HandleLog<kContextsMax> contexts = e.contexts.created;
    const TeamEntry shared = e.teams.entries[kTeamShared.index()];  // of the node that the PE was on at the start
    reset_handles(e);
    e.teams.entries[kTeamShared.index()] = shared;
    e.teams.created = teams;
    e.contexts.created = contexts;
    e.replay.active = true;
}

const PeGroup& team_group(Engine& e, TeamId team, const char* routine) noexcept {
    const TeamEntry* entry = e.teams.find(team);
    if (entry == nullptr) [[unlikely]] {
        if (e.waiter.fault_pending()) {
            return kNobody;
        }
        die("%s: the team is invalid: this PE is not a member of it, or it has been destroyed", routine);
    }
    return entry->group;
}

PeGroup active_group(Engine& e, ActiveSet set, const char* routine, Outsider outsider) noexcept {
    const bool has_range = set.log_stride >= 0 && set.log_stride < 31 && set.size > 0 && set.start >= 0;
    const std::int64_t last =
        has_range ? set.start + ((static_cast<std::int64_t>(set.size) - 1) << set.log_stride) : INT64_MAX;
    if (last >= e.peers.n_pes) [[unlikely]] {
        if (e.waiter.fault_pending()) {
            return kNobody;
        }
        die("%s: PE_start %d, logPE_stride %d, PE_size %d name PEs outside 0 .. %d", routine, set.start, set.log_stride,
            set.size, e.peers.n_pes - 1);
    }
    PeGroup group{set.start, 1 << set.log_stride, set.size, -1, kLaneOfActiveSets};
    group.me = group.index_of(e.peers.me);
    if (group.me < 0 && e.checker != nullptr && outsider == Outsider::reported) [[unlikely]] {
        e.checker->report(routine,
                          "this PE does not belong to the active set (PE_start %d, logPE_stride %d, PE_size %d)",
                          set.start, set.log_stride, set.size);
    }
    return group;
}

int team_my_pe(Engine& e, TeamId team) noexcept {
    const TeamEntry* entry = e.teams.find(team);
    return entry == nullptr ? -1 : entry->group.me;
}

int team_n_pes(Engine& e, TeamId team) noexcept {
    const TeamEntry* entry = e.teams.find(team);
    return entry == nullptr ? -1 : entry->group.size;
}

int team_translate_pe(Engine& e, TeamId from, int pe, TeamId to) noexcept {
    const TeamEntry* source = e.teams.find(from);
    const TeamEntry* target = e.teams.find(to);
    if (source == nullptr || target == nullptr || pe < 0 || pe >= source->group.size) {
        return -1;
    }
    return target->group.index_of(source->group.pe(pe));
}

bool team_num_contexts(Engine& e, TeamId team, int* num_contexts) noexcept {
    const TeamEntry* entry = e.teams.find(team);
    if (entry == nullptr) {
        return false;
    }
    *num_contexts = entry->num_contexts;
    return true;
}

void* team_ptr(Engine& e, TeamId team, const void* address, int pe) noexcept {
    const TeamEntry* entry = e.teams.find(team);
    if (entry == nullptr || pe < 0 || pe >= entry->group.size) {
        return nullptr;
    }
    return pointer_to(e, address, entry->group.pe(pe).value());
}

bool split_strided(Engine& e, TeamId parent, Triplet triplet, int num_contexts, TeamId* team) noexcept {
    *team = kTeamInvalid;
    const TeamEntry* entry = e.teams.find(parent);
    if (entry == nullptr) {
        return false;
    }
    TeamId id;
    return obtain(e, entry->group, is_valid(triplet, entry->group.size), &id, 1) &&
           enter(e, id, part_of(entry->group, triplet, e.peers.me, id), num_contexts, team);
}

bool split_2d(Engine& e, TeamId parent, int xrange, AxisTeams* axes) noexcept {
    axes->x = axes->y = kTeamInvalid;
    const TeamEntry* entry = e.teams.find(parent);
    if (entry == nullptr) {
        return false;
    }
    TeamId ids[2];
    if (!obtain(e, entry->group, xrange > 0, ids, 2)) {
        return false;
    }
    const PeGroup group = entry->group;
    SFT_ASSERT(group.me >= 0 && group.me < group.size);  // only members have a team
    const int columns = xrange < group.size ? xrange : group.size;
    const int x = group.me % columns;
    const int y = group.me / columns;
    const int row_size = group.size - y * columns < columns ? group.size - y * columns : columns;
    const int column_size = (group.size - x + columns - 1) / columns;
    SFT_ASSERT(row_size >= 1 && row_size <= columns && x < row_size && y < column_size);
    const PeGroup row = part_of(group, {y * columns, 1, row_size}, e.peers.me, ids[0]);
    const PeGroup column = part_of(group, {x, columns, column_size}, e.peers.me, ids[1]);
    const bool has_x = enter(e, ids[0], row, axes->num_contexts_x, &axes->x);
    const bool has_y = enter(e, ids[1], column, axes->num_contexts_y, &axes->y);
    return has_x && has_y;
}

void destroy_team(Engine& e, TeamId team) noexcept {
    if (team.value() < kFirstOwnTeam || e.teams.find(team) == nullptr) {
        return;
    }
    quiet(e);
    for (std::uintptr_t i = kFirstOwnContext; i < kContextsMax; ++i) {
        ContextEntry& context = e.contexts.entries[i];
        // A context that another thread is creating is one of another team.
        if (state_of(context.state) == SlotState::shown &&
            std::atomic_ref(context.team).load(std::memory_order_relaxed) == team.value()) {
            release_context(context);
        }
    }
    TeamEntry& entry = e.teams.entries[team.index()];
    entry.group = {};
    set_state(entry.state, SlotState::free);
}

bool create_context(Engine& e, TeamId team, long options, CtxId* context) noexcept {
    *context = kCtxInvalid;
    const TeamEntry* entry = e.teams.find(team);
    if (entry == nullptr) {
        return false;
    }
    if (e.replay.active) {
        *context =
            e.replay.has_given ? CtxId(e.replay.given[0]) : replayed<CtxId>(e.contexts.created, e.replay.contexts);
        SFT_ASSERT(context->value() < kContextsMax);
        if (*context != kCtxInvalid) {
            e.contexts.entries[context->index()] = {entry->group, static_cast<std::uint32_t>(team.value()),
                                                    static_cast<std::uint32_t>(options), SlotState::shown};
        }
        return *context != kCtxInvalid;
    }
    for (std::uintptr_t i = kFirstOwnContext; i < kContextsMax; ++i) {
        ContextEntry& slot = e.contexts.entries[i];
        if (claim(slot.state)) {
            slot.group = entry->group;
            std::atomic_ref(slot.team).store(static_cast<std::uint32_t>(team.value()), std::memory_order_relaxed);
            slot.options = static_cast<std::uint32_t>(options);
            set_state(slot.state, SlotState::shown);
            *context = CtxId(i);
            break;
        }
    }
    e.contexts.created.record(context->value());
    return *context != kCtxInvalid;
}

void destroy_context(Engine& e, CtxId context) noexcept {
    if (context.value() < kFirstOwnContext || e.contexts.find(context) == nullptr) {
        return;
    }
    SFT_ASSERT(context.value() < kContextsMax);
    quiet(e);
    release_context(e.contexts.entries[context.index()]);
}

bool context_team(Engine& e, CtxId context, TeamId* team) noexcept {
    const ContextEntry* entry = e.contexts.find(context);
    *team = entry == nullptr ? kTeamInvalid : TeamId(entry->team);
    return entry != nullptr;
}

}  // namespace sft
