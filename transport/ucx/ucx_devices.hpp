// Which of the machine's devices UCX is to use, and which it uses.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

namespace sft {

// The list for UCX_NET_DEVICES that stands for a network interface: itself (TCP), and its adapter if that can do RDMA.
// What is no interface of this machine's is taken for the name of a device of UCX.
[[nodiscard]] std::string ucx_devices_of(const std::string& interface);

// Of what the context has opened, what leads to other nodes: "tcp over eth0". `all_but_loopback` is the list of its
// devices without the loopback, or empty if there is no other one or no loopback.
struct UcxResources {
    std::string text;
    std::string all_but_loopback;
    bool is_tcp_only = false;
};
[[nodiscard]] UcxResources ucx_resources(ucp_context_h context);

}  // namespace sft
