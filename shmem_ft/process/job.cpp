// The life of the job, as ops/job.hpp has it: nesting of init and finalize, and what is left of it at exit() and
// fork().

#include "shmem_ft/ops/job.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>

#include "base/assert.hpp"
#include "base/private_data.hpp"
#include "base/report.hpp"
#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/process/process_hooks.hpp"
#include "shmem_ft/process/runtime.hpp"
#include "shmem_ft/start/member_mark.hpp"

namespace sft {
namespace {

// Null outside init and finalize, and in children made by fork().
SFT_LIBRARY_STATE Runtime* g_runtime = nullptr;
// Both are asked by any thread at any time, also while another one is inside shmem_init or shmem_finalize.
SFT_LIBRARY_STATE std::atomic<bool> g_is_initialized{false};
SFT_LIBRARY_STATE std::atomic<int> g_thread_level{0};
SFT_LIBRARY_STATE int g_generation = 0;
SFT_LIBRARY_STATE bool g_finalize_at_exit = false;
SFT_LIBRARY_STATE std::atomic<bool> g_is_exit_seen_by_calls{false};
// Completed initialisations. The connection to the launcher outlives the last shmem_finalize: a process that left and
// came back for the next shmem_init would look dead to the fences of the others in between.
SFT_LIBRARY_STATE int g_connections = 0;

bool is_running() { return g_runtime != nullptr; }

// Whoever leaves with an error waits for nobody: what the program calls in its exit handlers (atexit(shmem_finalize) is
// a habit) must not wait for others, who may be in a barrier and wait for this process.
void see_exit(int status) {
    if (status != 0 && is_running() && !g_runtime->job_exit().is_finished()) {
        note_exit(status);
    }
}

void end_exit(int status) {
    if (is_running() && g_finalize_at_exit && !g_runtime->job_exit().is_finished()) {
        g_engine->init_depth = 1;
        job::finalize();
    }
    if (is_running()) {
        g_runtime->job_exit().record_exit(status);
        return;
    }
    for (; g_connections > 0; --g_connections) {
        Bootstrap::disconnect();
    }
}

void wait_for_nobody(int status) {
    if (is_running()) {
        g_runtime->job_exit().wait_for_nobody(status);
    }
}

void be_no_member() {
    SFT_ASSERT(is_running());
    g_runtime->memory().privatize_after_fork();
    JobExit::ignore_defects();  // the line to oshrun is the parent's
    g_runtime = nullptr;
    attach_engine(nullptr);
    g_is_initialized = false;
}

// False: it has failed, as has been said.
bool start(const job::InitOptions& options) {
    SFT_ASSERT(g_runtime == nullptr && g_engine == nullptr && g_generation >= g_connections);
    install_hooks({.exit_seen = &see_exit,
                   .exit_ends = &end_exit,
                   .leaves = &wait_for_nobody,
                   .shares_memory = &is_running,
                   .forked = &be_no_member});
    // With brackets, so that what is saved of it in a version is zero also where nothing is stored: valgrind follows
    // what is undefined into the copies and their checksums.
    auto* runtime = new Runtime();
    if (const Result<> started = runtime->start(g_generation); !started) {
        runtime->abandon(started.error().line);
        return false;
    }
    mark_member();
    ++g_generation;
    ++g_connections;
    g_runtime = runtime;
    g_thread_level.store(options.requested_thread_level.value_or(job::kThreadMultiple));
    runtime->enter_program();
    g_finalize_at_exit = options.finalize_at_exit;
    g_is_exit_seen_by_calls.store(false);
    return true;
}

void set_thread_level(int level) noexcept {
    SFT_ASSERT(level >= 0 && level <= job::kThreadMultiple && g_runtime != nullptr);
    g_thread_level.store(level);
    g_engine->thread_level = static_cast<std::uint64_t>(level);
    g_runtime->checks().set_thread_level(level);
}

}  // namespace

namespace job {

int init(const InitOptions& options, int* provided_thread_level) noexcept {
    const int requested = options.requested_thread_level.value_or(0);
    if (requested < 0 || requested > kThreadMultiple) {
        say("error: shmem_init_thread: requested has the unknown value %d: use one of SHMEM_THREAD_*", requested);
        return 1;
    }
    if (g_engine == nullptr && !start(options)) {
        if (!options.report_failure) {
            std::_Exit(kExitError);
        }
        return 1;
    }
    // Everything is safe for threads at every level, so a part of the program that comes later may have more.
    set_thread_level(std::max(g_thread_level.load(), requested));
    ++g_engine->init_depth;
    g_is_initialized = true;
    if (provided_thread_level != nullptr) {
        *provided_thread_level = g_thread_level.load();
    }
    return 0;
}

void finalize() noexcept {
    if (is_leaving()) {
        return;  // others are elsewhere, and hear of the end of this process
    }
    if (g_engine == nullptr) {
        report_not_initialized("shmem_finalize");
    }
    SFT_ASSERT(g_runtime != nullptr && g_engine->init_depth >= 1);
    if (g_engine->init_depth > 1) {
        --g_engine->init_depth;
        barrier(*g_engine, world(*g_engine));
        return;
    }
    g_runtime->finish();
    Runtime* runtime = g_runtime;
    g_is_initialized = false;
    g_runtime = nullptr;
    attach_engine(nullptr);
    delete runtime;
}

void watch_exit() noexcept { watch_exit_of_program(); }

// What the program has registered since shmem_init must run after ours.
void watch_exit_at_first_call() noexcept {
    if (!g_is_exit_seen_by_calls.load(std::memory_order_relaxed) && !g_is_exit_seen_by_calls.exchange(true)) {
        watch_exit();
    }
}

bool is_last_finalize() noexcept { return g_engine != nullptr && g_engine->init_depth == 1; }

void global_exit(int status) noexcept {
    if (!is_running()) {
        report_not_initialized("shmem_global_exit");
    }
    g_runtime->job_exit().global_exit(status);
}

void fail(const char* line) noexcept {
    SFT_ASSERT(is_running());
    g_runtime->job_exit().fail_job(line);
}

bool is_initialized() noexcept { return g_is_initialized; }
int thread_level() noexcept { return g_thread_level.load(); }

void take_thread_level() noexcept { set_thread_level(static_cast<int>(g_engine->thread_level)); }

}  // namespace job
}  // namespace sft
