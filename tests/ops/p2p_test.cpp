#include "shmem_ft/ops/p2p.hpp"

#include <chrono>
#include <set>

#include "shmem_ft/ops/amo.hpp"
#include "tests/ops/harness.hpp"

namespace sft::testing {
namespace {

constexpr int kEq = static_cast<int>(Comparison::eq);
constexpr int kNe = static_cast<int>(Comparison::ne);
constexpr int kGe = static_cast<int>(Comparison::ge);

template <class T>
WatchedSet<T> one_operand(const T* variables, std::size_t n, const int* status, int comparison, const T& operand) {
    return {variables, n, status, comparison, &operand, 0};
}

TEST(Comparisons, HoldForEveryOperator) {
    struct Row {
        Comparison comparison;
        bool less, equal, greater;
    };
    const Row rows[] = {{Comparison::eq, false, true, false}, {Comparison::ne, true, false, true},
                        {Comparison::gt, false, false, true}, {Comparison::ge, false, true, true},
                        {Comparison::lt, true, false, false}, {Comparison::le, true, true, false}};
    for (const Row& row : rows) {
        EXPECT_EQ(compare<short>(-2, row.comparison, -1), row.less);
        EXPECT_EQ(compare<short>(-1, row.comparison, -1), row.equal);
        EXPECT_EQ(compare<unsigned>(~0U, row.comparison, 1), row.greater);
    }
    EXPECT_EXIT(static_cast<void>(compare(1, static_cast<Comparison>(0), 1)), ::testing::ExitedWithCode(70),
                "cmp has the unknown value 0");
}

TEST(Tests, TreatTheEmptySetAsSpecified) {
    Job job(1);
    Engine& e = job.engine(0);
    const long variables[2] = {};
    const int masked[2] = {1, 1};
    const long operand = 5;
    std::size_t indices[2];
    for (const std::size_t n : {std::size_t{0}, std::size_t{2}}) {
        const auto set = one_operand(variables, n, masked, kEq, operand);
        EXPECT_EQ(test_all(e, set), 1);
        EXPECT_EQ(test_any(e, set), SIZE_MAX);
        EXPECT_EQ(test_some(e, set, indices), 0U);
        EXPECT_EQ(wait_until_any(e, set), SIZE_MAX);
        EXPECT_EQ(wait_until_some(e, set, indices), 0U);
        wait_until_all(e, set);
    }
}

TEST(Tests, LookOnlyAtTheSet) {
    Job job(1);
    Engine& e = job.engine(0);
    const int variables[4] = {1, 2, 3, 4};
    const int status[4] = {0, 1, 0, 0};
    const int operands[4] = {1, 0, 3, 5};
    std::size_t indices[4];
    const WatchedSet<int> each{variables, 4, status, kEq, operands, 1};
    EXPECT_EQ(test_all(e, each), 0);
    EXPECT_EQ(test_some(e, each, indices), 2U);
    EXPECT_EQ(indices[0], 0U);
    EXPECT_EQ(indices[1], 2U);
    EXPECT_EQ(wait_until_some(e, each, indices), 2U);
    const WatchedSet<int> first_three{variables, 3, status, kEq, operands, 1};
    EXPECT_EQ(test_all(e, first_three), 1);
}

TEST(Tests, FindEveryElementInTime) {
    Job job(1);
    Engine& e = job.engine(0);
    const long variables[5] = {1, 1, 1, 1, 1};
    const long operand = 1;
    const auto set = one_operand(variables, 5, nullptr, kEq, operand);
    std::set<std::size_t> tested, waited;
    for (int i = 0; i < 400; ++i) {
        tested.insert(test_any(e, set));
        waited.insert(wait_until_any(e, set));
    }
    EXPECT_EQ(tested.size(), 5U);
    EXPECT_EQ(waited.size(), 5U);
}

class Waits : public OnJobs {};
INSTANTIATE_TEST_SUITE_P(Sizes, Waits, kJobSizes);

TEST_P(Waits, EndWhenTheOthersHaveWritten) {
    run([](Pe& pe) {
        const auto n = static_cast<std::size_t>(pe.n());
        auto* flags = pe.allocate<int>(n);
        pe.barrier();
        for (int other = 0; other < pe.n(); ++other) {
            atomic_set(pe.to(other), flags + pe.me(), pe.me() + 1);
        }
        std::vector<int> status(n, 0);
        const int zero = 0;
        for (std::size_t i = 0; i < n; ++i) {
            const std::size_t found = wait_until_any(pe.engine, one_operand(flags, n, status.data(), kNe, zero));
            ASSERT_LT(found, n);
            EXPECT_EQ(status[found], 0) << "found twice";
            EXPECT_EQ(load_acquire(flags + found), static_cast<int>(found) + 1);
            status[found] = 1;
        }
        std::vector<int> expected(n);
        for (std::size_t i = 0; i < n; ++i) {
            expected[i] = static_cast<int>(i) + 1;
        }
        const WatchedSet<int> all{flags, n, nullptr, kEq, expected.data(), 1};
        wait_until_all(pe.engine, all);
        EXPECT_EQ(test_all(pe.engine, all), 1);
    });
}

// Waits end, tests succeed, and any and some give an index that can be used.
TEST(WaitFaults, EndEveryWait) {
    Job job(2);
    std::thread killer([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        job.announce_death(1);
    });
    job.run([](Pe& pe) {
        if (pe.me() == 1) {
            return;
        }
        auto* flag = pe.allocate<long>(2);
        auto* signal = pe.allocate<std::uint64_t>(1);
        const long one = 1;
        const int status[2] = {1, 0};
        const auto set = one_operand(flag, 2, status, kEq, one);
        const auto empty = one_operand(flag, 0, nullptr, kEq, one);
        std::size_t indices[2] = {9, 9};
        wait_until(pe.engine, flag, kGe, 1L);
        wait_until_all(pe.engine, set);
        EXPECT_EQ(wait_until_any(pe.engine, set), 1U);
        EXPECT_EQ(wait_until_any(pe.engine, empty), SIZE_MAX);
        EXPECT_EQ(wait_until_some(pe.engine, set, indices), 1U);
        EXPECT_EQ(indices[0], 1U);
        EXPECT_EQ(wait_until_some(pe.engine, empty, indices), 0U);
        EXPECT_EQ(wait_for_signal(pe.engine, signal, kGe, 1), 0U);
        EXPECT_EQ(test(pe.engine, flag, kGe, 1L), 1);
        EXPECT_EQ(test_all(pe.engine, set), 1);
        EXPECT_EQ(test_any(pe.engine, set), 1U);
        EXPECT_EQ(test_some(pe.engine, set, indices), 1U);
        EXPECT_EQ(test_some(pe.engine, empty, indices), 0U);
    });
    killer.join();
}

}  // namespace
}  // namespace sft::testing
