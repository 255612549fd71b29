// How UCX is opened and closed, and its settings.
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "transport/net/environment_defaults.hpp"
#include "transport/net/signed_ways.hpp"
#include "transport/ucx/ucx_devices.hpp"
#include "transport/ucx/ucx_fabric.hpp"

namespace sft {
namespace {

// With UCX's headers and ours one fragment, so that it can neither be divided nor overtaken: of the usual RDMA
// transports (8 KiB), and of TCP (kTcpSends). Whatever is larger is announced first, and over TCP the announcement
// and its answer wait behind the data that is on its way in both directions: two processes that send to each other get
// half of the link.
constexpr std::size_t kEagerBytes = 7936;
constexpr std::size_t kTcpEagerBytes = std::size_t{248} << 10;
constexpr std::size_t kUcxHeadersMax = 64;
static_assert(kEagerBytes + kFabricHeadBytes + kUcxHeadersMax <= 8192, "one fragment of RDMA's");
static_assert(kTcpEagerBytes + kFabricHeadBytes + kUcxHeadersMax <= std::size_t{256} << 10, "one segment (kTcpSends)");

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
// A death, or a black hole, while a connection is made must not keep this process in a system call. And UCX shall not
// try again by itself: it would use the number of the first attempt, which the other side may know already (UCX 1.13:
// assertion on stale_fd). The session tries again, with a new number.
constexpr const char* kAsync = "UCX_TCP_CONN_NB=y";
constexpr const char* kOneAttempt = "UCX_TCP_MAX_CONN_RETRIES=1";
// A message over TCP of which the system has taken a part when the connection is reset is completed twice by UCX 1.13
// if it is sent without a copy, and UCX ends the process (uct_tcp_ep_sendv: the error handler purges it first). The
// copy costs a few percent of the bandwidth (docs/speed.md). Of RDMA's, only messages up to kEagerBytes are concerned.
constexpr const char* kCopies = "UCX_ZCOPY_THRESH=inf";

std::string text_of(const char* what, ucs_status_t status) {
    return std::string("UCX: ") + what + ": " + ::ucs_status_string(status);
}

ucs_status_t address_of(ucp_worker_h worker, std::vector<std::byte>& address) {
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attributes.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
    const ucs_status_t status = ::ucp_worker_query(worker, &attributes);
    if (status == UCS_OK) {
        const auto* begin = reinterpret_cast<const std::byte*>(attributes.address);
        address.assign(begin, begin + attributes.address_length);
        ::ucp_worker_release_address(worker, attributes.address);
    }
    return status;
}

}  // namespace

Result<> UcxFabric::open(const Options& options) {
    SFT_ASSERT(options.n_slots > 0 && context_ == nullptr);
    options_ = options;
    owner_ = ::getpid();
    peers_.resize(static_cast<std::size_t>(options.n_slots));
    for (Peer& peer : peers_) {
        peer.fabric = this;
    }
    Result<> opened = open_context().then([this] { return open_worker(); });
    if (!opened) {
        close();
    }
    return opened;
}

Result<> UcxFabric::open_context() {
    if (Result<> done = init_context(options_.interface.empty() ? "all" : ucx_devices_of(options_.interface)); !done) {
        return done;
    }
    UcxResources resources = ucx_resources(context_);
    if (options_.interface.empty() && !resources.all_but_loopback.empty()) {
        // UCX takes the loopback for a way to all processes of one kernel, which leads nowhere from another namespace.
        ::ucp_cleanup(context_);
        context_ = nullptr;
        if (Result<> done = init_context(resources.all_but_loopback); !done) {
            return done;
        }
        resources = ucx_resources(context_);
    }
    resources_ = resources.text;
    is_on_tcp_ = resources_.find("tcp") != std::string::npos;
    is_tcp_only_ = resources.is_tcp_only;
    eager_bytes_ = resources.is_tcp_only ? kTcpEagerBytes : kEagerBytes;
    if (resources_.empty()) {
        return fails("UCX finds no network" +
                     (options_.interface.empty() ? "" : " at interface " + options_.interface) +
                     " (`ucx_info -d` lists what it knows; UCX_TLS and UCX_NET_DEVICES choose from that)");
    }
    return {};
}

Result<> UcxFabric::init_context(const std::string& devices) {
    devices_ = "UCX_NET_DEVICES=" + devices;
    const std::array<EnvironmentDefault, 11> wanted{{{kNoSharedMemory},
                                                     {kScheme},
                                                     {kOneLane},
                                                     {kNoProbes},
                                                     {kManyPeers},
                                                     {kTcpReceives},
                                                     {kTcpSends},
                                                     {kAsync},
                                                     {kOneAttempt},
                                                     {kCopies},
                                                     {devices_.c_str()}}};
    const EnvironmentDefaults defaults(wanted);
    ucp_config_t* config = nullptr;
    ucs_status_t status = ::ucp_config_read(nullptr, nullptr, &config);
    if (status != UCS_OK) {
        return fails(text_of("its settings (UCX_...)", status));
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
        return fails(text_of(devices_.c_str(), status));
    }
    return {};
}

Result<> UcxFabric::open_worker() {
    const std::array<EnvironmentDefault, 6> wanted{
        {{kNoProbes}, {kManyPeers}, {kTcpReceives}, {kTcpSends}, {kAsync}, {kOneAttempt}}};
    const EnvironmentDefaults defaults(wanted);
    ucp_worker_params_t parameters{};
    parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    listeners_.emplace();
    ucs_status_t status = ::ucp_worker_create(context_, &parameters, &worker_);
    if (status == UCS_OK) {
        out_ = worker_;
        if (options_.is_in_session && is_tcp_only_) {
            ucp_worker_h out = nullptr;
            status = ::ucp_worker_create(context_, &parameters, &out);
            out_ = status == UCS_OK ? out : worker_;
        }
    } else {
        worker_ = nullptr;
    }
    if (status != UCS_OK) {
        return fails(text_of(("worker (" + resources_ + ")").c_str(), status));
    }
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kUcxMessageId;
    handler.cb = &on_message;
    handler.arg = this;
    status = ::ucp_worker_set_am_recv_handler(worker_, &handler);
    std::vector<std::byte> own;
    std::vector<std::byte> not_told;
    status = status == UCS_OK ? address_of(worker_, own) : status;
    status = status == UCS_OK ? address_of(out_, not_told) : status;
    if (status != UCS_OK) {
        return fails(text_of("worker", status));
    }
    if (Result<> done = open_fd(); !done) {
        return done;
    }
    listeners_->find(own);
    if (out_ != worker_) {
        listeners_->find(not_told);  // nobody has a reason to connect there, but UCX listens
    }
    if (options_.is_signed) {
        if (Result<> done = sign_listeners(); !done) {
            return done;
        }
    }
    address_ = packed({.hosts = host_addresses(options_.address), .ports = listeners_->ports()});
    address_.insert(address_.end(), own.begin(), own.end());
    if (options_.starts_shut) {
        static_cast<void>(listeners_->admit({}));  // that it fails is said when others are admitted
    }
    if (address_.size() > kFabricAddressBytes) {
        return fails("UCX: an address of " + std::to_string(address_.size()) + " bytes, more than " +
                     std::to_string(kFabricAddressBytes) + ": choose fewer devices by SHMEM_FT_INTERFACE");
    }
    return {};
}

Result<> UcxFabric::sign_listeners() {
    constexpr std::array<const char*, 1> kCallers{"libucs."};
    if (!is_tcp_only_) {
        return fails("UCX: connections of " + resources_ + " cannot be signed: choose TCP (UCX_TLS=tcp)");
    }
    if (!listeners_->sign(options_.secret) || !sign_connections_of(kCallers, options_.secret)) {
        return fails(std::string("UCX: the system does not let connections be signed: ") + std::strerror(errno));
    }
    return {};
}

// One descriptor for both workers.
Result<> UcxFabric::open_fd() {
    int fd = -1;
    ucs_status_t status = ::ucp_worker_get_efd(worker_, &fd);
    if (status == UCS_OK && out_ == worker_) {
        fd_ = fd;
        return {};
    }
    fd_ = own_fd_ = ::epoll_create1(EPOLL_CLOEXEC);
    bool is_good = fd_ >= 0;
    for (const ucp_worker_h worker : {worker_, out_}) {
        status = status == UCS_OK ? ::ucp_worker_get_efd(worker, &fd) : status;
        epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
        is_good = is_good && status == UCS_OK && ::epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event) == 0;
    }
    if (!is_good) {
        return fails(status == UCS_OK ? std::string("epoll: ") + std::strerror(errno) : text_of("worker", status));
    }
    return {};
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
    out_ = nullptr;
    context_ = nullptr;
    fd_ = -1;
    if (own_fd_ >= 0) {
        ::close(std::exchange(own_fd_, -1));
    }
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
        progress_workers();
        reap();
    }
    closing_.clear();
}

}  // namespace sft
