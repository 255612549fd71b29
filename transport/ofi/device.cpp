#include "transport/ofi/device.hpp"

#include <net/if.h>
#include <rdma/fi_errno.h>

#include <array>
#include <cstring>
#include <string_view>

#include "base/assert.hpp"
#include "transport/ofi/wire.hpp"

namespace sft::ofi {
namespace {

constexpr std::uint32_t kVersion = FI_VERSION(1, 17);

// In the order of preference; null: any. The first is in every Debian and needs no hardware; faster ones are taken
// where they alone reach the interface, or where FI_PROVIDER names them.
constexpr std::array<const char*, 7> kProviders{"tcp;ofi_rxm", "verbs;ofi_rxm", "cxi",  "psm2",
                                                "efa",         "udp;ofi_rxd",   nullptr};

Info make_hints(const char* provider) {
    Info hints(::fi_allocinfo());
    if (hints == nullptr) {
        return hints;
    }
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    // No memory is registered: whatever the provider wants for that is all right.
    hints->domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ENDPOINT;
    if (provider != nullptr) {
        hints->fabric_attr->prov_name = ::strdup(provider);
    }
    return hints;
}

bool is_loopback(const fi_info& info) { return info.domain_attr->name == std::string_view("lo"); }

bool is_local_only(const fi_info& info) {
    return std::string_view(info.fabric_attr->prov_name).find("shm") != std::string_view::npos;
}

// Providers of IP networks call a domain by the interface.
bool is_ip(const fi_info& info) { return info.addr_format == FI_SOCKADDR_IN || info.addr_format == FI_SOCKADDR_IN6; }

bool fits(const fi_info& info, const Fabric::Options& options) {
    if (is_local_only(info) || info.ep_attr->max_msg_size < kPacketBytes) {
        return false;
    }
    if (!is_ip(info) || !options.address.empty()) {
        return true;  // libfabric has looked for the address
    }
    return options.interface.empty() ? !is_loopback(info) : options.interface == info.domain_attr->name;
}

Info find_one(const char* provider, const Fabric::Options& options, int& error) {
    const Info hints = make_hints(provider);
    if (hints == nullptr) {
        error = FI_ENOMEM;
        return nullptr;
    }
    fi_info* found = nullptr;
    const char* node = options.address.empty() ? nullptr : options.address.c_str();
    const int status = ::fi_getinfo(kVersion, node, nullptr, node != nullptr ? FI_SOURCE : 0, hints.get(), &found);
    const Info list(found);
    if (status != 0) {
        error = -status;
        return nullptr;
    }
    for (const fi_info* info = list.get(); info != nullptr; info = info->next) {
        if (fits(*info, options)) {
            return Info(::fi_dupinfo(info));
        }
    }
    error = FI_ENODATA;
    return nullptr;
}

Result<Info> find(const Fabric::Options& options) {
    int error = FI_ENODATA;
    for (const char* provider : kProviders) {
        if (Info info = find_one(provider, options, error)) {
            return info;
        }
    }
    // A network that knows nothing of the addresses of interfaces.
    Fabric::Options anywhere = options;
    anywhere.address.clear();
    if (Info info = find_one(nullptr, anywhere, error); info != nullptr && !is_ip(*info)) {
        return info;
    }
    std::string line = "libfabric offers nothing that reaches other nodes";
    line += options.address.empty() ? "" : " from " + options.address;
    line += options.interface.empty() ? "" : " over " + options.interface;
    return fails(line + " (" + ::fi_strerror(error) + ")", error);
}

Result<> check(int status, const char* call) {
    if (status < 0) {
        return fails(std::string(call) + " of libfabric failed: " + ::fi_strerror(-status), -status);
    }
    return {};
}

// A call that makes an object, which `owner` then holds.
template <class Object, class Make>
Result<> make(Owned<Object>& owner, const char* call, Make&& call_it) {
    Object* object = nullptr;
    if (Result<> done = check(call_it(&object), call); !done) {
        return done;
    }
    SFT_ASSERT(object != nullptr && owner == nullptr);
    owner.reset(object);
    return {};
}

}  // namespace

Result<> Device::open(const Fabric::Options& options) {
    Result<Info> found = find(options);
    if (!found) {
        return fails(found.error());
    }
    info_ = std::move(*found);
    Result<> opened = make_objects().then([this] { return find_address(); });
    if (!opened) {
        opened.error().line += " (" + name() + (options.address.empty() ? "" : " from " + options.address) + ")";
        close();
    }
    return opened;
}

Result<> Device::make_objects() {
    const auto open_fabric = [&](fid_fabric** made) { return ::fi_fabric(info_->fabric_attr, made, nullptr); };
    const auto open_domain = [&](fid_domain** made) { return ::fi_domain(fabric_.get(), info_.get(), made, nullptr); };
    fi_av_attr addresses{};
    addresses.type = FI_AV_UNSPEC;
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_DATA;
    queue.wait_obj = FI_WAIT_FD;
    const auto open_addresses = [&](fid_av** made) { return ::fi_av_open(domain_.get(), &addresses, made, nullptr); };
    const auto open_queue = [&](fid_cq** made) { return ::fi_cq_open(domain_.get(), &queue, made, nullptr); };
    const auto open_endpoint = [&](fid_ep** made) { return ::fi_endpoint(domain_.get(), info_.get(), made, nullptr); };
    const auto bind = [this](fid* object, std::uint64_t flags) {
        return check(::fi_ep_bind(endpoint_.get(), object, flags), "fi_ep_bind");
    };
    return make(fabric_, "fi_fabric", open_fabric)
        .then([&] { return make(domain_, "fi_domain", open_domain); })
        .then([&] { return make(addresses_, "fi_av_open", open_addresses); })
        .then([&] { return make(queue_, "fi_cq_open", open_queue); })
        .then([&] { return make(endpoint_, "fi_endpoint", open_endpoint); })
        .then([&] { return bind(&addresses_->fid, 0); })
        .then([&] { return bind(&queue_->fid, FI_SEND | FI_RECV); })
        .then([&] { return check(::fi_enable(endpoint_.get()), "fi_enable"); })
        .then([&] { return check(::fi_control(&queue_->fid, FI_GETWAIT, &queue_fd_), "fi_control"); });
}

Result<> Device::find_address() {
    std::size_t n = kProviderAddressBytes;
    address_.resize(n);
    if (Result<> done = check(::fi_getname(&endpoint_->fid, address_.data(), &n), "fi_getname"); !done) {
        return done;
    }
    SFT_ASSERT(n <= kProviderAddressBytes && queue_fd_ >= 0);
    address_.resize(n);
    return {};
}

void Device::close() noexcept {
    endpoint_.reset();
    queue_.reset();
    addresses_.reset();
    domain_.reset();
    fabric_.reset();
    info_.reset();
    queue_fd_ = -1;
}

void Device::abandon() noexcept {
    static_cast<void>(endpoint_.release());
    static_cast<void>(queue_.release());
    static_cast<void>(addresses_.release());
    static_cast<void>(domain_.release());
    static_cast<void>(fabric_.release());
    close();
}

fi_addr_t Device::insert(Bytes address) noexcept {
    // The provider's addresses have one length, which it reads without knowing how much there is.
    fi_addr_t place = FI_ADDR_NOTAVAIL;
    if (address.size() != address_.size() ||
        ::fi_av_insert(addresses_.get(), address.data(), 1, &place, 0, nullptr) != 1) {
        return FI_ADDR_NOTAVAIL;
    }
    return place;
}

bool Device::may_sleep() noexcept {
    fid* queue = &queue_->fid;
    return ::fi_trywait(fabric_.get(), &queue, 1) == FI_SUCCESS;
}

bool Device::is_on_tcp() const noexcept {
    return info_ != nullptr && std::string_view(info_->fabric_attr->prov_name).starts_with("tcp");
}

std::string Device::name() const {
    return info_ == nullptr ? "closed"
                            : std::string(info_->fabric_attr->prov_name) + " over " + info_->domain_attr->name;
}

}  // namespace sft::ofi
