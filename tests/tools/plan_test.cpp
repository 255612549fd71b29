// Plans of jobs: who keeps for whom, and what may be lost.
#include "tools/shmem-ft/plan.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/result.hpp"
#include "tools/shmem-ft/plan_risk.hpp"

namespace sft::tools {
namespace {

using Numbers = std::vector<std::int32_t>;

constexpr const char* kRacks = R"(apart = "rack"
[[rack]]
name = "r1"
hosts = ["n[1-2]"]
[[rack]]
name = "r2"
hosts = ["n[3-4]"]
[[power]]
name = "p1"
hosts = ["n[1-4]"]
)";

class PlanTest : public testing::Test {
protected:
    // Hosts n1, n2, ... with two slots each, PEs and spares round them.
    PlanTest& job(int n_hosts, int pes, int spares) {
        for (int host = 1; host <= n_hosts; ++host) {
            task.placement.hosts.push_back({.name = "n" + std::to_string(host), .slots = 2, .slots_max = 0});
        }
        task.placement.pes = pes;
        task.placement.spares = spares;
        task.placement.is_by_node = true;
        return *this;
    }
    void know_racks(const std::string& more = "") {
        Result<Topology> parsed = Topology::parse(kRacks + more, "racks");
        ASSERT_TRUE(parsed) << parsed.error().line;
        task.topology = std::move(*parsed);
    }
    [[nodiscard]] const Plan::Losses& losses(const char* what, int n_at_once) {
        plan = make_plan(task);
        for (const Plan::Losses& item : plan.losses) {
            if (item.what == what && item.n_at_once == n_at_once) {
                return item;
            }
        }
        ADD_FAILURE() << "nothing about " << n_at_once << " of " << what;
        return plan.losses.front();
    }

    PlanTask task;
    Plan plan;
};

TEST_F(PlanTest, TellsWhoKeepsForWhom) {
    job(4, 4, 4);
    plan = make_plan(task);
    ASSERT_EQ(plan.hosts.size(), 4U);
    EXPECT_EQ(plan.copies, 1);
    EXPECT_EQ(plan.apart, "host");
    EXPECT_EQ(plan.hosts[1].pes, Numbers{1});
    EXPECT_EQ(plan.hosts[1].kept_of, Numbers{0});
    EXPECT_EQ(plan.hosts[0].kept_of, Numbers{3});
    EXPECT_EQ(plan.hosts[0].spares.size(), 1U);
}

TEST_F(PlanTest, ACopyBesideItsOriginalIsNamed) {
    job(5, 5, 5);
    EXPECT_EQ(losses("host", 1).n_survived, 5U);
    const Plan::Losses two = losses("host", 2);
    EXPECT_EQ(two.n_sets, 10U);
    EXPECT_EQ(two.n_survived, 5U) << "neighbours are not";
    EXPECT_EQ(two.fatal, "n1, n2: PE 0 and all its copies are there");
    task.backup.partners = 2;
    EXPECT_EQ(losses("host", 2).n_survived, 10U);
    EXPECT_EQ(losses("host", 2).fatal, "");
    EXPECT_EQ(losses("host", 3).fatal, "n1, n2, n3: PE 0 and all its copies are there");
}

TEST_F(PlanTest, TheGreaterPartHasToBeLeft) {
    job(4, 4, 4);
    task.backup.partners = 3;
    const Plan::Losses two = losses("host", 2);
    EXPECT_EQ(two.n_survived, 3U) << "of two equal halves that with PE 0 goes on";
    EXPECT_EQ(two.fatal, "n1, n2: 2 of 4 PEs are left, which cannot tell whether they are the part that is cut off");
}

TEST_F(PlanTest, SparesHaveToBeElsewhere) {
    job(4, 4, 1);
    EXPECT_EQ(losses("host", 1).n_survived, 3U);
    EXPECT_NE(losses("host", 1).fatal.find(": 1 PE is lost, and 0 spares are left elsewhere"), std::string::npos)
        << losses("host", 1).fatal;
}

TEST_F(PlanTest, RacksAreKeptApartIfTheyAreKnown) {
    job(5, 5, 5);
    know_racks();
    EXPECT_EQ(losses("rack", 1).n_survived, 2U);
    EXPECT_EQ(plan.apart, "rack");
    EXPECT_EQ(plan.levels, (std::vector<std::string>{"rack", "power"}));
    EXPECT_EQ(plan.hosts[3].domains, (std::vector<std::string>{"r2", "p1"}));
    EXPECT_EQ(plan.hosts[4].domains, (std::vector<std::string>{"", ""})) << "the file does not name it";
    task.topology.reset();
    plan = make_plan(task);
    EXPECT_EQ(plan.hosts[1].kept_of, Numbers{0}) << "in the same rack";
}

TEST_F(PlanTest, OnOneHostCopiesAreTheHosts) {
    job(1, 1, 1);
    for (const std::int32_t n_pes : {1, 2}) {
        task.placement.pes = n_pes;
        task.placement.spares = 2 - n_pes;
        plan = make_plan(task);
        EXPECT_EQ(plan.hosts[0].kept_of.size(), static_cast<std::size_t>(n_pes));
        EXPECT_NE(text_of(plan, task.backup).find("1 copy of each PE in memory of the host; "), std::string::npos);
    }
}

TEST_F(PlanTest, AnOnlyPeHasItsCopyWithASpare) {
    job(2, 1, 2);
    plan = make_plan(task);
    EXPECT_EQ(plan.copies, 1);
    EXPECT_EQ(plan.hosts[1].kept_of, Numbers{0});
    task.backup.mode = BackupMode::none;
    plan = make_plan(task);
    EXPECT_EQ(plan.copies, 0);
    const std::string text = text_of(plan, task.backup);
    EXPECT_NE(text.find("0 copies of each PE in other processes; memory of a PE: 1 times"), std::string::npos) << text;
}

TEST_F(PlanTest, MemoryIsTold) {
    constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
    job(3, 4, 2);
    task.state_bytes = 2 * kGiB;
    plan = make_plan(task);
    EXPECT_EQ(plan.hosts[0].memory, 8) << "two PEs, as many copies of others";
    EXPECT_EQ(plan.hosts[1].memory, 4);
    const std::string text = text_of(plan, task.backup);
    EXPECT_NE(text.find("with a state of 2.0 GiB in each PE (--state): 8.0 GiB a PE; most on n1: 16.0 GiB\n"),
              std::string::npos)
        << text;
    task.backup.mode = BackupMode::single_copy;
    EXPECT_EQ(make_plan(task).hosts[0].memory, 8) << "its two PEs keep each other's, and that of one which is alone";
    task.backup.mode = BackupMode::none;
    EXPECT_EQ(make_plan(task).hosts[0].memory, 2);
}

TEST_F(PlanTest, ParityTakesLessMemory) {
    job(4, 4, 4);
    task.backup.data = 3;
    task.backup.parity = 1;
    plan = make_plan(task);
    EXPECT_DOUBLE_EQ(plan.hosts[0].memory, 2 + 2.0 / 3);
    EXPECT_EQ(text_of(plan, task.backup).find("--state"), std::string::npos);
}

TEST_F(PlanTest, WhatTheTopologyWantsIsLookedAt) {
    job(4, 4, 4);
    know_racks();
    EXPECT_TRUE(make_plan(task).meets_demands());
    know_racks("[survive]\nrack = 1\nhost = 1\n");
    plan = make_plan(task);
    EXPECT_FALSE(plan.meets_demands());
    const std::string text = text_of(plan, task.backup);
    EXPECT_NE(text.find("\nwanted by the topology ([survive]): 1 rack: NOT SURVIVED; r1: 2 of 4 PEs are left"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("\nwanted by the topology ([survive]): 1 host: survived\n"), std::string::npos) << text;
}

TEST_F(PlanTest, AfterALossSparesHaveTakenOver) {
    job(4, 4, 4);  // spare 4 on n4, 5 on n3, ...
    task.lost = {1};
    plan = make_plan(task);
    EXPECT_EQ(plan.ends, "");
    EXPECT_FALSE(plan.hosts[1].is_used());
    std::vector<Numbers> pes;
    for (const Plan::Host& host : plan.hosts) {
        pes.push_back(host.pes);
    }
    EXPECT_EQ(pes, (std::vector<Numbers>{{0}, {}, {2}, {1, 3}}));
    EXPECT_EQ(plan.hosts[3].spares, Numbers{}) << "it has become PE 1";
    EXPECT_EQ(plan.hosts[0].kept_of, Numbers{3});
    EXPECT_EQ(plan.hosts[2].kept_of, Numbers{1});
    EXPECT_EQ(plan.hosts[3].kept_of, (Numbers{0, 2}));
    EXPECT_EQ(plan.n_spares, 2);
    EXPECT_EQ(losses("host", 1).n_sets, 3U);
    EXPECT_EQ(losses("host", 1).n_survived, 3U);
    EXPECT_EQ(losses("host", 2).fatal,
              "n1, n3: 2 of 4 PEs are left, which cannot tell whether they are the part that is cut off");
}

TEST_F(PlanTest, ALossThatIsFatalIsToldAsSuch) {
    job(5, 5, 5);
    task.lost = {0, 1};
    plan = make_plan(task);
    EXPECT_EQ(plan.ends, "PE 0 and all its copies are there");
    EXPECT_NE(svg_of(plan, task.backup).find("before a loss that is not survived: PE 0 and all its copies are there"),
              std::string::npos);
    task.lost = {0, 2};
    EXPECT_EQ(make_plan(task).ends, "");
}

TEST_F(PlanTest, AfterALossWithParityTheGroupsAreTheSame) {
    job(5, 5, 10);
    for (HostSlots& host : task.placement.hosts) {
        host.slots = 3;
    }
    task.backup.data = 3;
    task.backup.parity = 2;
    plan = make_plan(task);
    ASSERT_EQ(plan.groups, (std::vector<Numbers>{{0, 1, 2, 3, 4}}));
    EXPECT_EQ(losses("host", 2).n_survived, 10U);
    task.lost = {3, 4};
    plan = make_plan(task);
    EXPECT_EQ(plan.ends, "");
    EXPECT_EQ(plan.groups, (std::vector<Numbers>{{0, 1, 2, 3, 4}}));
    EXPECT_EQ(losses("host", 1).n_sets, 3U);
}

TEST_F(PlanTest, OfAJobThatRunsWhatItHasAgreedOnCounts) {
    job(4, 4, 3);
    RunningJob running{.host_of = {0, 1, 2, 3, 0, 1, 2, 3}, .state = JobState{}};
    running.state->version = Version(7);
    running.state->deaths = {{.process = ProcId(1), .reason = {}}, {.process = ProcId(4), .reason = {}}};
    running.state->replacements = {{.pe = PeId(1), .process = ProcId(6), .turn = 7}};
    running.state->protected_layout = running.state->replacements;
    running.state->joined = {{.process = ProcId(7), .node = NodeId(3)}};
    task.running = running;
    plan = make_plan(task);
    EXPECT_EQ(plan.hosts[1].pes, Numbers{});
    EXPECT_EQ(plan.hosts[2].pes, (Numbers{1, 2}));
    EXPECT_EQ(plan.hosts[0].spares, Numbers{}) << "it is dead";
    EXPECT_EQ(plan.hosts[3].spares, Numbers{7}) << "it has joined";
    EXPECT_EQ(plan.n_spares, 2);
}

std::size_t count(const std::string& text, const std::string& word) {
    std::size_t n = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
        ++n;
    }
    return n;
}

TEST_F(PlanTest, TheDrawingShowsHostsDomainsAndCopies) {
    job(6, 6, 6);
    know_racks();
    task.placement.hosts[2].name = "n<3>&\"";
    task.backup.partners = 2;
    const std::string svg = svg_of(make_plan(task), task.backup);
    EXPECT_EQ(count(svg, "class=\"host\""), 6U);
    EXPECT_EQ(count(svg, "class=\"copies\""), 12U);
    EXPECT_EQ(count(svg, "class=\"domain\""), 2U + 2U) << "n<3> is in none: it divides r2's neighbours";
    EXPECT_NE(svg.find("6 PEs and 6 spares on 6 hosts"), std::string::npos);
    EXPECT_NE(svg.find("n&lt;3&gt;&amp;&quot; PE 2 spare 9"), std::string::npos);
    EXPECT_EQ(svg.find("n<3>"), std::string::npos);
}

TEST_F(PlanTest, TheDrawingShowsGroups) {
    job(6, 6, 0);
    task.backup.data = 2;
    task.backup.parity = 1;
    const std::string svg = svg_of(make_plan(task), task.backup);
    EXPECT_EQ(count(svg, "class=\"group\""), 2U);
    EXPECT_EQ(count(svg, "class=\"copies\""), 0U);
}

TEST_F(PlanTest, ManyHostsAreSampled) {
    for (int host = 0; host < 1000; ++host) {
        task.placement.hosts.push_back({.name = "n" + std::to_string(host), .slots = 1, .slots_max = 0});
    }
    task.placement.pes = 900;
    task.placement.spares = 100;
    EXPECT_FALSE(losses("host", 1).is_sample);
    const Plan::Losses two = losses("host", 2);
    EXPECT_TRUE(two.is_sample);
    EXPECT_LT(two.n_survived, two.n_sets);
    EXPECT_EQ(losses("host", 2).n_survived, two.n_survived) << "the same plan gives the same figures";
}

TEST_F(PlanTest, TheTextHasATableAndTheLosses) {
    job(3, 3, 3);
    task.backup.partners = 2;
    const std::string text = text_of(make_plan(task), task.backup);
    EXPECT_NE(text.find("3 PEs and 3 spares on 3 hosts\n"), std::string::npos) << text;
    EXPECT_NE(text.find("  n2   1   "), std::string::npos) << text;
    EXPECT_NE(text.find("2 copies of each PE in other processes, kept apart by host; memory of a PE: 6 times"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("  1 host: 3 of 3 survived\n  2 hosts: 0 of 3 survived; not n1, n2: "), std::string::npos)
        << text;
}

// Six hosts in a ring, each keeps for the one before it: six pairs of neighbours are fatal, and of the sets of three
// without neighbours that which leaves half of the PEs without the one that leads.
TEST_F(PlanTest, TellsHowLikelyALossIs) {
    job(6, 6, 6);
    task.mtbf_days["host"] = 1000;
    task.run_days = 10;
    plan = make_plan(task);
    ASSERT_EQ(plan.risks.size(), 1U);
    const Plan::Risk& risk = plan.risks.front();
    ASSERT_EQ(risk.at_once.size(), 3U);
    EXPECT_EQ(risk.at_once[0].n_sets, 0);
    EXPECT_EQ(risk.at_once[1].n_sets, 6);
    EXPECT_EQ(risk.at_once[2].n_sets, 1) << "n1, n3 and n5";
    EXPECT_NEAR(risk.at_once[1].a_day, 6 * 2 * (1 / 1000.0) * (60 / 86400.0 / 1000), 1e-15);
    EXPECT_EQ(risk.at_once[1].a_day_error, 0);
    // Three are survived one after another, in whatever order.
    EXPECT_NEAR(risk.runs_ended, probability_of_more(6, 3, 1000, 10), 1e-12);
    EXPECT_NE(text_of(plan, task.backup).find("2 hosts at once that the job does not survive: 8.3e-09 a day"),
              std::string::npos);
}

TEST_F(PlanTest, SaysNothingOfRisksThatItIsNotToldOf) {
    job(4, 4, 4);
    know_racks();
    EXPECT_TRUE(make_plan(task).risks.empty());
    task.mtbf_days["power"] = 5000;
    plan = make_plan(task);
    ASSERT_EQ(plan.risks.size(), 1U);
    EXPECT_EQ(plan.risks.front().what, "power");
    EXPECT_EQ(plan.risks.front().at_once.front().n_sets, 1) << "all of the job";
    EXPECT_NEAR(plan.risks.front().at_once.front().a_day, 1 / 5000.0, 1e-12);
    EXPECT_EQ(plan.risks.front().n_orders, 0);
}

TEST(PlanRisk, SetsThatContainASmallerFatalOneAreNotCountedAgain) {
    const auto has_0 = [](const UnitSet& set) { return set.front() == 0; };
    EXPECT_EQ(smallest_fatal_sets(10, 1, has_0).value, 1);
    EXPECT_EQ(smallest_fatal_sets(10, 2, has_0).value, 0);
    const auto has_0_and_1 = [](const UnitSet& set) { return set.size() > 1 && set[0] == 0 && set[1] == 1; };
    EXPECT_EQ(smallest_fatal_sets(10, 2, has_0_and_1).value, 1);
    EXPECT_EQ(smallest_fatal_sets(10, 3, has_0_and_1).value, 0);
}

TEST(PlanRisk, ADrawnShareHasAnError) {
    const auto is_even = [](const UnitSet& set) { return set.size() == 3 && (set[0] + set[1] + set[2]) % 2 == 0; };
    const Estimate half = smallest_fatal_sets(400, 3, is_even);
    EXPECT_GT(half.error, 0);
    EXPECT_NEAR(half.value, static_cast<double>(choices(400, 3)) / 2, 4 * half.error);
    const Estimate none = smallest_fatal_sets(400, 3, [](const UnitSet&) { return false; });
    EXPECT_EQ(none.value, 0);
    EXPECT_GT(none.error, 0) << "not proven";
}

TEST(PlanRisk, MoreLossesThanAreSurvivedInARun) {
    const double lost = 1 - std::exp(-0.01);
    EXPECT_NEAR(probability_of_more(3, 0, 1000, 10), 1 - std::pow(1 - lost, 3), 1e-12);
    EXPECT_NEAR(probability_of_more(3, 2, 1000, 10), lost * lost * lost, 1e-15);
    EXPECT_EQ(probability_of_more(3, 3, 1000, 10), 0);
}

}  // namespace
}  // namespace sft::tools
