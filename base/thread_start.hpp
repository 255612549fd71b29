// Starts threads of the library. Signals are the application's business: its threads get them.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <functional>
#include <system_error>
#include <thread>
#include <utility>

namespace sft {

// Threads that are started while it exists get no signals, but for the one that a write of their own may cause: it has
// a handler (symheap/heap_guard.hpp), and where it is blocked the process ends.
class WithoutSignals {
public:
    WithoutSignals() noexcept {
        sigset_t all;
        ::sigfillset(&all);
        ::sigdelset(&all, SIGSEGV);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~WithoutSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    WithoutSignals(const WithoutSignals&) = delete;
    WithoutSignals& operator=(const WithoutSignals&) = delete;

private:
    sigset_t before_{};
};

// Not joinable: the system gives none.
[[nodiscard]] inline std::thread start_without_signals(std::function<void()> work) {
    const WithoutSignals none;
    try {
        return std::thread(std::move(work));
    } catch (const std::system_error&) {
        return {};
    }
}

}  // namespace sft
