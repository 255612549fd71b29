// A lease proves that everybody who watches this node has heard it within the bound. Only a leaseholder takes a port
// that refuses connections for a certain death (node_watch.hpp, "Lease").
//
// The speaker of a node renews it in its slot of the control segment, where the others of the node read it. The slots
// of processes of other nodes are never written in this node's segment.
//
// Threads: begin() and renew() by one at a time, is_held() by any.
#pragma once

#include <cstdint>

#include "recovery/detection/node_watch.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class Lease {
public:
    struct Options {
        ControlSegment* control = nullptr;
        ProcId self = kNoProc;
        std::int64_t bound_ns = 0;  // silence that makes a node lost; 0: none ever is
        bool is_one_node = true;    // there is nobody to be cut off from
    };
    explicit Lease(const Options& options) noexcept : options_(options) {}

    // Nobody has watched this process before. One that joins does not know who watches its node: it begins without.
    void begin(std::int64_t now_ns, bool joins) noexcept { renew(joins ? NodeWatch::kNever : now_ns); }
    void renew(std::int64_t lease_ns) noexcept { options_.control->slot(options_.self).lease_ns.store(lease_ns); }
    [[nodiscard]] bool is_held(std::int64_t now_ns) const;

private:
    Options options_;
};

}  // namespace sft
