// The service thread's part in watching other nodes: what has been heard goes into NodeWatch, its questions go out, and
// nodes that have fallen silent are reported.
//
// Fault model and traffic: node_watch.hpp. A process whose port refuses connections has been reported as certainly dead
// before (transport/mail/remote_mail.hpp), because the questions go through the mailbox.
//
// Threads: the service thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "recovery/coordinator.hpp"
#include "recovery/detection/heartbeat.hpp"
#include "recovery/detection/lease.hpp"
#include "recovery/detection/node_watch.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class NodeGuard {
public:
    struct Options {
        Coordinator* coordinator = nullptr;
        ControlSegment* control = nullptr;
        Heartbeat* heartbeat = nullptr;  // its own
        Lease* lease = nullptr;
        ProcId self = kNoProc;
        std::int64_t bound_ns = 0;  // 0: no node is ever lost
    };
    NodeGuard(const Options& options, std::int64_t now_ns);

    // How long poll() may sleep before the next tick; -1: as long as it likes.
    [[nodiscard]] int timeout_ms(std::int64_t now_ns) const noexcept;
    // Who is lost now. If it is this node that has to go, it gives way. Does little before its time.
    [[nodiscard]] std::vector<Death> tick(std::int64_t now_ns);

private:
    void listen(std::int64_t now_ns);
    void learn(std::int64_t now_ns);

    Coordinator* coordinator_;
    ControlSegment* control_;
    Heartbeat* heartbeat_;
    Lease* lease_;
    bool is_on_;
    NodeWatch watch_;
    std::int64_t ticked_ns_;
    std::uint64_t index_ = 0;  // what the watch knows: of the value
    std::size_t n_dead_ = 0;
    bool has_learnt_ = false;
};

}  // namespace sft
