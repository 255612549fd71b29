// The memory that the processes of a node have in common: heap and copies of a PE go there and stay where they are for
// the program.
#include "shmem_ft/process/node_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "base/config_types.hpp"
#include "base/instruments.hpp"
#include "base/process_watch.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

constexpr std::int32_t kPes = 2;
constexpr std::int32_t kProcesses = 3;
constexpr std::size_t kHeapBytes = 1U << 20U;

class OfTwoPes : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(good(control_.create(kPes, kProcesses)));
        ASSERT_TRUE(
            good(memory_.create({.globals = GlobalsMode::no,
                                 .heap_base = kHeapBaseUnderThreadSanitizer,  // free without it as well
                                 .heap_bytes = kHeapBytes,
                                 .library = {reinterpret_cast<std::uintptr_t>(library_.data()), library_.size()}})));
        ASSERT_TRUE(good(protector_.create(BackupMode::double_copy, kPes)));
    }

    [[nodiscard]] char* heap() const { return reinterpret_cast<char*>(memory_.heap().begin); }

    void write(std::size_t offset, std::string_view text) const {
        std::memcpy(heap() + offset, text.data(), text.size());
        heap()[offset + text.size()] = '\0';
    }

    // What the file has at that place.
    [[nodiscard]] std::string in_file(std::size_t offset, std::size_t bytes) const {
        std::string text(bytes, '\0');
        EXPECT_EQ(::pread(node_.fd(), text.data(), bytes, static_cast<off_t>(offset)), static_cast<ssize_t>(bytes));
        return text;
    }

    alignas(64) std::array<std::byte, 256> library_{};
    ControlSegment control_;
    SymmetricMemory memory_;
    Protector protector_{memory_.live()};
    NodeMemory node_{memory_, protector_, control_};
};

TEST_F(OfTwoPes, ThereIsNoneUntilItIsMade) {
    EXPECT_LT(node_.fd(), 0);
    EXPECT_EQ(node_.records(), nullptr);
    EXPECT_EQ(node_.heaps(), 0U);
    EXPECT_EQ(node_.globals(), 0U);
}

TEST_F(OfTwoPes, TheHeapMovesThereWithWhatIsInIt) {
    write(5000, "before");
    ASSERT_TRUE(good(node_.make(kPes, control_.n_slots())));
    const char* const address = heap();
    const Result<NodeMemory::Places> places = node_.place_memory(PeId(1));
    ASSERT_TRUE(good(places));
    EXPECT_EQ(heap(), address) << "pointers of the program stay right";
    EXPECT_STREQ(heap() + 5000, "before");
    ASSERT_NE(places->heap, 0U);
    write(6000, "behind");
    EXPECT_EQ(in_file(places->heap - 1 + 5000, 6), "before");
    EXPECT_EQ(in_file(places->heap - 1 + 6000, 6), "behind");
    EXPECT_EQ(places->heap - 1, node_.heaps() + memory_.heap_segment().bytes()) << "behind that of PE 0";
    EXPECT_EQ(places->globals, 0U) << "there are none";
}

TEST_F(OfTwoPes, WhoTakesAPeFindsItsHeapThere) {
    ASSERT_TRUE(good(node_.make(kPes, control_.n_slots())));
    write(7000, "of the spare");
    ASSERT_EQ(::pwrite(node_.fd(), "of the PE", 10, static_cast<off_t>(node_.heaps() + 7000)), 10);
    const ProcId spare(2);
    ASSERT_TRUE(good(node_.take_heap_over(spare, PeId(0))));
    EXPECT_STREQ(heap() + 7000, "of the PE");
    EXPECT_EQ(control_.slot(spare).heap_in_node_file.load(), node_.heaps() + 1);
    write(7000, "later");
    ASSERT_TRUE(good(node_.take_heap_over(spare, PeId(0)))) << "the next attempt of the same restart";
    EXPECT_STREQ(heap() + 7000, "later") << "it has been taken already";
}

TEST_F(OfTwoPes, PagesOfWhoIsElsewhereAreGivenBack) {
    ASSERT_TRUE(good(node_.make(kPes, control_.n_slots())));
    const NodeFile file = node_.layout();
    for (const std::size_t offset :
         {file.heap(PeId(0)), file.heap(PeId(1)), file.local(PeId(1)), file.shadow(PeId(1))}) {
        ASSERT_EQ(::pwrite(node_.fd(), "there", 5, static_cast<off_t>(offset)), 5);
    }
    const std::string gone(5, '\0');
    node_.free_memory_of(PeId(1));
    EXPECT_EQ(in_file(file.heap(PeId(0)), 5), "there");
    EXPECT_EQ(in_file(file.heap(PeId(1)), 5), gone);
    EXPECT_EQ(in_file(file.local(PeId(1)), 5), gone);
    EXPECT_EQ(in_file(file.shadow(PeId(1)), 5), "there");
    node_.free_shadow_of(PeId(1));
    EXPECT_EQ(in_file(file.shadow(PeId(1)), 5), gone);
}

TEST_F(OfTwoPes, RecordsAreThereOnceItIsUsed) {
    ASSERT_TRUE(good(node_.make(kPes, control_.n_slots())));
    ASSERT_TRUE(good(node_.place_memory(PeId(0))));
    EXPECT_EQ(node_.records(), nullptr);
    ASSERT_TRUE(good(node_.use(ProcId(0))));
    EXPECT_NE(node_.records(), nullptr);
}

TEST_F(OfTwoPes, AnotherProcessOpensTheSame) {
    ASSERT_TRUE(good(node_.make(kPes, control_.n_slots())));
    ASSERT_EQ(::pwrite(node_.fd(), "here", 4, static_cast<off_t>(node_.heaps())), 4);
    NodeMemory other(memory_, protector_, control_);
    ASSERT_TRUE(good(other.open(::getpid(), process_start_time(::getpid()), node_.fd(), node_.bytes())));
    char text[4] = {};
    ASSERT_EQ(::pread(other.fd(), text, sizeof text, static_cast<off_t>(other.heaps())), 4);
    EXPECT_EQ(std::string_view(text, 4), "here");
    NodeMemory third(memory_, protector_, control_);
    EXPECT_FALSE(third.open(::getpid(), 1, node_.fd(), node_.bytes())) << "the pid is that of another process";
}

}  // namespace
}  // namespace sft
