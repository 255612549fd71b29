// Which nodes may be lost at one moment, and what a topology demands of that.
#include "recovery/losses.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

#include "base/config.hpp"
#include "recovery/loss_demands.hpp"
#include "recovery/membership/parity_scheme.hpp"
#include "recovery/membership/scheme.hpp"
#include "recovery/rules.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

// Hosts n0, n1, ... with as many PEs each, and as many spares.
class LossesTest : public testing::Test {
protected:
    void make(std::int32_t n_nodes, std::int32_t pes_each, std::int32_t spares_each, const Backup& backup = {}) {
        std::vector<NodeId> of_process;
        for (const std::int32_t each : {pes_each, spares_each}) {
            for (std::int32_t i = 0; i < n_nodes * each; ++i) {
                of_process.emplace_back(i / each);
            }
        }
        names.clear();
        for (std::int32_t node = 0; node < n_nodes; ++node) {
            names.push_back("n" + std::to_string(node));
        }
        shape.n_pes = n_nodes * pes_each;
        shape.n_processes = static_cast<std::int32_t>(of_process.size());
        nodes = NodeMap(std::move(of_process));
        shape.nodes = nodes.is_one_node() ? nullptr : &nodes;
        shape.memory = &node_memory();
        shape.keeps_near = backup.mode == BackupMode::single_copy;
        groups = groups_for(shape, backup);
        shape.groups = groups ? &*groups : nullptr;
        shape.scheme = &scheme_of(shape, backup);
    }
    void know(const std::string& text) {
        Result<Topology> read = Topology::parse(text, "t.toml");
        ASSERT_TRUE(good(read));
        topology = std::move(*read);
        areas = AreaMap(topology->areas_of(names));
        shape.areas = areas.has_several() ? &areas : nullptr;
    }
    [[nodiscard]] std::string why(const std::vector<NodeId>& lost) const {
        return Losses(shape, JobRules::first_state(shape), {}).why_fatal(lost);
    }
    [[nodiscard]] std::string unmet() const {
        return unmet_demand({.topology = *topology, .shape = shape, .names = names});
    }

    NodeMap nodes;
    AreaMap areas;
    std::vector<std::string> names;
    std::optional<ParityGroups> groups;
    std::optional<Topology> topology;
    JobShape shape;
};

constexpr NodeId kFirst{0};
constexpr NodeId kSecond{1};
constexpr NodeId kThird{2};

TEST_F(LossesTest, CopiesMajorityAndSparesDecide) {
    make(5, 1, 1);
    EXPECT_EQ(why({}), "");
    EXPECT_EQ(why({kSecond}), "");
    EXPECT_EQ(why({kFirst, kSecond}), "PE 0 and all its copies are there");
    EXPECT_EQ(why({kFirst, kThird}), "");
    make(4, 2, 1);
    EXPECT_EQ(why({kFirst, kThird}),
              "4 of 8 PEs are left, which cannot tell whether they are the part that is cut off");
    EXPECT_EQ(why({kSecond}), "") << "three spares are elsewhere";
    make(4, 4, 1);
    EXPECT_EQ(why({kSecond}), "4 PEs are lost, and 3 spares are left elsewhere");
    make(1, 3, 1);
    EXPECT_EQ(why({kFirst}), "PE 0 and all its copies are there");
}

TEST_F(LossesTest, OfParityGroupsWhatTheyBringBack) {
    make(6, 1, 2, {.mode = BackupMode::double_copy, .data = 4, .parity = 2});
    ASSERT_NE(shape.groups, nullptr);
    EXPECT_EQ(why({kSecond, kThird}), "");
    make(6, 1, 2, {.mode = BackupMode::double_copy, .data = 5, .parity = 1});
    EXPECT_EQ(why({kSecond}), "");
    EXPECT_EQ(why({kSecond, kThird}), "2 PEs of the group of PE 1 are there");
}

TEST_F(LossesTest, AnOnlyPeLivesWithItsWitness) {
    make(2, 0, 0);
    nodes = NodeMap({kFirst, kSecond});
    shape.nodes = &nodes;
    shape.n_pes = 1;
    shape.n_processes = 2;
    shape.memory = &process_memory();
    const Losses losses(shape, JobRules::first_state(shape), {});
    EXPECT_EQ(losses.keepers_of(PeId(0)), std::vector{ProcId(1)});
    EXPECT_EQ(losses.why_fatal({kSecond}), "");
    EXPECT_EQ(losses.why_fatal({kFirst, kSecond}), "PE 0 and all its copies are there");
}

TEST(Sets, AllOfThemOrSomeThatAreDrawn) {
    std::set<UnitSet> seen;
    EXPECT_FALSE(each_set(6, 3, 20, [&](const UnitSet& set) { seen.insert(set); }));
    EXPECT_EQ(seen.size(), choices(6, 3));
    int n = 0;
    EXPECT_TRUE(each_set(6, 3, 19, [&](const UnitSet& set) {
        ++n;
        EXPECT_TRUE(set.size() == 3 && set[0] < set[1] && set[1] < set[2] && set[2] < 6);
    }));
    EXPECT_EQ(n, 19);
}

constexpr const char* kRacks = R"([[rack]]
name = "r1"
hosts = ["n[0-1]"]
[[rack]]
name = "r2"
hosts = ["n[2-3]"]
[[rack]]
name = "r3"
hosts = ["n[4-5]"]
[[rack]]
name = "elsewhere"
hosts = ["m[1-9]"]
[survive]
)";

TEST_F(LossesTest, DemandsThatAreMet) {
    make(6, 1, 1);
    know(std::string(kRacks) + "rack = 1\nhost = 1\n");
    EXPECT_EQ(unmet(), "");
    EXPECT_EQ(units_of({*topology, shape, names}, "rack").size(), 3U);
    EXPECT_EQ(units_of({*topology, shape, names}, "host").size(), 6U);
}

TEST_F(LossesTest, HostsThatTheFileDoesNotNameAreLostAlone) {
    make(8, 1, 1);
    know(std::string(kRacks) + "rack = 1\n");
    const std::vector<LossUnit> racks = units_of({*topology, shape, names}, "rack");
    ASSERT_EQ(racks.size(), 5U);
    EXPECT_EQ(racks[3].name, "n6");
    EXPECT_EQ(racks[3].nodes, std::vector{NodeId(6)});
    EXPECT_EQ(unmet(), "");
}

TEST_F(LossesTest, AModeThatWouldDoIsNamed) {
    make(6, 1, 2, {.mode = BackupMode::single_copy});
    know(std::string(kRacks) + "host = 2\n");
    EXPECT_EQ(unmet(),
              "survive: host = 2 (line 14) is not met: n0, n1: PE 0 and all its copies are there; "
              "SHMEM_FT_BACKUP_MODE=replica:2 would survive it");
    make(6, 1, 2);
    know(std::string(kRacks) + "rack = 1\nhost = 2\n");
    EXPECT_EQ(unmet(),
              "survive: host = 2 (line 15) is not met: n0, n2: PE 0 and all its copies are there; "
              "SHMEM_FT_BACKUP_MODE=replica:2 would survive it");
    make(6, 1, 2, {.mode = BackupMode::double_copy, .partners = 2});
    know(std::string(kRacks) + "rack = 1\nhost = 2\n");
    EXPECT_EQ(unmet(), "");
}

TEST_F(LossesTest, TheMostThatCanBeHadIsNamed) {
    make(6, 1, 1);
    know(std::string(kRacks) + "host = 3\n");
    EXPECT_EQ(unmet(),
              "survive: host = 3 (line 14) is not met: n0, n1, n2: PE 0 and all its copies are there; no mode survives "
              "it with these nodes, PEs and spares; the most is host = 2, with SHMEM_FT_BACKUP_MODE=replica:2");
    make(6, 1, 0);
    know(std::string(kRacks) + "host = 1\n");
    EXPECT_EQ(unmet(),
              "survive: host = 1 (line 14) is not met: n0: 1 PE is lost, and 0 spares are left elsewhere; no "
              "mode survives it with these nodes, PEs and spares");
}

TEST_F(LossesTest, AJobOnOneNodeMeetsNone) {
    make(1, 4, 2);
    know(std::string(kRacks) + "rack = 1\n");
    EXPECT_EQ(unmet(),
              "survive: rack = 1 (line 14) is not met: r1: PE 0 and all its copies are there; no mode survives "
              "it with these nodes, PEs and spares");
}

}  // namespace
}  // namespace sft
