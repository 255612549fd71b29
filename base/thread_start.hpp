// Starts threads of the library. Signals are the application's business: its threads get them.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <functional>
#include <system_error>
#include <thread>
#include <utility>

namespace sft {

// Not joinable: the system gives none.
[[nodiscard]] inline std::thread start_without_signals(std::function<void()> work) {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread;
    try {
        thread = std::thread(std::move(work));
    } catch (const std::system_error&) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

}  // namespace sft
