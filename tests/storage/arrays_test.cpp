// Arrays that are declared, stored with versions, and loaded in other pieces than they were.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "storage/array_loader.hpp"
#include "tests/storage/stored_job.hpp"

namespace sft {
namespace {

using Element = std::uint32_t;

ArrayPiece piece_of(const char* name, const void* place, std::uint64_t first, std::uint64_t count,
                    std::uint64_t element_bytes = sizeof(Element)) {
    ArrayPiece piece;
    std::memcpy(piece.name, name, std::strlen(name));
    piece.address = reinterpret_cast<std::uintptr_t>(place);
    piece.element_bytes = element_bytes;
    piece.first = first;
    piece.count = count;
    return piece;
}

TEST(ArrayTable, TakesTheLastOfAPlaceAndForgetsWhatIsFreed) {
    const Element places[100] = {};
    ArrayTable table;
    ASSERT_TRUE(table.add(piece_of("a", &places[0], 0, 10)));
    ASSERT_TRUE(table.add(piece_of("a", &places[10], 10, 5)));
    ASSERT_TRUE(table.add(piece_of("a", &places[0], 3, 4)));
    ASSERT_EQ(table.size(), 2U);
    EXPECT_EQ(table[0].first, 3U);
    for (std::size_t i = 2; i < ArrayTable::kPiecesMax; ++i) {
        ASSERT_TRUE(table.add(piece_of("b", &places[20 + i], i, 1)));
    }
    EXPECT_FALSE(table.add(piece_of("c", &places[0], 0, 1)));
    EXPECT_TRUE(table.add(piece_of("a", &places[0], 0, 1))) << "it is there already";
    table.remove(reinterpret_cast<std::uintptr_t>(&places[10]), 80 * sizeof(Element));
    ASSERT_EQ(table.size(), 1U);
    EXPECT_EQ(table[0].text(), "a");
    table.remove(reinterpret_cast<std::uintptr_t>(&places[0]), 1);
    ArrayTable none;
    EXPECT_EQ(std::memcmp(&table, &none, sizeof table), 0) << "nothing of them is left in versions";
}

TEST(ArrayTable, NamesAreWords) {
    EXPECT_TRUE(is_array_name("u"));
    EXPECT_TRUE(is_array_name("velocity.x[3]"));
    EXPECT_TRUE(is_array_name(std::string(39, 'n')));
    for (const std::string& name : {std::string(), std::string(40, 'n'), std::string("a b"), std::string("\xc3\xa4")}) {
        EXPECT_FALSE(is_array_name(name)) << name;
    }
}

// Two PEs, which have 5,000 and 4,000 elements of u, and one global that both have.
class LoadedArrays : public testing::Test {
protected:
    static constexpr std::size_t kFirst = 5000;
    static constexpr std::size_t kAll = 9000;
    static constexpr std::size_t kPlaces[2] = {3 * kBlockBytes - 400, 70 * kBlockBytes + 8};

    void store() {
        std::size_t begin = 0;
        for (std::size_t pe = 0; pe < 2; ++pe) {
            StoredJob& job = *jobs[pe];
            const std::size_t end = pe == 0 ? kFirst : kAll;
            auto* const place = reinterpret_cast<Element*>(job.live.heap.address() + kPlaces[pe]);
            std::iota(place, place + (end - begin), static_cast<Element>(1000 + begin));
            auto* const global = reinterpret_cast<Element*>(job.live.globals.data() + kBlockBytes + 512);
            *global = 77;
            job.live.state.arrays = &tables[pe];
            ASSERT_TRUE(tables[pe].add(piece_of("u", place, begin, end - begin)));
            ASSERT_TRUE(tables[pe].add(piece_of("step", global, 0, 1)));
            begin = end;
        }
        for (const auto& job : {jobs[1], jobs[0]}) {
            job->checkpoint(Version(1), true);
            job->await_written();
        }
        jobs[0]->await_complete(Version(1));
    }
    [[nodiscard]] std::string state_of(int pe) const {
        return state_file(version_folder(folder.path(), Version(1)), PeId(pe));
    }

    Folder folder;
    std::shared_ptr<StoredJob> jobs[2] = {std::make_shared<StoredJob>(folder.path(), 2, PeId(0)),
                                          std::make_shared<StoredJob>(folder.path(), 2, PeId(1))};
    ArrayTable tables[2];
};

TEST_F(LoadedArrays, ComeInWhateverPieces) {
    store();
    ArrayLoader loader;
    ASSERT_TRUE(good(loader.open(version_folder(folder.path(), Version(1)) + "/")));
    ASSERT_NE(loader.find("u"), nullptr);
    EXPECT_EQ(loader.find("u")->elements(), kAll);
    EXPECT_EQ(loader.find("v"), nullptr);
    for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>(0, kAll),
                                       {0, 1},
                                       {kAll - 1, 1},
                                       {4000, 3000},
                                       {kFirst - 1, 2},
                                       {kFirst, 1}}) {
        std::vector<Element> got(count);
        std::vector<Element> expected(count);
        std::iota(expected.begin(), expected.end(), static_cast<Element>(1000 + first));
        EXPECT_TRUE(good(loader.load("u", sizeof(Element), first, count, reinterpret_cast<std::byte*>(got.data()))));
        EXPECT_TRUE(got == expected) << first << ", " << count;
    }
    Element step = 0;
    EXPECT_TRUE(good(loader.load("step", sizeof step, 0, 1, reinterpret_cast<std::byte*>(&step))));
    EXPECT_EQ(step, 77U);
}

// A piece is used to its end; then the one that goes on longest.
TEST_F(LoadedArrays, MayOverlapAndHaveGaps) {
    const auto place = [&](std::size_t pe) { return jobs[pe]->live.heap.address() + kPlaces[pe]; };
    ASSERT_TRUE(tables[0].add(piece_of("w", place(0), 0, 100)));
    ASSERT_TRUE(tables[0].add(piece_of("w", place(0) + 4 * 200, 10, 5)));
    ASSERT_TRUE(tables[1].add(piece_of("w", place(1), 50, 100)));
    ASSERT_TRUE(tables[1].add(piece_of("w", place(1) + 4 * 300, 200, 10)));
    store();
    ArrayLoader loader;
    ASSERT_TRUE(good(loader.open(version_folder(folder.path(), Version(1)))));
    EXPECT_EQ(loader.find("w")->elements(), 210U);
    std::vector<Element> got(150);
    auto* const to = reinterpret_cast<std::byte*>(got.data());
    ASSERT_TRUE(good(loader.load("w", sizeof(Element), 0, 150, to)));
    EXPECT_EQ(got[12], 1012U);
    EXPECT_EQ(got[99], 1099U);
    EXPECT_EQ(got[100], 6050U);
    EXPECT_EQ(got[149], 6099U);
    ASSERT_TRUE(good(loader.load("w", sizeof(Element), 205, 5, to)));
    EXPECT_EQ(got[0], 6305U);
    const StoredArray& w = *loader.find("w");
    const auto of_pe_1 =
        std::find_if(w.pieces.begin(), w.pieces.end(), [](const auto& one) { return one.pe == PeId(1); });
    ASSERT_TRUE(good(loader.load_from(w, *of_pe_1, 60, 10, to)));
    EXPECT_EQ(got[0], 6010U) << "PE 0 has that, too";
    const Result<> gap = loader.load("w", sizeof(Element), 140, 61, to);
    EXPECT_NE(gap.error().line.find("element 150 of the array w is in no piece"), std::string::npos);
}

TEST_F(LoadedArrays, WhatIsWrongHasItsLine) {
    store();
    ArrayLoader loader;
    EXPECT_NE(loader.open(folder.path() + "/nothing").error().line.find("has not been stored completely"),
              std::string::npos);
    ASSERT_TRUE(good(loader.open(version_folder(folder.path(), Version(1)))));
    std::vector<std::byte> to(kAll * 8);
    const auto error = [&](const char* name, std::size_t bytes, std::size_t first, std::size_t count) {
        const Result<> done = loader.load(name, bytes, first, count, to.data());
        return done ? "nothing" : done.error().line.substr(folder.path().size() + 1);
    };
    EXPECT_EQ(error("v", 4, 0, 1), "version-00000001: no array of the name v was declared");
    EXPECT_EQ(error("u", 8, 0, 1), "version-00000001: the elements of the array u have 4 bytes, not 8");
    EXPECT_EQ(error("u", 4, 8999, 2), "version-00000001: element 9000 of the array u is in no piece that was declared");
    flip(state_of(1), jobs[1]->live.state.heap.bytes);  // somewhere in the heap: which block does not matter
    loader.close();
    StoredState state;
    ASSERT_TRUE(good(state.open(state_of(1))));
    const std::size_t offset = state.head().heap.offset + kPlaces[1] + 4 * 100;
    state.close();
    flip(state_of(1), offset);
    EXPECT_EQ(error("u", 4, kFirst, 200),
              "version-00000001/pe-00001.state: block 70 of the heap does not fit its checksum");
    EXPECT_EQ(error("u", 4, 0, kFirst), "nothing") << "of that nothing is needed";
    flip(state_of(1), 16);
    loader.close();
    EXPECT_EQ(error("u", 4, kFirst, 1),
              "version-00000001/pe-00001.state: its head does not fit its checksum: the file is damaged");
}

TEST_F(LoadedArrays, ElementsOfTwoSizesAreLeftOut) {
    auto* const place = jobs[1]->live.heap.address();
    ASSERT_TRUE(tables[1].add(piece_of("step", place, 1, 1, 8)));
    store();
    ArrayLoader loader;
    ASSERT_TRUE(good(loader.open(version_folder(folder.path(), Version(1))))) << "the version is complete";
    EXPECT_EQ(loader.find("step")->elements(), 1U);
    EXPECT_EQ(loader.find("u")->elements(), kAll);
}

}  // namespace
}  // namespace sft
