// The TCP connections of this process, as the kernel sees them: those of the mailbox and those that the libraries below
// the transports have made, which tell nobody what becomes of their bytes. Adapters that bypass the kernel (RDMA) have
// no such connections; they repeat in hardware, and report what does not get through.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/contact.hpp"

namespace sft {

struct TcpFlow {
    MailAddress peer;         // without the port
    std::uint64_t ports = 0;  // both, which tells connections to one address apart
    std::uint64_t acked_bytes = 0;
    std::uint32_t n_unacked = 0;   // segments under way
    std::uint32_t n_repeated = 0;  // times in a row, without an acknowledgement of any byte
    std::uint32_t segment_bytes = 0;
    std::uint64_t sent_bytes = 0;      // repetitions included
    std::uint64_t repeated_bytes = 0;  // of these
};

// All that are connected. Takes two calls of the kernel for each descriptor that is open.
[[nodiscard]] std::vector<TcpFlow> own_tcp_flows();

}  // namespace sft
