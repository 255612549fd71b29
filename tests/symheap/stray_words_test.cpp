#include "symheap/stray_words.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/sanitizers.hpp"

namespace sft {
namespace {

constexpr std::size_t kHeapBytes = std::size_t{64} << 20;

// What the test takes for the globals of a program; the names are found in the test's own symbols.
struct Field {
    long n;
    void* cells;
};
struct TestGlobals {
    void* words[64];
    Field field;
};
alignas(64) TestGlobals stray_test_globals;

void own_function() {}

class StrayWordsTest : public testing::Test {
protected:
    StrayWordsTest() {
        std::memset(&stray_test_globals, 0, sizeof stray_test_globals);
        fd_ = memfd_create("shmem-ft-heap", MFD_CLOEXEC);
        EXPECT_EQ(ftruncate(fd_, kHeapBytes), 0);
        heap_ = static_cast<char*>(mmap(nullptr, kHeapBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
        table_memory_ = mmap(nullptr, BlockTable::kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        blocks_.attach(table_memory_);
        options_ = {{reinterpret_cast<std::uintptr_t>(heap_), kHeapBytes},
                    fd_,
                    0,
                    &blocks_,
                    {reinterpret_cast<std::uintptr_t>(&stray_test_globals), sizeof stray_test_globals},
                    -1,
                    0,
                    {{0, sizeof stray_test_globals}}};
    }
    ~StrayWordsTest() override {
        munmap(heap_, kHeapBytes);
        munmap(table_memory_, BlockTable::kBytes);
        close(fd_);
    }

    void store(std::size_t offset, const void* pointer) { std::memcpy(heap_ + offset, &pointer, sizeof pointer); }
    [[nodiscard]] std::size_t kept_bytes() const {
        struct stat status {};
        fstat(fd_, &status);
        return static_cast<std::size_t>(status.st_blocks) * 512;
    }

    std::unique_ptr<char, decltype(&std::free)> block_{static_cast<char*>(std::malloc(1000)), &std::free};
    StrayWords::Options options_;
    BlockTable blocks_;
    int fd_ = -1;
    char* heap_ = nullptr;
    void* table_memory_ = nullptr;
};

TEST_F(StrayWordsTest, NamesAVariableOnce) {
    StrayWords words(options_);
    EXPECT_TRUE(words.look().empty());
    stray_test_globals.field.cells = block_.get();
    const std::vector<std::string> lines = words.look();
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_NE(lines[0].find("::stray_test_globals + 520 is saved"), std::string::npos) << lines[0];
    EXPECT_NE(lines[0].find("private memory"), std::string::npos) << lines[0];
    EXPECT_TRUE(words.look().empty());
}

TEST_F(StrayWordsTest, SaysWhereItLeads) {
#if !SFT_ADDRESS_SANITIZER  // it has stacks and a qsort of its own
    int on_stack = 0;
    void* in_library = reinterpret_cast<void*>(&qsort);
    for (const auto& [target, where] :
         {std::pair<void*, const char*>{&on_stack, "the stack"}, {in_library, "the shared library libc"}}) {
        StrayWords words(options_);
        stray_test_globals.words[3] = target;
        const std::vector<std::string> lines = words.look();
        ASSERT_EQ(lines.size(), 1U);
        EXPECT_NE(lines[0].find(where), std::string::npos) << lines[0];
    }
#endif
    void* of_another = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    StrayWords words(options_);
    stray_test_globals.words[3] = of_another;
    const std::vector<std::string> lines = words.look();
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_NE(lines[0].find("shmem_ptr"), std::string::npos) << lines[0];
    munmap(of_another, 4096);
}

TEST_F(StrayWordsTest, LeavesAloneWhatIsRestored) {
    static const char constant[] = "x";
    stray_test_globals.words[0] = heap_ + 100;
    stray_test_globals.words[1] = &stray_test_globals.field;
    stray_test_globals.words[2] = const_cast<char*>(constant);
    stray_test_globals.words[3] = reinterpret_cast<void*>(&own_function);
    const double numbers[] = {1.0, -3.25e300, 1e-300};
    std::memcpy(&stray_test_globals.words[4], numbers, sizeof numbers);
    stray_test_globals.words[8] = reinterpret_cast<void*>(4300000);
    stray_test_globals.words[9] = reinterpret_cast<void*>(-1);
    stray_test_globals.words[10] = reinterpret_cast<void*>((5UL << 32) + 3);
    StrayWords words(options_);
    const std::vector<std::string> lines = words.look();
    EXPECT_TRUE(lines.empty()) << lines[0];
}

TEST_F(StrayWordsTest, LooksIntoBlocksAndNamesWhoseTheyAre) {
    blocks_.add(4096, 100);
    blocks_.add(8192, 64);
    blocks_.remove(8192);
    stray_test_globals.words[7] = heap_ + 4096;
    store(4096 + 16, block_.get());
    store(4096 + 24, block_.get());
    store(8192, block_.get());   // freed
    store(20480, block_.get());  // no block
    StrayWords words(options_);
    const std::vector<std::string> lines = words.look();
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_NE(lines[0].find("::stray_test_globals + 56, + 16 is saved"), std::string::npos) << lines[0];
    EXPECT_TRUE(words.look().empty());
}

TEST_F(StrayWordsTest, ReadsAPortionAndNoHoles) {
    blocks_.add(0, kHeapBytes);
    std::memset(heap_ + 4096, 1, StrayWords::kBytesPerLook);
    store(4096 + StrayWords::kBytesPerLook - sizeof(void*), block_.get());
    const std::size_t kept = kept_bytes();
    StrayWords words(options_);
    EXPECT_TRUE(words.look().empty());
    EXPECT_EQ(words.look().size(), 1U);  // it has gone on where it was
    EXPECT_EQ(kept_bytes(), kept);
    store(4096, block_.get());
    EXPECT_TRUE(words.look().empty());  // the same block
}

TEST_F(StrayWordsTest, FallsSilent) {
    for (std::size_t i = 0; i < 2 * StrayWords::kNamedMax; ++i) {
        blocks_.add(i * 4096, 64);
        store(i * 4096, block_.get());
    }
    StrayWords words(options_);
    EXPECT_EQ(words.look().size(), StrayWords::kNamedMax);
    EXPECT_TRUE(words.look().empty());
}

}  // namespace
}  // namespace sft
