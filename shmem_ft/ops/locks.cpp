#include "shmem_ft/ops/locks.hpp"

#include <time.h>

#include <algorithm>
#include <atomic>

#include "shmem_ft/ops/amo.hpp"
#include "shmem_ft/ops/order.hpp"
#include "shmem_ft/ops/p2p.hpp"

namespace sft {
namespace {

// The two halves wrap around on their own, which is why the word is never updated as a whole.
struct Tickets {
    std::uint32_t next;     // the ticket that the next caller draws
    std::uint32_t serving;  // the ticket that holds the lock; next == serving: free
};
static_assert(sizeof(Tickets) == sizeof(long) && alignof(Tickets) <= alignof(long));
static_assert(offsetof(Tickets, next) == 0 && offsetof(Tickets, serving) == 4, "what lies in the memory of programs");
static_assert(std::is_trivially_copyable_v<Tickets> && std::atomic_ref<std::uint32_t>::is_always_lock_free);

// Homes are spread by the position in the region, which is the same on all PEs, so that not every lock of a program
// lies with PE 0.
Target home_of(Engine& e, const long* lock) noexcept {
    const AddressRange& region = e.peers.heap.contains(lock) ? e.peers.heap : e.peers.globals;
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(lock) - region.begin;
    return {e, PeId(static_cast<std::int32_t>(offset / sizeof(long) % static_cast<std::size_t>(e.peers.n_pes)))};
}

Tickets* tickets(long* lock) noexcept { return reinterpret_cast<Tickets*>(lock); }

// ---- a home that is not mapped here: on another node, or dead, and then a fault is pending ----

// Before the next look at a lock on another node. Who is next looks often, the others as seldom as their distance
// allows, so a lock that many wait for brings its home about as many questions as one that few wait for; each waits
// for the answer to the one before. A pause stays a small part of the time that has been waited before it.
void pause_before(std::uint32_t ahead, std::uint32_t looks) noexcept {
    constexpr std::uint32_t kLooksAtOnce = 16;
    constexpr long kPauseNs = 20'000;
    constexpr std::uint32_t kUnitsMax = 500;
    const std::uint32_t units =
        std::min(kUnitsMax, (ahead - 1) * 2 + (looks < kLooksAtOnce ? 0 : (looks - kLooksAtOnce + 1) * 8));
    if (units != 0) {
        const timespec time{0, static_cast<long>(units) * kPauseNs};
        ::nanosleep(&time, nullptr);
    }
}

SFT_COLD void set_lock_elsewhere(Target home, Tickets* lock) noexcept {
    const std::uint32_t ticket = remote_fetch(home, AtomicOperation::add, &lock->next, 1U);
    for (std::uint32_t looks = 0;; ++looks) {
        const std::uint32_t serving = remote_fetch(home, AtomicOperation::fetch, &lock->serving, 0U);
        if (serving == ticket || home.engine.gate.is_pending()) {
            return;
        }
        pause_before(ticket - serving, looks);
    }
}

SFT_COLD bool try_lock_elsewhere(Target home, Tickets* lock) noexcept {
    const std::uint32_t ticket = remote_fetch(home, AtomicOperation::fetch, &lock->serving, 0U);
    const std::uint32_t seen = remote_fetch(home, AtomicOperation::compare_swap, &lock->next, ticket + 1, ticket);
    if (seen == ticket) {
        return true;
    }
    Waiter::give_way();  // such a try takes as long as many tests here
    return after_failed_test(home.engine) != 0;
}

}  // namespace

void set_lock(Engine& e, long* lock) noexcept {
    const Target at = home_of(e, lock);
    Tickets* const home = at.locate(tickets(lock));
    if (home == nullptr) {
        return set_lock_elsewhere(at, tickets(lock));
    }
    const std::uint32_t ticket = std::atomic_ref(home->next).fetch_add(1, std::memory_order_acq_rel);
    at.wrote(lock, sizeof *lock);
    e.waiter.poll_until([&] { return std::atomic_ref(home->serving).load(std::memory_order_acquire) == ticket; });
}

bool try_lock(Engine& e, long* lock) noexcept {
    const Target at = home_of(e, lock);
    Tickets* const home = at.locate(tickets(lock));
    if (home == nullptr) {
        return try_lock_elsewhere(at, tickets(lock));  // true while a fault is pending, as below
    }
    // serving stays what it is while next equals it: only a holder moves it.
    std::uint32_t ticket = std::atomic_ref(home->serving).load(std::memory_order_acquire);
    if (std::atomic_ref(home->next).compare_exchange_strong(ticket, ticket + 1, std::memory_order_acq_rel)) {
        at.wrote(lock, sizeof *lock);
        return true;
    }
    // While a fault is pending the lock counts as taken by the caller: nobody may be left to give it back, and a
    // program that tries in a loop must come out.
    return after_failed_test(e) != 0;
}

void clear_lock(Engine& e, long* lock) noexcept {
    quiet(e);
    const Target at = home_of(e, lock);
    if (Tickets* const home = at.locate(tickets(lock))) {
        std::atomic_ref(home->serving).fetch_add(1, std::memory_order_acq_rel);
        at.wrote(lock, sizeof *lock);
    } else {
        remote_post(at, AtomicOperation::add, &tickets(lock)->serving, 1U);
    }
}

}  // namespace sft
