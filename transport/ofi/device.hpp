// The objects of libfabric that one process needs: an endpoint that sends to and receives from any other one, its
// table of addresses, and a completion queue that can be slept on.
//
// Which provider: the first of a list that offers what is needed on the wanted interface, or whatever else does; the
// user's FI_PROVIDER decides what libfabric offers at all. Never one that only works inside a machine.
//
// Threads: as Fabric, the owner's lock.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "transport/fabric.hpp"

namespace sft::ofi {

struct Close {
    template <class Object>
    void operator()(Object* object) const noexcept {
        ::fi_close(&object->fid);
    }
};
template <class Object>
using Owned = std::unique_ptr<Object, Close>;

struct FreeInfo {
    void operator()(fi_info* info) const noexcept { ::fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

class Device {
public:
    [[nodiscard]] Result<> open(const Fabric::Options& options);
    // Nothing of the provider touches memory after this.
    void close() noexcept;
    // In the child of a fork, where everything belongs to the parent: closing would end the parent's connections.
    void abandon() noexcept;

    [[nodiscard]] fid_ep* endpoint() const noexcept { return endpoint_.get(); }
    [[nodiscard]] fid_cq* queue() const noexcept { return queue_.get(); }
    [[nodiscard]] int queue_fd() const noexcept { return queue_fd_; }
    // What a process is called in the sends to it. FI_ADDR_NOTAVAIL: this is no address.
    [[nodiscard]] fi_addr_t insert(Bytes address) noexcept;
    [[nodiscard]] const std::vector<std::byte>& address() const noexcept { return address_; }
    // Nothing waits in the queue: its descriptor may be slept on.
    [[nodiscard]] bool may_sleep() noexcept;
    // A packet may be sent from two places at once.
    [[nodiscard]] bool gathers() const noexcept { return info_->tx_attr->iov_limit >= 2; }
    [[nodiscard]] bool is_on_tcp() const noexcept;
    // "tcp;ofi_rxm over eth0"
    [[nodiscard]] std::string name() const;

private:
    [[nodiscard]] Result<> make_objects();
    [[nodiscard]] Result<> find_address();

    // In the order in which they are made: an object is closed before what it was made of.
    Info info_;
    Owned<fid_fabric> fabric_;
    Owned<fid_domain> domain_;
    Owned<fid_av> addresses_;
    Owned<fid_cq> queue_;
    Owned<fid_ep> endpoint_;
    int queue_fd_ = -1;
    std::vector<std::byte> address_;
};

}  // namespace sft::ofi
