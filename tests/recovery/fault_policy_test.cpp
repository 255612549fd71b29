#include "recovery/fault_policy.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "base/clock.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

// The life of the policy of each test is another one, as t_on_fault outlives them.
std::uint32_t g_life = 0;

class FaultPolicyTest : public ::testing::Test {
protected:
    void open(FaultAction action = FaultAction::jump) {
        policy_.open({.action = action,
                      .life = ++g_life,
                      .me = [] { return PeId(2); },
                      .has_joined = [this] { return has_joined_; },
                      .agree =
                          [this] {
                              ++n_agreed_;
                              policy_.set_failed({{PeId(1), {FailureKind::signal, 9}}});
                              return agrees_;
                          },
                      .end_job =
                          [](const std::string& line) {
                              say("%s", line.c_str());
                              ::_exit(kExitError);
                          }});
    }
    // As shmem_restart_pes does.
    void recover() {
        policy_.restart_decided();
        policy_.set_failed({});
        policy_.watch().clear();
    }
    static void handle(const char*, void* context) {
        auto& test = *static_cast<FaultPolicyTest*>(context);
        ++test.n_handled_;
        static_cast<void>(test.policy_.meet("shmem_quiet"));
    }

    FaultPolicy policy_;
    bool has_joined_ = true;
    bool agrees_ = true;
    int n_agreed_ = 0;
    int n_handled_ = 0;
};

TEST_F(FaultPolicyTest, ChoicesThatNeedAHandler) {
    open();
    EXPECT_FALSE(policy_.choose(FaultAction::call, nullptr, nullptr));
    EXPECT_FALSE(policy_.choose(FaultAction::leave, nullptr, nullptr));
    EXPECT_FALSE(policy_.choose(static_cast<FaultAction>(17), &handle, this));
    EXPECT_TRUE(policy_.choose(FaultAction::abort, nullptr, nullptr));
}

TEST_F(FaultPolicyTest, GoingOnReturns) {
    open(FaultAction::go_on);
    const WayOut way_out = policy_.meet("shmem_put");
    EXPECT_TRUE(way_out.point == nullptr && way_out.thrower == nullptr);
    EXPECT_EQ(n_agreed_, 0);
}

TEST_F(FaultPolicyTest, JumpsOncePerFaultAndOnlyWhenAllAgree) {
    open();
    EXPECT_EQ(policy_.meet("shmem_put").point, nullptr) << "no rollback point";
    jmp_buf* const point = policy_.rollback_point();
    agrees_ = false;
    EXPECT_EQ(policy_.meet("shmem_put").point, nullptr) << "old news";
    agrees_ = true;
    EXPECT_EQ(policy_.meet("shmem_put").point, point);
    EXPECT_EQ(policy_.failed().size(), 1U);
    EXPECT_EQ(policy_.meet("shmem_put").point, nullptr) << "between the jump and the restart";
    recover();
    EXPECT_TRUE(policy_.failed().empty());
    EXPECT_EQ(policy_.meet("shmem_put").point, point);
}

TEST_F(FaultPolicyTest, PointOfAnotherThreadOrLifeIsNone) {
    open();
    static_cast<void>(policy_.rollback_point());
    testing::internal::CaptureStderr();
    std::thread([&] { EXPECT_EQ(policy_.meet("shmem_get").point, nullptr); }).join();
    std::thread([&] { EXPECT_EQ(policy_.meet("shmem_get").point, nullptr); }).join();
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_EQ(told.find("PE 2: shmem_get has met a fault in a thread that has passed no rollback point"),
              told.rfind("PE 2: shmem_get has met a fault"))
        << "told once: " << told;
    EXPECT_NE(told, "");
    open();
    EXPECT_EQ(policy_.meet("shmem_put").point, nullptr);
}

TEST_F(FaultPolicyTest, Throws) {
    open();
    ASSERT_TRUE(policy_.choose(FaultAction::leave, &handle, this));
    const WayOut way_out = policy_.meet("shmem_put");
    EXPECT_EQ(way_out.thrower, &handle);
    EXPECT_EQ(way_out.context, this);
    EXPECT_EQ(way_out.point, nullptr);
    EXPECT_EQ(policy_.meet("shmem_put").thrower, nullptr) << "once";
}

TEST_F(FaultPolicyTest, CallsTheHandlerNotWithinItself) {
    open();
    ASSERT_TRUE(policy_.choose(FaultAction::call, &handle, this));
    static_cast<void>(policy_.meet("shmem_put"));
    EXPECT_EQ(n_handled_, 1);
    has_joined_ = false;
    static_cast<void>(policy_.meet("shmem_put"));
    EXPECT_EQ(n_handled_, 1);
}

TEST_F(FaultPolicyTest, AbortNamesWhoHasFailedAndWhere) {
    open(FaultAction::abort);
    has_joined_ = false;
    static_cast<void>(policy_.meet("shmem_put"));  // a substitute ends nothing
    has_joined_ = true;
    EXPECT_EXIT(static_cast<void>(policy_.meet("shmem_put")), testing::ExitedWithCode(kExitError),
                "PE 1 failed \\(killed by signal 9.*SHMEM_FT_ON_FAULT=abort.*PE 2 met it in shmem_put");
}

TEST_F(FaultPolicyTest, SubstituteRecoversAtItsPointWhereSurvivorsJumpTo) {
    open();
    EXPECT_FALSE(policy_.must_recover());
    has_joined_ = false;
    jmp_buf* const point = policy_.rollback_point();
    EXPECT_TRUE(policy_.must_recover());
    EXPECT_EQ(policy_.meet("shmem_put").point, nullptr) << "as after a jump";
    recover();
    EXPECT_EQ(policy_.meet("shmem_put").point, point);
    ASSERT_TRUE(policy_.choose(FaultAction::go_on, nullptr, nullptr));
    EXPECT_FALSE(policy_.must_recover());
}

TEST_F(FaultPolicyTest, SaysWhereItStandsWhenNobodyRecovers) {
    open(FaultAction::go_on);
    EXPECT_FALSE(policy_.is_pending_for_long(true, 1));
    static_cast<void>(policy_.meet("shmem_put"));
    EXPECT_TRUE(policy_.is_pending_for_long(true, 1 + kPendingToldNs));
    EXPECT_EQ(
        policy_.pending_line(PeId(1)),
        "PE 2: PE 1 has failed and nobody has recovered for 10 s: it is in its own code; 1 call has met the fault "
        "since, the last one in shmem_put");
    has_joined_ = false;
    EXPECT_NE(policy_.pending_line(std::nullopt).find("PE 2: a PE has failed and nobody"), std::string::npos);
    EXPECT_NE(policy_.pending_line(std::nullopt).find("a substitute that has not joined yet"), std::string::npos);
}

TEST(FaultKnown, AFaultOrADeadHolder) {
    const JobShape shape{.n_pes = 2, .n_processes = 3};
    JobState state;
    std::vector<Death> dead{{ProcId(2), {FailureKind::died, 0}, true}};
    EXPECT_FALSE(is_fault_known(shape, state, dead)) << "a spare";
    dead.insert(dead.begin(), {ProcId(1), {FailureKind::died, 0}, true});
    EXPECT_TRUE(is_fault_known(shape, state, dead));
    EXPECT_EQ(first_dead_pe(shape, state, dead), PeId(1));
    state.replacements = {{PeId(1), ProcId(2)}};
    dead.pop_back();
    EXPECT_FALSE(is_fault_known(shape, state, dead)) << "it has been replaced";
    state.stage = Stage::faulted;
    EXPECT_TRUE(is_fault_known(shape, state, {}));
}

}  // namespace
}  // namespace sft
