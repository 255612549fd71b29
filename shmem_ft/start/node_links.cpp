#include "shmem_ft/start/node_links.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/report.hpp"
#include "transport/reach.hpp"

namespace sft {
namespace {

// For an answer of another node at start-up. A connection that loses one packet of two gets through in that time.
constexpr std::int64_t kReachPatienceNs = 10'000'000'000;

constexpr const char* kEndedInside = "a process of the job ended inside shmem_init";

const char* fabric_name(Transport transport) {
    switch (transport) {
        case Transport::ucx: return "ucx";
        case Transport::ofi: return "ofi";
        case Transport::automatic: break;
    }
    return "auto";
}

}  // namespace

bool NodeLinks::is_remote(ProcId process) const noexcept {
    if (o_.bootstrap->is_one_node()) {
        return false;
    }
    SFT_ASSERT(process.value() >= 0);
    if (process.value() < o_.control->n_processes()) {
        return nodes_.n_nodes() > 1 && nodes_.node_of(process).value() != o_.control->header().node;
    }
    return process.value() < o_.control->n_slots() &&
           o_.control->slot(process).state.load(std::memory_order_acquire) == ProcessState::starting;
}

// Mailbox, and network if there is more than one node.
Result<> NodeLinks::open(const JobCard& first, const Own& own) {
    SFT_ASSERT(network_ == nullptr);
    Mailbox::Options options{.token = {first.mail_name, first.mail_secret},
                             .self = o_.bootstrap->self(),
                             .bytes_max = own.message_bytes_max};
    if (!o_.bootstrap->is_one_node()) {
        if (Result<> done = find_interface(o_.config->interface, o_.config->pretend_nodes != 0, interface_); !done) {
            return done;
        }
        options.remote.listen_on = interface_.address;
        options.remote.is_signed = o_.config->port_guard == PortGuard::signatures;
        options.remote.is_remote = [this](ProcId process) { return is_remote(process); };
        options.remote.address_of = [this](ProcId process) {
            const Contact* contact = o_.control->contact(process);
            return contact == nullptr ? MailAddress{} : contact->mail;
        };
        options.remote.introduced = [this](ProcId process, const Contact& contact) {
            if (process.value() >= o_.control->n_processes() && process.value() < o_.control->n_slots()) {
                o_.control->set_contact(process, contact);
            }
        };
    }
    if (Result<> done = o_.mailbox->open(options); !done) {
        return done;
    }
    return o_.bootstrap->is_one_node() ? Result<>() : open_network(first, own);
}

Result<> NodeLinks::open_network(const JobCard& first, const Own& own) {
    Result<std::unique_ptr<Fabric>> fabric = make_fabric(fabric_name(o_.config->transport));
    if (!fabric) {
        return fails(std::move(fabric.error()));
    }
    network_ = std::make_unique<Network>();
    Network::Options options;
    options.self = o_.bootstrap->self();
    options.n_pes = o_.control->n_pes();
    options.n_slots = o_.control->n_slots();
    options.secret = first.mail_secret;
    options.fabric = std::move(*fabric);
    options.interface = interface_.name;
    options.address = to_string(interface_.address);
    options.starts_shut = o_.config->port_guard != PortGuard::none;
    options.is_signed = o_.config->port_guard == PortGuard::signatures;
    options.heap = own.heap;
    options.globals = own.globals;
    options.doorbell = &o_.control->slot(o_.bootstrap->self()).doorbell;
    options.gate = own.gate;
    if (first.is_crowded != 0) {
        options.wait_style = WaitStyle{.spins = 20, .yields = 4};
    }
    options.address_of = [this](ProcId process) {
        const Contact* contact = o_.control->contact(process);
        return contact == nullptr ? Bytes{} : contact->fabric_address();
    };
    // Longer than it takes to agree that a process or a node is lost.
    options.lost_ms =
        std::max(kSessionLostMs, std::int64_t{3} * o_.config->node_timeout_ms + o_.config->hang_timeout_ms);
    options.connection_lost = [this](ProcId process) { note_lost(process); };
    network_->set_marks(own.marks);
    Result<> opened = network_->open(std::move(options));
    if (!opened) {
        network_.reset();
    }
    return opened;
}

std::string NodeLinks::own_name() const {
    if (o_.config->pretend_nodes != 0) {
        return format("pretended node %d", o_.control->header().node);
    }
    char host[sizeof Contact::node_name] = {};
    ::gethostname(host, sizeof host - 1);
    return host;
}

Contact NodeLinks::own_contact() const {
    SFT_ASSERT(network_ != nullptr);
    Contact own;
    own.node = o_.control->header().node;
    own.mail = o_.mailbox->address();
    std::snprintf(own.node_name, sizeof own.node_name, "%s", own_name().c_str());
    // "ucx (tcp over eth0)"
    const std::string description = network_->describe();
    const std::size_t length = std::min(description.find(' '), sizeof own.fabric_name - 1);
    description.copy(own.fabric_name, length);
    const Bytes address = network_->address();
    SFT_ASSERT(address.size() <= own.fabric.size());  // a longer one is an error of open()
    own.fabric_bytes = static_cast<std::uint32_t>(address.size());
    std::copy_n(address.begin(), own.fabric_bytes, own.fabric.begin());
    return own;
}

// By the lowest process of the node.
Result<> NodeLinks::gather_contacts(int generation) {
    Contact first;
    for (std::int32_t process = 0; process < o_.control->n_processes(); ++process) {
        Contact contact;
        if (Result<> done = o_.bootstrap->read_contact_of(ProcId(process), generation, contact); !done) {
            return done;
        }
        first = process == 0 ? contact : first;
        if (std::strcmp(contact.fabric_name, first.fabric_name) != 0) {
            return fails(
                format("process %d on %s uses %s between nodes and process 0 on %s uses %s: set SHMEM_TRANSPORT to "
                       "what works on all nodes",
                       process, contact.node_name, contact.fabric_name, first.node_name, first.fabric_name));
        }
        o_.control->set_contact(ProcId(process), contact);
    }
    return {};
}

// By the lowest process of the node, to the lowest of each other one.
Result<> NodeLinks::try_ways() {
    std::vector<const Contact*> others;
    std::vector<MailAddress> addresses;
    std::vector<bool> is_known(static_cast<std::size_t>(o_.control->header().node) + 1);  // by node
    is_known.back() = true;
    for (std::int32_t process = 0; process < o_.control->n_processes(); ++process) {
        const Contact* contact = o_.control->contact(ProcId(process));
        SFT_ASSERT(contact != nullptr && contact->node >= 0);  // gather_contacts() has all
        const auto node = static_cast<std::size_t>(contact->node);
        is_known.resize(std::max(is_known.size(), node + 1));
        if (!is_known[node]) {
            is_known[node] = true;
            others.push_back(contact);
            addresses.push_back(contact->mail);
        }
    }
    const std::optional<Unreached> unreached = find_unreached(addresses, kReachPatienceNs, o_.mailbox->signing_key());
    if (!unreached) {
        return {};
    }
    SFT_ASSERT(unreached->index < others.size());
    const Contact& other = *others[unreached->index];
    return fails(
        format("%s cannot reach %s by interface %s (%s port %u: %s): is there a firewall between them, or does "
               "SHMEM_FT_INTERFACE name another network?",
               o_.control->contact(o_.bootstrap->self())->node_name, other.node_name, interface_.name.c_str(),
               to_string(other.mail).c_str(), other.mail.port,
               unreached->error_number == ETIMEDOUT ? "no answer" : strerrordesc_np(unreached->error_number)),
        unreached->error_number);
}

Result<> NodeLinks::learn_nodes(int generation, const std::function<void(StartStep)>& enter) {
    enter(StartStep::gathering);
    if (o_.bootstrap->self() == o_.bootstrap->node_leader()) {
        if (Result<> gathered = gather_contacts(generation); !gathered) {
            return gathered;
        }
        enter(StartStep::trying_ways);
        if (Result<> tried = try_ways(); !tried) {
            return tried;
        }
    }
    enter(StartStep::learning_nodes);
    if (!o_.bootstrap->fence()) {
        return fails(kEndedInside);
    }
    if (Result<> read = read_nodes(); !read || o_.config->port_guard == PortGuard::none) {
        return read;
    }
    admit_nodes();
    if (network_->has_listeners()) {
        enter(StartStep::admitting_nodes);
        if (!o_.bootstrap->fence()) {  // whoever connects is let in by now
            return fails(kEndedInside);
        }
    }
    return {};
}

void NodeLinks::admit_nodes() {
    SFT_ASSERT(network_ != nullptr);
    std::vector<ProcId> others;
    std::vector<HostAddress> hosts;
    for (std::int32_t process = 0; process < o_.control->n_processes(); ++process) {
        if (is_remote(ProcId(process))) {
            others.emplace_back(process);
            const Contact* contact = o_.control->contact(ProcId(process));
            SFT_ASSERT(contact != nullptr);  // read_nodes() has looked
            Bytes address = contact->fabric_address();
            const Entrance entrance = unpack(address);
            hosts.insert(hosts.end(), entrance.hosts.begin(), entrance.hosts.end());
        }
    }
    const bool is_guarded =
        o_.mailbox->admit(std::move(hosts)) && (!network_->has_listeners() || network_->admit(others));
    if (!is_guarded && o_.bootstrap->self() == ProcId(0)) {
        say("warning: the system does not let the job's ports be kept from programs of other machines: run in a "
            "network "
            "that you trust");
    }
}

Result<> NodeLinks::read_nodes() {
    std::vector<NodeId> nodes;
    std::vector<std::string> names;  // by node: these are numbered in the order of their lowest processes
    for (std::int32_t process = 0; process < o_.control->n_processes(); ++process) {
        const Contact* contact = o_.control->contact(ProcId(process));
        if (contact == nullptr) {
            return fails(format("process %d of the job ended inside shmem_init", process));
        }
        nodes.emplace_back(contact->node);
        if (nodes.back().index() == names.size()) {
            names.emplace_back(contact->node_name);
        }
    }
    nodes_ = NodeMap(std::move(nodes));
    SFT_ASSERT(names.size() == static_cast<std::size_t>(nodes_.n_nodes()));
    areas_ = topology_ ? AreaMap(topology_->areas_of(names)) : AreaMap();
    return {};
}

Result<> NodeLinks::read_topology() {
    SFT_ASSERT(!topology_);
    if (o_.config->topology.empty()) {
        return {};
    }
    Result<Topology> read = Topology::read(o_.config->topology);
    if (!read) {
        return fails("SHMEM_FT_TOPOLOGY: " + read.error().line);
    }
    topology_ = std::move(*read);
    return {};
}

std::string NodeLinks::name_of(NodeId node) const {
    if (nodes() == nullptr) {
        return own_name();
    }
    for (std::int32_t process = 0; process < o_.control->n_slots(); ++process) {
        const Contact* contact = o_.control->contact(ProcId(process));
        if (contact != nullptr && NodeId(contact->node) == node) {
            return contact->node_name;
        }
    }
    return format("node %d", node.value());
}

// Whichever of the two threads comes second sees what the other one has stored.
void NodeLinks::note_lost(ProcId process) noexcept {
    lost_.store(process);
    if (has_listener_.load()) {
        tell_lost();
    }
}

void NodeLinks::tell_of_lost(std::function<void(const std::string& line)> tell) noexcept {
    SFT_ASSERT(!has_listener_.load());
    tell_ = std::move(tell);
    has_listener_.store(true);
    tell_lost();
}

void NodeLinks::tell_lost() noexcept {
    const ProcId process = lost_.exchange(kNoProc);
    if (process == kNoProc) {
        return;
    }
    const Contact* const contact = o_.control->contact(process);
    tell_(format(
        "process %d has no data connection to process %d on %s any more, and cannot make a new one, though control "
        "messages say that it lives: something between the two refuses connections to its ports (a firewall?)",
        o_.bootstrap->self().value(), process.value(), contact == nullptr ? "another node" : contact->node_name));
}

void NodeLinks::quiet() noexcept {
    if (network_ != nullptr) {
        network_->quiet();
    }
}

void NodeLinks::close() noexcept {
    if (network_ != nullptr) {
        network_->close();
    }
}

}  // namespace sft
