#include "tools/oshcc/compiler_command.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace sft::tools {
namespace {

using Words = std::vector<std::string>;

WrapperFacts facts() {
    WrapperFacts facts;
    facts.compiler = {"cc"};
    facts.include_dir = "/opt/include";
    facts.lib_dir = "/opt/lib";
    facts.static_libs = {"-lpmix", "-lstdc++"};
    return facts;
}

Words command(const Words& words) { return compiler_command(parse_wrapper_words(words), facts()); }

const Words kShared = {"-L/opt/lib", "-Wl,-rpath,/opt/lib", "-lshmem_ft"};

Words operator+(Words a, const Words& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

TEST(CompilerCommand, CompilingNeedsTheHeadersOnly) {
    for (const Words& words : {Words{"-c", "a.c"}, Words{"-E", "a.c"}, Words{"-S", "-o", "a.s", "a.c"},
                               Words{"-M", "a.c"}, Words{"-MM", "a.c"}, Words{"-fsyntax-only", "a.c"}}) {
        EXPECT_EQ(command(words), Words({"cc", "-I/opt/include"}) + words);
    }
}

TEST(CompilerCommand, LinkingNeedsTheLibrary) {
    for (const Words& words : {Words{"a.c"}, Words{"-o", "a", "a.o"}, Words{"-std=gnu11", "-O2", "a.c", "-lm"},
                               Words{"-MMD", "-MF", "a.d", "a.c"}, Words{"-x", "c", "-"}}) {
        EXPECT_EQ(command(words), Words({"cc", "-I/opt/include"}) + words + Words{"-no-pie"} + kShared);
    }
}

TEST(CompilerCommand, WithoutInputNothingIsLinked) {
    for (const Words& words : {Words{"--version"}, Words{"-v"}, Words{"-dumpmachine"}, Words{"-o", "name"}, Words{},
                               Words{"-print-search-dirs"}, Words{"-I", "dir"}}) {
        EXPECT_EQ(command(words), Words({"cc", "-I/opt/include"}) + words);
    }
}

TEST(CompilerCommand, TheUsersChoiceOfAddressingStays) {
    for (const char* option : {"-pie", "-fPIE", "-fpie", "-shared", "-no-pie"}) {
        const Words words = command({option, "a.c"});
        EXPECT_EQ(std::count(words.begin(), words.end(), "-no-pie"), std::string(option) == "-no-pie" ? 1 : 0)
            << option;
        EXPECT_EQ(words.back(), "-lshmem_ft");
    }
    const Words words = command({"-fPIC", "a.c"});
    EXPECT_EQ(std::count(words.begin(), words.end(), "-no-pie"), 1);
    EXPECT_EQ(command({"-r", "a.o"}), (Words{"cc", "-I/opt/include", "-r", "a.o"}));
}

TEST(CompilerCommand, TheLibraryLinkedStatically) {
    for (const char* option : {"--shmem-static", "-static-libshmem"}) {
        EXPECT_EQ(command({option, "a.o"}), (Words{"cc", "-I/opt/include", "a.o", "-no-pie", "-L/opt/lib",
                                                   "-l:libshmem_ft.a", "-lpmix", "-lstdc++"}));
        EXPECT_EQ(command({option, "-c", "a.c"}), (Words{"cc", "-I/opt/include", "-c", "a.c"}));
    }
}

TEST(CompilerCommand, FullyStaticProgramsAreRefused) {
    EXPECT_NE(parse_wrapper_words({"-static", "a.c"}).refusal.find("--shmem-static"), std::string::npos);
    EXPECT_EQ(parse_wrapper_words({"-static-libgcc", "a.c"}).refusal, "");
    EXPECT_EQ(parse_wrapper_words({"-Xlinker", "-static", "a.c"}).refusal, "");
}

TEST(CompilerCommand, SystemFoldersAreNotNamed) {
    WrapperFacts installed = facts();
    installed.is_system_dir = true;
    EXPECT_EQ(compiler_command(parse_wrapper_words({"a.c"}), installed), (Words{"cc", "a.c", "-no-pie", "-lshmem_ft"}));
}

TEST(CompilerCommand, FlagsOfAnUninstalledLibrary) {
    WrapperFacts uninstalled = facts();
    uninstalled.compiler = {"ccache", "cc"};
    uninstalled.common_flags = {"-fsanitize=address"};
    EXPECT_EQ(compiler_command(parse_wrapper_words({"-c", "a.c"}), uninstalled),
              (Words{"ccache", "cc", "-I/opt/include", "-fsanitize=address", "-c", "a.c"}));
}

TEST(CompilerCommand, OwnOptions) {
    EXPECT_TRUE(parse_wrapper_words({"--showme", "a.c"}).show);
    EXPECT_TRUE(parse_wrapper_words({"a.c", "-show"}).show);
    EXPECT_EQ(parse_wrapper_words({"-show", "a.c"}).words, Words{"a.c"});
    EXPECT_EQ(parse_wrapper_words({"-o", "-show", "a.c"}).words, (Words{"-o", "-show", "a.c"}));
    EXPECT_TRUE(parse_wrapper_words({"--help"}).wants_help);
    EXPECT_FALSE(parse_wrapper_words({"--help", "a.c"}).wants_help);
}

}  // namespace
}  // namespace sft::tools
