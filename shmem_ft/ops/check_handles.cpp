// Which thread calls, and which handles it may use.
#include "base/assert.hpp"
#include "shmem_ft/ops/check.hpp"

namespace sft {
namespace {

// Values of SHMEM_THREAD_* and SHMEM_CTX_*, compared with shmem.h in api/teams.cpp.
constexpr int kFunneled = static_cast<int>(ThreadLevel::funneled);
constexpr int kSerialized = static_cast<int>(ThreadLevel::serialized);

const char* level_name(int level) noexcept {
    switch (level) {
        case kSerialized: return "SHMEM_THREAD_SERIALIZED";
        case kFunneled: return "SHMEM_THREAD_FUNNELED";
        default: return "SHMEM_THREAD_SINGLE";
    }
}

bool is_self(pthread_t thread) noexcept { return ::pthread_equal(thread, ::pthread_self()) != 0; }
bool is_nobody(pthread_t thread) noexcept { return thread == pthread_t{}; }

bool has_option(const ContextEntry& entry, ContextOption option) noexcept {
    return (entry.options & static_cast<std::uint32_t>(option)) != 0;
}

}  // namespace

// ---- threads ----

// The level promises one thread, or one at a time.
void Checker::check_thread(const char* routine) noexcept {
    if (thread_level_.load() > kSerialized || is_self(inside_.load(std::memory_order_acquire))) {
        return;
    }
    if (thread_level_.load() < kSerialized && !is_self(main_thread_)) {
        report(routine, "called by a thread that did not initialise, but the thread level is %s",
               level_name(thread_level_.load()));
    } else if (!is_nobody(inside_.load(std::memory_order_acquire))) {
        report(routine, "called while another thread is in a call, but the thread level is %s",
               level_name(thread_level_.load()));
    }
}

bool Checker::enter(const char* routine) noexcept {
    if (thread_level_.load() > kSerialized || is_self(inside_.load(std::memory_order_acquire))) {
        return false;
    }
    check_thread(routine);
    pthread_t nobody{};
    return inside_.compare_exchange_strong(nobody, ::pthread_self(), std::memory_order_acq_rel);
}

// ---- contexts ----

bool Checker::enter_context(const char* routine, CtxId context) noexcept {
    const ContextEntry* const entry = engine_->contexts.find(context);
    if (entry == nullptr) {
        if (is_fault_pending()) {
            return false;
        }
        fail(routine, "ctx is invalid: it was never created, or has been destroyed");
    }
    ContextUse& use = uses_[context.index()];
    if (has_option(*entry, ContextOption::is_private)) {
        pthread_t creator{};
        // Unknown after a rollback: then it belongs to who uses it first.
        if (!use.creator.compare_exchange_strong(creator, ::pthread_self()) && !is_self(creator)) {
            report(routine, "ctx is SHMEM_CTX_PRIVATE and used by a thread that did not create it");
        }
    }
    if (!has_option(*entry, ContextOption::serialized)) {
        return false;
    }
    pthread_t nobody{};
    if (use.inside.compare_exchange_strong(nobody, ::pthread_self(), std::memory_order_acq_rel)) {
        return true;
    }
    report(routine, "ctx is SHMEM_CTX_SERIALIZED and used by two threads at once");
    return false;
}

void Checker::leave_context(CtxId context) noexcept {
    SFT_ASSERT(context.index() < kContextsMax);
    uses_[context.index()].inside.store(pthread_t{}, std::memory_order_release);
}

void Checker::note_creator(CtxId context) noexcept {
    SFT_ASSERT(context == kCtxInvalid || context.index() < kContextsMax);
    if (context.index() < kContextsMax) {
        uses_[context.index()].creator.store(::pthread_self());
        uses_[context.index()].inside.store(pthread_t{});
    }
}

void Checker::check_context_handle(const char* routine, CtxId context) noexcept {
    if (context != kCtxInvalid && enter_context(routine, context)) {
        leave_context(context);
    }
}

void Checker::check_destroyed_context(const char* routine, CtxId context) noexcept {
    if (context == kCtxDefault) {
        report(routine, "ctx is SHMEM_CTX_DEFAULT, which cannot be destroyed");
    } else {
        check_context_handle(routine, context);
    }
}

// ---- teams ----

void Checker::check_team_handle(const char* routine, TeamId team) noexcept {
    if (team != kTeamInvalid && engine_->teams.find(team) == nullptr) {
        report(routine, "team is invalid: this PE is not a member of it, or it has been destroyed");
    }
}

void Checker::check_destroyed_team(const char* routine, TeamId team) noexcept {
    if (team == kTeamWorld || team == kTeamShared) {
        report(routine, "team is predefined and cannot be destroyed");
    } else {
        check_team_handle(routine, team);
        if (team != kTeamInvalid) {
            check_no_private_contexts(routine, team);
        }
    }
}

void Checker::check_no_private_contexts(const char* routine, TeamId team) noexcept {
    for (std::size_t i = kCtxDefault.index() + 1; i < kContextsMax; ++i) {
        const ContextEntry* const entry = engine_->contexts.find(CtxId(i));
        if (entry != nullptr && has_option(*entry, ContextOption::is_private) &&
            (team == kTeamInvalid || entry->team == team.value())) {
            report(routine, "ctx: a SHMEM_CTX_PRIVATE context%s has not been destroyed before",
                   team == kTeamInvalid ? "" : " of the team");
            return;
        }
    }
}

}  // namespace sft
