// The functions of ops/job.hpp: nesting of init and finalize, the end of the process in all its forms, and fork.

#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/personality.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "base/report.hpp"
#include "shmem_ft/ops/check.hpp"
#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/process/runtime.hpp"
#include "shmem_ft/start/member_mark.hpp"

namespace sft {

SFT_LIBRARY_STATE Runtime* g_runtime = nullptr;

namespace {

// Both are asked by any thread at any time, also while another one is inside shmem_init or shmem_finalize.
SFT_LIBRARY_STATE std::atomic<bool> g_is_initialized{false};
SFT_LIBRARY_STATE std::atomic<int> g_thread_level{0};
SFT_LIBRARY_STATE int g_generation = 0;
SFT_LIBRARY_STATE bool g_finalize_at_exit = false;
SFT_LIBRARY_STATE bool g_hooks_installed = false;
SFT_LIBRARY_STATE std::atomic<bool> g_is_exit_seen_by_calls{false};
SFT_LIBRARY_STATE pid_t g_owner_pid = 0;
// Completed initialisations. The connection to the launcher outlives the last shmem_finalize: a process that left and
// came back for the next shmem_init would look dead to the fences of the others in between.
SFT_LIBRARY_STATE int g_connections = 0;

// Whoever leaves with an error waits for nobody: what the program calls in its exit handlers (atexit(shmem_finalize) is
// a habit) must not wait for others, who may be in a barrier and wait for this process.
void see_exit(int status, void*) {
    if (status != 0 && ::getpid() == g_owner_pid && g_runtime != nullptr && !g_runtime->job_exit().is_finished()) {
        note_exit(status);
    }
}

void at_exit(int status, void*) {
    if (::getpid() != g_owner_pid) {
        return;
    }
    see_exit(status, nullptr);
    if (g_runtime != nullptr && g_finalize_at_exit && !g_runtime->job_exit().is_finished()) {
        g_engine->init_depth = 1;
        job::finalize();
    }
    if (g_runtime != nullptr) {
        g_runtime->job_exit().record_exit(status);
        return;
    }
    for (; g_connections > 0; --g_connections) {
        Bootstrap::disconnect();
    }
}

void at_leave(int status) {
    if (g_runtime != nullptr && ::getpid() == g_owner_pid) {
        g_runtime->job_exit().wait_for_nobody(status);
    }
}

// The globals are shared memory, so parent and child would write the same ones. The child copies them first thing;
// until it has, the parent waits, so that the copy is that of the moment of fork(). The pipe tells the parent, also
// when the child dies before it is done. The lock keeps the children of other threads from holding this pipe open.
SFT_LIBRARY_STATE pthread_mutex_t g_fork_lock = PTHREAD_MUTEX_INITIALIZER;
SFT_LIBRARY_STATE int g_fork_pipe[2] = {-1, -1};

void before_fork() {
    ::pthread_mutex_lock(&g_fork_lock);
    if (g_runtime == nullptr || ::pipe2(g_fork_pipe, O_CLOEXEC) != 0) {
        g_fork_pipe[0] = g_fork_pipe[1] = -1;
    }
}

void after_fork_in_parent() {
    if (g_fork_pipe[0] >= 0) {
        ::close(g_fork_pipe[1]);
        char byte = 0;
        while (::read(g_fork_pipe[0], &byte, 1) < 0 && errno == EINTR) {
        }
        ::close(g_fork_pipe[0]);
    }
    ::pthread_mutex_unlock(&g_fork_lock);
}

void after_fork_in_child() {
    // What lies in globals of a statically linked library is still the parent's until it is copied.
    const int read_end = g_fork_pipe[0];
    const int write_end = g_fork_pipe[1];
    if (g_runtime != nullptr) {
        g_runtime->memory().privatize_after_fork();
        JobExit::ignore_defects();  // the line to oshrun is the parent's
        g_runtime = nullptr;
        attach_engine(nullptr);
        g_is_initialized = false;
    }
    g_fork_lock = PTHREAD_MUTEX_INITIALIZER;
    if (read_end >= 0) {
        ::close(read_end);
        ::close(write_end);
    }
}

void watch_exit_at_first_call() noexcept {
    if (!g_is_exit_seen_by_calls.load(std::memory_order_relaxed) && !g_is_exit_seen_by_calls.exchange(true)) {
        job::watch_exit();
    }
}

void install_hooks() {
    if (!g_hooks_installed) {
        g_hooks_installed = true;
        ::on_exit(at_exit, nullptr);
        set_leave_hook(at_leave);
        ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    }
}

bool is_set(char** environment, const char* name) {
    const std::size_t length = std::strlen(name);
    for (; *environment != nullptr; ++environment) {
        if (std::strncmp(*environment, name, length) == 0 && (*environment)[length] == '=') {
            return true;
        }
    }
    return false;
}

// A position-independent executable is loaded at a random address, so its globals would lie elsewhere in every
// process. oshrun starts programs without randomisation; under a plain launcher the program does that for itself,
// before main, by executing itself once more. Where that is forbidden, shmem_init finds that the addresses differ
// and says what to do. Where the globals are not symmetric any addresses will do; and there the library may have been
// loaded late, when executing itself again would do twice what the program has done so far. glibc passes the arguments
// of main to constructors.
__attribute__((constructor)) void load_at_fixed_address(int, char** arguments, char** environment) {
    const int persona = ::personality(0xffffffffU);
    std::uintptr_t bias = 0;
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* result) {
            *static_cast<std::uintptr_t*>(result) = info->dlpi_addr;
            return 1;
        },
        &bias);
    if (bias == 0 || persona < 0 || (persona & ADDR_NO_RANDOMIZE) != 0 || !is_set(environment, "PMIX_RANK")) {
        return;
    }
    Config config;  // if it cannot be read, shmem_init says why
    std::string error;
    if (load_config(config, error) && !has_symmetric_globals(config.globals, error)) {
        return;
    }
    if (::personality(static_cast<unsigned long>(persona) | ADDR_NO_RANDOMIZE) >= 0 &&
        (::personality(0xffffffffU) & ADDR_NO_RANDOMIZE) != 0) {
        char path[4096];
        const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path - 1);
        if (length > 0) {
            path[length] = '\0';
            ::execve(path, arguments, environment);
        }
    }
}

}  // namespace

void Runtime::take_thread_level() noexcept {
    const auto level = static_cast<int>(engine_.thread_level);
    g_thread_level.store(level);
    if (checker_ != nullptr) {
        checker_->set_thread_level(level);
    }
}

// ---- the end of a process ----

void Runtime::finish() noexcept {
    const Locked calls(calls_mutex_);
    fault_point(FaultPoint::finalize_enter);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    links_.quiet();
    switch (coordinator_->finish()) {
        case Participant::Do::finished: break;
        case Participant::Do::fault: {
            std::string who = "a PE failed";
            const JobState state = coordinator_->state();
            if (!state.failed.empty()) {
                who = format("PE %d failed (%s)", state.failed.front().pe.value(),
                             describe(state.failed.front().reason).c_str());
            }
            job_exit_.fail_job(
                who + " after the last shmem_checkpoint_all: the others are in shmem_finalize and cannot go back",
                EndReason::past_the_end);
        }
        default: job_exit_.leave_ended_job();
    }
    control_.slot(self()).state.store(ProcessState::finalized);
    job_exit_.note_finished();
    Bootstrap::forget_launcher();
    report(JobEventKind::finalized, 0, 0, "", now_ns(), 0);
    stop_service();
    say_goodbye(Stage::finished);
    mailbox_.close();
    protector_.stop_scrubber();
    links_.close();  // others may still be checking what is in the store
    protector_.release();
}

// ---- ops/job.hpp ----

namespace job {

int init(const InitOptions& options, int* provided_thread_level) noexcept {
    const int requested = options.requested_thread_level.value_or(0);
    if (requested < 0 || requested > kThreadMultiple) {
        say("error: shmem_init_thread: requested has the unknown value %d: use one of SHMEM_THREAD_*", requested);
        return 1;
    }
    if (g_engine == nullptr) {
        install_hooks();
        g_owner_pid = ::getpid();
        // With brackets, so that what is saved of it in a version is zero also where nothing is stored: valgrind
        // follows what is undefined into the copies and their checksums.
        auto* runtime = new Runtime();
        std::string error;
        if (!runtime->start(g_generation, error)) {
            runtime->abandon(error);
            if (!options.report_failure) {
                std::_Exit(kExitError);
            }
            return 1;
        }
        mark_member();
        ++g_generation;
        ++g_connections;
        g_runtime = runtime;
        g_thread_level.store(options.requested_thread_level.value_or(kThreadMultiple));
        runtime->start_checks();
        attach_engine(&runtime->engine());
        g_finalize_at_exit = options.finalize_at_exit;
        g_is_exit_seen_by_calls.store(false);
    }
    // Everything is safe for threads at every level, so a part of the program that comes later may have more.
    g_thread_level.store(std::max(g_thread_level.load(), options.requested_thread_level.value_or(0)));
    g_engine->thread_level = static_cast<std::uint64_t>(g_thread_level.load());
    g_runtime->take_thread_level();
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

void global_exit(int status) noexcept {
    if (g_runtime == nullptr) {
        report_not_initialized("shmem_global_exit");
    }
    g_runtime->job_exit().global_exit(status);
}

void fail(const char* line) noexcept { g_runtime->job_exit().fail_job(line); }

bool is_last_finalize() noexcept { return g_engine != nullptr && g_engine->init_depth == 1; }
bool is_initialized() noexcept { return g_is_initialized; }
int thread_level() noexcept { return g_thread_level.load(); }

void* heap_malloc(std::size_t bytes) noexcept {
    watch_exit_at_first_call();
    return bytes == 0 ? nullptr : g_runtime->heap_call(HeapCall::malloc, bytes, 0);
}

void* heap_calloc(std::size_t count, std::size_t bytes) noexcept {
    std::size_t total = 0;
    if (count == 0 || bytes == 0 || __builtin_mul_overflow(count, bytes, &total)) {
        return nullptr;
    }
    return g_runtime->heap_call(HeapCall::calloc, count, bytes);
}

void* heap_align(std::size_t alignment, std::size_t bytes) noexcept {
    return bytes == 0 ? nullptr : g_runtime->heap_call(HeapCall::align, bytes, alignment);
}

void* heap_realloc(void* address, std::size_t bytes) noexcept {
    if (address == nullptr) {
        return heap_malloc(bytes);
    }
    if (bytes == 0) {
        heap_free(address);
        return nullptr;
    }
    return g_runtime->heap_call(HeapCall::realloc, g_runtime->heap_offset(address, "shmem_realloc"), bytes);
}

void* heap_malloc_with_hints(std::size_t bytes, long hints) noexcept {
    return bytes == 0 ? nullptr
                      : g_runtime->heap_call(HeapCall::malloc_with_hints, bytes, static_cast<std::uint64_t>(hints));
}

void heap_free(void* address) noexcept {
    if (address != nullptr) {
        g_runtime->heap_call(HeapCall::free, g_runtime->heap_offset(address, "shmem_free"), 0);
    }
}

// Exit handlers run last first. What the program has registered since shmem_init must run after ours.
void watch_exit() noexcept { ::on_exit(see_exit, nullptr); }

int checkpoint_all() noexcept {
    watch_exit_at_first_call();
    constexpr int kNotInitialized = -2;
    constexpr int kFailure = 1;
    return g_runtime == nullptr ? kNotInitialized : is_leaving() ? kFailure : g_runtime->checkpoint();
}
void query_fault(int** pes, int** pes_status, std::size_t* numpes) noexcept {
    g_runtime->query_fault(pes, pes_status, numpes);
}
void restart_pes(const int* pes, std::size_t numpes) noexcept {
    if (!is_leaving()) {
        g_runtime->restart(pes, numpes);
    }
}
void zero_symmetric(void* block, std::size_t bytes) noexcept { g_runtime->memory().zero(block, bytes); }
AddressRange symmetric_object(const void* address) noexcept { return g_runtime->memory().object_at(address); }
void* pointer_before_joining(const void* address, PeId pe) noexcept {
    return g_runtime->pointer_before_joining(address, pe);
}
int algo_init() noexcept {
    watch_exit_at_first_call();
    return g_runtime->algo_init();
}
int protected_losses() noexcept { return g_runtime->protected_losses(); }
bool on_fault(FaultAction action, FaultHandler handler, void* context) noexcept {
    return g_runtime->fault_policy().choose(action, handler, context);
}
void on_unreplaced(UnreplacedHandler handler, void* context) noexcept {
    g_runtime->spare_wait().set_handler(handler, context);
}
jmp_buf* rollback_point() noexcept { return g_runtime->fault_policy().rollback_point(); }
bool must_recover() noexcept { return g_runtime->fault_policy().must_recover(); }
void recover() noexcept {
    if (!is_leaving()) {
        g_runtime->recover();
    }
}
WayOut meet_fault(const char* routine) noexcept {
    return is_leaving() ? WayOut() : g_runtime->fault_policy().meet(routine);
}

}  // namespace job
}  // namespace sft
