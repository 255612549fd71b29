// The conversation of the guardian with an agent over one connection after the other, and when either gives up the
// other.

#include "tools/oshrun/agent_session.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "tools/oshrun/host_judge.hpp"

namespace sft::tools {
namespace {

struct Talk {
    Session a;
    Session b;

    Talk() {
        auto [first, second] = connection();
        a = Session(std::move(first));
        b = Session(std::move(second));
    }
    static std::pair<FrameStream, FrameStream> connection() {
        int ends[2] = {-1, -1};
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        return {FrameStream(Fd(ends[0])), FrameStream(Fd(ends[1]))};
    }
    void connect_again() {
        auto [first, second] = connection();
        const std::uint64_t taken_by_a = a.taken();
        const std::uint64_t taken_by_b = b.taken();
        a.resume(std::move(first), taken_by_b);
        b.resume(std::move(second), taken_by_a);
    }
    static std::vector<std::string> hear(Session& session) {
        std::vector<std::string> heard;
        static_cast<void>(session.receive());
        while (const auto frame = session.next()) {
            if (frame->kind != FrameKind::alive) {
                heard.push_back(frame->payload);
            }
        }
        return heard;
    }
};

using Words = std::vector<std::string>;

TEST(AgentSession, WhatWasLostWithAConnectionComesWithTheNextOneAndNothingTwice) {
    Talk talk;
    talk.a.send(FrameKind::remark, "one");
    EXPECT_EQ(Talk::hear(talk.b), Words({"one"}));
    talk.a.send(FrameKind::remark, "two");  // under way when the connection breaks
    talk.a.hang_up();
    talk.b.hang_up();
    talk.a.send(FrameKind::remark, "three");
    talk.b.send(FrameKind::remark, "back");
    talk.connect_again();
    talk.a.send(FrameKind::remark, "four");
    EXPECT_EQ(Talk::hear(talk.b), Words({"two", "three", "four"}));
    EXPECT_EQ(Talk::hear(talk.a), Words({"back"}));
    EXPECT_FALSE(talk.a.is_broken() || talk.b.is_broken());
}

// The number that was told when the connection was made may be old: more has come over the one before since.
TEST(AgentSession, FramesThatAreThereAlreadyAreDropped) {
    Talk talk;
    talk.a.send(FrameKind::remark, "one");
    EXPECT_EQ(Talk::hear(talk.b), Words({"one"}));
    auto [first, second] = Talk::connection();
    talk.b.resume(std::move(second), 0);
    talk.a.resume(std::move(first), 0);
    talk.a.send(FrameKind::remark, "two");
    EXPECT_EQ(Talk::hear(talk.b), Words({"two"}));
}

TEST(AgentSession, ConfirmedFramesAreNotKept) {
    Talk talk;
    const std::string large(1000, 'x');
    for (int i = 0; i < 10; ++i) {
        talk.a.send(FrameKind::output, large);
    }
    EXPECT_EQ(talk.a.bytes_kept(), 10 * large.size());
    EXPECT_EQ(Talk::hear(talk.b).size(), 10U);
    talk.b.beat();
    EXPECT_TRUE(Talk::hear(talk.a).empty());
    EXPECT_EQ(talk.a.bytes_kept(), 0U);
    talk.connect_again();
    EXPECT_TRUE(Talk::hear(talk.b).empty());
}

TEST(AgentSession, AGapIsNoConversation) {
    auto [first, second] = Talk::connection();
    Session session(std::move(second));
    first.send(FrameKind::remark, std::string_view("two"), 2);
    EXPECT_TRUE(Talk::hear(session).empty());
    EXPECT_TRUE(session.is_broken());
    auto [third, fourth] = Talk::connection();
    Session other(std::move(fourth));
    third.send(FrameKind::alive, AliveFrame{1});  // confirms what was never sent
    EXPECT_TRUE(Talk::hear(other).empty());
    EXPECT_TRUE(other.is_broken());
}

constexpr std::int64_t kBound = 2'000'000'000;

TEST(HostJudge, TheJobJudgesAndTheGuardianAloneOnlyMuchLater) {
    EXPECT_EQ(judge_host({.silence_ns = kBound / 2, .is_agreed_lost = true}, kBound), HostVerdict::stays);
    EXPECT_EQ(judge_host({.silence_ns = 2 * kBound}, kBound), HostVerdict::stays) << "nobody has said that it is lost";
    EXPECT_EQ(judge_host({.silence_ns = kBound + 1, .is_agreed_lost = true}, kBound), HostVerdict::lost_by_agreement);
    EXPECT_EQ(judge_host({.silence_ns = kBoundsUntilAlone * kBound + 1}, kBound), HostVerdict::lost_by_silence);
    EXPECT_EQ(judge_host({.silence_ns = 0, .is_agreed_lost = true}, kBound), HostVerdict::stays)
        << "what runs there is ended by its agent";
}

TEST(HostJudge, WithoutABoundOnlyAnEndThatLastsCounts) {
    EXPECT_EQ(judge_host({.silence_ns = 100 * kBound}, 0), HostVerdict::stays);
    EXPECT_EQ(judge_host({.silence_ns = 100 * kBound, .is_connected = false}, 0), HostVerdict::lost_by_silence);
    EXPECT_FALSE(is_guardian_lost(100 * kBound, true, 0));
    EXPECT_TRUE(is_guardian_lost(100 * kBound, false, 0));
}

// Else a host would end what the guardian still counts on.
TEST(HostJudge, AHostGivesUpItsGuardianLaterThanThatOneIt) {
    for (std::int64_t silence = 0; silence < 5 * kBound; silence += kBound / 64) {
        if (is_guardian_lost(silence, true, kBound)) {
            EXPECT_NE(judge_host({.silence_ns = silence}, kBound), HostVerdict::stays);
        }
    }
    EXPECT_TRUE(is_guardian_lost(5 * kBound, true, kBound));
}

}  // namespace
}  // namespace sft::tools
