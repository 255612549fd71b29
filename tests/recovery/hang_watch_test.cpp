// Who is looked at by whom, and killed; the time is made up.
#include "recovery/detection/hang_watch.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "base/clock.hpp"
#include "base/node_map.hpp"
#include "recovery/detection/heartbeat.hpp"
#include "tests/result.hpp"

namespace sft {
namespace {

constexpr std::int32_t kProcesses = 4;

// Two nodes of two processes each; this is the segment of the second one.
class HangWatchTest : public ::testing::Test {
protected:
    HangWatchTest() {
        EXPECT_TRUE(good(control_.create(2, kProcesses)));
        control_.header().node = 1;
        control_.header().n_nodes = 2;
        for (const std::int32_t process : {2, 3}) {
            show(process);
        }
    }
    void show(std::int32_t process) const {
        ProcessSlot& slot = control_.slot(ProcId(process));
        slot.pid = ::getpid();
        slot.heartbeat.store(1);
        slot.state.store(ProcessState::ready);
    }
    // Whom `self` has killed after ten bounds in which nobody else has shown a sign of life.
    [[nodiscard]] std::set<std::int32_t> killed_by(std::int32_t self) {
        Heartbeat heartbeat(control_.slot(ProcId(self)));
        std::set<std::int32_t> killed;
        std::int64_t now_ns = kNsPerSecond;
        HangWatch watch({.control = &control_,
                         .heartbeat = &heartbeat,
                         .self = ProcId(self),
                         .bound_ns = kNsPerSecond,
                         .nodes = &nodes_},
                        now_ns);
        for (int i = 0; i < 100; ++i) {
            now_ns += kNsPerSecond / 5;
            watch.tick({}, now_ns, [&](ProcId process) { killed.insert(process.value()); });
        }
        return killed;
    }

    ControlSegment control_;
    const NodeMap nodes_{{NodeId(0), NodeId(0), NodeId(1), NodeId(1)}};
};

TEST_F(HangWatchTest, WatchesThoseOfItsNode) { EXPECT_EQ(killed_by(2), (std::set<std::int32_t>{3})); }

// The map of nodes ends with those that the job has started with.
TEST_F(HangWatchTest, WhoHasJoinedWatchesThoseOfItsNodeToo) {
    show(kProcesses);
    EXPECT_EQ(killed_by(kProcesses), (std::set<std::int32_t>{2, 3}));
    EXPECT_EQ(killed_by(3), (std::set<std::int32_t>{2, kProcesses}));
}

}  // namespace
}  // namespace sft
