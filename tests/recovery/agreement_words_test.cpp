// Words of readiness, seen by one process: when it writes its own, when it goes on by all, and when it does not.
#include <array>

#include "tests/recovery/agreement_tree.hpp"

namespace sft {
namespace {

class Words : public Tree6 {
public:
    [[nodiscard]] bool has_ready_words() const override { return true; }
    void write_ready_word(std::uint64_t word) override {
        EXPECT_GT(word, words_[self_.index()]);
        words_[self_.index()] = word;
    }
    [[nodiscard]] std::uint64_t ready_word_of(ProcId process) const override {
        EXPECT_GE(process, ProcId(0));
        return process.value() < 0 ? 0 : words_[process.index()];
    }
    void wake_for_words() override { ++n_woken_; }

protected:
    explicit Words(int self) : Tree6(self) {}

    std::array<std::uint64_t, 8> words_{};
    int n_woken_ = 0;

    [[nodiscard]] const JobState& state() const { return agreement_->decided(); }
    // The others are ready for what this process's value leads to.
    void others_are_ready() { others_are_ready(word_of(state())); }
    void others_are_ready(std::uint64_t word) {
        for (int process = 0; process < 6; ++process) {
            if (process != self_.value()) {
                words_[static_cast<std::size_t>(process)] = word;
            }
        }
    }
    [[nodiscard]] Message collect(Ballot ballot, std::vector<Death> dead) const {
        Message made = with(MessageKind::collect, state());
        made.ballot = ballot;
        made.deaths = std::move(dead);
        return made;
    }
};

class WordsOfLeader : public Words {
protected:
    WordsOfLeader() : Words(0) {}
    void all_report(Goal goal = Goal::none) {
        for (const int child : {1, 2, 3, 4}) {
            Message report = message(MessageKind::report);
            report.ready = {goal, false, 0};
            report.accepted = {Acceptance::Kind::by_ready, {}};
            receive(child, report);
        }
    }
    // What the leader proposes is accepted.
    void all_accept() {
        for (const int child : {1, 2, 3, 4}) {
            Message accepted = message(MessageKind::accepted);
            accepted.index = state().index + 1;
            receive(child, accepted);
        }
    }
};

class WordsOfLeaf : public Words {
protected:
    WordsOfLeaf() : Words(5) {}
};

TEST_F(WordsOfLeader, ACheckpointNeedsNoMessage) {
    for (const auto& [goal, stage] : {std::pair{Goal::arrive, Stage::replicating},
                                      std::pair{Goal::replicate, Stage::updating},
                                      {Goal::update, Stage::running}}) {
        ready(goal);
        EXPECT_EQ(words_[0], word_of(state()));
        EXPECT_EQ(agreement_->missing_words().size(), 5U);
        agreement_->look();  // not yet
        others_are_ready();
        agreement_->look();
        EXPECT_EQ(state().stage, stage);
    }
    EXPECT_EQ(state().version, Version(2));
    EXPECT_TRUE(sent_.empty());
    EXPECT_EQ(decided_.size(), 3U);
    EXPECT_EQ(n_woken_, 0);
}

TEST_F(WordsOfLeaf, TheLastOneWakesTheOthers) {
    EXPECT_EQ(agreement_->missing_words().size(), 6U);
    others_are_ready();
    ready(Goal::arrive);
    EXPECT_EQ(n_woken_, 1);
    EXPECT_EQ(state().stage, Stage::replicating);
    EXPECT_TRUE(sent_.empty());
}

TEST_F(WordsOfLeaf, WhoIsFurtherWasReady) {
    others_are_ready(word_of(state()) + 1);
    ready(Goal::arrive);
    EXPECT_EQ(state().stage, Stage::replicating);
    EXPECT_TRUE(agreement_->missing_words() == std::vector<ProcId>{ProcId(5)});
}

TEST_F(WordsOfLeaf, NobodyGoesOnByWordsInABallot) {
    ready(Goal::arrive);
    ASSERT_TRUE(agreement_->is_open());
    receive(1, collect({0, 1}, {certain(2)}));
    EXPECT_FALSE(agreement_->is_open());
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].second.kind, MessageKind::report);
    EXPECT_EQ(sent_[0].second.ready.goal, Goal::arrive);
    others_are_ready();
    agreement_->look();
    EXPECT_EQ(state().stage, Stage::running);
}

TEST_F(WordsOfLeaf, NobodyWritesItsWordInABallot) {
    receive(1, collect({0, 1}, {certain(2)}));
    EXPECT_EQ(told(MessageKind::report), List{1});
    ready(Goal::arrive);
    EXPECT_EQ(words_[5], 0U);
    EXPECT_EQ(told(MessageKind::ready), List{1});
}

TEST_F(WordsOfLeaf, ABallotAboutALaterValueClosesThatOne) {
    JobState later = rules_.after_ready(state(), Goal::arrive);
    Message message = collect({0, 1}, {certain(2)});
    message.index = later.index;
    message.state = later;
    receive(1, message);
    EXPECT_EQ(state(), later);
    EXPECT_FALSE(agreement_->is_open());
    receive(1, with(MessageKind::decide, rules_.after_deaths(later, std::vector{certain(2)}).value()));
    EXPECT_EQ(state().stage, Stage::faulted);
}

TEST_F(WordsOfLeaf, WhatWordsCannotSayTakesABallot) {
    ready(Goal::finish);
    EXPECT_EQ(words_[5], 0U);
    EXPECT_EQ(told(MessageKind::ballot_wanted), List{0});
}

TEST_F(WordsOfLeader, ABallotIsHeldForWhoWantsIt) {
    ready(Goal::finish);
    EXPECT_EQ(told(MessageKind::collect), (List{1, 2, 3, 4}));
    EXPECT_FALSE(agreement_->is_open());
    receive(5, message(MessageKind::ballot_wanted));
    EXPECT_TRUE(sent_.empty());  // it is under way
    all_report(Goal::finish);
    EXPECT_EQ(told(MessageKind::propose), (List{1, 2, 3, 4}));
    all_accept();
    EXPECT_EQ(state().stage, Stage::finished);
}

TEST_F(WordsOfLeader, ABallotIsHeldForOthersAtOnce) {
    receive(5, message(MessageKind::ballot_wanted));
    EXPECT_EQ(told(MessageKind::collect), (List{1, 2, 3, 4}));
    EXPECT_FALSE(agreement_->is_open());
}

TEST_F(WordsOfLeader, WhoWantsABallotMayBeFurther) {
    ready(Goal::arrive);
    others_are_ready();
    Message wanted = message(MessageKind::ballot_wanted);
    ++wanted.index;
    receive(5, wanted);
    EXPECT_TRUE(sent_.empty());
    agreement_->look();
    EXPECT_EQ(state().stage, Stage::replicating);
    EXPECT_EQ(told(MessageKind::collect), (List{1, 2, 3, 4}));
    EXPECT_FALSE(agreement_->is_open());
}

TEST_F(WordsOfLeader, WhoWantedABallotForAnEarlierValueWantsNone) {
    const Message wanted = message(MessageKind::ballot_wanted);
    ready(Goal::arrive);
    others_are_ready();
    agreement_->look();
    receive(5, wanted);
    EXPECT_TRUE(sent_.empty());
}

TEST_F(WordsOfLeader, NothingButABallotFollowsADeath) {
    ready(Goal::arrive);
    others_are_ready();
    agreement_->process_died(certain(2));
    EXPECT_EQ(told(MessageKind::collect), (List{1, 3, 4, 5}));
    agreement_->look();
    EXPECT_EQ(state().stage, Stage::running);
    // All words are there, so the dead one may have gone on by them, too.
    for (const int child : {1, 3, 4, 5}) {
        Message report = message(MessageKind::report);
        report.accepted = {Acceptance::Kind::by_ready, {}};
        receive(child, report);
    }
    EXPECT_EQ(state().stage, Stage::replicating);
    // And about the new value there has to be another one: the dead one will not write its word.
    EXPECT_FALSE(agreement_->is_open());
}

TEST_F(WordsOfLeader, WithoutAllWordsTheChoiceIsFree) {
    ready(Goal::arrive);
    others_are_ready();
    words_[2] = 0;
    agreement_->process_died(certain(2));
    static_cast<void>(told(MessageKind::collect));
    for (const int child : {1, 3, 4, 5}) {
        Message report = message(MessageKind::report);
        report.ready = {child == 5 ? Goal::none : Goal::arrive, false, 0};
        report.accepted = {Acceptance::Kind::by_ready, {}};
        receive(child, report);
    }
    ASSERT_EQ(told(MessageKind::propose), (List{1, 3, 4, 5}));
    for (const int child : {1, 3, 4, 5}) {
        Message accepted = message(MessageKind::accepted);
        accepted.index = state().index + 1;
        receive(child, accepted);
    }
    EXPECT_EQ(state().stage, Stage::faulted);
}

TEST_F(WordsOfLeader, ARequestToEndTakesABallot) {
    ready(Goal::arrive);
    agreement_->request_end(EndReason::requested, 3);
    EXPECT_EQ(told(MessageKind::collect), (List{1, 2, 3, 4}));
    all_report();
    ASSERT_EQ(told(MessageKind::propose), (List{1, 2, 3, 4}));
    all_accept();
    EXPECT_EQ(state().stage, Stage::ended);
}

TEST_F(WordsOfLeader, ASpareJoinsByABallotBetweenCheckpointsOnly) {
    ready(Goal::arrive);
    others_are_ready();
    agreement_->look();
    ASSERT_EQ(state().stage, Stage::replicating);
    Message join = message(MessageKind::join);
    join.node = NodeId(0);
    receive(8, join);
    EXPECT_TRUE(sent_.empty());
    for (const Goal goal : {Goal::replicate, Goal::update}) {
        ready(goal);
        others_are_ready();
        agreement_->look();
    }
    ASSERT_EQ(state().stage, Stage::running);
    EXPECT_EQ(told(MessageKind::collect), (List{1, 2, 3, 4}));
}

}  // namespace
}  // namespace sft
