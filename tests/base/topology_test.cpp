// Files that say which nodes are lost together: what they mean, and the line that each mistake gets.
#include "base/topology.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <random>

#include "tests/damaged_text.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

using Names = std::vector<std::string>;

Names hosts(const char* pattern) {
    const Result<Names> expanded = expand_hosts(pattern);
    EXPECT_TRUE(expanded) << pattern << ": " << (expanded ? "" : expanded.error().line);
    return expanded ? *expanded : Names();
}

std::string line_of(const std::string& text) {
    const Result<Topology> parsed = Topology::parse(text, "t.toml");
    EXPECT_FALSE(parsed) << text;
    return parsed ? "" : parsed.error().line;
}

TEST(Hosts, NamesAndRanges) {
    EXPECT_EQ(hosts("login"), Names{"login"});
    EXPECT_EQ(hosts("node[8-11]"), (Names{"node8", "node9", "node10", "node11"}));
    EXPECT_EQ(hosts("node[008-010,7]"), (Names{"node008", "node009", "node010", "node7"}));
    EXPECT_EQ(hosts("r[1-2]n[3,5].local"), (Names{"r1n3.local", "r1n5.local", "r2n3.local", "r2n5.local"}));
    EXPECT_EQ(hosts("n[0]"), Names{"n0"});
    EXPECT_EQ(hosts("n[1-1000000]").size(), 1'000'000U);
}

TEST(Topology, WhatHasToBeSurvived) {
    const std::string racks = R"([[rack]]
name = "r1"
hosts = ["a"]
[[rack]]
name = "r2"
hosts = ["b"]
[[rack]]
name = "r3"
hosts = ["c"]
)";
    const Result<Topology> none = Topology::parse(racks, "t.toml");
    ASSERT_TRUE(good(none));
    EXPECT_TRUE(none->demands().empty());
    const Result<Topology> read = Topology::parse(racks + "[survive]\nrack = 2\nhost = 1\n", "t.toml");
    ASSERT_TRUE(good(read));
    ASSERT_EQ(read->demands().size(), 2U);
    EXPECT_EQ(read->demands()[0].what, "rack");
    EXPECT_EQ(read->demands()[0].n, 2);
    EXPECT_EQ(read->demands()[0].line, 11U);
    EXPECT_EQ(read->demands()[1].what, "host");
    EXPECT_EQ(read->levels().size(), 1U);

    const auto wrong = [&](const char* survive) { return line_of(racks + "[survive]\n" + survive + "\n"); };
    EXPECT_EQ(wrong("rak = 1"), "t.toml:11: rak: neither host nor one of the levels in this file: rack");
    const char* const range = "how many that are lost at one moment have to be survived is a number from 1 to ";
    EXPECT_EQ(wrong("rack = 3"), std::string("t.toml:11: rack: ") + range + "2");
    EXPECT_EQ(wrong("rack = 0"), std::string("t.toml:11: rack: ") + range + "2");
    EXPECT_EQ(wrong("rack = \"1\""), std::string("t.toml:11: rack: ") + range + "2");
    EXPECT_EQ(wrong("host = 9"), std::string("t.toml:11: host: ") + range + "8");
    EXPECT_EQ(line_of("[[rack]]\nname = \"r\"\nhosts = [\"a\"]\n[survive]\nrack = 1\n"),
              "t.toml:5: rack: there is one rack only, whose loss nothing survives");
    EXPECT_EQ(line_of("[[host]]\nname = \"r\"\nhosts = [\"a\"]\n"),
              "t.toml:1: host: not the name of a level: each host is one of its own");
    EXPECT_EQ(line_of("[survive]\nhost = 1\n"),
              "t.toml: no level in it: write the domains of one as [[rack]], each with a name and hosts");
}

TEST(Hosts, WhatIsNone) {
    for (const char* bad : {"", "node[", "node]", "node[]", "node[a]", "node[3-1]", "node[1-]", "node[1,]", "node[-3]",
                            "a, b", "n[1-2000000]", "n[1-2000][1-2000]", "n[1234567890]", "n[1 - 2]"}) {
        const Result<Names> expanded = expand_hosts(bad);
        EXPECT_FALSE(expanded) << bad;
        EXPECT_FALSE(!expanded && expanded.error().line.empty()) << bad;
    }
}

constexpr const char* kTwoLevels = R"(apart = "rack"
[[power]]
name = "p1"
hosts = ["node[1-4]"]
[[rack]]
name = "r1"
hosts = ["node[1-2]", "login.cluster"]
[[rack]]
name = "r2"
hosts = ["node3"]
)";

TEST(TopologyFile, SaysWhatIsLostTogether) {
    const Result<Topology> read = Topology::parse(kTwoLevels, "t.toml");
    ASSERT_TRUE(read) << read.error().line;
    ASSERT_EQ(read->levels().size(), 2U);
    EXPECT_EQ(read->levels()[0].name, "power") << "in the order of the file";
    EXPECT_EQ(read->apart().name, "rack");
    EXPECT_EQ(read->apart().domains, (Names{"r1", "r2"}));
    EXPECT_EQ(read->domain_of("node1"), 0);
    EXPECT_EQ(read->domain_of("node2"), 0);
    EXPECT_EQ(read->domain_of("node3"), 1);
    EXPECT_EQ(read->domain_of("node4"), std::nullopt) << "it is on another level only";
    EXPECT_EQ(read->domain_of(read->levels()[0], "node4"), 0);
    EXPECT_EQ(read->domain_of("node3.cluster"), 1) << "the file has the short name";
    EXPECT_EQ(read->domain_of("login.cluster"), 0);
    EXPECT_EQ(read->domain_of("login"), std::nullopt);
    EXPECT_EQ(read->areas_of({"node3", "node9", "node1", "node8"}), (std::vector<std::int32_t>{1, 3, 0, 5}))
        << "who is not named is alone";
}

TEST(TopologyFile, OneLevelNeedsNoChoice) {
    const Result<Topology> read = Topology::parse("[[switch]]\nname = \"s\"\nhosts = [\"a\"]\n", "t.toml");
    ASSERT_TRUE(read) << read.error().line;
    EXPECT_EQ(read->apart().name, "switch");
}

TEST(TopologyFile, EqualFilesHaveEqualFingerprints) {
    const Result<Topology> one = Topology::parse(kTwoLevels, "a");
    const Result<Topology> same = Topology::parse(kTwoLevels, "b");
    const Result<Topology> other = Topology::parse(std::string(kTwoLevels) + "# another\n", "a");
    ASSERT_TRUE(one && same && other);
    EXPECT_EQ(one->fingerprint(), same->fingerprint());
    EXPECT_NE(one->fingerprint(), other->fingerprint());
    EXPECT_NE(one->fingerprint(), 0U);
}

TEST(TopologyFile, MistakesAreNamedWithTheirLine) {
    const std::string domain = "[[rack]]\nname = \"r1\"\nhosts = [\"a\"]\n";
    const std::string other = "[[power]]\nname = \"p1\"\nhosts = [\"a\"]\n";
    EXPECT_EQ(line_of(""), "t.toml: no level in it: write the domains of one as [[rack]], each with a name and hosts");
    EXPECT_EQ(line_of("rack = 3\n"), "t.toml:1: rack: no such key: domains of a level are written as [[rack]]");
    EXPECT_EQ(line_of("[rack]\nname = \"r\"\n"),
              "t.toml:1: rack: no such key: domains of a level are written as [[rack]]");
    EXPECT_EQ(line_of(domain + other),
              "t.toml: apart: missing: it names the level of which no domain may have two copies of a PE (one of rack, "
              "power)");
    EXPECT_EQ(line_of("apart = \"row\"\n" + domain + other),
              "t.toml:1: apart: not one of the levels in this file: rack, power");
    EXPECT_EQ(line_of("apart = 7\n" + domain), "t.toml:1: apart: not one of the levels in this file: rack");
    EXPECT_EQ(line_of("[[rack]]\nhosts = [\"a\"]\n"), "t.toml:1: rack: a domain needs a name, such as name = \"r1\"");
    EXPECT_EQ(line_of("[[rack]]\nname = \"r1\"\n"),
              "t.toml:1: rack r1: hosts are missing: a list such as hosts = [\"node[001-016]\"]");
    EXPECT_EQ(line_of("[[rack]]\nname = \"r1\"\nhosts = \"a\"\n"),
              "t.toml:3: rack r1: hosts are missing: a list such as hosts = [\"node[001-016]\"]");
    EXPECT_EQ(line_of("[[rack]]\nname = \"r1\"\nhost = [\"a\"]\n"),
              "t.toml:3: host: no such key: a domain has a name and hosts");
    EXPECT_EQ(line_of(domain + "[[rack]]\nname = \"r1\"\nhosts = [\"b\"]\n"),
              "t.toml:5: name: there is a rack r1 already");
    EXPECT_EQ(line_of(domain + "[[rack]]\nname = \"r2\"\nhosts = [\"b\", \"a\"]\n"),
              "t.toml:6: hosts: a is in rack r1 already, and cannot be in r2 as well");
    EXPECT_EQ(
        line_of("[[rack]]\nname = \"r1\"\nhosts = [\"n[3-1]\"]\n"),
        "t.toml:3: hosts: n[3-1]: between brackets stand numbers and ranges from low to high, such as 001-016,20");
    EXPECT_EQ(line_of("[[rack]]\nname = \"r1\"\nhosts = [7]\n"),
              "t.toml:3: hosts: a name of a host in quotes is expected");
    EXPECT_EQ(line_of("[[rack]]\nname = \"r1\nhosts = []\n").rfind("t.toml:2: ", 0), 0U);
}

// Whatever stands in it: a topology or a line, and never the end of the process.
TEST(TopologyFile, AnyBytes) {
    const std::string good_text =
        "apart = \"rack\"\n[[rack]]\nname = \"r1\"\nhosts = [\"node[1-4]\"]\n[[power]]\n"
        "name = 'p'\nhosts = [\"node1\", \"x\"]\n";
    std::mt19937 random(7);
    int refused = 0;
    for (int i = 0; i < 3000; ++i) {
        const std::string text = damaged(good_text, random);
        const Result<Topology> parsed = Topology::parse(text, "t.toml");
        refused += parsed ? 0 : 1;
        EXPECT_TRUE(parsed || parsed.error().line.starts_with("t.toml")) << text;
    }
    EXPECT_GT(refused, 1000);
}

TEST(TopologyFile, AFileThatIsNotThere) {
    const Result<Topology> read = Topology::read("/nowhere/t.toml");
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().line, "/nowhere/t.toml: cannot be read: No such file or directory");
    EXPECT_FALSE(Topology::read("/"));
}

}  // namespace
}  // namespace sft
