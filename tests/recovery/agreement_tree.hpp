// One process in the tree of the agreement, with messages by hand.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "recovery/membership/agreement.hpp"
#include "recovery/rules.hpp"
#include "tests/recovery/deaths.hpp"

namespace sft {

inline Death certain(int process) { return death_of(process); }
inline Death uncertain(int process) { return {ProcId(process), {FailureKind::node_lost, 0}, false}; }

// A job of six PEs and two spares with version 1: process 0 has the children 1 to 4, process 1 has 5.
class Tree6 : public ::testing::Test, public AgreementWorld {
public:
    void send(ProcId to, const Message& message) override { sent_.emplace_back(to, message); }
    void decided(const JobState& /*before*/, const JobState& after) override { decided_.push_back(after); }
    void heard_of_death(const Death& death) override { heard_.push_back(death); }
    void must_stop(const Stop& why) override { stops_.push_back(why); }
    [[nodiscard]] bool has_lease() const override { return has_lease_; }

protected:
    explicit Tree6(int self) : self_(self) {
        JobState first = JobRules::first_state(shape_);
        first.version = Version(1);
        agreement_ = std::make_unique<Agreement>(Agreement::Options{
            .shape = shape_, .self = self_, .fan_out = 4, .rules = &rules_, .world = this, .first = first});
    }

    const JobShape shape_{.n_pes = 6, .n_processes = 8};
    const JobRules rules_{shape_};
    const ProcId self_;
    bool has_lease_ = true;
    std::vector<std::pair<ProcId, Message>> sent_;
    std::vector<JobState> decided_;
    std::vector<Death> heard_;
    std::vector<Stop> stops_;
    std::unique_ptr<Agreement> agreement_;

    [[nodiscard]] Message message(MessageKind kind) const {
        Message made;
        made.kind = kind;
        made.ballot = agreement_->ballot();
        made.index = agreement_->decided().index;
        return made;
    }
    [[nodiscard]] Message ready_message(Goal goal) const {
        Message made = message(MessageKind::ready);
        made.ready = {goal, false, 0};
        made.accepted = {Acceptance::Kind::by_ready, {}};
        return made;
    }
    [[nodiscard]] Message with(MessageKind kind, const JobState& state) const {
        Message made = message(kind);
        made.index = state.index;
        made.state = state;
        return made;
    }
    void ready(Goal goal) { agreement_->ready(agreement_->decided().index, goal); }
    void receive(int from, const Message& what) { agreement_->receive(ProcId(from), what); }
    // To whom messages of a kind have gone since the last question; other kinds are an error.
    std::vector<int> told(MessageKind kind) {
        std::vector<int> to;
        for (const auto& [process, sent] : std::exchange(sent_, {})) {
            EXPECT_EQ(sent.kind, kind) << name_of(sent.kind) << " to " << process.value();
            to.push_back(process.value());
        }
        return to;
    }
    using List = std::vector<int>;
};

}  // namespace sft
