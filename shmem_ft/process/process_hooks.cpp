#include "shmem_ft/process/process_hooks.hpp"

#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/personality.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/assert.hpp"
#include "base/config.hpp"
#include "base/private_data.hpp"
#include "base/report.hpp"
#include "symheap/globals.hpp"

namespace sft {
namespace {

SFT_LIBRARY_STATE ProcessHooks g_hooks;
SFT_LIBRARY_STATE bool g_is_installed = false;
SFT_LIBRARY_STATE pid_t g_owner_pid = 0;

// ---- exit() ----

void see_exit(int status, void*) {
    if (::getpid() == g_owner_pid) {
        g_hooks.exit_seen(status);
    }
}

void end_exit(int status, void*) {
    if (::getpid() == g_owner_pid) {
        g_hooks.exit_seen(status);
        g_hooks.exit_ends(status);
    }
}

void leave_with_error(int status) {
    if (::getpid() == g_owner_pid) {
        g_hooks.leaves(status);
    }
}

// ---- fork() ----

// The pipe tells the parent that the child has its copy, also when that dies before it is done. The lock keeps the
// children of other threads from holding this pipe open.
SFT_LIBRARY_STATE pthread_mutex_t g_fork_lock = PTHREAD_MUTEX_INITIALIZER;
SFT_LIBRARY_STATE int g_fork_pipe[2] = {-1, -1};

void before_fork() {
    ::pthread_mutex_lock(&g_fork_lock);
    if (!g_hooks.shares_memory() || ::pipe2(g_fork_pipe, O_CLOEXEC) != 0) {
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
    if (g_hooks.shares_memory()) {
        g_hooks.forked();
    }
    g_fork_lock = PTHREAD_MUTEX_INITIALIZER;
    if (read_end >= 0) {
        ::close(read_end);
        ::close(write_end);
    }
}

// ---- before main ----

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
    if (load_config(config) && !has_symmetric_globals(config.globals).value_or(true)) {
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

void install_hooks(const ProcessHooks& hooks) {
    g_owner_pid = ::getpid();
    if (g_is_installed) {
        return;
    }
    SFT_ASSERT(hooks.exit_seen != nullptr && hooks.shares_memory != nullptr && hooks.forked != nullptr);
    g_is_installed = true;
    g_hooks = hooks;
    ::on_exit(end_exit, nullptr);
    set_leave_hook(leave_with_error);
    ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void watch_exit_of_program() noexcept { ::on_exit(see_exit, nullptr); }

}  // namespace sft
