#include "shmem_ft/transport/shm/wait.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace sft {
namespace {

// Turns of sched_yield before napping, and the longest nap: what a poll costs in latency at the most.
constexpr std::uint32_t kYieldTurns = 64;
constexpr long kNapNsFirst = 5'000;
constexpr long kNapNsMax = 100'000;

}  // namespace

void Doorbell::ring() noexcept {
    rings.fetch_add(1, std::memory_order_seq_cst);
    ::syscall(SYS_futex, &rings, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

Waiter::Sleep::Sleep(Doorbell* bell) noexcept : bell_(bell) {
    bell_->sleepers.fetch_add(1, std::memory_order_seq_cst);
    seen_ = bell_->rings.load(std::memory_order_seq_cst);
}

Waiter::Sleep::~Sleep() { bell_->sleepers.fetch_sub(1, std::memory_order_seq_cst); }

void Waiter::Sleep::wait() noexcept { ::syscall(SYS_futex, &bell_->rings, FUTEX_WAIT, seen_, nullptr, nullptr, 0); }

void Waiter::yield() noexcept { ::sched_yield(); }

void Waiter::nap(std::uint32_t turn) noexcept {
    if (turn < kYieldTurns) {
        ::sched_yield();
        return;
    }
    const std::uint32_t doublings = (turn - kYieldTurns) / 16;
    const long nap_ns = doublings > 5 ? kNapNsMax : kNapNsFirst << doublings;
    const timespec time{0, nap_ns > kNapNsMax ? kNapNsMax : nap_ns};
    ::nanosleep(&time, nullptr);
}

}  // namespace sft
