#include "shmem_ft/transport/ucx/ucx_fabric.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "shmem_ft/base/clock.hpp"
#include "shmem_ft/transport/net/environment_defaults.hpp"
#include "shmem_ft/transport/ucx/ucx_devices.hpp"

namespace sft {
namespace {

constexpr unsigned kMessageId = 1;

// With UCX's headers and ours one fragment, so that it can neither be divided nor overtaken: of the usual RDMA
// transports (8 KiB), and of TCP (kTcpSends). Whatever is larger is announced first, and over TCP the announcement
// and its answer wait behind the data that is on its way in both directions: two processes that send to each other get
// half of the link.
constexpr std::size_t kEagerBytes = 7936;
constexpr std::size_t kTcpEagerBytes = std::size_t{248} << 10;

// How long close() lets what is under way arrive.
constexpr std::int64_t kCloseNs = 1'000'000'000;

// Unless the user has set them.
constexpr const char* kNoSharedMemory = "UCX_TLS=^shm";  // what is another node here may be the same machine for UCX
constexpr const char* kScheme = "UCX_RNDV_SCHEME=get_zcopy";  // the receiver reads, or else copies
constexpr const char* kOneLane = "UCX_MAX_EAGER_RAILS=1";     // heads stay in order
constexpr const char* kNoProbes = "UCX_KEEPALIVE_INTERVAL=inf";
constexpr const char* kManyPeers = "UCX_TCP_MAX_NUM_EPS=inf";
// What UCX takes from the system at a time, and gives to it. With its own 64 and 8 KiB, large data is slower by a
// third.
constexpr const char* kTcpReceives = "UCX_TCP_RX_SEG_SIZE=256k";
constexpr const char* kTcpSends = "UCX_TCP_TX_SEG_SIZE=256k";
// A message over TCP of which the system has taken a part when the connection is reset is completed twice by UCX 1.13
// if it is sent without a copy, and UCX ends the process (uct_tcp_ep_sendv: the error handler purges it first). The
// copy costs a few percent of the bandwidth (docs/speed.md). Of RDMA's, only messages up to kEagerBytes are concerned.
constexpr const char* kCopies = "UCX_ZCOPY_THRESH=inf";

std::string text_of(const char* what, ucs_status_t status) {
    return std::string("UCX: ") + what + ": " + ::ucs_status_string(status);
}

}  // namespace

// ---- opening and closing ----

bool UcxFabric::open(const Options& options, std::string& error_line) {
    options_ = options;
    owner_ = ::getpid();
    peers_.resize(static_cast<std::size_t>(options.n_slots));
    for (Peer& peer : peers_) {
        peer.fabric = this;
    }
    if (open_context(error_line) && open_worker(error_line)) {
        return true;
    }
    close();
    return false;
}

bool UcxFabric::open_context(std::string& error_line) {
    if (!init_context(options_.interface.empty() ? "all" : ucx_devices_of(options_.interface), error_line)) {
        return false;
    }
    UcxResources resources = ucx_resources(context_);
    if (options_.interface.empty() && !resources.all_but_loopback.empty()) {
        // UCX takes the loopback for a way to all processes of one kernel, which leads nowhere from another namespace.
        ::ucp_cleanup(context_);
        context_ = nullptr;
        if (!init_context(resources.all_but_loopback, error_line)) {
            return false;
        }
        resources = ucx_resources(context_);
    }
    resources_ = resources.text;
    is_on_tcp_ = resources_.find("tcp") != std::string::npos;
    eager_bytes_ = resources.is_tcp_only ? kTcpEagerBytes : kEagerBytes;
    if (resources_.empty()) {
        error_line = "UCX finds no network" +
                     (options_.interface.empty() ? "" : " at interface " + options_.interface) +
                     " (`ucx_info -d` lists what it knows; UCX_TLS and UCX_NET_DEVICES choose from that)";
        return false;
    }
    return true;
}

bool UcxFabric::init_context(const std::string& devices, std::string& error_line) {
    devices_ = "UCX_NET_DEVICES=" + devices;
    const std::array<EnvironmentDefault, 9> wanted{{{kNoSharedMemory},
                                                    {kScheme},
                                                    {kOneLane},
                                                    {kNoProbes},
                                                    {kManyPeers},
                                                    {kTcpReceives},
                                                    {kTcpSends},
                                                    {kCopies},
                                                    {devices_.c_str()}}};
    const EnvironmentDefaults defaults(wanted);
    ucp_config_t* config = nullptr;
    ucs_status_t status = ::ucp_config_read(nullptr, nullptr, &config);
    if (status != UCS_OK) {
        error_line = text_of("its settings (UCX_...)", status);
        return false;
    }
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_NAME;
    // Nothing that would let others write to this process's memory by themselves.
    parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    parameters.estimated_num_eps = static_cast<std::size_t>(options_.n_slots);
    parameters.name = "shmem-ft";
    status = ::ucp_init(&parameters, config, &context_);
    ::ucp_config_release(config);
    if (status != UCS_OK) {
        context_ = nullptr;
        error_line = text_of(devices_.c_str(), status);
        return false;
    }
    return true;
}

bool UcxFabric::open_worker(std::string& error_line) {
    const std::array<EnvironmentDefault, 4> wanted{{{kNoProbes}, {kManyPeers}, {kTcpReceives}, {kTcpSends}}};
    const EnvironmentDefaults defaults(wanted);
    ucp_worker_params_t parameters{};
    parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    doors_.emplace();
    ucs_status_t status = ::ucp_worker_create(context_, &parameters, &worker_);
    if (status != UCS_OK) {
        worker_ = nullptr;
        error_line = text_of(("worker (" + resources_ + ")").c_str(), status);
        return false;
    }
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kMessageId;
    handler.cb = &on_message;
    handler.arg = this;
    status = ::ucp_worker_set_am_recv_handler(worker_, &handler);
    if (status == UCS_OK) {
        status = ::ucp_worker_get_efd(worker_, &fd_);
    }
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attributes.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
    if (status == UCS_OK) {
        status = ::ucp_worker_query(worker_, &attributes);
    }
    if (status != UCS_OK) {
        error_line = text_of("worker", status);
        return false;
    }
    const Bytes own(reinterpret_cast<const std::byte*>(attributes.address), attributes.address_length);
    doors_->find(own);
    address_ = packed(host_addresses(options_.address));
    address_.insert(address_.end(), own.begin(), own.end());
    ::ucp_worker_release_address(worker_, attributes.address);
    if (options_.starts_shut) {
        static_cast<void>(doors_->admit({}));  // that it fails is said when others are admitted
    }
    if (address_.size() > kFabricAddressBytes) {
        error_line = "UCX: an address of " + std::to_string(address_.size()) + " bytes, more than " +
                     std::to_string(kFabricAddressBytes) + ": choose fewer devices by SHMEM_FT_INTERFACE";
        return false;
    }
    return true;
}

void UcxFabric::close() noexcept {
    if (owner_ != ::getpid()) {
        return;
    }
    options_.receiver = nullptr;
    if (worker_ != nullptr) {
        flush();
    } else if (context_ != nullptr) {
        ::ucp_cleanup(context_);
    }
    // The worker stays as it is until the process ends, which closes its connections: ucp_worker_destroy has crashed
    // with connections that had failed shortly before, and here deaths are nothing unusual. Nobody gives it processor
    // time any more, so it calls nothing of this object.
    worker_ = nullptr;
    context_ = nullptr;
    fd_ = -1;
}

// Lets what has been sent go, except to processes that do not take it.
void UcxFabric::flush() {
    ucp_request_param_t parameters{};
    for (const Peer& peer : peers_) {
        if (peer.endpoint != nullptr && !peer.is_broken) {
            void* request = ::ucp_ep_flush_nbx(peer.endpoint, &parameters);
            if (UCS_PTR_IS_PTR(request)) {
                closing_.push_back(request);
            }
        }
    }
    const std::int64_t end_ns = now_ns() + kCloseNs;
    while (!closing_.empty() && now_ns() < end_ns) {
        ::ucp_worker_progress(worker_);
        reap();
    }
    closing_.clear();
}

// ---- peers ----

UcxFabric::Peer* UcxFabric::peer_of(ProcId process) {
    return process.value() >= 0 && process.index() < peers_.size() ? &peers_[process.index()] : nullptr;
}

void UcxFabric::introduce(ProcId process, Bytes address) {
    if (Peer* peer = peer_of(process)) {
        static_cast<void>(unpack(address));
        peer->address.assign(address.begin(), address.end());
    }
}

bool UcxFabric::admit(std::span<const Bytes> addresses) {
    std::vector<HostAddress> admitted;
    for (Bytes address : addresses) {
        const std::vector<HostAddress> some = unpack(address);
        admitted.insert(admitted.end(), some.begin(), some.end());
    }
    return !doors_->empty() && doors_->admit(std::move(admitted));
}

bool UcxFabric::connect(Peer& peer) {
    ucp_ep_params_t parameters{};
    parameters.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    parameters.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
    parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    parameters.err_handler.cb = &on_failure;
    parameters.err_handler.arg = &peer;
    if (::ucp_ep_create(worker_, &parameters, &peer.endpoint) != UCS_OK) {
        peer.endpoint = nullptr;
        peer.is_broken = true;
        return false;
    }
    return true;
}

void UcxFabric::on_failure(void* peer_pointer, ucp_ep_h endpoint, ucs_status_t /*status*/) {
    auto* peer = static_cast<Peer*>(peer_pointer);
    if (peer->endpoint == endpoint && !peer->is_broken) {
        peer->is_broken = true;
        peer->fabric->broken_.push_back(peer);  // closed outside of UCX's callback
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

void UcxFabric::forget(ProcId process) {
    Peer* peer = peer_of(process);
    if (peer == nullptr || peer->is_forgotten) {
        return;
    }
    peer->is_forgotten = true;
    if (peer->endpoint != nullptr) {
        close_endpoint(std::exchange(peer->endpoint, nullptr), UCP_EP_CLOSE_FLAG_FORCE);
    }
    close_incoming(process);
    while (peer->n_sends != 0 || is_receiving_from(process)) {
        ::ucp_worker_progress(worker_);
    }
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

std::size_t UcxFabric::piece_bytes() const noexcept {
    return eager_bytes_ == kTcpEagerBytes ? eager_bytes_ : Fabric::piece_bytes();
}

UcxFabric::Send* UcxFabric::take_send() {
    if (free_sends_.empty()) {
        sends_.push_back(std::make_unique<Send>());
        sends_.back()->fabric = this;
        free_sends_.push_back(sends_.back().get());
    }
    Send* send = free_sends_.back();
    free_sends_.pop_back();
    return send;
}

Fabric::Sent UcxFabric::send(ProcId to, Bytes head, Bytes payload, std::uint64_t ticket) {
    Peer* peer = peer_of(to);
    if (peer == nullptr || peer->is_forgotten || peer->is_broken || head.size() > kFabricHeadBytes ||
        (peer->endpoint == nullptr && (peer->address.empty() || !connect(*peer)))) {
        return Sent::gone;
    }
    Send* send = take_send();
    send->peer = peer;
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
    void* request = ::ucp_am_send_nbx(peer->endpoint, kMessageId, send->header, sizeof prefix + head.size(),
                                      payload.data(), payload.size(), &parameters);
    if (UCS_PTR_IS_PTR(request)) {
        ++peer->n_sends;
        return Sent::pending;
    }
    free_sends_.push_back(send);
    if (request == nullptr) {
        return Sent::done;
    }
    if (peer->endpoint != nullptr && !peer->is_broken) {
        peer->is_broken = true;
        broken_.push_back(peer);
    }
    return Sent::gone;
}

void UcxFabric::on_sent(void* request, ucs_status_t /*status*/, void* send_pointer) {
    auto* send = static_cast<Send*>(send_pointer);
    ::ucp_request_free(request);
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
    if (peer == nullptr || peer->is_forgotten || prefix.head_bytes > kFabricHeadBytes ||
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
    const bool is_busy = ::ucp_worker_progress(worker_) != 0;
    if (!broken_.empty()) {
        close_broken();
    }
    if (!closing_.empty()) {
        reap();
    }
    return is_busy;
}

bool UcxFabric::arm() { return broken_.empty() && ::ucp_worker_arm(worker_) == UCS_OK; }

}  // namespace sft
