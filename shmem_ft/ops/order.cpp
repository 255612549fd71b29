#include "shmem_ft/ops/order.hpp"

#include <sched.h>
#include <time.h>

#include "shmem_ft/base/clock.hpp"
#include "shmem_ft/ops/p2p.hpp"
#include "shmem_ft/transport/net/network.hpp"

namespace sft {
namespace {

// Between two naps of a process that tests in a loop: they take some 60 us each, little of that.
constexpr std::int64_t kNapPeriodNs = 4'000'000;
// What sched_yield takes at the most where nobody else runs in it.
constexpr std::int64_t kYieldNsMax = 5'000;

}  // namespace

void fence_elsewhere(Engine& e) noexcept {
    if (e.network != nullptr) {
        e.network->fence();
    }
}

void quiet_elsewhere(Engine& e) noexcept {
    if (e.network != nullptr) {
        e.network->quiet();
    }
}

// A thread that never sleeps, beside threads of its session that nap, can keep Linux 6.18 from running any other
// session of the machine for tens of seconds, other hosts' agents among them (docs/cluster.md, "Limits"). To sleep for
// the shortest time now and then prevents it.
void give_way(Engine& e) noexcept {
    const std::int64_t begin_ns = now_ns();
    if (begin_ns - e.napped_ns.load(std::memory_order_relaxed) > kNapPeriodNs) {
        e.napped_ns.store(begin_ns, std::memory_order_relaxed);
        const timespec shortest{0, 1};
        ::nanosleep(&shortest, nullptr);
        return;
    }
    ::sched_yield();
    if (now_ns() - begin_ns > kYieldNsMax) {
        e.napped_ns.store(0, std::memory_order_relaxed);  // others run here: the next one is due at once
    }
}

int after_failed_test_elsewhere(Engine& e) noexcept {
    if (e.network != nullptr) {
        e.network->poll();
    }
    return e.gate.is_pending() ? 1 : 0;
}

}  // namespace sft
