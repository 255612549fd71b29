// A heap that is saved while the program goes on.
#include "backup/held_heap.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/pages.hpp"
#include "tests/backup/live_memory.hpp"

namespace sft {
namespace {

class OneImage {
public:
    explicit OneImage(const LiveState& live) : live_(live), room_(Image::bytes_for(live) + kPageBytes) {}

    void store(Version version, HeldHeap& held) {
        Image::Storing storing;
        storing.source = &held;
        static_cast<void>(image().store(version, live_, storing));
        held.let_go();
        version_ = version;
    }
    // As it would be restored.
    [[nodiscard]] State state() {
        LiveMemory other(live_.heap.bytes / kBlockBytes);
        EXPECT_TRUE(image().load(version_, other.state).intact());
        return State(other);
    }
    [[nodiscard]] std::vector<std::byte> heap() {
        LiveMemory other(live_.heap.bytes / kBlockBytes);
        EXPECT_TRUE(image().load(version_, other.state).intact());
        return other.heap_bytes();
    }

private:
    [[nodiscard]] Image image() {
        return {reinterpret_cast<std::byte*>(whole_pages(reinterpret_cast<std::uintptr_t>(room_.data()))), live_};
    }

    const LiveState& live_;
    std::vector<std::byte> room_;
    Version version_ = kNoVersion;
};

// Writers go on all the time, each through what a guard would have them do first.
TEST(HeldHeap, IsSavedAsItWasWhenItWasHeld) {
    constexpr std::size_t kHeldBlocks = 10 * GuardWords::kChunkBytes / kBlockBytes;
    LiveMemory live(kHeldBlocks);
    alignas(64) static std::byte room[4096];
    ASSERT_LE(GuardWords::bytes_for(live.heap.bytes()), sizeof room);
    const GuardWords words(room, live.heap.bytes());
    OneImage image(live.state);
    HeldHeap held;
    ASSERT_TRUE(good(held.create(live.state, words)));
    std::mt19937 random(5);
    std::uint32_t n_held_up = 0;
    for (std::uint32_t version = 1; version <= 100; ++version) {
        live.scribble(random, 200);
        if (random() % 3 == 0) {
            live.punch(random);
        }
        held.hold(nullptr);
        const State then(live);
        std::atomic<bool> may_write{false};
        std::thread writer([&, seed = random()] {
            std::mt19937 places(seed);
            may_write.wait(false);
            for (int i = 0; i < 300; ++i) {
                const std::size_t place = (i == 0 ? live.heap.bytes() - 1 : places()) % live.heap.bytes();
                n_held_up += words.is_held(place / GuardWords::kChunkBytes) ? 1 : 0;
                words.await(place / GuardWords::kChunkBytes, [] { return false; });
                live.heap.address()[place] = std::byte(places());
            }
        });
        held.tell_of_rest([&] {
            may_write.store(true);
            may_write.notify_one();
            while (!words.is_any_wanted()) {  // at least the last chunk is, while nothing has been saved
                std::this_thread::yield();
            }
            live.library[0] ^= std::byte(1);  // it has been saved, with the globals
            live.globals[200] ^= std::byte(1);
        });
        image.store(Version(version), held);
        writer.join();
        ASSERT_EQ(image.state(), then) << "version " << version;
    }
    EXPECT_GE(n_held_up, 100U);
}

// Only what is named is held, and the others stay as the still before has them.
TEST(HeldHeap, HoldsWhatIsNamed) {
    constexpr std::size_t kBlocksOfChunk = GuardWords::kChunkBytes / kBlockBytes;
    LiveMemory live(10 * kBlocksOfChunk);
    alignas(64) static std::byte room[4096];
    const GuardWords words(room, live.heap.bytes());
    HeldHeap held;
    ASSERT_TRUE(good(held.create(live.state, words)));
    BlockSet named;
    named.reset(10 * kBlocksOfChunk + 20);
    named.insert(3 * kBlocksOfChunk);
    named.insert_run(5 * kBlocksOfChunk - 1, 6 * kBlocksOfChunk + 1);
    held.hold(&named);
    for (std::size_t chunk = 0; chunk < 10; ++chunk) {
        EXPECT_EQ(words.is_held(chunk), chunk >= 3 && chunk <= 6) << chunk;
    }
    held.let_go();
    for (std::size_t chunk = 0; chunk < 10; ++chunk) {
        EXPECT_FALSE(words.is_held(chunk)) << chunk;
    }
}

// What nobody has ever written is not made to exist by being set aside.
TEST(HeldHeap, HolesStayHoles) {
    LiveMemory live(10 * GuardWords::kChunkBytes / kBlockBytes);
    alignas(64) static std::byte room[4096];
    const GuardWords words(room, live.heap.bytes());
    HeldHeap held;
    ASSERT_TRUE(good(held.create(live.state, words)));
    live.heap.address()[0] = std::byte(1);
    held.hold(nullptr);
    held.tell_of_rest([&] {  // somebody waits for each chunk
        for (std::size_t chunk = 0; chunk < words.n_chunks(); ++chunk) {
            words.await(chunk, [looks = 0]() mutable { return ++looks == 2; });
        }
    });
    OneImage(live.state).store(Version(1), held);
    struct stat info {};
    ASSERT_EQ(::fstat(live.heap.fd(), &info), 0);
    EXPECT_EQ(info.st_blocks * 512, 4096);
}

// What has been set aside may be written, but no holes be made of it: they would be taken for what was there before.
TEST(HeldHeap, WhoMakesHolesWaitsUntilItHasBeenSaved) {
    constexpr std::size_t kBlocksOfChunk = GuardWords::kChunkBytes / kBlockBytes;
    LiveMemory live(10 * kBlocksOfChunk);
    alignas(64) static std::byte room[4096];
    const GuardWords words(room, live.heap.bytes());
    OneImage image(live.state);
    HeldHeap held;
    ASSERT_TRUE(good(held.create(live.state, words)));
    // Two runs, of which the second one is asked for behind the first.
    std::fill_n(live.heap.address(), 8 * GuardWords::kChunkBytes, std::byte(1));
    std::fill_n(live.heap.address() + 9 * GuardWords::kChunkBytes, GuardWords::kChunkBytes, std::byte(1));
    held.hold(nullptr);
    const std::vector<std::byte> then(live.heap.address() + 9 * GuardWords::kChunkBytes,
                                      live.heap.address() + live.heap.bytes());
    std::thread writer;
    held.tell_of_rest([&] {
        writer = std::thread([&] {
            words.await(9, [] { return false; });
            words.await_saved(9);
            EXPECT_EQ(::fallocate(live.heap.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  9 * GuardWords::kChunkBytes, GuardWords::kChunkBytes),
                      0);
        });
        while (!words.is_any_wanted()) {
            std::this_thread::yield();
        }
    });
    image.store(Version(1), held);
    writer.join();
    const std::vector<std::byte> heap = image.heap();
    EXPECT_TRUE(std::equal(then.begin(), then.end(), heap.end() - static_cast<std::ptrdiff_t>(then.size())));
}

}  // namespace
}  // namespace sft
