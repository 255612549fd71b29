#include "shmem_ft/ops/reductions.hpp"

#include <chrono>
#include <cmath>
#include <limits>

#include "shmem_ft/ops/collectives.hpp"
#include "tests/ops/harness.hpp"

namespace sft::testing {
namespace {

constexpr std::size_t kMost = 3000;
constexpr std::size_t kCounts[] = {0, 1, 2, 7, 8, 57, 200, kMost};

class Reductions : public OnJobs {};
INSTANTIATE_TEST_SUITE_P(Sizes, Reductions, kJobSizes);

template <class T>
T input(int pe, std::size_t i) {
    const int number = (pe * 31 + static_cast<int>(i) * 7) % 100 + 1;
    if constexpr (std::is_arithmetic_v<T>) {
        return static_cast<T>(number);
    } else {
        return T(static_cast<typename T::value_type>(number));
    }
}

// Against a serial loop, in place and not.
template <class Operator, class T>
void check_operator(Pe& pe) {
    auto* source = pe.allocate<T>(kMost);
    auto* dest = pe.allocate<T>(kMost + 1);
    for (const std::size_t count : kCounts) {
        for (const bool in_place : {false, true}) {
            T* const target = in_place ? source : dest;
            for (std::size_t i = 0; i < count; ++i) {
                source[i] = input<T>(pe.me(), i);
            }
            dest[count] = T{99};
            pe.barrier();
            EXPECT_TRUE(reduce(pe.engine, pe.all(), target, source, count, element_kind<Operator, T>()));
            for (std::size_t i = 0; i < count; ++i) {
                T expected = input<T>(0, i);
                for (int member = 1; member < pe.n(); ++member) {
                    expected = Operator::apply(expected, input<T>(member, i));
                }
                ASSERT_EQ(target[i], expected) << count << " elements, number " << i << " of PE " << pe.me();
            }
            EXPECT_EQ(dest[count], T{99});
            pe.barrier();
        }
    }
}

TEST_P(Reductions, MatchASerialLoop) {
    run([](Pe& pe) {
        check_operator<Sum, int>(pe);
        check_operator<Sum, unsigned char>(pe);
        check_operator<Sum, long double>(pe);
        check_operator<Product, short>(pe);
        check_operator<Product, unsigned long>(pe);
        check_operator<Maximum, double>(pe);
        check_operator<Minimum, signed char>(pe);
        check_operator<And, unsigned short>(pe);
        check_operator<Or, long>(pe);
        check_operator<Xor, long long>(pe);
        check_operator<Sum, std::complex<float>>(pe);
        check_operator<Product, std::complex<double>>(pe);
    });
}

// Sums of values of very different size depend on the order: all PEs and all repetitions must agree on the bits.
TEST_P(Reductions, GiveTheSameBitsEverywhereAndAlways) {
    run([](Pe& pe) {
        for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{8}, std::size_t{200}, kMost}) {
            auto* source = pe.allocate<double>(count);
            auto* dest = pe.allocate<double>(count);
            auto* all = pe.allocate<double>(count * static_cast<std::size_t>(pe.n()));
            for (std::size_t i = 0; i < count; ++i) {
                source[i] = std::ldexp(1.0 / (pe.me() + 3.0), (pe.me() * 17 + static_cast<int>(i)) % 50 - 25) *
                            (pe.me() % 2 == 0 ? 1 : -1);
            }
            std::vector<double> first;
            for (int round = 0; round < 5; ++round) {
                if (round % pe.n() == pe.me()) {
                    std::this_thread::sleep_for(std::chrono::microseconds(100));
                }
                pe.barrier();
                EXPECT_TRUE(reduce(pe.engine, pe.all(), dest, source, count, element_kind<Sum, double>()));
                if (round == 0) {
                    first.assign(dest, dest + count);
                }
                EXPECT_EQ(std::memcmp(first.data(), dest, count * sizeof(double)), 0);
                EXPECT_TRUE(fcollect(pe.engine, pe.all(), all, dest, count * sizeof(double)));
                for (std::size_t member = 0; member < static_cast<std::size_t>(pe.n()); ++member) {
                    EXPECT_EQ(std::memcmp(all + member * count, dest, count * sizeof(double)), 0);
                }
                pe.barrier();
            }
        }
    });
}

TEST(ReductionOperators, Wrap) {
    EXPECT_EQ(Sum::apply(std::numeric_limits<int>::max(), 1), std::numeric_limits<int>::min());
    EXPECT_EQ(Product::apply<unsigned short>(65535, 65535), 1);
    EXPECT_EQ((Product::apply<long long>(std::numeric_limits<long long>::max(), 2)), -2);
    EXPECT_EQ(Sum::apply<signed char>(127, 1), -128);
}

// Every pair and every triple of these, in every order, as scalars and as elements of an array, which is where vector
// instructions are used.
template <class T>
std::vector<T> special_values() {
    using Limits = std::numeric_limits<T>;
    return {T(0),
            -T(0),
            T(1),
            -T(1),
            Limits::infinity(),
            -Limits::infinity(),
            Limits::quiet_NaN(),
            -Limits::quiet_NaN(),
            Limits::denorm_min(),
            Limits::max()};
}

template <class Operator, class T>
T combined(T a, T b) {
    std::vector<T> left(11, a);
    const std::vector<T> right(11, b);
    combine_elements<Operator, T>(left.data(), right.data(), left.size());
    for (const T& element : left) {
        EXPECT_EQ(std::isnan(element), std::isnan(left[0]));
        EXPECT_TRUE(element == left[0] || std::isnan(element));
        EXPECT_EQ(std::signbit(element), std::signbit(left[0]));
    }
    return left[10];
}

template <class Operator, class T>
void check_order_free(T (*reference)(T, T)) {
    const auto same = [](T a, T b) { return std::signbit(a) == std::signbit(b) && (a == b || (a != a && b != b)); };
    for (const T a : special_values<T>()) {
        for (const T b : special_values<T>()) {
            const T ab = combined<Operator>(a, b);
            EXPECT_TRUE(same(ab, combined<Operator>(b, a))) << a << " and " << b;
            EXPECT_TRUE(std::isnan(ab) ? std::isnan(a) && std::isnan(b) : ab == reference(a, b)) << a << " and " << b;
            for (const T c : special_values<T>()) {
                EXPECT_TRUE(same(combined<Operator>(ab, c), combined<Operator>(a, combined<Operator>(b, c))))
                    << a << ", " << b << " and " << c;
            }
        }
    }
    const bool is_maximum = reference(T(1), T(2)) == T(2);
    EXPECT_EQ(std::signbit(combined<Operator>(T(0), -T(0))), !is_maximum);
    EXPECT_EQ(std::signbit(combined<Operator>(-T(0), T(0))), !is_maximum);
}

template <class T>
void check_extremes() {
    check_order_free<Maximum, T>([](T a, T b) { return std::fmax(a, b); });
    check_order_free<Minimum, T>([](T a, T b) { return std::fmin(a, b); });
}

TEST(ReductionOperators, ExtremesDoNotDependOnTheOrder) {
    check_extremes<float>();
    check_extremes<double>();
    check_extremes<long double>();
}

template <class T>
void check_scan(Pe& pe, ScanKind kind) {
    auto* source = pe.allocate<T>(kMost);
    auto* dest = pe.allocate<T>(kMost + 1);
    for (const std::size_t count : kCounts) {
        for (const bool in_place : {false, true}) {
            T* const target = in_place ? source : dest;
            for (std::size_t i = 0; i < count; ++i) {
                source[i] = input<T>(pe.me(), i);
            }
            dest[count] = T{99};
            pe.barrier();
            EXPECT_TRUE(scan(pe.engine, pe.all(), target, source, count, element_kind<Sum, T>(), kind));
            const int last = kind == ScanKind::inclusive ? pe.me() : pe.me() - 1;
            for (std::size_t i = 0; i < count; ++i) {
                T expected{};
                for (int member = 0; member <= last; ++member) {
                    expected = Sum::apply(expected, input<T>(member, i));
                }
                ASSERT_EQ(target[i], expected) << count << " elements, number " << i << " of PE " << pe.me();
            }
            EXPECT_EQ(dest[count], T{99});
            pe.barrier();
        }
    }
}

TEST_P(Reductions, ScansMatchASerialLoop) {
    run([](Pe& pe) {
        for (const ScanKind kind : {ScanKind::inclusive, ScanKind::exclusive}) {
            check_scan<int>(pe, kind);
            check_scan<double>(pe, kind);
            check_scan<std::complex<double>>(pe, kind);
        }
    });
}

TEST(Scans, KeepTheSignOfZero) {
    Job job(2);
    job.run([](Pe& pe) {
        auto* source = pe.allocate<double>(1, -0.0);
        auto* dest = pe.allocate<double>(1, 5.0);
        pe.barrier();
        EXPECT_TRUE(scan(pe.engine, pe.all(), dest, source, 1, element_kind<Sum, double>(), ScanKind::exclusive));
        EXPECT_EQ(*dest, 0.0);
        EXPECT_EQ(std::signbit(*dest), pe.me() == 1);
    });
}

TEST(ReductionFaults, EndEveryReduction) {
    for (const std::size_t count : {std::size_t{1}, kMost}) {
        for (const bool is_scan : {false, true}) {
            Job job(3);
            std::thread killer([&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                job.announce_death(0);
            });
            job.run([&](Pe& pe) {
                auto* source = pe.reserve<long>(kMost);
                auto* dest = pe.reserve<long>(kMost);
                if (pe.me() == 0) {
                    return;
                }
                const auto kind = element_kind<Sum, long>();
                EXPECT_FALSE(is_scan ? scan(pe.engine, pe.all(), dest, source, count, kind, ScanKind::inclusive)
                                     : reduce(pe.engine, pe.all(), dest, source, count, kind));
            });
            killer.join();
        }
    }
}

}  // namespace
}  // namespace sft::testing
