// How a process of the job is reached from other nodes: what every process publishes once at start-up, and what the
// control segment of each node keeps for those that come later.
//
// The form in memory is the form on the wire: all processes run one build, which JobCard::layout checks. What comes
// from elsewhere goes through read_contact(), which checks sizes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "base/assert.hpp"
#include "base/ids.hpp"
#include "base/result.hpp"
#include "transport/fabric.hpp"

struct sockaddr;

namespace sft {

// A TCP port of an address of the fourth or sixth version of the internet protocol.
struct MailAddress {
    std::uint16_t family = 0;  // AF_INET, AF_INET6; 0: none, the process is not reached that way
    std::uint16_t port = 0;    // host byte order
    std::uint32_t scope = 0;   // of a link-local address: the interface's number, on the node itself only
    std::array<std::uint8_t, 16> bytes{};

    [[nodiscard]] bool is_set() const noexcept { return family != 0; }
    friend bool operator==(const MailAddress&, const MailAddress&) noexcept = default;
};
// "10.1.0.2", without the port.
[[nodiscard]] std::string to_string(const MailAddress& address);
// Without the port; none if it is of another family.
[[nodiscard]] MailAddress mail_address_of(const sockaddr* any) noexcept;

struct Contact {
    std::uint32_t layout = 1;
    std::int32_t node = -1;  // NodeId
    MailAddress mail;
    char node_name[64] = {};    // for error lines
    char fabric_name[16] = {};  // "ucx", "ofi": the same for all
    std::uint32_t reserved = 0;
    std::uint32_t fabric_bytes = 0;
    std::array<std::byte, kFabricAddressBytes> fabric{};

    [[nodiscard]] Bytes fabric_address() const noexcept {
        SFT_ASSERT(fabric_bytes <= kFabricAddressBytes);
        return Bytes(fabric).first(fabric_bytes);
    }
    // What has to be published: the unused end of the address is left out.
    [[nodiscard]] Bytes bytes() const noexcept {
        SFT_ASSERT(fabric_bytes <= kFabricAddressBytes);
        return {reinterpret_cast<const std::byte*>(this), offsetof(Contact, fabric) + fabric_bytes};
    }
};
static_assert(std::is_trivially_copyable_v<Contact> && sizeof(MailAddress) == 24);
static_assert(offsetof(Contact, mail) == 8 && offsetof(Contact, fabric_bytes) == 116);
static_assert(sizeof(Contact) == offsetof(Contact, fabric) + kFabricAddressBytes);
static_assert(std::has_unique_object_representations_v<Contact>, "no byte goes out that nobody has set");
static_assert(offsetof(Contact, layout) == 0 && offsetof(Contact, node_name) == 32);

// Nothing: this is no contact.
[[nodiscard]] inline std::optional<Contact> read_contact(Bytes bytes) noexcept {
    Contact contact;
    if (bytes.size() < offsetof(Contact, fabric) || bytes.size() > sizeof contact) {
        return std::nullopt;
    }
    std::memcpy(&contact, bytes.data(), bytes.size());
    const bool is_whole = contact.layout == Contact{}.layout && contact.node >= 0 &&
                          contact.fabric_bytes <= kFabricAddressBytes &&
                          bytes.size() == offsetof(Contact, fabric) + contact.fabric_bytes &&
                          contact.node_name[sizeof contact.node_name - 1] == '\0' &&
                          contact.fabric_name[sizeof contact.fabric_name - 1] == '\0';
    return is_whole ? std::optional(contact) : std::nullopt;
}

// The interface by which this node talks to others, and its address. An empty name: chosen (that of the address which
// the host name stands for, or else the first one that is up and not the loopback).
struct NodeInterface {
    std::string name;
    MailAddress address;
};
[[nodiscard]] Result<> find_interface(const std::string& wanted, bool is_pretending, NodeInterface& found);

}  // namespace sft
