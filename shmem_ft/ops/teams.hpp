// Creation, destruction and queries of teams and contexts (tables: handles.hpp).
//
// Split is collective over the parent: its members agree on an index that is free in all their tables by an AND
// reduction over bitmaps, so a handle is the same number on every member of the new team, and nobody needs a name
// server. Failure (a bad triplet, a full table, a pending fault) is the same on all members, except that a fault may
// hit some before and some after the agreement; the rollback restores all tables then.
//
// Thread safety: all but reset_handles may be called by several threads at once; splits of one parent one after the
// other.
#pragma once

#include "shmem_ft/ops/engine.hpp"

namespace sft {

// World, shared and the default context, and nothing else. REQUIRES: e.peers.n_pes and me are set, and in a job of
// several nodes connect_nodes has been called.
//
// Shared is who is on this node now. Like any team it stays what it is when PEs move in a recovery, since the program
// has computed with it: shmem_ptr may then be null for a member.
void reset_handles(Engine& e) noexcept;

// From here on creation calls give the handles that are recorded in the tables (handles.hpp).
void begin_replay(Engine& e) noexcept;

// The group of a team for a collective. If the handle names none the process ends with one line; but while a fault is
// pending, when a split may have failed for no other reason, it is a group of nobody, and so for active sets.
[[nodiscard]] const PeGroup& team_group(Engine& e, TeamId team, const char* routine) noexcept;

// PEs of a deprecated active-set call. The caller need not be one of them: then `me` of the group is negative, and the
// call is to return at once without effect, as with other implementations; checks of calls tell of it.
struct ActiveSet {
    int start;
    int log_stride;
    int size;
};
// A PE that is no member is reported while calls are checked, once for a call.
enum class Outsider { reported, known };
[[nodiscard]] PeGroup active_group(Engine& e, ActiveSet set, const char* routine,
                                   Outsider outsider = Outsider::reported) noexcept;

// -1 for the invalid team.
[[nodiscard]] int team_my_pe(Engine& e, TeamId team) noexcept;
[[nodiscard]] int team_n_pes(Engine& e, TeamId team) noexcept;
[[nodiscard]] int team_translate_pe(Engine& e, TeamId from, int pe, TeamId to) noexcept;
// False for the invalid team; the value is what the split asked for.
[[nodiscard]] bool team_num_contexts(Engine& e, TeamId team, int* num_contexts) noexcept;
[[nodiscard]] void* team_ptr(Engine& e, TeamId team, const void* address, int pe) noexcept;

struct Triplet {
    int start;
    int stride;
    int size;
};
// False on failure, on all members; the handle is kTeamInvalid then, and on PEs outside the new team.
[[nodiscard]] bool split_strided(Engine& e, TeamId parent, Triplet triplet, int num_contexts, TeamId* team) noexcept;

struct AxisTeams {
    int num_contexts_x = 0;
    int num_contexts_y = 0;
    TeamId x = kTeamInvalid;
    TeamId y = kTeamInvalid;
};
[[nodiscard]] bool split_2d(Engine& e, TeamId parent, int xrange, AxisTeams* axes) noexcept;

// Also destroys the contexts of the team. Invalid and predefined teams are left alone.
void destroy_team(Engine& e, TeamId team) noexcept;

[[nodiscard]] bool create_context(Engine& e, TeamId team, long options, CtxId* context) noexcept;
void destroy_context(Engine& e, CtxId context) noexcept;
// False for an invalid context.
[[nodiscard]] bool context_team(Engine& e, CtxId context, TeamId* team) noexcept;

}  // namespace sft
