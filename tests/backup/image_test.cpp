// Images: what is stored comes back bit for bit, only what changed is copied, and no flipped bit passes.
#include "backup/image.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/backup/live_memory.hpp"

namespace sft {
namespace {

class ImageTest : public testing::Test {
protected:
    static constexpr std::size_t kBlocks = 40;
    LiveMemory live{kBlocks};
    std::vector<std::byte> memory = std::vector<std::byte>(Image::bytes_for(live.state));
    Image image{memory.data(), live.state};
    std::mt19937 random{11};
};

TEST_F(ImageTest, WhatIsStoredComesBack) {
    for (std::uint32_t version = 1; version <= 30; ++version) {
        if (version % 4 == 0) {
            live.punch(random);
        }
        live.scribble(random, version % 3 == 0 ? 2 : 60);
        image.store(Version(version), live.state);
        ASSERT_TRUE(image.holds(Version(version)));
        const auto heap = live.heap_bytes();
        const auto globals = live.globals_bytes();
        const auto library = live.library;
        live.scribble(random, 200);
        const auto scribbled = live.globals_bytes();
        ASSERT_TRUE(image.load(Version(version), live.state).intact());
        ASSERT_EQ(live.heap_bytes(), heap);
        ASSERT_EQ(live.library, library);
        for (std::size_t i = 0; i < globals.size(); ++i) {
            ASSERT_EQ(live.globals[i], live.is_saved(i) ? globals[i] : scribbled[i]) << "byte " << i;
        }
    }
}

TEST_F(ImageTest, HolesComeBackAsHoles) {
    live.heap.address()[5 * kBlockBytes] = std::byte{9};
    image.store(Version(1), live.state);
    live.scribble(random, 500);
    ASSERT_TRUE(image.load(Version(1), live.state).intact());
    EXPECT_LE(live.existing_bytes(), kBlockBytes + LiveMemory::kGlobalsBytes) << "only the block that existed exists";
    EXPECT_EQ(live.heap.address()[5 * kBlockBytes], std::byte{9});
    EXPECT_EQ(live.heap.address()[7 * kBlockBytes], std::byte{0});
}

// Few pages of the globals are used: the image has their blocks and no others, and what was a hole is one again, but
// for what is not brought back.
TEST_F(ImageTest, GlobalsThatNobodyHasWrittenCostNothing) {
    live.heap.address()[0] = std::byte{1};
    live.globals[5 * kBlockBytes + 7] = std::byte{9};
    const ImageStats stats = image.store(Version(1), live.state);
    EXPECT_EQ(stats.bytes_stored, 2 * kBlockBytes + live.library.size());
    std::memset(live.globals.data(), 7, live.globals.size());
    ASSERT_TRUE(image.load(Version(1), live.state).intact());
    EXPECT_LT(live.existing_bytes(), 5 * kBlockBytes);
    for (std::size_t i = 0; i < live.globals.size(); ++i) {
        const int wanted = i == 5 * kBlockBytes + 7 ? 9 : live.is_saved(i) ? 0 : 7;
        ASSERT_EQ(live.globals[i], std::byte(wanted)) << "byte " << i;
    }
}

// What the kernel refused was not looked at: blocks that had been holes kept what was written later, and where it did
// not say what exists nothing was stored.
TEST_F(ImageTest, NothingIsLostWhereTheKernelMakesAndTellsNoHoles) {
    const int read_only = ::open(("/proc/self/fd/" + std::to_string(live.heap.fd())).c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(read_only, 0);
    live.heap.address()[5 * kBlockBytes] = std::byte{9};
    const auto heap = live.heap_bytes();
    for (const int refusing_fd : {read_only, -1}) {
        LiveState refusing = live.state;
        refusing.heap_fd = refusing_fd;
        image.store(Version(1), refusing);
        live.scribble(random, 500);
        ASSERT_TRUE(image.load(Version(1), refusing).intact());
        ASSERT_EQ(live.heap_bytes(), heap) << refusing_fd;
    }
    ::close(read_only);
}

// More than the caches are meant to hold, so that the rest of it goes past them.
TEST(LargeImage, WhatGoesPastTheCachesIsAsGood) {
    constexpr std::size_t kManyBlocks = 1000;
    LiveMemory live(kManyBlocks);
    std::mt19937 random{17};
    std::vector<std::byte> room(Image::bytes_for(live.state) + kPageBytes);
    std::byte* const first_page = room.data() + kPageBytes - reinterpret_cast<std::uintptr_t>(room.data()) % kPageBytes;
    for (const std::size_t shift :
         {std::size_t{0}, std::size_t{16}}) {  // at an address that cannot be streamed to, too
        Image image(first_page + shift, live.state);
        for (std::uint32_t version = 1; version <= 4; ++version) {
            for (std::size_t i = 0; i < live.heap.bytes(); i += 4) {
                const auto word = static_cast<std::uint32_t>(random() | 1U);
                std::memcpy(live.heap.address() + i, &word, sizeof word);
            }
            const ImageStats stats = image.store(Version(version), live.state);
            EXPECT_GE(stats.bytes_copied, kManyBlocks * kBlockBytes);
            const auto heap = live.heap_bytes();
            std::memset(live.heap.address(), 0, live.heap.bytes());
            const Findings found = image.load(Version(version), live.state);
            ASSERT_TRUE(found.intact());
            ASSERT_EQ(found.mended, 0U);
            ASSERT_EQ(live.heap_bytes(), heap) << "version " << version;
        }
    }
}

TEST_F(ImageTest, ABlockThatBecameAHoleIsForgotten) {
    std::memset(live.heap.address(), 3, live.heap.bytes());
    image.store(Version(1), live.state);
    ASSERT_EQ(::fallocate(live.heap.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 10 * kBlockBytes,
                          static_cast<off_t>(live.heap.bytes() - 10 * kBlockBytes)),
              0);
    image.store(Version(3), live.state);
    std::memset(live.heap.address(), 4, live.heap.bytes());
    ASSERT_TRUE(image.load(Version(3), live.state).intact());
    EXPECT_EQ(live.heap.address()[9 * kBlockBytes], std::byte{3});
    EXPECT_EQ(live.heap.address()[10 * kBlockBytes], std::byte{0});
    EXPECT_EQ(live.heap.address()[live.heap.bytes() - 1], std::byte{0});
}

// Holes that were made nevertheless cost memory, and nothing else.
TEST_F(ImageTest, WhatIsKnownToExistNeedNotBeAskedFor) {
    Image::Storing storing;
    storing.is_present_known = true;
    for (std::uint32_t version = 1; version <= 60; ++version) {
        if (version % 7 == 0) {
            live.punch(random);
        }
        if (version % 5 == 0) {
            live.exclude_some(random);
        }
        live.scribble(random, 3);
        const State before(live);
        image.store(Version(version), live.state, storing);
        live.scribble(random, 50);
        ASSERT_TRUE(image.load(Version(version), live.state).intact());
        ASSERT_TRUE(State(live) == before) << version;
    }
}

TEST_F(ImageTest, OnlyWhatChangedIsCopied) {
    std::memset(live.heap.address(), 1, live.heap.bytes());
    const ImageStats all = image.store(Version(1), live.state);
    EXPECT_EQ(all.bytes_copied, all.bytes_stored);
    live.heap.address()[17 * kBlockBytes + 5] = std::byte{2};
    const ImageStats one = image.store(Version(2), live.state);
    EXPECT_EQ(one.bytes_stored, all.bytes_stored);
    EXPECT_EQ(one.bytes_copied, kBlockBytes);
    EXPECT_EQ(image.store(Version(3), live.state).bytes_copied, 0U);
}

// Private variables may change at any time, as those of a thread that counts do. Nothing else may, unnoticed.
TEST_F(ImageTest, AMissedWriteIsFoundAndPrivateVariablesMayChange) {
    std::memset(live.heap.address(), 1, live.heap.bytes());
    std::memset(live.globals.data(), 1, live.globals.size());
    image.store(Version(1), live.state);
    BlockSet none;
    none.reset(image.blocks());
    const Image::Storing checking{.may_differ = &none, .checks = true};
    ASSERT_FALSE(live.is_saved(0));
    live.globals[0] = std::byte{2};
    image.store(Version(2), live.state, checking);
    EXPECT_TRUE(image.holds(Version(2)));
    live.globals[5 * kBlockBytes] = std::byte{2};
    EXPECT_DEATH(image.store(Version(3), live.state, checking), "defect of the library");
}

TEST_F(ImageTest, AVersionIsOnlyWhatWasFinished) {
    EXPECT_FALSE(image.holds(kNoVersion));
    image.store(Version(4), live.state);
    EXPECT_TRUE(image.holds(Version(4)));
    EXPECT_FALSE(image.holds(Version(3)));
    EXPECT_FALSE(image.load(Version(3), live.state).intact());
}

TEST_F(ImageTest, EveryFlippedBitIsCaught) {
    std::memset(live.heap.address(), 1, live.heap.bytes());
    live.scribble(random, 1000);
    image.store(Version(1), live.state);
    const auto heap = live.heap_bytes();
    // Behind a page of header and a page of table, which has room for the few blocks here, lies the heap's data.
    const std::size_t data = 2 * 4096;
    int caught = 0;
    int harmless = 0;
    for (int i = 0; i < 1000; ++i) {
        const std::size_t byte = data + random() % live.heap.bytes();
        const auto bit = std::byte(1U << (random() % 8));
        memory[byte] ^= bit;
        if (image.load(Version(1), live.state).intact()) {
            ++harmless;
        } else {
            ++caught;
        }
        memory[byte] ^= bit;
    }
    EXPECT_EQ(caught, 1000);
    EXPECT_EQ(harmless, 0) << "a flipped bit went through";
    ASSERT_TRUE(image.load(Version(1), live.state).intact()) << "all flips are taken back";
    EXPECT_EQ(live.heap_bytes(), heap);
}

TEST_F(ImageTest, PagesThatHaveChangedPlacesAreCaught) {
    for (std::size_t page = 0; page < kPagesOfBlock; ++page) {
        std::memset(live.heap.address() + page * kPageBytes, static_cast<int>(page + 1), kPageBytes);
    }
    image.store(Version(1), live.state);
    std::byte* const block = image.begin() + image.place_of(0).offset;
    std::swap_ranges(block, block + kPageBytes, block + 2 * kPageBytes);
    EXPECT_FALSE(image.intact(0));
    std::swap_ranges(block, block + kPageBytes, block + 2 * kPageBytes);
    EXPECT_TRUE(image.intact(0));
}

TEST_F(ImageTest, TheFrontAloneCanBeLoaded) {
    live.scribble(random, 300);
    image.store(Version(1), live.state);
    const auto heap = live.heap_bytes();
    const auto library = live.library;
    live.scribble(random, 3000);
    const auto scribbled = live.heap_bytes();
    const auto globals = live.globals_bytes();
    ASSERT_TRUE(image.load_front(Version(1), live.state, 2 * kBlockBytes - 10).intact());
    EXPECT_EQ(std::memcmp(live.heap.address(), heap.data(), 2 * kBlockBytes), 0);
    EXPECT_EQ(std::memcmp(live.heap.address() + 2 * kBlockBytes, scribbled.data() + 2 * kBlockBytes,
                          live.heap.bytes() - 2 * kBlockBytes),
              0);
    EXPECT_EQ(live.library, library);
    EXPECT_EQ(live.globals_bytes(), globals) << "globals wait until the substitute joins";
}

}  // namespace
}  // namespace sft
