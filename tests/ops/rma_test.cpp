#include "shmem_ft/ops/rma.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "shmem_ft/ops/amo.hpp"
#include "shmem_ft/ops/order.hpp"
#include "shmem_ft/ops/p2p.hpp"
#include "shmem_ft/ops/query.hpp"
#include "tests/ops/harness.hpp"

namespace sft::testing {
namespace {

class Rma : public OnJobs {};
INSTANTIATE_TEST_SUITE_P(Sizes, Rma, kJobSizes);

template <std::size_t Bytes>
void put_and_get_elements(Pe& pe) {
    constexpr std::size_t kCount = 37;
    auto* cells = pe.allocate<unsigned char>(kCount * Bytes);
    unsigned char data[kCount * Bytes];
    std::iota(std::begin(data), std::end(data), static_cast<unsigned char>(pe.me()));
    const int right = (pe.me() + 1) % pe.n();
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{2}, kCount}) {
        std::memset(cells, 0xee, kCount * Bytes);
        pe.barrier();
        put<Bytes>(pe.to(right), cells, data, count);
        pe.barrier();
        unsigned char back[kCount * Bytes];
        std::memset(back, 0xee, sizeof back);
        get<Bytes>(pe.to(right), back, cells, count);
        EXPECT_EQ(std::memcmp(back, data, count * Bytes), 0);
        for (std::size_t i = count * Bytes; i < kCount * Bytes; ++i) {
            EXPECT_EQ(cells[i], 0xee) << "beyond the end";
        }
        pe.barrier();
    }
}

TEST_P(Rma, MovesElementsOfEverySize) {
    run([](Pe& pe) {
        put_and_get_elements<1>(pe);
        put_and_get_elements<2>(pe);
        put_and_get_elements<4>(pe);
        put_and_get_elements<8>(pe);
        put_and_get_elements<16>(pe);
    });
}

TEST_P(Rma, MovesBytesAtAnyAlignment) {
    run([](Pe& pe) {
        auto* cells = pe.allocate<char>(64, '.');
        pe.barrier();
        const int right = (pe.me() + 1) % pe.n();
        put_bytes(pe.to(right), cells + 3, "unaligned", 9);
        pe.barrier();
        EXPECT_EQ(std::string(cells, 14), "...unaligned..");
        char back[9];
        get_bytes(pe.to(right), back, cells + 3, 9);
        EXPECT_EQ(std::string(back, 9), "unaligned");
    });
}

TEST(Copier, MovesLargeBlocksAtAnyAlignment) {
    constexpr std::size_t kLarge = Copier::kMoveFromBytes + 4097;
    constexpr std::size_t kRoom = kLarge + 128;
    std::vector<unsigned char> source(kRoom);
    for (std::size_t i = 0; i < source.size(); ++i) {
        source[i] = static_cast<unsigned char>(i * 7 + i / 251);
    }
    const Copier copiers[] = {Copier(), Copier::for_this_processor()};
    for (const Copier& copy : copiers) {
        for (const std::size_t to : {0U, 1U, 32U, 64U}) {
            for (const std::size_t from : {0U, 1U, 32U}) {
                std::vector<unsigned char> dest(kRoom, 0);
                copy(dest.data() + to, source.data() + from, kLarge);
                ASSERT_EQ(std::memcmp(dest.data() + to, source.data() + from, kLarge), 0) << to << " " << from;
                ASSERT_TRUE(std::all_of(dest.begin(), dest.begin() + static_cast<std::ptrdiff_t>(to),
                                        [](unsigned char byte) { return byte == 0; }));
                ASSERT_TRUE(std::all_of(dest.begin() + static_cast<std::ptrdiff_t>(to + kLarge), dest.end(),
                                        [](unsigned char byte) { return byte == 0; }));
            }
        }
    }
}

TEST_P(Rma, MovesValues) {
    run([](Pe& pe) {
        auto* number = pe.allocate<double>(1);
        auto* wide = pe.allocate<long double>(1);
        pe.barrier();
        const int right = (pe.me() + 1) % pe.n();
        put_value(pe.to(right), number, pe.me() + 0.5);
        put_value(pe.to(right), wide, pe.me() + 0.25L);
        pe.barrier();
        EXPECT_EQ(get_value(pe.to(right), number), pe.me() + 0.5);
        EXPECT_EQ(get_value(pe.to(right), wide), pe.me() + 0.25L);
    });
}

TEST_P(Rma, LeavesTheGapsOfStridedCopiesAlone) {
    run([](Pe& pe) {
        auto* cells = pe.allocate<int>(40, -1);
        pe.barrier();
        const int right = (pe.me() + 1) % pe.n();
        const int source[] = {10, 11, 12, 13, 14, 15, 16, 17};
        iput<sizeof(int)>(pe.to(right), cells, source, {3, 2}, 4);
        pe.barrier();
        for (int i = 0; i < 40; ++i) {
            EXPECT_EQ(cells[i], i % 3 == 0 && i < 12 ? 10 + i / 3 * 2 : -1) << i;
        }
        int back[8] = {};
        iget<sizeof(int)>(pe.to(right), back, cells, {2, 3}, 4);
        EXPECT_EQ(back[0], 10);
        EXPECT_EQ(back[1], 0);
        EXPECT_EQ(back[6], 16);
    });
}

TEST_P(Rma, MovesBlocks) {
    run([](Pe& pe) {
        auto* cells = pe.allocate<short>(40, -1);
        pe.barrier();
        const int right = (pe.me() + 1) % pe.n();
        const short source[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
        ibput<sizeof(short)>(pe.to(right), cells, source, {5, 3}, 2, 3);
        pe.barrier();
        const short expected[] = {1, 2, -1, -1, -1, 4, 5, -1, -1, -1, 7, 8, -1};
        EXPECT_EQ(std::memcmp(cells, expected, sizeof expected), 0);
        short back[6] = {};
        ibget<sizeof(short)>(pe.to(right), back, cells, {2, 5}, 2, 3);
        const short packed[] = {1, 2, 4, 5, 7, 8};
        EXPECT_EQ(std::memcmp(back, packed, sizeof packed), 0);
    });
}

TEST_P(Rma, AcceptsNullWithZeroCounts) {
    run([](Pe& pe) {
        put<8>(pe.to(0), nullptr, nullptr, 0);
        get<8>(pe.to(0), nullptr, nullptr, 0);
        put_bytes(pe.to(0), nullptr, nullptr, 0);
        get_bytes(pe.to(0), nullptr, nullptr, 0);
        iput<8>(pe.to(0), nullptr, nullptr, {1, 1}, 0);
        iget<8>(pe.to(0), nullptr, nullptr, {1, 1}, 0);
        ibput<8>(pe.to(0), nullptr, nullptr, {1, 1}, 1, 0);
        ibget<8>(pe.to(0), nullptr, nullptr, {1, 1}, 0, 1);
    });
}

TEST_P(Rma, SeesDataBehindAFlag) {
    run([](Pe& pe) {
        auto* data = pe.allocate<long>(100);
        auto* flag = pe.allocate<long>(1);
        pe.barrier();
        const int right = (pe.me() + 1) % pe.n();
        for (long round = 1; round <= 50; ++round) {
            const std::vector<long> values(100, round);
            put<sizeof(long)>(pe.to(right), data, values.data(), values.size());
            fence(pe.engine);
            put_value(pe.to(right), flag, round);
            wait_until(pe.engine, flag, static_cast<int>(Comparison::ge), round);
            EXPECT_EQ(data[0], round);
            EXPECT_EQ(data[99], round);
            pe.barrier();
        }
    });
}

TEST(RmaFaults, DropsWhatGoesToTheDead) {
    Job job(3);
    job.run([](Pe& pe) { pe.allocate<long>(4, 7); });
    job.announce_death(1);
    job.run([](Pe& pe) {
        if (pe.me() == 1) {
            return;
        }
        auto* cell = pe.allocate<long>(4, 7);
        const long value = 9;
        put<8>(pe.to(1), cell, &value, 1);
        put_value(pe.to(1), cell, value);
        long back = 5;
        get<8>(pe.to(1), &back, cell, 1);
        EXPECT_EQ(back, 5) << "a get from the dead leaves its destination";
        EXPECT_EQ(get_value(pe.to(1), cell), 0);
        EXPECT_EQ(atomic_fetch_add(pe.to(1), cell, value), 0);
        EXPECT_EQ(pointer_to(pe.engine, cell, 1), nullptr);
        EXPECT_FALSE(pe_accessible(pe.engine, 1));
        // The living go on.
        put_value(pe.to(pe.me()), cell, value);
        EXPECT_EQ(*cell, 9);
    });
    EXPECT_EQ(*reinterpret_cast<long*>(job.engine(1).peers.heap.begin), 7);
}

TEST_P(Rma, TellsWhatIsAccessible) {
    run([](Pe& pe) {
        auto* cell = pe.allocate<long>(1);
        long local = 0;
        EXPECT_TRUE(addr_accessible(pe.engine, cell, pe.n() - 1));
        EXPECT_FALSE(addr_accessible(pe.engine, &local, 0));
        EXPECT_FALSE(addr_accessible(pe.engine, cell, pe.n()));
        EXPECT_FALSE(pe_accessible(pe.engine, -1));
        EXPECT_EQ(pointer_to(pe.engine, cell, pe.me()), cell);
        EXPECT_EQ(pointer_to(pe.engine, &local, pe.me()), nullptr);
        pe.barrier();
        auto* theirs = static_cast<long*>(pointer_to(pe.engine, cell, (pe.me() + 1) % pe.n()));
        *theirs = pe.me() + 100;
        pe.barrier();
        EXPECT_EQ(*cell, (pe.me() + pe.n() - 1) % pe.n() + 100);
    });
}

TEST(RmaDeathTest, NamesTheRoutineAndThePe) {
    Job job(2);
    attach_engine(&job.engine(0));
    EXPECT_EXIT(target("shmem_long_p", 2), ::testing::ExitedWithCode(70), "shmem_long_p: there is no PE 2");
    EXPECT_EXIT(target("shmem_long_p", -1), ::testing::ExitedWithCode(70), "there is no PE -1");
    EXPECT_EXIT(target("shmem_ctx_long_p", CtxId(77), 0), ::testing::ExitedWithCode(70), "the context is invalid");
    long local = 0;
    EXPECT_EXIT(put_value(target("shmem_long_p", 1), &local, 1L), ::testing::ExitedWithCode(70), "is not symmetric");
    attach_engine(nullptr);
    EXPECT_EXIT(target("shmem_long_p", 0), ::testing::ExitedWithCode(70), "shmem_long_p was called before shmem_init");
}

}  // namespace
}  // namespace sft::testing
