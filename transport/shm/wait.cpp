#include "transport/shm/wait.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "transport/net/network.hpp"

namespace sft {
namespace {

// Turns of sched_yield before napping, and the longest nap: what a poll costs in latency at the most.
constexpr std::uint32_t kYieldTurns = 64;
constexpr long kNapNsFirst = 5'000;
constexpr long kNapNsMax = 100'000;
constexpr std::uint32_t kDoublingsMax = 5;
static_assert((kNapNsFirst << kDoublingsMax) >= kNapNsMax && kNapNsFirst < kNapNsMax);

// give_way(): between two naps, which take some 60 us each; and what sched_yield takes at the most where nobody else
// runs.
constexpr std::int64_t kSleepPeriodNs = 4'000'000;
constexpr std::int64_t kYieldNsMax = 5'000;
static_assert(kYieldNsMax < kSleepPeriodNs);
thread_local std::int64_t t_slept_ns = 0;

// Looks at the network, with nothing found, before a waiter sleeps: several times as long as a message and its answer
// take.
constexpr std::uint32_t kNetworkLooks = 400;
constexpr std::uint32_t kNetworkLooksInCrowd = 8;

long nap_ns(std::uint32_t turn) {
    const std::uint32_t doublings = turn / 16;
    const long ns = doublings > kDoublingsMax ? kNapNsMax : kNapNsFirst << doublings;
    return ns > kNapNsMax ? kNapNsMax : ns;
}

}  // namespace

void Doorbell::ring() noexcept {
    rings.fetch_add(1, std::memory_order_seq_cst);
    ::syscall(SYS_futex, &rings, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

Waiter::Sleep::Sleep(Doorbell* bell) noexcept : bell_(bell) {
    SFT_ASSERT(bell_ != nullptr);
    bell_->sleepers.fetch_add(1, std::memory_order_seq_cst);
    seen_ = bell_->rings.load(std::memory_order_seq_cst);
}

Waiter::Sleep::~Sleep() {
    const std::uint32_t before = bell_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
    SFT_ASSERT(before != 0);
}

void Waiter::Sleep::wait() noexcept { ::syscall(SYS_futex, &bell_->rings, FUTEX_WAIT, seen_, nullptr, nullptr, 0); }

void Waiter::Sleep::wait_ns(long ns_max) noexcept {
    SFT_ASSERT(ns_max > 0 && ns_max < 1'000'000'000);
    const timespec time{0, ns_max};
    ::syscall(SYS_futex, &bell_->rings, FUTEX_WAIT, seen_, &time, nullptr, 0);
}

bool Waiter::Sleep::is_rung() const noexcept { return bell_->rings.load(std::memory_order_relaxed) != seen_; }

void Waiter::yield() noexcept { ::sched_yield(); }

void Waiter::nap(std::uint32_t turn) noexcept {
    if (turn < kYieldTurns) {
        ::sched_yield();
        return;
    }
    const timespec time{0, nap_ns(turn - kYieldTurns)};
    ::nanosleep(&time, nullptr);
}

void Waiter::give_way() noexcept {
    const std::int64_t begin_ns = now_ns();
    SFT_ASSERT(begin_ns >= t_slept_ns);
    if (begin_ns - t_slept_ns > kSleepPeriodNs) {
        t_slept_ns = begin_ns;
        const timespec shortest{0, 1};
        ::nanosleep(&shortest, nullptr);
        return;
    }
    ::sched_yield();
    if (now_ns() - begin_ns > kYieldNsMax) {
        t_slept_ns = 0;
    }
}

// While this thread looks, the progress thread has nothing to do; when it sleeps, the progress thread rings the bell
// for a message, and where one has come more may follow: it is looked for again. Stores of others ring no bell, so
// whoever waits for one sleeps for bounded times.
bool Waiter::wait_on_network(WaitEnd end, bool (*holds)(void*) noexcept, void* condition) noexcept {
    SFT_ASSERT(gate_->network() != nullptr);
    bool is_awake = true;
    for (std::uint32_t turn = 0; !holds(condition); ++turn) {
        if (gate_->is_pending()) {
            return holds(condition);
        }
        if (is_awake && look_at_network(holds, condition)) {
            return true;
        }
        Sleep sleep(own_);
        // Checked again after the sleeping flag is visible: a ring between the two is not lost.
        if (holds(condition)) {
            return true;
        }
        if (gate_->is_pending()) {
            continue;
        }
        if (end == WaitEnd::sleep) {
            sleep.wait();
        } else {
            sleep.wait_ns(nap_ns(turn));
        }
        is_awake = sleep.is_rung();
    }
    return true;
}

// As long as messages come. True: the condition holds. It may be one that takes a message, so it is not asked again
// then.
bool Waiter::look_at_network(bool (*holds)(void*) noexcept, void* condition) noexcept {
    Network& network = *gate_->network();
    const Network::Polling polling(&network);
    const std::uint32_t looks = is_crowded() ? kNetworkLooksInCrowd : kNetworkLooks;
    for (std::uint32_t i = 0; i < looks; ++i) {
        if (holds(condition)) {
            return true;
        }
        if (gate_->is_pending()) {
            return false;
        }
        if (network.poll()) {
            i = 0;
        } else if (is_crowded()) {
            yield();
        } else {
            pause();
        }
    }
    return false;
}

}  // namespace sft
