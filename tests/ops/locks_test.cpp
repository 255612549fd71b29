#include "shmem_ft/ops/locks.hpp"

#include "shmem_ft/ops/amo.hpp"
#include "tests/ops/harness.hpp"

namespace sft::testing {
namespace {

class Locks : public OnJobs {};
INSTANTIATE_TEST_SUITE_P(Sizes, Locks, kJobSizes);

// Several locks, so that several PEs are homes.
TEST_P(Locks, ExcludeEachOther) {
    run([](Pe& pe) {
        auto* locks = pe.allocate<long>(3);
        auto* counters = pe.allocate<long>(3);
        pe.barrier();
        constexpr int kRounds = 60;
        for (int i = 0; i < kRounds; ++i) {
            const int which = i % 3;
            set_lock(pe.engine, locks + which);
            const long seen = get_value(pe.to(0), counters + which);
            put_value(pe.to(0), counters + which, seen + 1);
            clear_lock(pe.engine, locks + which);
        }
        pe.barrier();
        for (int which = 0; which < 3; ++which) {
            EXPECT_EQ(get_value(pe.to(0), counters + which), kRounds / 3 * pe.n());
        }
    });
}

TEST_P(Locks, CanBeTested) {
    run([](Pe& pe) {
        auto* lock = pe.allocate<long>(1);
        auto* holders = pe.allocate<long>(1);
        auto* counter = pe.allocate<long>(1);
        pe.barrier();
        while (!try_lock(pe.engine, lock)) {
        }
        EXPECT_EQ(atomic_fetch_add(pe.to(0), holders, 1L), 0);
        EXPECT_FALSE(try_lock(pe.engine, lock)) << "held";
        atomic_fetch_add(pe.to(0), counter, 1L);
        EXPECT_EQ(atomic_fetch_add(pe.to(0), holders, -1L), 1);
        clear_lock(pe.engine, lock);
        pe.barrier();
        EXPECT_EQ(get_value(pe.to(0), counter), pe.n());
    });
}

// How many tickets have been drawn: the half of the word at the lock's home that counts them. Whichever PE is the home,
// the others' instances stay zero.
std::uint32_t drawn(Pe& pe, long* lock) {
    std::uint32_t sum = 0;
    for (int home = 0; home < pe.n(); ++home) {
        sum += __atomic_load_n(reinterpret_cast<std::uint32_t*>(pe.to(home).locate(lock)), __ATOMIC_ACQUIRE);
    }
    return sum;
}

void wait_for_tickets(Pe& pe, long* lock, int count) {
    while (drawn(pe, lock) < static_cast<std::uint32_t>(count)) {
        std::this_thread::yield();
    }
}

TEST(LockOrder, IsFirstComeFirstServed) {
    Job job(4);
    job.run([](Pe& pe) {
        auto* lock = pe.allocate<long>(1);
        auto* turn = pe.allocate<long>(1);
        pe.barrier();
        wait_for_tickets(pe, lock, pe.me());
        set_lock(pe.engine, lock);
        if (pe.me() == 0) {
            wait_for_tickets(pe, lock, pe.n());
        }
        EXPECT_EQ(atomic_fetch_add(pe.to(0), turn, 1L), pe.me());
        clear_lock(pe.engine, lock);
    });
}

// Each half of the word has to wrap around without touching the other one.
TEST(LockTickets, WrapAround) {
    Job job(1);
    job.run([](Pe& pe) {
        auto* lock = pe.allocate<long>(1, -1L);
        for (int i = 0; i < 3; ++i) {
            set_lock(pe.engine, lock);
            EXPECT_FALSE(try_lock(pe.engine, lock));
            clear_lock(pe.engine, lock);
        }
    });
}

TEST(LockFaults, LetWaitersGo) {
    Job job(3);
    job.run([&job](Pe& pe) {
        auto* lock = pe.allocate<long>(1);
        pe.barrier();
        if (pe.me() == 1) {
            set_lock(pe.engine, lock);
            wait_for_tickets(pe, lock, 3);
            job.announce_death(1);  // with the lock
            return;
        }
        wait_for_tickets(pe, lock, 1);
        set_lock(pe.engine, lock);
        EXPECT_TRUE(pe.engine.waiter.fault_pending());
        EXPECT_TRUE(try_lock(pe.engine, lock)) << "a program that tries in a loop must come out";
    });
}

}  // namespace
}  // namespace sft::testing
