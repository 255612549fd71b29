// Teams, contexts and sessions; ordering; locks.
#include "shmem_ft/ops/teams.hpp"

#include <initializer_list>

#include "shmem_ft/api/stamp.hpp"
#include "shmem_ft/ops/check.hpp"
#include "shmem_ft/ops/locks.hpp"
#include "shmem_ft/ops/order.hpp"

namespace {

static_assert(SHMEM_THREAD_SINGLE == static_cast<int>(sft::ThreadLevel::single));
static_assert(SHMEM_THREAD_FUNNELED == static_cast<int>(sft::ThreadLevel::funneled));
static_assert(SHMEM_THREAD_SERIALIZED == static_cast<int>(sft::ThreadLevel::serialized));
static_assert(SHMEM_THREAD_MULTIPLE == static_cast<int>(sft::ThreadLevel::multiple));
static_assert(SHMEM_CTX_SERIALIZED == static_cast<long>(sft::ContextOption::serialized));
static_assert(SHMEM_CTX_PRIVATE == static_cast<long>(sft::ContextOption::is_private));
static_assert(SHMEM_CTX_NOSTORE == static_cast<long>(sft::ContextOption::no_store));

// The engine, after a look at a handle if calls are checked.
sft::Engine& engine_with(const char* routine, sft::CtxId context) noexcept {
    sft::Engine& e = sft::engine(routine);
    if (sft::is_checking()) [[unlikely]] {
        e.checker->check_context_handle(routine, context);
    }
    return e;
}

sft::Engine& engine_with(const char* routine, sft::TeamId team) noexcept {
    sft::Engine& e = sft::engine(routine);
    if (sft::is_checking()) [[unlikely]] {
        e.checker->check_team_handle(routine, team);
    }
    return e;
}

int contexts_wanted(const shmem_team_config_t* config, long mask) noexcept {
    return (mask & SHMEM_TEAM_NUM_CONTEXTS) != 0 && config != nullptr ? config->num_contexts : 0;
}

int get_config(shmem_team_t team, long mask, shmem_team_config_t* config) noexcept {
    int contexts = 0;
    if (!sft::team_num_contexts(engine_with("shmem_team_get_config", sft::team_id(team)), sft::team_id(team),
                                &contexts)) {
        return 1;
    }
    if ((mask & SHMEM_TEAM_NUM_CONTEXTS) != 0) {
        config->num_contexts = contexts;
    }
    return 0;
}

// The engine for a call that all members of a team make with the same arguments.
sft::Engine& engine_of_members(const char* routine, shmem_team_t team,
                               std::initializer_list<sft::CommonArgument> arguments) noexcept {
    sft::Engine& e = engine_with(routine, sft::team_id(team));
    if (sft::is_checking()) [[unlikely]] {
        if (const sft::TeamEntry* const entry = e.teams.find(sft::team_id(team))) {
            sft::compare_calls(e, entry->group, routine, arguments);
        }
    }
    return e;
}

int split_strided(shmem_team_t parent, sft::Triplet triplet, int contexts, shmem_team_t* team) noexcept {
    constexpr auto kSigned = sft::CommonArgument::Form::signed_number;
    sft::Engine& e = engine_of_members("shmem_team_split_strided", parent,
                                       {{"start", sft::bits(triplet.start), kSigned},
                                        {"stride", sft::bits(triplet.stride), kSigned},
                                        {"size", sft::bits(triplet.size), kSigned}});
    sft::TeamId id;
    const bool ok = sft::split_strided(e, sft::team_id(parent), triplet, contexts, &id);
    *team = sft::team_handle(id);
    return ok ? 0 : 1;
}

int split_2d(shmem_team_t parent, int xrange, int contexts_x, shmem_team_t* x, int contexts_y,
             shmem_team_t* y) noexcept {
    sft::Engine& e = engine_of_members("shmem_team_split_2d", parent,
                                       {{"xrange", sft::bits(xrange), sft::CommonArgument::Form::signed_number}});
    sft::AxisTeams axes{.num_contexts_x = contexts_x, .num_contexts_y = contexts_y};
    const bool ok = sft::split_2d(e, sft::team_id(parent), xrange, &axes);
    *x = sft::team_handle(axes.x);
    *y = sft::team_handle(axes.y);
    return ok ? 0 : 1;
}

int create_context(const char* routine, sft::TeamId team, long options, shmem_ctx_t* ctx) noexcept {
    sft::CtxId id;
    sft::Engine& e = engine_with(routine, team);
    const bool ok = sft::create_context(e, team, options, &id);
    if (sft::is_checking() && ok) [[unlikely]] {
        e.checker->note_creator(id);
    }
    *ctx = sft::ctx_handle(id);
    return ok ? 0 : 1;
}

int context_team(shmem_ctx_t ctx, shmem_team_t* team) noexcept {
    sft::TeamId id;
    const bool ok = sft::context_team(engine_with("shmem_ctx_get_team", sft::ctx_id(ctx)), sft::ctx_id(ctx), &id);
    *team = sft::team_handle(id);
    return ok ? 0 : 1;
}

void destroy_context(shmem_ctx_t ctx) noexcept {
    sft::Engine& e = sft::engine("shmem_ctx_destroy");
    if (sft::is_checking()) [[unlikely]] {
        e.checker->check_destroyed_context("shmem_ctx_destroy", sft::ctx_id(ctx));
    }
    sft::destroy_context(e, sft::ctx_id(ctx));
}

void destroy_team(shmem_team_t team) noexcept {
    constexpr const char* kRoutine = "shmem_team_destroy";
    sft::Engine& e = sft::engine(kRoutine);
    if (sft::is_checking()) [[unlikely]] {
        e.checker->check_destroyed_team(kRoutine, sft::team_id(team));
        const sft::TeamEntry* const entry = e.teams.find(sft::team_id(team));
        if (entry != nullptr && team != SHMEM_TEAM_WORLD && team != SHMEM_TEAM_SHARED) {
            sft::compare_calls(e, entry->group, kRoutine, {});
        }
    }
    sft::destroy_team(e, sft::team_id(team));
}

// For fence and quiet, which do the same for every context.
void look_at(const sft::CheckedCall&, const char* routine, shmem_ctx_t ctx) noexcept {
    static_cast<void>(engine_with(routine, sft::ctx_id(ctx)));
}

void look_at(const sft::CheckedCall& call, const char* routine, shmem_ctx_t ctx, const int* pes,
             std::size_t npes) noexcept {
    look_at(call, routine, ctx);
    const sft::ContextEntry* const entry = sft::g_engine->contexts.find(sft::ctx_id(ctx));
    if (entry == nullptr || npes == 0 || !sft::is_checking()) {
        return;
    }
    sft::Checker& checker = *sft::g_engine->checker;
    checker.check_local(routine, {"target_pes", pes, sft::elements(npes, sizeof *pes)});
    for (std::size_t i = 0; i < npes; ++i) {
        if (pes[i] < 0 || pes[i] >= entry->group.size) {
            checker.report(routine, "target_pes[%zu]: there is no PE %d: PE numbers go from 0 to %d here", i, pes[i],
                           entry->group.size - 1);
        }
    }
}

// Of a PE that counts in a team; -1: there is none.
int pe_in_world(shmem_team_t team, int pe) noexcept {
    return sft::team_translate_pe(*sft::g_engine, sft::team_id(team), pe, sft::kTeamWorld);
}

void set_lock(long* lock) noexcept {
    sft::Engine& e = sft::engine("shmem_set_lock");
    if (sft::is_checking()) [[unlikely]] {
        e.checker->check_set_lock("shmem_set_lock", lock);
    }
    sft::set_lock(e, lock);
    if (sft::is_checking()) [[unlikely]] {
        e.checker->note_lock(lock);
    }
}

int test_lock(long* lock) noexcept {
    sft::Engine& e = sft::engine("shmem_test_lock");
    if (sft::is_checking()) [[unlikely]] {
        e.checker->check_test_lock("shmem_test_lock", lock);
    }
    const bool has_lock = sft::try_lock(e, lock);
    if (sft::is_checking() && has_lock) [[unlikely]] {
        e.checker->note_lock(lock);
    }
    return has_lock ? 0 : 1;
}

void clear_lock(long* lock) noexcept {
    sft::Engine& e = sft::engine("shmem_clear_lock");
    if (sft::is_checking()) [[unlikely]] {
        e.checker->check_clear_lock("shmem_clear_lock", lock);
    }
    sft::clear_lock(e, lock);
}

}  // namespace

SFT_ENTRY(int, shmem_team_my_pe, (shmem_team_t team),
          sft::team_my_pe(engine_with("shmem_team_my_pe", sft::team_id(team)), sft::team_id(team)))
SFT_ENTRY(int, shmem_team_n_pes, (shmem_team_t team),
          sft::team_n_pes(engine_with("shmem_team_n_pes", sft::team_id(team)), sft::team_id(team)))
SFT_ENTRY(int, shmem_team_get_config, (shmem_team_t team, long config_mask, shmem_team_config_t* config),
          get_config(team, config_mask, config))
SFT_ENTRY(int, shmem_team_translate_pe, (shmem_team_t src_team, int src_pe, shmem_team_t dest_team),
          sft::team_translate_pe(engine_with("shmem_team_translate_pe", sft::team_id(src_team)), sft::team_id(src_team),
                                 src_pe, sft::team_id(dest_team)))
SFT_WAITING_TOLD_ENTRY(int, shmem_team_split_strided,
                       (shmem_team_t parent_team, int start, int stride, int size, const shmem_team_config_t* config,
                        long config_mask, shmem_team_t* new_team),
                       told.making(new_team).with(sft::bits(start)).with(sft::bits(stride)).with(sft::bits(size)),
                       split_strided(parent_team, {start, stride, size}, contexts_wanted(config, config_mask),
                                     new_team))
SFT_WAITING_TOLD_ENTRY(int, shmem_team_split_2d,
                       (shmem_team_t parent_team, int xrange, const shmem_team_config_t* xaxis_config, long xaxis_mask,
                        shmem_team_t* xaxis_team, const shmem_team_config_t* yaxis_config, long yaxis_mask,
                        shmem_team_t* yaxis_team),
                       told.making(xaxis_team, yaxis_team).with(sft::bits(xrange)),
                       split_2d(parent_team, xrange, contexts_wanted(xaxis_config, xaxis_mask), xaxis_team,
                                contexts_wanted(yaxis_config, yaxis_mask), yaxis_team))
SFT_WAITING_ENTRY(void, shmem_team_destroy, (shmem_team_t team), destroy_team(team))
SFT_TOLD_ENTRY(void*, shmem_team_ptr, (shmem_team_t team, const void* dest, int pe),
               told.pointing(e, dest, pe_in_world(team, pe)),
               sft::team_ptr(engine_with("shmem_team_ptr", sft::team_id(team)), sft::team_id(team), dest, pe))

SFT_TOLD_ENTRY(int, shmem_ctx_create, (long options, shmem_ctx_t* ctx), told.making(ctx),
               create_context("shmem_ctx_create", sft::kTeamWorld, options, ctx))
SFT_TOLD_ENTRY(int, shmem_team_create_ctx, (shmem_team_t team, long options, shmem_ctx_t* ctx), told.making(ctx),
               create_context("shmem_team_create_ctx", sft::team_id(team), options, ctx))
SFT_WAITING_ENTRY(void, shmem_ctx_destroy, (shmem_ctx_t ctx), destroy_context(ctx))
SFT_ENTRY(int, shmem_ctx_get_team, (shmem_ctx_t ctx, shmem_team_t* team), context_team(ctx, team))

// Sessions are hints for transports that can batch operations.
SFT_ENTRY(void, shmem_ctx_session_start, (shmem_ctx_t ctx, long, const shmem_ctx_session_config_t*, long),
          void(engine_with("shmem_ctx_session_start", sft::ctx_id(ctx))))
SFT_ENTRY(void, shmem_ctx_session_stop, (shmem_ctx_t ctx),
          void(engine_with("shmem_ctx_session_stop", sft::ctx_id(ctx))))

// Inside a node both are an instruction; a network and a pending fault are looked for at once. To
// remember where it was called would make the entry longer.
#define ORDERING(NAME, PARAMETERS, OPERATION, ...)                                \
    extern "C" void SFT_JOIN(p, NAME) PARAMETERS {                                \
        SFT_ELSEWHERE(void, {                                                     \
            const auto order = [&]() noexcept {                                   \
                const sft::CheckedCall call(SFT_TEXT(NAME));                      \
                look_at(call, SFT_TEXT(NAME), __VA_ARGS__);                       \
                sft::OPERATION(*sft::g_engine);                                   \
            };                                                                    \
            if (sft::running_engine(SFT_TEXT(NAME)).startup == nullptr) {         \
                sft::then_look_for_fault(sft::g_engine, SFT_TEXT(NAME), order);   \
                return;                                                           \
            }                                                                     \
            order();                                                              \
            if (!sft::g_engine->startup->light_call({SFT_TEXT(NAME), nullptr})) { \
                sft::look_for_fault(sft::g_engine, SFT_TEXT(NAME));               \
            }                                                                     \
        })                                                                        \
        sft::OPERATION##_here();                                                  \
        if (!sft::g_fast_engine->gate.is_plain()) [[unlikely]] {                  \
            sft::OPERATION##_elsewhere(*sft::g_fast_engine);                      \
            sft::look_for_fault(sft::g_fast_engine, SFT_TEXT(NAME));              \
        }                                                                         \
    }                                                                             \
    SFT_ALIAS(void, NAME, PARAMETERS)
ORDERING(shmem_fence, (void), fence, SHMEM_CTX_DEFAULT)
ORDERING(shmem_ctx_fence, (shmem_ctx_t ctx), fence, ctx)
ORDERING(shmem_quiet, (void), quiet, SHMEM_CTX_DEFAULT)
ORDERING(shmem_ctx_quiet, (shmem_ctx_t ctx), quiet, ctx)
ORDERING(shmem_pe_quiet, (const int* target_pes, std::size_t npes), quiet, SHMEM_CTX_DEFAULT, target_pes, npes)
ORDERING(shmem_ctx_pe_quiet, (shmem_ctx_t ctx, const int* target_pes, std::size_t npes), quiet, ctx, target_pes, npes)

SFT_WAITING_ENTRY(void, shmem_set_lock, (long* lock), set_lock(lock))
SFT_WAITING_ENTRY(int, shmem_test_lock, (long* lock), test_lock(lock))
SFT_WAITING_ENTRY(void, shmem_clear_lock, (long* lock), clear_lock(lock))

#undef ORDERING
