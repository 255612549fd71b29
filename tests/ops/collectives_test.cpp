#include "shmem_ft/ops/collectives.hpp"

#include <chrono>

#include "tests/ops/harness.hpp"

namespace sft::testing {
namespace {

// Below, at and above what fits a message, and more than a page.
constexpr std::size_t kCounts[] = {0, 1, 7, 14, 15, 300, 5000};

class Collectives : public OnJobs {};
INSTANTIATE_TEST_SUITE_P(Sizes, Collectives, kJobSizes);

// A value that tells element, sender and round apart.
int value_of(int pe, std::size_t i, int round = 0) { return pe * 100000 + static_cast<int>(i) + round * 7; }

TEST_P(Collectives, SyncWaitsForAll) {
    run([](Pe& pe) {
        auto* arrivals = pe.allocate<long>(1);
        pe.barrier();
        for (long round = 1; round <= 200; ++round) {
            __atomic_fetch_add(static_cast<long*>(pe.engine.peers.locate(arrivals, PeId(0))), 1, __ATOMIC_RELAXED);
            EXPECT_TRUE(sync(pe.engine, pe.all()));
            const long seen =
                __atomic_load_n(static_cast<long*>(pe.engine.peers.locate(arrivals, PeId(0))), __ATOMIC_RELAXED);
            EXPECT_GE(seen, round * pe.n());
            EXPECT_TRUE(sync(pe.engine, pe.all()));
        }
    });
}

TEST_P(Collectives, BroadcastFromEveryRoot) {
    run([](Pe& pe) {
        auto* source = pe.allocate<int>(5000);
        auto* dest = pe.allocate<int>(5001);
        for (const std::size_t count : kCounts) {
            for (int root = 0; root < pe.n(); ++root) {
                for (const RootDest root_dest : {RootDest::written, RootDest::untouched}) {
                    for (std::size_t i = 0; i < count; ++i) {
                        source[i] = value_of(pe.me(), i);
                    }
                    std::fill_n(dest, count + 1, -1);
                    pe.barrier();
                    EXPECT_TRUE(broadcast(pe.engine, pe.all(), dest, source, count * sizeof(int), {root, root_dest}));
                    const bool is_written = pe.me() != root || root_dest == RootDest::written;
                    for (std::size_t i = 0; i < count; ++i) {
                        ASSERT_EQ(dest[i], is_written ? value_of(root, i) : -1) << count << " from " << root;
                    }
                    EXPECT_EQ(dest[count], -1);
                    pe.barrier();
                }
            }
        }
    });
}

TEST_P(Collectives, FcollectConcatenates) {
    run([](Pe& pe) {
        const auto n = static_cast<std::size_t>(pe.n());
        auto* source = pe.allocate<int>(5000);
        auto* dest = pe.allocate<int>(5000 * n + 1);
        for (const std::size_t count : kCounts) {
            for (std::size_t i = 0; i < count; ++i) {
                source[i] = value_of(pe.me(), i);
            }
            std::fill_n(dest, count * n + 1, -1);
            pe.barrier();
            EXPECT_TRUE(fcollect(pe.engine, pe.all(), dest, source, count * sizeof(int)));
            for (std::size_t i = 0; i < count * n; ++i) {
                ASSERT_EQ(dest[i], value_of(static_cast<int>(i / count), i % count));
            }
            EXPECT_EQ(dest[count * n], -1);
            pe.barrier();
        }
    });
}

TEST_P(Collectives, CollectTakesAnySizes) {
    run([](Pe& pe) {
        constexpr std::size_t kMost = 400;
        auto* source = pe.allocate<int>(kMost);
        auto* dest = pe.allocate<int>(kMost * static_cast<std::size_t>(pe.n()) + 1);
        const auto count_of = [](int member, int round) {
            return static_cast<std::size_t>((member * 37 + round * 61) % 5 * (round * 13));
        };
        for (int round = 0; round < 6; ++round) {
            const std::size_t count = count_of(pe.me(), round);
            for (std::size_t i = 0; i < count; ++i) {
                source[i] = value_of(pe.me(), i, round);
            }
            std::fill_n(dest, kMost * static_cast<std::size_t>(pe.n()) + 1, -1);
            pe.barrier();
            EXPECT_TRUE(collect(pe.engine, pe.all(), dest, source, count * sizeof(int)));
            std::size_t at = 0;
            for (int member = 0; member < pe.n(); ++member) {
                for (std::size_t i = 0; i < count_of(member, round); ++i) {
                    ASSERT_EQ(dest[at++], value_of(member, i, round));
                }
            }
            EXPECT_EQ(dest[at], -1);
            pe.barrier();
        }
    });
}

TEST_P(Collectives, AlltoallExchangesBlocks) {
    run([](Pe& pe) {
        const auto n = static_cast<std::size_t>(pe.n());
        auto* source = pe.allocate<int>(5000 * n);
        auto* dest = pe.allocate<int>(5000 * n);
        for (const std::size_t count : kCounts) {
            for (std::size_t i = 0; i < count * n; ++i) {
                source[i] = value_of(pe.me(), i);
            }
            pe.barrier();
            EXPECT_TRUE(alltoall(pe.engine, pe.all(), dest, source, count * sizeof(int)));
            for (std::size_t i = 0; i < count * n; ++i) {
                ASSERT_EQ(dest[i],
                          value_of(static_cast<int>(i / count), static_cast<std::size_t>(pe.me()) * count + i % count));
            }
            pe.barrier();
        }
    });
}

template <class T>
void exchange_strided(Pe& pe) {
    const auto n = static_cast<std::size_t>(pe.n());
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{50}}) {
        for (const Strides strides : {Strides{1, 1}, Strides{3, 2}, Strides{1, 4}}) {
            const auto to = static_cast<std::size_t>(strides.dest);
            const auto from = static_cast<std::size_t>(strides.source);
            auto* source = pe.allocate<T>(count * n * from + 1);
            auto* dest = pe.allocate<T>(count * n * to + 1);
            std::memset(dest, 0x5a, (count * n * to + 1) * sizeof(T));
            for (std::size_t i = 0; i < count * n; ++i) {
                source[i * from] = static_cast<T>(pe.me() * 16 + static_cast<int>(i % 16));
            }
            pe.barrier();
            EXPECT_TRUE(alltoalls(pe.engine, pe.all(), dest, source, {count, strides, sizeof(T)}));
            T gap;
            std::memset(&gap, 0x5a, sizeof gap);
            for (std::size_t i = 0; i < count * n * to; ++i) {
                const std::size_t k = i / to;
                const std::size_t sent = static_cast<std::size_t>(pe.me()) * count + (count == 0 ? 0 : k % count);
                const T expected = static_cast<T>(static_cast<int>(k / count) * 16 + static_cast<int>(sent % 16));
                ASSERT_EQ(dest[i], i % to == 0 ? expected : gap);
            }
            pe.barrier();
        }
    }
}

TEST_P(Collectives, AlltoallsHonoursStrides) {
    run([](Pe& pe) {
        exchange_strided<unsigned char>(pe);
        exchange_strided<short>(pe);
        exchange_strided<int>(pe);
        exchange_strided<long>(pe);
        exchange_strided<unsigned __int128>(pe);
    });
}

// Nothing but the collectives themselves keeps the PEs in step here, and some are always late.
TEST_P(Collectives, RunBackToBack) {
    run([](Pe& pe) {
        const auto n = static_cast<std::size_t>(pe.n());
        constexpr int kRounds = 40;
        auto* source = pe.allocate<long>(kRounds);
        auto* dest = pe.allocate<long>(kRounds * n);
        auto* roots = pe.allocate<long>(kRounds);
        pe.barrier();
        for (int round = 0; round < kRounds; ++round) {
            if (round % pe.n() == pe.me()) {
                std::this_thread::sleep_for(std::chrono::microseconds(200));
            }
            const auto r = static_cast<std::size_t>(round);
            source[r] = pe.me() * 1000 + round;
            EXPECT_TRUE(fcollect(pe.engine, pe.all(), dest + r * n, source + r, sizeof(long)));
            EXPECT_TRUE(broadcast(pe.engine, pe.all(), roots + r, source + r, sizeof(long),
                                  {round % pe.n(), RootDest::written}));
        }
        for (int round = 0; round < kRounds; ++round) {
            const auto r = static_cast<std::size_t>(round);
            EXPECT_EQ(roots[r], round % pe.n() * 1000 + round);
            for (std::size_t i = 0; i < n; ++i) {
                EXPECT_EQ(dest[r * n + i], static_cast<long>(i) * 1000 + round);
            }
        }
    });
}

TEST(CollectivesOnGroups, UseOnlyTheirMembers) {
    Job job(8);
    job.run([](Pe& pe) {
        auto* source = pe.allocate<int>(100, pe.me());
        auto* dest = pe.allocate<int>(800, -1);
        pe.barrier();
        // Odd and even PEs at the same time, the odd ones in reverse order.
        PeGroup group = pe.me() % 2 == 0 ? PeGroup{0, 2, 4, -1} : PeGroup{7, -2, 4, -1};
        group.me = group.index_of(pe.engine.peers.me);
        EXPECT_TRUE(fcollect(pe.engine, group, dest, source, 100 * sizeof(int)));
        for (int i = 0; i < 400; ++i) {
            ASSERT_EQ(dest[i], group.pe(i / 100).value());
        }
        EXPECT_EQ(dest[400], -1);
        EXPECT_TRUE(broadcast(pe.engine, group, dest, source, sizeof(int), {3, RootDest::written}));
        EXPECT_EQ(dest[0], group.pe(3).value());
    });
}

TEST(CollectiveFaults, EndEveryCollective) {
    for (int which = 0; which < 6; ++which) {
        Job job(4);
        std::thread killer([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            job.announce_death(2);
        });
        job.run([which](Pe& pe) {
            auto* source = pe.reserve<int>(4000);
            auto* dest = pe.reserve<int>(4000);
            if (pe.me() == 2) {
                return;
            }
            const PeGroup all = pe.all();
            // One of these needs the dead PE; after that all return at once.
            bool ok = true;
            for (int i = 0; i < 20; ++i) {
                switch (which) {
                    case 0: ok = sync(pe.engine, all); break;
                    case 1: ok = broadcast(pe.engine, all, dest, source, 4000, {2, RootDest::written}); break;
                    case 2: ok = fcollect(pe.engine, all, dest, source, 1000); break;
                    case 3: ok = collect(pe.engine, all, dest, source, 1000); break;
                    case 4: ok = alltoall(pe.engine, all, dest, source, 1000); break;
                    default: ok = alltoalls(pe.engine, all, dest, source, {100, {1, 1}, 4}); break;
                }
            }
            EXPECT_FALSE(ok);
            EXPECT_FALSE(broadcast(pe.engine, all, dest, source, 0, {0, RootDest::written}));
        });
        killer.join();
    }
}

}  // namespace
}  // namespace sft::testing
