// What is saved of an executable, checked on this very test program.
#include "symheap/elf_image.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/private_data.hpp"
#include "symheap/load_bias.hpp"
#include "tests/result.hpp"

// Objects of every kind, with external linkage so that nothing is optimised away.
int elf_test_data = 42;
int elf_test_bss[1000];
SFT_LIBRARY_STATE int elf_test_private = 1;
thread_local int elf_test_thread_local = 7;
extern const char* const elf_test_relocated[2] = {"one", "two"};
// Words that the loader fills in: with an address in a shared library, and with one of this program.
int (*elf_test_of_library)(const char*) = std::remove;  // sanitizers have none of their own
int* elf_test_of_program = &elf_test_data;

int elf_test_number() { return elf_test_data; }
// The variable is private, and so has to be what tells whether it has been initialised.
int* elf_test_lazy() {
    SFT_LIBRARY_STATE static int* made = new int(elf_test_number());
    return made;
}
int* elf_test_lazy_and_saved() {
    static int* made = new int(elf_test_number());
    return made;
}

namespace sft {
namespace {

class ElfImageTest : public testing::Test {
protected:
    void SetUp() override { ASSERT_TRUE(good(read_elf_image("/proc/self/exe", image))); }
    [[nodiscard]] bool is_saved(const void* object, std::size_t bytes) const {
        const std::uint64_t address = reinterpret_cast<std::uintptr_t>(object) - load_bias();
        for (const ElfRange& range : image.saved) {
            if (address >= range.begin && address + bytes <= range.end) {
                return true;
            }
        }
        return false;
    }
    ElfImage image;
};

TEST_F(ElfImageTest, DataAndBssAreSaved) {
    EXPECT_TRUE(is_saved(&elf_test_data, sizeof elf_test_data));
    EXPECT_TRUE(is_saved(elf_test_bss, sizeof elf_test_bss));
}

TEST_F(ElfImageTest, WhatBelongsToOthersIsLeftOut) {
    EXPECT_FALSE(is_saved(&elf_test_private, sizeof elf_test_private));
    EXPECT_FALSE(is_saved(&elf_test_thread_local, sizeof elf_test_thread_local));
    EXPECT_FALSE(is_saved(elf_test_relocated, sizeof elf_test_relocated));
    EXPECT_FALSE(is_saved(static_cast<const void*>(&stdout), sizeof stdout));
    EXPECT_FALSE(is_saved(static_cast<const void*>(&environ), sizeof environ));
}

TEST_F(ElfImageTest, WhatTheLoaderTakesFromLibrariesIsLeftOut) {
    EXPECT_FALSE(is_saved(static_cast<const void*>(&elf_test_of_library), sizeof elf_test_of_library));
    EXPECT_TRUE(is_saved(static_cast<const void*>(&elf_test_of_program), sizeof elf_test_of_program));
    for (const ElfSymbol& symbol : read_data_symbols("/proc/self/exe")) {
        EXPECT_FALSE(symbol.name == "DW.ref.__gxx_personality_v0" &&
                     is_saved(reinterpret_cast<const void*>(symbol.address + load_bias()), symbol.bytes))
            << symbol.name;
    }
}

TEST_F(ElfImageTest, GuardsOfPrivateVariablesArePrivate) {
    EXPECT_EQ(*elf_test_lazy() + *elf_test_lazy_and_saved(), 84);
    int n_found = 0;
    for (const ElfSymbol& symbol : read_data_symbols("/proc/self/exe")) {
        const bool is_private = symbol.name == "_ZGVZ13elf_test_lazyvE4made";
        if (is_private || symbol.name == "_ZGVZ23elf_test_lazy_and_savedvE4made") {
            ++n_found;
            EXPECT_EQ(is_saved(reinterpret_cast<const void*>(symbol.address + load_bias()), symbol.bytes), !is_private);
        }
    }
    EXPECT_EQ(n_found, 2);
}

TEST_F(ElfImageTest, RangesAreDisjointAscendingAndInside) {
    std::uint64_t at = image.begin;
    EXPECT_EQ(image.begin % 4096, 0U);
    EXPECT_EQ(image.end % 4096, 0U);
    for (const ElfRange& range : image.saved) {
        EXPECT_GE(range.begin, at);
        EXPECT_GT(range.end, range.begin);
        at = range.end;
    }
    EXPECT_LE(at, image.end);
    for (const ElfRange& hole : image.left_out) {
        for (const ElfRange& range : image.saved) {
            EXPECT_TRUE(hole.end <= range.begin || hole.begin >= range.end) << hole.what << " overlaps " << range.what;
        }
    }
}

TEST_F(ElfImageTest, SymbolsAreNamed) {
    bool found = false;
    for (const ElfSymbol& symbol : read_data_symbols("/proc/self/exe")) {
        if (symbol.name == "elf_test_bss") {
            found = true;
            EXPECT_EQ(symbol.section, ".bss");
            EXPECT_GE(symbol.bytes, sizeof elf_test_bss);  // a sanitizer puts a red zone behind it
        }
    }
    EXPECT_TRUE(found);
}

TEST(ElfImage, OtherFilesAreRefusedByName) {
    ElfImage image;
    std::string error;
    error = line_of(read_elf_image("/etc/passwd", image));
    EXPECT_NE(error, "");
    EXPECT_NE(error.find("/etc/passwd"), std::string::npos) << error;
    error = line_of(read_elf_image("/no/such/file", image));
    EXPECT_NE(error, "");
    EXPECT_NE(error.find("/no/such/file"), std::string::npos) << error;
}

}  // namespace
}  // namespace sft
