// Each sentence that a user can meet at the end of a job or behind a recovery.
#include "recovery/explanations.hpp"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/recovery/deaths.hpp"

namespace sft {
namespace {

constexpr FailureReason kCrashed{FailureKind::signal, SIGSEGV};

// Four PEs on one node.
class Explanations : public ::testing::Test {
protected:
    [[nodiscard]] JobFacts facts() const {
        return {.shape = shape_, .state = state_, .dead = dead_, .node_name = [](NodeId node) {
                    return node == NodeId(0) ? "alpha" : "beta";
                }};
    }
    void lose(PeId pe, FailureReason reason = kKilled) {
        state_.failed.push_back({pe, reason});
        state_.lost.push_back(pe);
    }
    [[nodiscard]] std::string end_by(EndReason reason) {
        state_.stage = Stage::ended;
        state_.end_reason = reason;
        return explain_end(facts());
    }

    JobShape shape_{.n_pes = 4, .n_processes = 5};
    JobState state_;
    std::vector<Death> dead_;
};

TEST_F(Explanations, NamesInTheOrderOfTheListsEachOnce) {
    state_.failed = {{PeId(2), kKilled}, {PeId(0), {FailureKind::exited, 3}}};
    state_.further = {{PeId(2), kCrashed}, {PeId(1), kCrashed}};
    const std::vector<PeId> all{PeId(0), PeId(1), PeId(2), PeId(3)};
    EXPECT_EQ(name_failed(state_, all), "PE 2 failed (" + describe(kKilled) + "), PE 0 failed (" +
                                            describe({FailureKind::exited, 3}) + "), PE 1 failed (" +
                                            describe(kCrashed) + "), PE 3 failed");
    EXPECT_EQ(name_failed(state_, std::vector{PeId(3)}), "PE 3 failed");
    EXPECT_EQ(name_failed(state_, {}), "");
    EXPECT_EQ(failed_pes(state_), (std::vector<PeId>{PeId(0), PeId(1), PeId(2)}));
}

TEST_F(Explanations, OnlyFourAreNamed) {
    std::vector<PeId> pes;
    for (int pe = 0; pe < 6; ++pe) {
        pes.emplace_back(pe);
    }
    EXPECT_EQ(name_failed(state_, pes), "PE 0 failed, PE 1 failed, PE 2 failed, PE 3 failed, and 2 more failed");
}

TEST_F(Explanations, NothingCommitted) {
    EXPECT_EQ(end_by(EndReason::nothing_committed),
              "shmem_restart_pes was called before the first checkpoint was committed: there is nothing to go back to");
    lose(PeId(1));
    EXPECT_EQ(end_by(EndReason::nothing_committed),
              "PE 1 failed (" + describe(kKilled) +
                  ") before the first checkpoint was committed: there is nothing to go back to");
}

TEST_F(Explanations, CopiesLost) {
    lose(PeId(1));
    const std::string who = "PE 1 failed (" + describe(kKilled) + ")";
    EXPECT_EQ(end_by(EndReason::copies_lost),
              who + ", and so has the process that kept the copy of the last checkpoint: the data is lost");
    EXPECT_EQ(lost_copy(shape_, state_, PeId(1)),
              who + ", and so has the process that kept the copy of the last checkpoint");
    JobFacts without = facts();
    without.keeps_copies = false;
    EXPECT_EQ(explain_end(without),
              who + " and no copies are kept to go back to: set SHMEM_FT_BACKUP_MODE to single or double");
}

TEST_F(Explanations, AllCopiesLost) {
    const NodeMap nodes({NodeId(0), NodeId(1), NodeId(2), NodeId(3), NodeId(0)});
    shape_.nodes = &nodes;
    shape_.scheme = &partners(2);
    lose(PeId(1));
    EXPECT_EQ(end_by(EndReason::copies_lost),
              "PE 1 failed (" + describe(kKilled) +
                  "), and so have the 2 processes that kept copies of the last checkpoint: the data is lost");
}

TEST_F(Explanations, AllDied) {
    lose(PeId(3));
    EXPECT_EQ(end_by(EndReason::all_died),
              "PE 3 failed (" + describe(kKilled) + "): no process is left that holds a PE, and the data is lost");
}

TEST_F(Explanations, MismatchedCalls) {
    EXPECT_EQ(end_by(EndReason::mismatched_calls),
              "some PEs are in shmem_checkpoint_all and others in shmem_finalize: every PE must make the same "
              "collective calls in the same order");
}

TEST_F(Explanations, WhoeverHasEndedItSaysWhy) {
    EXPECT_EQ(end_by(EndReason::requested), "");
    EXPECT_EQ(end_by(EndReason::past_the_end), "");
}

TEST_F(Explanations, NoSpareWasThere) {
    shape_.n_processes = 4;
    lose(PeId(1));
    EXPECT_EQ(end_by(EndReason::no_spare), "PE 1 failed (" + describe(kKilled) +
                                               ") and there is no spare left to take over: start the job with more "
                                               "spares (oshrun --spares)");
}

TEST_F(Explanations, SparesDiedAlone) {
    dead_ = deaths_of({1, 4});
    EXPECT_EQ(lack_of_spares(facts()),
              " and there is no spare left to take over: of 1 spare 1 has died: start the job with more spares (oshrun "
              "--spares)");
    shape_.n_processes = 6;
    dead_ = deaths_of({1, 4, 5});
    EXPECT_EQ(lack_of_spares(facts()),
              " and there is no spare left to take over: of 2 spares 2 have died: start the job with more spares "
              "(oshrun --spares)");
}

TEST_F(Explanations, SparesDiedWithTheirNode) {
    const NodeMap nodes{{NodeId(0), NodeId(0), NodeId(1), NodeId(1), NodeId(0), NodeId(1), NodeId(1)}};
    shape_ = {.n_pes = 4, .n_processes = 7, .nodes = &nodes};
    dead_ = deaths_of({2, 3, 4, 5, 6});
    EXPECT_EQ(lack_of_spares(facts()),
              " and there is no spare left to take over: of 3 spares 2 were lost with beta, 1 has died: start more of "
              "them, or on hosts of their own (oshrun --spares, --spare-nodes)");
}

TEST_F(Explanations, SubstituteThatDiesLikeItsPredecessorIsInVain) {
    state_.failed = {{PeId(1), kCrashed}};
    state_.further = {{PeId(1), kCrashed}};
    state_.lost = {PeId(1)};
    state_.replacements = {{PeId(1), ProcId(4)}};
    EXPECT_TRUE(are_spares_in_vain(facts()));
    EXPECT_NE(lack_of_spares(facts()).find("as its own substitute, right after it had taken over"), std::string::npos);
}

TEST_F(Explanations, SparesAreNotInVain) {
    EXPECT_FALSE(are_spares_in_vain(facts())) << "nobody is lost";
    state_.lost = {PeId(1)};
    state_.further = {{PeId(1), kCrashed}};
    EXPECT_FALSE(are_spares_in_vain(facts())) << "it was no substitute";
    state_.replacements = {{PeId(1), ProcId(4)}};
    state_.further = {{PeId(1), kCrashed}, {PeId(1), kKilled}};
    EXPECT_FALSE(are_spares_in_vain(facts())) << "somebody has killed it";
    state_.further = {{PeId(1), kCrashed}};
    state_.protected_layout = state_.replacements;
    state_.version = Version(7);
    JobFacts later = facts();
    later.version_of_view = Version(5);
    EXPECT_FALSE(are_spares_in_vain(later)) << "it has gone on for more than a checkpoint";
    later.version_of_view = Version(6);
    EXPECT_TRUE(are_spares_in_vain(later));
}

TEST_F(Explanations, RecoveryOfOnePe) {
    state_.failed = {{PeId(1), kKilled}};
    state_.replacements = {{PeId(1), ProcId(4)}};
    state_.version = Version(3);
    EXPECT_EQ(recovery_line(facts(), {.lasted_ms = 12}),
              "PE 1 failed (" + describe(kKilled) +
                  "): process 4 took over after 12 ms, and the job goes on from checkpoint 3; it survives no further "
                  "loss of a PE now");
}

TEST_F(Explanations, RecoveryOverNodesNamesThem) {
    const NodeMap nodes{{NodeId(0), NodeId(0), NodeId(1), NodeId(1), NodeId(0), NodeId(1)}};
    shape_ = {.n_pes = 4, .n_processes = 6, .nodes = &nodes};
    state_.failed = {{PeId(1), kKilled}};
    state_.further = {{PeId(2), kKilled}};
    state_.replacements = {{PeId(1), ProcId(4)}, {PeId(2), ProcId(5)}};
    state_.version = Version(1);
    const std::string line = recovery_line(facts(), {.lasted_ms = 5, .losses_at_once = 1, .n_spares = 2});
    EXPECT_NE(line.find(": process 4 on alpha, process 5 on beta took over after 5 ms"), std::string::npos) << line;
    EXPECT_NE(line.find("it survives 1 further loss of a PE at one moment, 2 one after another"), std::string::npos)
        << line;
}

TEST_F(Explanations, RecoveryOfManyNamesSome) {
    shape_ = {.n_pes = 6, .n_processes = 12};
    for (int pe = 0; pe < 6; ++pe) {
        state_.failed.push_back({PeId(pe), kKilled});
        state_.replacements.push_back({PeId(pe), ProcId(6 + pe)});
    }
    const std::string line = recovery_line(facts(), {.losses_at_once = 2, .n_spares = 3});
    EXPECT_NE(line.find(", and 2 more failed: process 6, process 7, process 8, process 9 and others took over"),
              std::string::npos)
        << line;
    EXPECT_NE(line.find("2 further losses of a PE"), std::string::npos) << line;
}

}  // namespace
}  // namespace sft
