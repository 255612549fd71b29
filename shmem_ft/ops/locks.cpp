#include "shmem_ft/ops/locks.hpp"

#include <atomic>

#include "shmem_ft/ops/order.hpp"
#include "shmem_ft/ops/p2p.hpp"

namespace sft {
namespace {

// The two halves wrap around on their own, which is why the word is never updated as a whole.
struct Tickets {
    std::uint32_t next;     // the ticket that the next caller draws
    std::uint32_t serving;  // the ticket that holds the lock; next == serving: free
};
static_assert(sizeof(Tickets) == sizeof(long));

// Null when the home cannot be reached, and then a fault is pending. Homes are spread by the position in the region,
// which is the same on all PEs, so that not every lock of a program lies with PE 0.
Tickets* home_of(Engine& e, long* lock) noexcept {
    const AddressRange& region = e.peers.heap.contains(lock) ? e.peers.heap : e.peers.globals;
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(lock) - region.begin;
    const auto home = static_cast<std::int32_t>(offset / sizeof(long) % static_cast<std::size_t>(e.peers.n_pes));
    return static_cast<Tickets*>(e.peers.locate(lock, PeId(home)));
}

}  // namespace

void set_lock(Engine& e, long* lock) noexcept {
    Tickets* const home = home_of(e, lock);
    if (home == nullptr) {
        return;
    }
    const std::uint32_t ticket = std::atomic_ref(home->next).fetch_add(1, std::memory_order_acq_rel);
    e.waiter.poll_until([&] { return std::atomic_ref(home->serving).load(std::memory_order_acquire) == ticket; });
}

bool try_lock(Engine& e, long* lock) noexcept {
    Tickets* const home = home_of(e, lock);
    if (home == nullptr) {
        return true;  // as below
    }
    // serving stays what it is while next equals it: only a holder moves it.
    std::uint32_t ticket = std::atomic_ref(home->serving).load(std::memory_order_acquire);
    if (std::atomic_ref(home->next).compare_exchange_strong(ticket, ticket + 1, std::memory_order_acq_rel)) {
        return true;
    }
    // While a fault is pending the lock counts as taken by the caller: nobody may be left to give it back, and a
    // program that tries in a loop must come out.
    return after_failed_test(e) != 0;
}

void clear_lock(Engine& e, long* lock) noexcept {
    quiet();
    if (Tickets* const home = home_of(e, lock)) {
        std::atomic_ref(home->serving).fetch_add(1, std::memory_order_acq_rel);
    }
}

}  // namespace sft
