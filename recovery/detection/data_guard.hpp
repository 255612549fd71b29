// The service thread's part in watching whether data gets through to the other nodes: what the kernel says of this
// process's connections, and how the mailbox fares, goes into FlowWatch; what it finds is said in one line for each
// pair of nodes, and acted on.
//
// Why it is right: flow_watch.hpp.
//
// Threads: the service thread only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recovery/coordinator.hpp"
#include "recovery/detection/flow_watch.hpp"
#include "transport/flows.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class DataGuard {
public:
    struct Options {
        Coordinator* coordinator = nullptr;
        ControlSegment* control = nullptr;
        bool is_on = false;           // there are several nodes, which have addresses of their own
        std::int64_t bound_ns = 0;    // SHMEM_FT_STALL_TIMEOUT
        std::int64_t silence_ns = 0;  // SHMEM_FT_NODE_TIMEOUT
        std::string interface;
        std::vector<TcpFlow> (*flows)() = &own_tcp_flows;
    };
    DataGuard(Options options, std::int64_t now_ns);

    // How long poll() may sleep before the next tick; -1: as long as it likes.
    [[nodiscard]] int timeout_ms(std::int64_t now_ns) const noexcept;
    // True: this node has to leave the job; why has been said. Does little before its time.
    [[nodiscard]] bool tick(std::int64_t now_ns);

private:
    struct NodeEntry {
        NodeId node;
        MailAddress address;
        ProcId lowest = kNoProc;
    };
    void learn_nodes();
    [[nodiscard]] std::vector<NodeWeight> weigh() const;
    [[nodiscard]] std::vector<FlowSample> sample();
    void share(NodeId node, std::int64_t since_ns, std::int64_t now_ns) const;
    void hear(std::int64_t now_ns);
    [[nodiscard]] std::vector<Standstill> shared(std::int64_t now_ns) const;
    void tell_nodes(const FlowWatch::Round& round, std::int64_t now_ns) const;
    void say_to_user(const FlowWatch::Round& round) const;
    [[nodiscard]] ProcessSlot& slot_of(NodeId node) const;
    [[nodiscard]] const char* name_of(NodeId node) const;

    Options options_;
    std::int64_t bound_ns_;
    NodeId self_;
    FlowWatch watch_;
    std::int64_t ticked_ns_;
    std::vector<NodeEntry> nodes_;     // all that the job began on
    std::uint32_t segment_bytes_ = 0;  // of a connection that has repeated something
};

}  // namespace sft
