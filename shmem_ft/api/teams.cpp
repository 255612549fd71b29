// Teams, contexts and sessions; ordering; locks.
#include "shmem_ft/ops/teams.hpp"

#include "shmem_ft/api/stamp.hpp"
#include "shmem_ft/ops/locks.hpp"
#include "shmem_ft/ops/order.hpp"

namespace {

int contexts_wanted(const shmem_team_config_t* config, long mask) noexcept {
    return (mask & SHMEM_TEAM_NUM_CONTEXTS) != 0 && config != nullptr ? config->num_contexts : 0;
}

int get_config(shmem_team_t team, long mask, shmem_team_config_t* config) noexcept {
    int contexts = 0;
    if (!sft::team_num_contexts(sft::engine("shmem_team_get_config"), sft::team_id(team), &contexts)) {
        return 1;
    }
    if ((mask & SHMEM_TEAM_NUM_CONTEXTS) != 0) {
        config->num_contexts = contexts;
    }
    return 0;
}

int split_strided(shmem_team_t parent, sft::Triplet triplet, int contexts, shmem_team_t* team) noexcept {
    sft::TeamId id;
    const bool ok =
        sft::split_strided(sft::engine("shmem_team_split_strided"), sft::team_id(parent), triplet, contexts, &id);
    *team = sft::team_handle(id);
    return ok ? 0 : 1;
}

int split_2d(shmem_team_t parent, int xrange, int contexts_x, shmem_team_t* x, int contexts_y,
             shmem_team_t* y) noexcept {
    sft::AxisTeams axes{.num_contexts_x = contexts_x, .num_contexts_y = contexts_y};
    const bool ok = sft::split_2d(sft::engine("shmem_team_split_2d"), sft::team_id(parent), xrange, &axes);
    *x = sft::team_handle(axes.x);
    *y = sft::team_handle(axes.y);
    return ok ? 0 : 1;
}

int create_context(const char* routine, sft::TeamId team, long options, shmem_ctx_t* ctx) noexcept {
    sft::CtxId id;
    const bool ok = sft::create_context(sft::engine(routine), team, options, &id);
    *ctx = sft::ctx_handle(id);
    return ok ? 0 : 1;
}

int context_team(shmem_ctx_t ctx, shmem_team_t* team) noexcept {
    sft::TeamId id;
    const bool ok = sft::context_team(sft::engine("shmem_ctx_get_team"), sft::ctx_id(ctx), &id);
    *team = sft::team_handle(id);
    return ok ? 0 : 1;
}

void* checked(const char* routine) noexcept { return &sft::engine(routine); }

}  // namespace

SFT_ENTRY(int, shmem_team_my_pe, (shmem_team_t team),
          sft::team_my_pe(sft::engine("shmem_team_my_pe"), sft::team_id(team)))
SFT_ENTRY(int, shmem_team_n_pes, (shmem_team_t team),
          sft::team_n_pes(sft::engine("shmem_team_n_pes"), sft::team_id(team)))
SFT_ENTRY(int, shmem_team_get_config, (shmem_team_t team, long config_mask, shmem_team_config_t* config),
          get_config(team, config_mask, config))
SFT_ENTRY(int, shmem_team_translate_pe, (shmem_team_t src_team, int src_pe, shmem_team_t dest_team),
          sft::team_translate_pe(sft::engine("shmem_team_translate_pe"), sft::team_id(src_team), src_pe,
                                 sft::team_id(dest_team)))
SFT_WAITING_ENTRY(int, shmem_team_split_strided,
                  (shmem_team_t parent_team, int start, int stride, int size, const shmem_team_config_t* config,
                   long config_mask, shmem_team_t* new_team),
                  split_strided(parent_team, {start, stride, size}, contexts_wanted(config, config_mask), new_team))
SFT_WAITING_ENTRY(int, shmem_team_split_2d,
                  (shmem_team_t parent_team, int xrange, const shmem_team_config_t* xaxis_config, long xaxis_mask,
                   shmem_team_t* xaxis_team, const shmem_team_config_t* yaxis_config, long yaxis_mask,
                   shmem_team_t* yaxis_team),
                  split_2d(parent_team, xrange, contexts_wanted(xaxis_config, xaxis_mask), xaxis_team,
                           contexts_wanted(yaxis_config, yaxis_mask), yaxis_team))
SFT_WAITING_ENTRY(void, shmem_team_destroy, (shmem_team_t team),
                  sft::destroy_team(sft::engine("shmem_team_destroy"), sft::team_id(team)))
SFT_ENTRY(void*, shmem_team_ptr, (shmem_team_t team, const void* dest, int pe),
          sft::team_ptr(sft::engine("shmem_team_ptr"), sft::team_id(team), dest, pe))

SFT_ENTRY(int, shmem_ctx_create, (long options, shmem_ctx_t* ctx),
          create_context("shmem_ctx_create", sft::kTeamWorld, options, ctx))
SFT_ENTRY(int, shmem_team_create_ctx, (shmem_team_t team, long options, shmem_ctx_t* ctx),
          create_context("shmem_team_create_ctx", sft::team_id(team), options, ctx))
SFT_WAITING_ENTRY(void, shmem_ctx_destroy, (shmem_ctx_t ctx),
                  sft::destroy_context(sft::engine("shmem_ctx_destroy"), sft::ctx_id(ctx)))
SFT_ENTRY(int, shmem_ctx_get_team, (shmem_ctx_t ctx, shmem_team_t* team), context_team(ctx, team))

// Sessions are hints for transports that can batch operations.
SFT_ENTRY(void, shmem_ctx_session_start, (shmem_ctx_t, long, const shmem_ctx_session_config_t*, long),
          void(checked("shmem_ctx_session_start")))
SFT_ENTRY(void, shmem_ctx_session_stop, (shmem_ctx_t), void(checked("shmem_ctx_session_stop")))

SFT_WAITING_ENTRY(void, shmem_fence, (void), (checked("shmem_fence"), sft::fence()))
SFT_WAITING_ENTRY(void, shmem_ctx_fence, (shmem_ctx_t), (checked("shmem_ctx_fence"), sft::fence()))
SFT_WAITING_ENTRY(void, shmem_quiet, (void), (checked("shmem_quiet"), sft::quiet()))
SFT_WAITING_ENTRY(void, shmem_ctx_quiet, (shmem_ctx_t), (checked("shmem_ctx_quiet"), sft::quiet()))
SFT_WAITING_ENTRY(void, shmem_pe_quiet, (const int*, std::size_t), (checked("shmem_pe_quiet"), sft::quiet()))
SFT_WAITING_ENTRY(void, shmem_ctx_pe_quiet, (shmem_ctx_t, const int*, std::size_t),
                  (checked("shmem_ctx_pe_quiet"), sft::quiet()))

SFT_WAITING_ENTRY(void, shmem_set_lock, (long* lock), sft::set_lock(sft::engine("shmem_set_lock"), lock))
SFT_WAITING_ENTRY(int, shmem_test_lock, (long* lock), sft::try_lock(sft::engine("shmem_test_lock"), lock) ? 0 : 1)
SFT_WAITING_ENTRY(void, shmem_clear_lock, (long* lock), sft::clear_lock(sft::engine("shmem_clear_lock"), lock))
