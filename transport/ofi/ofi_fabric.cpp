#include "transport/ofi/ofi_fabric.hpp"

#include <poll.h>
#include <rdma/fi_errno.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "transport/net/environment_defaults.hpp"
#include "transport/net/signed_ways.hpp"
#include "transport/ofi/state.hpp"

namespace sft::ofi {
namespace {

// libfabric reads these in its first call. It need not watch this process's malloc and mmap, because no memory is
// registered. A part of a large message shall travel as it is: by default the provider would first ask the other side.
constexpr std::array<EnvironmentDefault, 2> kDefaults{{
    {"FI_MR_CACHE_MONITOR=disabled"},
    {"FI_OFI_RXM_EAGER_LIMIT=266240"},
}};
static_assert(kPacketBytes <= 266240);

constexpr std::int64_t kRetryMsMax = 64;
constexpr std::int64_t kLingerMs = 200;

}  // namespace

OfiFabric::OfiFabric() = default;
OfiFabric::~OfiFabric() { close(); }

Result<> OfiFabric::open(const Options& options) {
    SFT_ASSERT(options.n_slots > 0 && device_.endpoint() == nullptr);
    options_ = options;
    owner_ = ::getpid();
    listeners_.emplace();
    {
        const EnvironmentDefaults defaults(kDefaults);
        if (Result<> done = device_.open(options); !done) {
            return done;
        }
    }
    if (::getrandom(&key_, sizeof(key_), 0) != sizeof(key_)) {
        close();
        return fails("there are no random numbers");
    }
    if (Result<> guarded = guard_listeners(); !guarded) {
        close();
        return guarded;
    }
    address_ = packed({.hosts = host_addresses(options.address), .ports = listeners_->ports()});
    const AddressHead head{.key = key_};
    const Bytes head_bytes = std::as_bytes(std::span(&head, 1));
    address_.insert(address_.end(), head_bytes.begin(), head_bytes.end());
    address_.insert(address_.end(), device_.address().begin(), device_.address().end());
    if (address_.size() > kFabricAddressBytes) {
        std::string line = "libfabric: an address of " + std::to_string(address_.size()) + " bytes, more than " +
                           std::to_string(kFabricAddressBytes) + ", by " + device_.name();
        close();
        return fails(std::move(line));
    }
    peers_.resize(static_cast<std::size_t>(options.n_slots));
    Result<> opened = open_fds().then([this] { return post_buffers(); });
    if (!opened) {
        close();
    }
    return opened;
}

Result<> OfiFabric::guard_listeners() {
    constexpr std::array<const char*, 1> kCallers{"libfabric."};
    listeners_->find(device_.address());
    if (options_.is_signed && !device_.is_on_tcp()) {
        return fails("libfabric: connections by " + device_.name() + " cannot be signed: choose TCP (FI_PROVIDER=tcp)");
    }
    if (options_.is_signed && (!listeners_->sign(options_.secret) || !sign_connections_of(kCallers, options_.secret))) {
        return fails(std::string("libfabric: the system does not let connections be signed: ") + std::strerror(errno));
    }
    if (options_.starts_shut) {
        static_cast<void>(listeners_->admit({}));  // that it fails is said when others are admitted
    }
    return {};
}

bool OfiFabric::admit(std::span<const Bytes> addresses) {
    std::vector<HostAddress> admitted;
    for (Bytes address : addresses) {
        const std::vector<HostAddress> some = unpack(address).hosts;
        admitted.insert(admitted.end(), some.begin(), some.end());
    }
    return !listeners_->empty() && listeners_->admit(std::move(admitted));
}

Result<> OfiFabric::open_fds() {
    epoll_fd_ = ::epoll_create1(EPOLL_CLOEXEC);
    timer_fd_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    bool is_good = epoll_fd_ >= 0 && timer_fd_ >= 0;
    for (const int fd : {device_.queue_fd(), timer_fd_}) {
        epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
        is_good = is_good && ::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
    }
    if (!is_good) {
        return fails(std::string("epoll: ") + std::strerror(errno), errno);
    }
    return {};
}

Result<> OfiFabric::post_buffers() {
    for (std::size_t i = 0; i < kBuffers; ++i) {
        buffers_.push_back(std::make_unique<Buffer>());
        if (const ssize_t status = post(*buffers_.back()); status != 0) {
            return fails(std::string("libfabric takes no buffers: ") + ::fi_strerror(static_cast<int>(-status)));
        }
    }
    return {};
}

void OfiFabric::close() noexcept {
    if (::getpid() != owner_) {
        device_.abandon();
    } else if (device_.endpoint() != nullptr) {
        linger();
    }
    device_.close();
    for (int* fd : {&epoll_fd_, &timer_fd_}) {
        if (*fd >= 0) {
            ::close(std::exchange(*fd, -1));
        }
    }
    busy_.clear();
    to_tell_.clear();
    free_packets_.clear();
    packets_.clear();
    buffers_to_post_.clear();
    buffers_.clear();
    peers_.clear();
}

// What was taken as sent may still be in the provider's hands, and is lost if the endpoint is closed then.
void OfiFabric::linger() noexcept {
    is_closing_ = true;
    const auto is_under_way = [](const std::unique_ptr<Peer>& peer) {
        return peer != nullptr && !peer->is_gone && (peer->n_with_provider > 0 || peer->has_queue());
    };
    const std::int64_t end_ns = now_ns() + kLingerMs * kNsPerMs;
    while (std::any_of(peers_.begin(), peers_.end(), is_under_way) && now_ns() < end_ns) {
        if (!read_queue()) {
            pollfd fd{.fd = epoll_fd_, .events = POLLIN, .revents = 0};
            ::poll(&fd, 1, 1);
        }
        flush_all();
    }
    is_closing_ = false;
}

OfiFabric::Peer* OfiFabric::peer(ProcId process) noexcept {
    return process.value() >= 0 && process.index() < peers_.size() ? peers_[process.index()].get() : nullptr;
}

void OfiFabric::introduce(ProcId process, Bytes address) {
    if (process.value() < 0 || process.index() >= peers_.size()) {
        return;
    }
    std::unique_ptr<Peer>& peer = peers_[process.index()];
    if (peer == nullptr) {
        peer = std::make_unique<Peer>();
    }
    peer->process = process;
    const Entrance entrance = unpack(address);
    if (options_.is_signed) {
        sign_ways_to(entrance.hosts, entrance.ports);
    }
    if (address.size() > sizeof(AddressHead)) {
        std::memcpy(&peer->key, address.data(), sizeof(peer->key));
        peer->address = device_.insert(address.subspan(sizeof(AddressHead)));
    }
}

void OfiFabric::retire_peer(ProcId process) {
    if (process.value() < 0 || process.index() >= peers_.size()) {
        return;
    }
    std::unique_ptr<Peer>& forgotten = peers_[process.index()];
    if (forgotten == nullptr) {
        forgotten = std::make_unique<Peer>();  // it may have been heard without having been introduced
    }
    break_off(*forgotten);
    stop_listening_to(*forgotten);
    tell_sent();
}

// ---- progress ----

bool OfiFabric::progress() {
    if (is_timer_set_) {
        std::uint64_t n_expired = 0;
        is_timer_set_ = ::read(timer_fd_, &n_expired, sizeof(n_expired)) != sizeof(n_expired);
    }
    bool has_done = read_queue();
    post_again();
    flush_all();
    has_done = has_done || !to_tell_.empty();
    tell_sent();
    is_refused_ = false;
    for (const ProcId process : std::exchange(broken_, {})) {
        options_.receiver->broken(process);
    }
    if (has_done) {
        retry_ms_ = 1;
    }
    return has_done;
}

bool OfiFabric::arm() {
    if (!to_tell_.empty()) {
        return false;
    }
    // The provider does not say when it takes packets again that it has refused: it is asked again after a while.
    if ((is_refused_ || !busy_.empty() || !buffers_to_post_.empty()) && !is_timer_set_) {
        const itimerspec when{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = retry_ms_ * kNsPerMs}};
        is_timer_set_ = ::timerfd_settime(timer_fd_, 0, &when, nullptr) == 0;
        retry_ms_ = std::min(retry_ms_ * 2, kRetryMsMax);
    }
    return device_.may_sleep();
}

bool OfiFabric::read_queue() {
    std::array<fi_cq_data_entry, 16> entries;
    const ssize_t n = ::fi_cq_read(device_.queue(), entries.data(), entries.size());
    if (n == -FI_EAVAIL) {
        handle_error();
        return true;
    }
    for (ssize_t i = 0; i < n; ++i) {
        const fi_cq_data_entry& entry = entries[static_cast<std::size_t>(i)];
        Operation* operation = Operation::of(entry.op_context);
        if (operation == nullptr) {
            continue;
        }
        if (!operation->is_receive) {
            packet_has_left(static_cast<Packet&>(*operation));
            continue;
        }
        auto& buffer = static_cast<Buffer&>(*operation);
        take_in(Bytes(buffer.bytes.get(), entry.len));
        buffers_to_post_.push_back(&buffer);
    }
    return n > 0;
}

// Of a send: its connection is broken. Of a receive: some connection broke in the middle of a packet; whose it was,
// the number of its next packet would show.
void OfiFabric::handle_error() {
    fi_cq_err_entry entry{};
    if (::fi_cq_readerr(device_.queue(), &entry, 0) <= 0) {
        return;
    }
    Operation* operation = Operation::of(entry.op_context);
    if (operation == nullptr) {
        return;
    }
    if (operation->is_receive) {
        buffers_to_post_.push_back(static_cast<Buffer*>(operation));
        return;
    }
    auto& packet = static_cast<Packet&>(*operation);
    SFT_ASSERT(packet.to != nullptr);
    if (!options_.is_in_session) {
        break_off(*packet.to);
    } else if (!packet.to->is_gone) {
        broken_.push_back(packet.to->process);
    }
    packet_has_left(packet);
}

ssize_t OfiFabric::post(Buffer& buffer) noexcept {
    return ::fi_recv(device_.endpoint(), buffer.bytes.get(), kPacketBytes, nullptr, FI_ADDR_UNSPEC, &buffer.context);
}

void OfiFabric::post_again() {
    std::erase_if(buffers_to_post_, [this](Buffer* buffer) { return post(*buffer) == 0; });
}

// ---- what comes ----

void OfiFabric::take_in(Bytes bytes) {
    PacketHead packet_head;
    if (is_closing_ || bytes.size() < sizeof(packet_head)) {
        return;
    }
    std::memcpy(&packet_head, bytes.data(), sizeof(packet_head));
    bytes = bytes.subspan(sizeof(packet_head));
    if (packet_head.key != key_ || packet_head.from < 0 || packet_head.from >= options_.n_slots ||
        packet_head.head_bytes > std::min(bytes.size(), kFabricHeadBytes)) {
        return;
    }
    std::unique_ptr<Peer>& from = peers_[static_cast<std::size_t>(packet_head.from)];
    if (from == nullptr) {
        from = std::make_unique<Peer>();
    }
    if (from->is_mute) {
        return;
    }
    if (packet_head.number != from->number_to_come && !options_.is_in_session) {
        stop_listening_to(*from);
        return;
    }
    ++from->number_to_come;
    const Bytes head = bytes.first(packet_head.head_bytes);
    const Bytes part = bytes.subspan(packet_head.head_bytes);
    if (packet_head.is_first == 0) {
        add_part(*from, packet_head, part);
    } else if (packet_head.message == 0) {
        options_.receiver->message(head, part);
    } else {
        begin_large(*from, packet_head, head, part);
    }
}

void OfiFabric::begin_large(Peer& from, const PacketHead& packet_head, Bytes head, Bytes part) {
    const FabricReceiver::Place place = options_.receiver->place(head, packet_head.total_bytes);
    if (place.address != nullptr && (place.from.value() != packet_head.from || from.is_mute)) {
        options_.receiver->arrived(place.ticket, false);
        return;
    }
    from.incoming[packet_head.message] =
        Incoming{.place = place.address, .ticket = place.ticket, .bytes = packet_head.total_bytes, .bytes_here = 0};
    add_part(from, packet_head, part);
}

void OfiFabric::add_part(Peer& from, const PacketHead& packet_head, Bytes part) {
    const auto found = from.incoming.find(packet_head.message);
    if (found == from.incoming.end() || packet_head.offset != found->second.bytes_here ||
        part.size() > found->second.bytes - found->second.bytes_here) {
        stop_listening_to(from);
        return;
    }
    Incoming& incoming = found->second;
    SFT_ASSERT(incoming.place == nullptr || !from.is_mute);  // nothing of a dead one is written
    if (incoming.place != nullptr && !part.empty()) {
        std::memcpy(incoming.place + incoming.bytes_here, part.data(), part.size());
    }
    incoming.bytes_here += part.size();
    if (incoming.bytes_here == incoming.bytes) {
        const Incoming whole = incoming;
        from.incoming.erase(found);
        if (whole.place != nullptr) {
            options_.receiver->arrived(whole.ticket, true);
        }
    }
}

void OfiFabric::stop_listening_to(Peer& from) {
    from.is_mute = true;
    for (const auto& [number, incoming] : std::exchange(from.incoming, {})) {
        if (incoming.place != nullptr) {
            options_.receiver->arrived(incoming.ticket, false);
        }
    }
}

}  // namespace sft::ofi
