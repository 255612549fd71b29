#include "tools/oshrun/placement.hpp"

#include <gtest/gtest.h>

#include <string>

namespace sft::tools {
namespace {

using Hosts = std::vector<HostSlots>;
using Ranks = std::vector<int>;

std::optional<Hosts> hosts_of(std::string_view list) {
    std::string error_line;
    return parse_host_list(list, error_line);
}

TEST(Hosts, Lists) {
    EXPECT_EQ(hosts_of("a"), (Hosts{{"a", 1}}));
    EXPECT_EQ(hosts_of("a:2,b,a:3,10.0.0.1:4"), (Hosts{{"a", 5}, {"b", 1}, {"10.0.0.1", 4}}));
    EXPECT_EQ(hosts_of("n[1-2,04]:3,b"), (Hosts{{"n1", 3}, {"n2", 3}, {"n04", 3}, {"b", 1}}));
    for (const char* list : {"n[1-", "n]1", "n[2-1]", "n[1-2]:0", "n[1-2]:x", "n[1-100000]", "n[1 - 2]"}) {
        EXPECT_EQ(hosts_of(list), std::nullopt) << list;
    }
    for (const char* list : {"", ",", "a,,b", "a:", "a:0", "a:-1", "a:x", ":3", "a b", "a:99999", "a:2:*", "+n0"}) {
        EXPECT_EQ(hosts_of(list), std::nullopt) << list;
    }
    std::string error_line;
    EXPECT_FALSE(parse_host_list("a,b:0", error_line));
    EXPECT_EQ(error_line, "--host a,b:0: 'b:0' is not NAME or NAME:SLOTS");
}

TEST(Hosts, Files) {
    std::string error_line;
    EXPECT_EQ(parse_hostfile("# ours\na slots=2\n\n  b:3 # fast\nc\na", "f", error_line),
              (Hosts{{"a", 3}, {"b", 3}, {"c", 1}}));
    for (const char* content :
         {"a slots=0", "a slots=2 b", "a:2 slots=2", "a cores=2", "a slots=", "'a", "a max_slots=0", "slots=2"}) {
        EXPECT_EQ(parse_hostfile(content, "f", error_line), std::nullopt) << content;
        EXPECT_EQ(error_line, "--hostfile f: '" + std::string(content) +
                                  "' is not NAME, NAME:SLOTS or NAME slots=SLOTS max_slots=SLOTS");
    }
    EXPECT_EQ(parse_hostfile("# nothing\n", "f", error_line), std::nullopt);
    EXPECT_EQ(error_line, "--hostfile f: there is no host in it");
}

// What other systems and editors write; and an error shows no character that moves the cursor.
TEST(Hosts, FilesFromElsewhere) {
    std::string error_line;
    EXPECT_EQ(parse_hostfile("\xef\xbb\xbf# ours\r\na slots=2 \r\n\r\nb max_slots=4 slots=3\r\nc max-slots=2", "f",
                             error_line),
              (Hosts{{"a", 2, 0}, {"b", 3, 4}, {"c", 1, 2}}));
    EXPECT_EQ(parse_hostfile("a cores=2\r\n", "f", error_line), std::nullopt);
    EXPECT_EQ(error_line, "--hostfile f: 'a cores=2' is not NAME, NAME:SLOTS or NAME slots=SLOTS max_slots=SLOTS");
}

TEST(Hosts, Slurm) {
    EXPECT_EQ(parse_slurm_nodes("vm", "2"), (Hosts{{"vm", 2}}));
    EXPECT_EQ(parse_slurm_nodes("n[1-3,07],login", "2(x3),1,4"),
              (Hosts{{"n1", 2}, {"n2", 2}, {"n3", 2}, {"n07", 1}, {"login", 4}}));
    EXPECT_EQ(parse_slurm_nodes("r1n[08-10]x", "1(x3)"), (Hosts{{"r1n08x", 1}, {"r1n09x", 1}, {"r1n10x", 1}}));
    EXPECT_EQ(parse_slurm_nodes("r[1-2]n[3-4]", "1(x4)"), (Hosts{{"r1n3", 1}, {"r1n4", 1}, {"r2n3", 1}, {"r2n4", 1}}));
    for (const auto& [nodes, counts] : {std::pair{"n[1-3]", "2"},
                                        {"n[1-3", "1(x3)"},
                                        {"n[a-b]", "1"},
                                        {"", "1"},
                                        {"n[3-1]", "1"},
                                        {"n1", ""},
                                        {"n1", "x"},
                                        {"n1", "2(x"},
                                        {"n[0-999999]", "1"}}) {
        EXPECT_EQ(parse_slurm_nodes(nodes, counts), std::nullopt) << nodes << " " << counts;
    }
}

Ranks placed(std::string_view list, int pes, int spares, int spare_nodes = 0, bool is_by_node = false) {
    return place({*hosts_of(list), pes, spares, spare_nodes, is_by_node});
}

TEST(Placement, PesFillOneHostAfterTheOther) {
    EXPECT_EQ(placed("a:2,b:2,c:2", 5, 0), (Ranks{0, 0, 1, 1, 2}));
    EXPECT_EQ(placed("a:1,b:2", 7, 0), (Ranks{0, 1, 1, 0, 1, 1, 0}));
}

TEST(Placement, PesGoRound) {
    EXPECT_EQ(placed("a:2,b:2,c:2", 5, 0, 0, true), (Ranks{0, 1, 2, 0, 1}));
    EXPECT_EQ(placed("a:1,b:3", 4, 0, 0, true), (Ranks{0, 1, 1, 1}));
}

TEST(Placement, SparesGoWhereThereIsRoomAndToDifferentHosts) {
    EXPECT_EQ(placed("a:2,b:2,c:2", 4, 2), (Ranks{0, 0, 1, 1, 2, 2}));
    EXPECT_EQ(placed("a:3,b:3", 4, 2, 0, true), (Ranks{0, 1, 0, 1, 1, 0}));
    EXPECT_EQ(placed("a:4,b:4,c:4", 3, 4, 0, true), (Ranks{0, 1, 2, 2, 1, 0, 2}));
    // No room anywhere: still spread.
    EXPECT_EQ(placed("a:2,b:2", 4, 3), (Ranks{0, 0, 1, 1, 1, 0, 1}));
}

TEST(Placement, NoMoreThanMaxSlots) {
    const Hosts hosts = {{"a", 1, 2}, {"b", 1, 0}, {"c", 2, 2}};
    EXPECT_EQ(place({hosts, 8, 0, 0, false}), (Ranks{0, 1, 2, 2, 0, 1, 1, 1}));
    EXPECT_EQ(place({hosts, 8, 0, 0, true}), (Ranks{0, 1, 2, 2, 0, 1, 1, 1}));
    EXPECT_EQ(place({hosts, 5, 2, 0, false}), (Ranks{0, 1, 2, 2, 0, 1, 1}));
    EXPECT_EQ(lack_of_room({hosts, 100, 0, 0, false}), std::nullopt);
    const Hosts bounded = {{"a", 1, 2}, {"b", 1, 3}, {"c", 2, 2}};
    EXPECT_EQ(lack_of_room({bounded, 5, 2, 0, false}), std::nullopt);
    EXPECT_EQ(lack_of_room({bounded, 6, 2, 0, false}),
              "8 processes are more than the 7 that max_slots of the hosts allows: raise it, or name more hosts");
    EXPECT_EQ(lack_of_room({bounded, 5, 2, 1, false}), std::nullopt);
    EXPECT_EQ(lack_of_room({bounded, 6, 0, 1, false})->substr(0, 25), "6 PEs are more than the 5");
    EXPECT_EQ(lack_of_room({bounded, 1, 3, 1, false})->substr(0, 28), "3 spares are more than the 2");
}

TEST(Placement, SpareNodesHoldNothingElse) {
    EXPECT_EQ(placed("a:2,b:2,c:2", 4, 2, 1), (Ranks{0, 0, 1, 1, 2, 2}));
    EXPECT_EQ(placed("a:2,b:2,c:2", 6, 1, 1), (Ranks{0, 0, 1, 1, 0, 0, 2}));
    EXPECT_EQ(placed("a:2,b:2,c:2,d:2", 2, 3, 2, true), (Ranks{0, 1, 3, 2, 3}));
}

}  // namespace
}  // namespace sft::tools
