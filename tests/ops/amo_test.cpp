#include "shmem_ft/ops/amo.hpp"

#include <limits>

#include "shmem_ft/ops/p2p.hpp"
#include "tests/ops/harness.hpp"

namespace sft::testing {
namespace {

class Amo : public OnJobs {};
INSTANTIATE_TEST_SUITE_P(Sizes, Amo, kJobSizes);

template <class T>
void count_together(Pe& pe) {
    auto* counter = pe.allocate<T>(1);
    pe.barrier();
    constexpr int kRounds = 500;
    for (int i = 0; i < kRounds; ++i) {
        atomic_fetch_add(pe.to(0), counter, static_cast<T>(3));
    }
    pe.barrier();
    EXPECT_EQ(atomic_fetch(pe.to(0), counter), static_cast<T>(3 * kRounds * pe.n()));
}

TEST_P(Amo, CountsExactly) {
    run([](Pe& pe) {
        count_together<int>(pe);
        count_together<long>(pe);
        count_together<unsigned long long>(pe);
    });
}

TEST_P(Amo, FetchesSetsAndSwaps) {
    run([](Pe& pe) {
        auto* cell = pe.allocate<float>(1, 1.5F);
        auto* wide = pe.allocate<double>(1, 2.5);
        pe.barrier();
        const int right = (pe.me() + 1) % pe.n();
        EXPECT_EQ(atomic_fetch(pe.to(right), cell), 1.5F);
        EXPECT_EQ(atomic_swap(pe.to(right), wide, 8.25), 2.5);
        pe.barrier();
        EXPECT_EQ(*wide, 8.25);
        atomic_set(pe.to(right), cell, -4.0F);
        pe.barrier();
        EXPECT_EQ(*cell, -4.0F);
    });
}

TEST_P(Amo, ComparesAndSwaps) {
    run([](Pe& pe) {
        auto* winner = pe.allocate<int>(1, -1);
        auto* wins = pe.allocate<int>(1);
        pe.barrier();
        if (atomic_compare_swap(pe.to(0), winner, -1, pe.me()) == -1) {
            atomic_fetch_add(pe.to(0), wins, 1);
        }
        pe.barrier();
        EXPECT_EQ(atomic_fetch(pe.to(0), wins), 1);
        const int seen = atomic_fetch(pe.to(0), winner);
        EXPECT_EQ(atomic_compare_swap(pe.to(0), winner, seen + 100, 0), seen) << "no match changes nothing";
        pe.barrier();
        EXPECT_EQ(atomic_fetch(pe.to(0), winner), seen);
    });
}

TEST_P(Amo, WorksOnBits) {
    run([](Pe& pe) {
        auto* bits = pe.allocate<std::uint64_t>(3);
        bits[1] = ~std::uint64_t{0};
        pe.barrier();
        const std::uint64_t mine = std::uint64_t{1} << (pe.me() * 7);
        EXPECT_EQ(atomic_fetch_or(pe.to(0), bits, mine) & mine, 0U);
        EXPECT_EQ(atomic_fetch_and(pe.to(0), bits + 1, ~mine) & mine, mine);
        atomic_fetch_xor(pe.to(0), bits + 2, mine);
        pe.barrier();
        const std::uint64_t all = atomic_fetch(pe.to(0), bits);
        EXPECT_EQ(__builtin_popcountll(all), pe.n());
        EXPECT_EQ(atomic_fetch(pe.to(0), bits + 1), ~all);
        EXPECT_EQ(atomic_fetch(pe.to(0), bits + 2), all);
    });
}

TEST_P(Amo, WrapsAround) {
    run([](Pe& pe) {
        auto* cell = pe.allocate<int>(1, std::numeric_limits<int>::max());
        EXPECT_EQ(atomic_fetch_add(pe.to(pe.me()), cell, 1), std::numeric_limits<int>::max());
        EXPECT_EQ(*cell, std::numeric_limits<int>::min());
    });
}

TEST_P(Amo, SignalsBehindTheData) {
    run([](Pe& pe) {
        auto* data = pe.allocate<int>(64);
        auto* signal = pe.allocate<std::uint64_t>(2);
        pe.barrier();
        const int right = (pe.me() + 1) % pe.n();
        const std::vector<int> values(64, pe.me() + 1);
        const int left = (pe.me() + pe.n() - 1) % pe.n();
        put_signal<sizeof(int)>(pe.to(right), data, values.data(), 64,
                                {signal, 5, static_cast<int>(SignalOperation::set), "test"});
        EXPECT_EQ(wait_for_signal(pe.engine, signal, static_cast<int>(Comparison::eq), 5), 5U);
        EXPECT_EQ(data[0], left + 1);
        EXPECT_EQ(data[63], left + 1);
        // Without data the signal is updated all the same.
        put_signal<4>(pe.to(right), nullptr, nullptr, 0,
                      {signal + 1, 2, static_cast<int>(SignalOperation::add), "test"});
        put_bytes_signal(pe.to(right), nullptr, nullptr, 0,
                         {signal + 1, 2, static_cast<int>(SignalOperation::add), "test"});
        EXPECT_GE(wait_for_signal(pe.engine, signal + 1, static_cast<int>(Comparison::ge), 4), 4U);
        pe.barrier();
    });
}

TEST(AmoDeathTest, NamesABadOperator) {
    Job job(1);
    auto* signal = reinterpret_cast<std::uint64_t*>(job.engine(0).peers.heap.begin);
    EXPECT_EXIT(update_signal({job.engine(0), PeId(0)}, signal, 1, 9, "shmem_int_put_signal"),
                ::testing::ExitedWithCode(70), "shmem_int_put_signal: sig_op has the unknown value 9");
}

}  // namespace
}  // namespace sft::testing
