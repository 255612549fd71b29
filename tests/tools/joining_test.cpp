// Spares that are started while a job runs: how many, and on which host.

#include <gtest/gtest.h>

#include "tools/oshrun/demand.hpp"
#include "tools/oshrun/join_placement.hpp"

namespace sft::tools {
namespace {

TEST(Demand, OneSpareForEachPeThatIsWaitedFor) {
    Demand demand({true, 8});
    EXPECT_TRUE(demand.to_serve(0).empty());
    demand.wished(5, 200);
    demand.wished(3, 100);
    demand.wished(3, 300);  // said again by the next leader
    ASSERT_EQ(demand.to_serve(0).size(), 2U);
    EXPECT_EQ(demand.to_serve(0)[0].pe, 3);
    EXPECT_EQ(demand.to_serve(0)[0].since_ns, 100);
    // One is on its way.
    ASSERT_EQ(demand.to_serve(1).size(), 1U);
    EXPECT_EQ(demand.to_serve(1)[0].pe, 5);
    EXPECT_TRUE(demand.to_serve(2).empty());
    EXPECT_TRUE(demand.to_serve(9).empty());
    demand.taken(5);
    EXPECT_EQ(demand.to_serve(0).size(), 1U);
    demand.taken(3);
    EXPECT_FALSE(demand.has_wishes());
}

TEST(Demand, IsBounded) {
    Demand demand({true, 2});
    demand.wished(0, 1);
    demand.wished(1, 1);
    demand.wished(2, 1);
    EXPECT_EQ(demand.to_serve(0).size(), 2U);
    demand.started();
    EXPECT_EQ(demand.to_serve(1).size(), 1U);
    demand.started();
    EXPECT_TRUE(demand.to_serve(2).empty());
    EXPECT_TRUE(demand.is_exhausted());
    EXPECT_TRUE(demand.unserved(2));
    EXPECT_FALSE(demand.unserved(3));
}

TEST(Demand, WhatCannotJoinTwiceInARowCannotJoin) {
    Demand demand({true, 8});
    demand.wished(1, 1);
    demand.failed();
    EXPECT_FALSE(demand.is_hopeless()) << "it may have lost whom it was to learn from";
    demand.joined();
    demand.failed();
    EXPECT_EQ(demand.to_serve(0).size(), 1U);
    demand.failed();
    EXPECT_TRUE(demand.is_hopeless());
    EXPECT_TRUE(demand.to_serve(0).empty());
    EXPECT_EQ(demand.wished_pe(), 1);
    // Those that somebody asks for by hand are his own business.
    Demand never({false, 8});
    never.failed();
    never.failed();
    EXPECT_FALSE(never.is_hopeless());
}

TEST(Demand, Never) {
    Demand demand({false, 8});
    demand.wished(0, 1);
    EXPECT_TRUE(demand.to_serve(0).empty());
    EXPECT_FALSE(demand.is_exhausted());
}

HostLoad host(const char* name, int processes) {
    return {.name = name,
            .is_usable = true,
            .processes = processes,
            .places = processes,
            .was_home = false,
            .is_keeper = false};
}

TEST(JoinPlacement, OnlyWhereItIsPossible) {
    EXPECT_EQ(choose_host({}, ""), std::nullopt);
    std::vector<HostLoad> hosts = {host("a", 3), host("b", 2)};
    hosts[1].is_usable = false;
    EXPECT_EQ(choose_host(hosts, ""), 0);
    EXPECT_EQ(choose_host(hosts, "b"), std::nullopt);
    EXPECT_EQ(choose_host(hosts, "a"), 0);
    EXPECT_EQ(choose_host(hosts, "c"), std::nullopt);
}

TEST(JoinPlacement, BackHomeAndNotBesideTheCopy) {
    std::vector<HostLoad> hosts = {host("a", 4), host("b", 4), host("c", 4)};
    hosts[0].is_keeper = true;
    EXPECT_EQ(choose_host(hosts, ""), 1);
    hosts[2].was_home = true;
    hosts[2].processes = 3;
    EXPECT_EQ(choose_host(hosts, ""), 2);
    hosts[1].is_usable = hosts[2].is_usable = false;
    EXPECT_EQ(choose_host(hosts, ""), 0);  // better than none
}

// All spares for the PEs of two lost hosts came to run on one host, because the other one kept the copies. The loss of
// that one was then the end.
TEST(JoinPlacement, SeveralSpread) {
    std::vector<HostLoad> hosts = {host("a", 8), host("b", 8), host("c", 8), host("d", 8)};
    hosts[2].is_usable = hosts[3].is_usable = false;
    hosts[2].was_home = true;
    hosts[0].is_keeper = true;
    for (int spare = 0; spare < 16; ++spare) {
        ++hosts[static_cast<std::size_t>(*choose_host(hosts, ""))].processes;
    }
    EXPECT_EQ(hosts[0].processes, 16);
    EXPECT_EQ(hosts[1].processes, 16);
}

TEST(JoinPlacement, ByTheSizeOfTheHosts) {
    std::vector<HostLoad> hosts = {host("a", 2), host("b", 6)};
    for (int spare = 0; spare < 8; ++spare) {
        ++hosts[static_cast<std::size_t>(*choose_host(hosts, ""))].processes;
    }
    EXPECT_EQ(hosts[0].processes, 4);
    EXPECT_EQ(hosts[1].processes, 12);
}

}  // namespace
}  // namespace sft::tools
