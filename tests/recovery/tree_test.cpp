#include "recovery/membership/tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/recovery/deaths.hpp"

namespace sft {
namespace {

// Who takes part, in order, worked out without any cleverness.
std::vector<ProcId> participants(const JobShape& shape, const JobState& state, const std::vector<Death>& dead) {
    std::vector<ProcId> result;
    for (std::int32_t process = 0; process < shape.n_processes; ++process) {
        const ProcId id(process);
        const bool takes_part = process < shape.n_pes || shape.held_by(state, id) != kNoPe || id == state.witness;
        if (takes_part && !contains(dead, id)) {
            result.push_back(id);
        }
    }
    std::stable_sort(result.begin(), result.end(),
                     [&](ProcId a, ProcId b) { return shape.turn_of(state, a) < shape.turn_of(state, b); });
    return result;
}

// Everything that has to hold for one tree.
void check(const JobShape& shape, const JobState& state, const std::vector<Death>& dead, std::int32_t fan_out) {
    const Tree tree(shape, state, dead, fan_out);
    const std::vector<ProcId> expected = participants(shape, state, dead);
    ASSERT_EQ(tree.size(), static_cast<std::int32_t>(expected.size()));
    ASSERT_EQ(tree.root(), expected.empty() ? kNoProc : expected.front());
    std::set<ProcId> children;
    for (std::int32_t place = 0; place < tree.size(); ++place) {
        const ProcId process = expected[static_cast<std::size_t>(place)];
        ASSERT_EQ(tree.process_at(place), process);
        ASSERT_EQ(tree.place_of(process), place);
        const std::vector<ProcId> own = tree.children_of(process);
        ASSERT_LE(static_cast<std::int32_t>(own.size()), fan_out);
        for (const ProcId child : own) {
            ASSERT_EQ(tree.parent_of(child), process);
            ASSERT_TRUE(children.insert(child).second) << "two parents";
        }
    }
    ASSERT_EQ(children.size(), expected.empty() ? 0 : expected.size() - 1);
    for (std::int32_t process = -1; process <= shape.n_processes; ++process) {
        const bool is_in = std::find(expected.begin(), expected.end(), ProcId(process)) != expected.end();
        ASSERT_EQ(tree.place_of(ProcId(process)) >= 0, is_in) << process;
    }
}

TEST(Tree, IsATreeWhoeverIsDead) {
    std::mt19937 random(7);
    const auto below = [&](std::int32_t n) { return static_cast<std::int32_t>(random() % static_cast<unsigned>(n)); };
    for (int round = 0; round < 2000; ++round) {
        const std::int32_t n_pes = 1 + below(40);
        const JobShape shape{.n_pes = n_pes, .n_processes = n_pes + below(8)};
        JobState state;
        std::vector<Death> dead;
        std::int32_t spare = n_pes;
        for (std::int32_t process = 0; process < n_pes; ++process) {
            if (below(5) != 0) {
                continue;
            }
            insert_sorted(dead, death_of(process));
            if (spare < shape.n_processes && below(2) == 0) {
                const std::int32_t turn = (below(2) == 0 ? 100 + 2 * process : 1000 - process);
                state.replacements.push_back({PeId(process), ProcId(spare), turn});
                if (below(4) == 0) {
                    insert_sorted(dead, death_of(spare));
                }
                ++spare;
            }
        }
        if (n_pes == 1 && spare < shape.n_processes) {
            state.witness = ProcId(spare);
        }
        check(shape, state, dead, 1 + below(8));
    }
}

TEST(Tree, DepthIsLogarithmic) {
    const JobShape shape{.n_pes = 1'000'000, .n_processes = 1'000'000};
    const Tree tree(shape, {}, {}, 4);
    int depth = 0;
    for (ProcId process(999'999); process != tree.root(); process = tree.parent_of(process)) {
        ++depth;
    }
    EXPECT_EQ(depth, 10);
}

TEST(Tree, LeadershipMovesOnToHigherTurnsOnly) {
    const JobShape shape{.n_pes = 2, .n_processes = 5};
    JobState state;
    std::vector<Death> dead{death_of(0)};
    EXPECT_EQ(Tree(shape, state, dead, 4).root(), ProcId(1));
    state.replacements = {{PeId(0), ProcId(4)}};
    EXPECT_EQ(Tree(shape, state, dead, 4).root(), ProcId(1));
    // Process 3 takes over when 4 has taken part already, and may have led.
    insert_sorted(dead, death_of(1));
    EXPECT_EQ(Tree(shape, state, dead, 4).root(), ProcId(4));
    state.replacements.push_back({PeId(1), ProcId(3), 5});
    const Tree tree(shape, state, dead, 4);
    EXPECT_EQ(tree.root(), ProcId(4));
    EXPECT_EQ(tree.process_at(1), ProcId(3));
}

TEST(Tree, WhoIsDeadOrHoldsNothingHasNoPlace) {
    const JobShape shape{.n_pes = 3, .n_processes = 5};
    const std::vector<Death> dead{{ProcId(1), {FailureKind::signal, 9}, true}};
    const Tree tree(shape, {}, dead, 2);
    EXPECT_EQ(tree.size(), 2);
    EXPECT_LT(tree.place_of(ProcId(1)), 0);
    EXPECT_LT(tree.place_of(ProcId(4)), 0);
    EXPECT_LT(tree.place_of(kNoProc), 0);
    EXPECT_EQ(tree.place_of(ProcId(2)), 1);
}

}  // namespace
}  // namespace sft
