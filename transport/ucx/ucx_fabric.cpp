#include "transport/ucx/ucx_fabric.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "transport/net/signed_ways.hpp"

namespace sft {

// ---- peers ----

UcxFabric::Peer* UcxFabric::peer_of(ProcId process) {
    return process.value() >= 0 && process.index() < peers_.size() ? &peers_[process.index()] : nullptr;
}

void UcxFabric::introduce(ProcId process, Bytes address) {
    if (Peer* peer = peer_of(process)) {
        const Entrance entrance = unpack(address);
        if (options_.is_signed) {
            sign_ways_to(entrance.hosts, entrance.ports);
        }
        peer->address.assign(address.begin(), address.end());
    }
}

bool UcxFabric::admit(std::span<const Bytes> addresses) {
    std::vector<HostAddress> admitted;
    for (Bytes address : addresses) {
        const std::vector<HostAddress> some = unpack(address).hosts;
        admitted.insert(admitted.end(), some.begin(), some.end());
    }
    return !listeners_->empty() && listeners_->admit(std::move(admitted));
}

bool UcxFabric::connect(Peer& peer) {
    SFT_ASSERT(peer.endpoint == nullptr && !peer.address.empty() && !peer.is_retired);
    ucp_ep_params_t parameters{};
    parameters.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    parameters.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
    parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    parameters.err_handler.cb = &on_failure;
    parameters.err_handler.arg = &peer;
    if (::ucp_ep_create(out_, &parameters, &peer.endpoint) != UCS_OK) {
        peer.endpoint = nullptr;
        peer.is_broken = true;
        return false;
    }
    return true;
}

void UcxFabric::on_failure(void* peer_pointer, ucp_ep_h endpoint, ucs_status_t /*status*/) {
    auto* peer = static_cast<Peer*>(peer_pointer);
    if (peer->endpoint == endpoint) {
        peer->fabric->note_broken(*peer);
    }
}

// Closed, and told, outside of UCX's callbacks.
void UcxFabric::note_broken(Peer& peer) {
    if (!std::exchange(peer.is_broken, true)) {
        broken_.push_back(&peer);
    }
}

void UcxFabric::close_endpoint(ucp_ep_h endpoint, unsigned flags) {
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = flags;
    void* request = ::ucp_ep_close_nbx(endpoint, &parameters);
    if (UCS_PTR_IS_PTR(request)) {
        closing_.push_back(request);
    }
    for (Receive& receive : receives_) {
        if (receive.endpoint == endpoint) {
            receive.endpoint = nullptr;
        }
    }
}

void UcxFabric::close_broken() {
    while (!broken_.empty()) {
        Peer* peer = broken_.back();
        broken_.pop_back();
        if (peer->endpoint != nullptr) {
            close_endpoint(std::exchange(peer->endpoint, nullptr), UCP_EP_CLOSE_FLAG_FORCE);
        }
        if (options_.receiver != nullptr && !peer->is_retired) {
            options_.receiver->broken(ProcId(static_cast<std::int32_t>(peer - peers_.data())));
        }
    }
}

void UcxFabric::reconnect(ProcId process) {
    Peer* const peer = peer_of(process);
    if (peer == nullptr || peer->is_retired) {
        return;
    }
    std::erase(broken_, peer);
    peer->is_broken = false;
    if (peer->endpoint != nullptr) {
        close_endpoint(std::exchange(peer->endpoint, nullptr), UCP_EP_CLOSE_FLAG_FORCE);
    }
}

void UcxFabric::reap() {
    std::erase_if(closing_, [](void* request) {
        if (::ucp_request_check_status(request) == UCS_INPROGRESS) {
            return false;
        }
        ::ucp_request_free(request);
        return true;
    });
}

void UcxFabric::retire_peer(ProcId process) {
    Peer* peer = peer_of(process);
    if (peer == nullptr || peer->is_retired) {
        return;
    }
    peer->is_retired = true;
    if (peer->endpoint != nullptr) {
        close_endpoint(std::exchange(peer->endpoint, nullptr), UCP_EP_CLOSE_FLAG_FORCE);
    }
    close_incoming(process);
    while (peer->n_sends != 0 || is_receiving_from(process)) {
        progress_workers();
    }
    SFT_ASSERT(peer->endpoint == nullptr);
    reap();
}

// The endpoints that data of `process` comes by, if they are not the one by which it is sent to: UCX makes its own when
// it has heard of a process before this side has sent anything.
void UcxFabric::close_incoming(ProcId process) {
    for (;;) {
        const auto receive = std::find_if(receives_.begin(), receives_.end(), [process](const Receive& candidate) {
            return candidate.from == process && candidate.endpoint != nullptr;
        });
        if (receive == receives_.end()) {
            return;
        }
        const ucp_ep_h endpoint = receive->endpoint;
        for (Peer& peer : peers_) {
            if (peer.endpoint == endpoint) {  // it has claimed to be another one
                peer.endpoint = nullptr;
                peer.is_broken = true;
            }
        }
        close_endpoint(endpoint, UCP_EP_CLOSE_FLAG_FORCE);
    }
}

// ---- sending ----

std::size_t UcxFabric::eager_bytes() const noexcept { return eager_bytes_; }

std::size_t UcxFabric::piece_bytes() const noexcept { return is_tcp_only_ ? eager_bytes_ : Fabric::piece_bytes(); }

UcxFabric::Send* UcxFabric::take_send() {
    if (free_sends_.empty()) {
        sends_.push_back(std::make_unique<Send>());
        sends_.back()->fabric = this;
        free_sends_.push_back(sends_.back().get());
    }
    Send* send = free_sends_.back();
    SFT_ASSERT(send->fabric == this && free_sends_.size() <= sends_.size());
    free_sends_.pop_back();
    return send;
}

Fabric::Sent UcxFabric::send(ProcId to, Bytes head, Bytes payload, std::uint64_t ticket) {
    Peer* peer = peer_of(to);
    if (peer == nullptr || peer->is_retired || peer->is_broken || head.size() > kFabricHeadBytes ||
        (peer->endpoint == nullptr && (peer->address.empty() || !connect(*peer)))) {
        return Sent::gone;
    }
    if (options_.is_in_session && is_tcp_only_) {
        const Sent sent = send_at_once(*peer, head, payload);
        if (sent != Sent::full || payload.size() <= bytes_at_once_ || send_at_once(*peer, {}, {}) == Sent::full) {
            return sent;
        }
        // Only this size is refused: the user has made UCX's segments smaller.
    }
    return hand_over(*peer, head, payload, ticket);
}

// A message without a head is dropped where it arrives.
Fabric::Sent UcxFabric::send_at_once(Peer& peer, Bytes head, Bytes payload) {
    std::array<std::byte, sizeof(Prefix) + kFabricHeadBytes> header;
    SFT_ASSERT(head.size() <= kFabricHeadBytes && peer.endpoint != nullptr);
    const Prefix prefix{.from = options_.self.value(), .head_bytes = static_cast<std::uint32_t>(head.size())};
    std::memcpy(header.data(), &prefix, sizeof prefix);
    std::copy(head.begin(), head.end(), header.begin() + sizeof prefix);
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
    parameters.memory_type = UCS_MEMORY_TYPE_HOST;
    parameters.flags = UCP_AM_SEND_FLAG_EAGER;
    const std::size_t header_bytes = head.empty() ? 1 : sizeof prefix + head.size();
    const ucs_status_ptr_t result = ::ucp_am_send_nbx(peer.endpoint, kUcxMessageId, header.data(), header_bytes,
                                                      payload.data(), payload.size(), &parameters);
    if (result == nullptr) {
        bytes_at_once_ = std::max(bytes_at_once_, payload.size());
        return Sent::done;
    }
    if (UCS_PTR_STATUS(result) == UCS_ERR_NO_RESOURCE) {
        return Sent::full;
    }
    note_broken(peer);
    return Sent::gone;
}

Fabric::Sent UcxFabric::hand_over(Peer& peer, Bytes head, Bytes payload, std::uint64_t ticket) {
    SFT_ASSERT(head.size() <= kFabricHeadBytes && peer.endpoint != nullptr);
    Send* send = take_send();
    send->peer = &peer;
    send->ticket = ticket;
    const Prefix prefix{.from = options_.self.value(), .head_bytes = static_cast<std::uint32_t>(head.size())};
    std::memcpy(send->header, &prefix, sizeof prefix);
    if (!head.empty()) {
        std::memcpy(send->header + sizeof prefix, head.data(), head.size());
    }
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                              UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    parameters.memory_type = UCS_MEMORY_TYPE_HOST;
    parameters.cb.send = &on_sent;
    parameters.user_data = send;
    // With the way back, by which the receiver can close the connection that large data comes by.
    parameters.flags =
        payload.size() <= eager_bytes_ ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV | UCP_AM_SEND_FLAG_REPLY;
    void* request = ::ucp_am_send_nbx(peer.endpoint, kUcxMessageId, send->header, sizeof prefix + head.size(),
                                      payload.data(), payload.size(), &parameters);
    if (UCS_PTR_IS_PTR(request)) {
        ++peer.n_sends;
        return Sent::pending;
    }
    free_sends_.push_back(send);
    if (request == nullptr) {
        return Sent::done;
    }
    note_broken(peer);
    return Sent::gone;
}

void UcxFabric::on_sent(void* request, ucs_status_t /*status*/, void* send_pointer) {
    auto* send = static_cast<Send*>(send_pointer);
    ::ucp_request_free(request);
    SFT_ASSERT(send->peer->n_sends != 0);
    --send->peer->n_sends;
    UcxFabric* fabric = send->fabric;
    const std::uint64_t ticket = send->ticket;
    fabric->free_sends_.push_back(send);
    if (fabric->options_.receiver != nullptr) {
        fabric->options_.receiver->sent(ticket);
    }
}

// ---- receiving ----

ucs_status_t UcxFabric::on_message(void* fabric_pointer, const void* header, std::size_t header_bytes, void* data,
                                   std::size_t bytes, const ucp_am_recv_param_t* parameters) {
    auto* fabric = static_cast<UcxFabric*>(fabric_pointer);
    Prefix prefix{};
    if (fabric->options_.receiver == nullptr || header_bytes < sizeof prefix) {
        return UCS_OK;
    }
    std::memcpy(&prefix, header, sizeof prefix);
    const Peer* peer = fabric->peer_of(ProcId(prefix.from));
    if (peer == nullptr || peer->is_retired || prefix.head_bytes > kFabricHeadBytes ||
        prefix.head_bytes != header_bytes - sizeof prefix) {
        return UCS_OK;
    }
    const Bytes head(static_cast<const std::byte*>(header) + sizeof prefix, prefix.head_bytes);
    if ((parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
        fabric->take_large(head, data, bytes, parameters);
    } else {
        fabric->options_.receiver->message(head, Bytes(static_cast<const std::byte*>(data), bytes));
    }
    return UCS_OK;
}

// A message that is not asked for is dropped by UCX when its callback returns, and its sender told that it has gone.
void UcxFabric::take_large(Bytes head, void* data, std::size_t bytes, const ucp_am_recv_param_t* parameters) {
    if ((parameters->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0 || parameters->reply_ep == nullptr) {
        return;  // of a stranger: it could not be stopped
    }
    const FabricReceiver::Place place = options_.receiver->place(head, bytes);
    if (place.address == nullptr) {
        return;
    }
    SFT_ASSERT(place.from != kNoProc);  // else retire_peer() would not find it
    receives_.push_front({.fabric = this,
                          .from = place.from,
                          .ticket = place.ticket,
                          .bytes = bytes,
                          .endpoint = parameters->reply_ep,
                          .self = {}});
    Receive& receive = receives_.front();
    receive.self = receives_.begin();
    std::size_t received = 0;
    ucp_request_param_t wanted{};
    wanted.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_RECV_INFO |
                          UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    wanted.memory_type = UCS_MEMORY_TYPE_HOST;
    wanted.cb.recv_am = &on_received;
    wanted.user_data = &receive;
    wanted.recv_info.length = &received;
    void* request = ::ucp_am_recv_data_nbx(worker_, data, place.address, bytes, &wanted);
    if (!UCS_PTR_IS_PTR(request)) {
        end_receive(receive, request == nullptr && received == bytes);
    }
}

void UcxFabric::on_received(void* request, ucs_status_t status, std::size_t bytes, void* receive_pointer) {
    auto* receive = static_cast<Receive*>(receive_pointer);
    ::ucp_request_free(request);
    receive->fabric->end_receive(*receive, status == UCS_OK && bytes == receive->bytes);
}

void UcxFabric::end_receive(Receive& receive, bool is_whole) {
    const std::uint64_t ticket = receive.ticket;
    SFT_ASSERT(!receives_.empty() && &*receive.self == &receive);
    receives_.erase(receive.self);
    if (options_.receiver != nullptr) {
        options_.receiver->arrived(ticket, is_whole);
    }
}

bool UcxFabric::is_receiving_from(ProcId process) const {
    return std::any_of(receives_.begin(), receives_.end(),
                       [process](const Receive& receive) { return receive.from == process; });
}

// ---- progress ----

bool UcxFabric::progress() {
    const bool is_busy = progress_workers();
    if (!broken_.empty()) {
        close_broken();
    }
    if (!closing_.empty()) {
        reap();
    }
    return is_busy;
}

bool UcxFabric::progress_workers() {
    unsigned n = ::ucp_worker_progress(worker_);
    if (out_ != worker_) {
        n += ::ucp_worker_progress(out_);
    }
    is_drained_ = n == 0;
    return n != 0;
}

// UCX hears of what comes by a socket once, and looks at sockets only for what it has heard of: it says that all is
// done while some of that has not been read. What is there is read when progress() finds nothing more.
bool UcxFabric::arm() {
    return is_drained_ && broken_.empty() && ::ucp_worker_arm(worker_) == UCS_OK &&
           (out_ == worker_ || ::ucp_worker_arm(out_) == UCS_OK);
}

}  // namespace sft
