// What a process does because its job runs on several nodes: it opens the ways by which others reach it, learns theirs,
// and sees to it that nothing is under way when it matters.
//
// Order of a start: everybody listens, and only then publishes where (so a port that refuses later on means a death);
// the lowest process of each node collects all contacts in the node's segment; a fence; from then on everybody finds
// everybody.

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/clock.hpp"
#include "base/report.hpp"
#include "shmem_ft/process/runtime.hpp"
#include "transport/reach.hpp"

namespace sft {
namespace {

// For an answer of another node at start-up. A connection that loses one packet of two gets through in that time.
constexpr std::int64_t kReachPatienceNs = 10'000'000'000;

const char* name_of(Transport transport) {
    switch (transport) {
        case Transport::ucx: return "ucx";
        case Transport::ofi: return "ofi";
        case Transport::automatic: break;
    }
    return "auto";
}

}  // namespace

// Any thread. Those that join are known by the control segments: on their own node by their slot.
bool Runtime::is_remote(ProcId process) const noexcept {
    if (bootstrap_.is_one_node()) {
        return false;
    }
    if (process.value() < control_.n_processes()) {
        return node_map_.n_nodes() > 1 && node_map_.node_of(process).value() != control_.header().node;
    }
    return process.value() < control_.n_slots() &&
           control_.slot(process).state.load(std::memory_order_acquire) == ProcessState::starting;
}

// Mailbox, and network if there is more than one node.
bool Runtime::open_doors(const BootCard& first, std::string& error) {
    Mailbox::Options options{
        .token = {first.mail_name, first.mail_secret}, .self = self(), .bytes_max = kMessageBytesMax};
    if (!bootstrap_.is_one_node()) {
        if (!find_interface(config_.interface, config_.pretend_nodes != 0, interface_, error)) {
            return false;
        }
        options.remote.listen_on = interface_.address;
        options.remote.is_signed = config_.port_guard == PortGuard::signatures;
        options.remote.is_remote = [this](ProcId process) { return is_remote(process); };
        options.remote.address_of = [this](ProcId process) {
            const Contact* contact = control_.contact(process);
            return contact == nullptr ? MailAddress{} : contact->mail;
        };
        options.remote.introduced = [this](ProcId process, const Contact& contact) {
            if (process.value() >= control_.n_processes() && process.value() < control_.n_slots()) {
                control_.set_contact(process, contact);
            }
        };
    }
    return mailbox_.open(options, error) && (bootstrap_.is_one_node() || open_network(first, error));
}

bool Runtime::open_network(const BootCard& first, std::string& error) {
    std::unique_ptr<Fabric> fabric = make_fabric(name_of(config_.transport), error);
    if (fabric == nullptr) {
        return false;
    }
    network_ = std::make_unique<Network>();
    Network::Options options;
    options.self = self();
    options.n_pes = control_.n_pes();
    options.n_slots = control_.n_slots();
    options.secret = first.mail_secret;
    options.fabric = std::move(fabric);
    options.interface = interface_.name;
    options.address = to_string(interface_.address);
    options.starts_shut = config_.port_guard != PortGuard::none;
    options.is_signed = config_.port_guard == PortGuard::signatures;
    options.heap = live_.heap;
    options.globals = live_.globals;
    options.doorbell = &control_.slot(self()).doorbell;
    options.gate = &engine_.gate;
    if (first.is_crowded != 0) {
        options.wait_style = WaitStyle{.spins = 20, .yields = 4};
    }
    options.address_of = [this](ProcId process) {
        const Contact* contact = control_.contact(process);
        return contact == nullptr ? Bytes{} : contact->fabric_address();
    };
    // Longer than it takes to agree that a process or a node is lost.
    options.lost_ms = std::max(kSessionLostMs, std::int64_t{3} * config_.node_timeout_ms + config_.hang_timeout_ms);
    options.connection_lost = [this](ProcId process) { end_without(process); };
    if (record_bytes_ != 0) {
        network_->set_marks(startup_memory().marks);  // the first put may come before this process is through its start
    }
    if (!network_->open(std::move(options), error)) {
        network_.reset();
        return false;
    }
    return store_.serve(*network_, error);
}

// By the network's own thread. Processes that have started earlier may send something to this one before it can ask for
// the end: start() does it then. Whichever of the two threads comes second sees what the other one has stored.
void Runtime::end_without(ProcId process) noexcept {
    lost_connection_.store(process);
    if (can_ask_for_end_.load()) {
        end_if_cut_off();
    }
}

// Nobody says that it is dead, so nobody will ever forget it; and without it this process waits for ever. Must not wait
// until the job has ended.
void Runtime::end_if_cut_off() noexcept {
    const ProcId process = lost_connection_.exchange(kNoProc);
    if (process == kNoProc) {
        return;
    }
    const Contact* const contact = control_.contact(process);
    job_exit_.ask_for_end(format(
        "process %d has no data connection to process %d on %s any more, and cannot make a new one, though control "
        "messages say that it lives: something between the two refuses connections to its ports (a firewall?)",
        self().value(), process.value(), contact == nullptr ? "another node" : contact->node_name));
}

// Where the PEs are, for the operations.
void Runtime::connect_network() {
    if (network_ == nullptr) {
        return;
    }
    const JobShape& shape = coordinator_->shape();
    const JobState state = coordinator_->state();
    std::vector<NodeId> nodes;
    for (std::int32_t pe = 0; pe < control_.n_pes(); ++pe) {
        nodes.push_back(shape.node_of(state, shape.holder(state, PeId(pe))));
    }
    network_->set_self(me_);
    connect_nodes(engine_, *network_, nodes);
}

void Runtime::close_network() noexcept {
    if (network_ != nullptr) {
        network_->close();
    }
}

Contact Runtime::own_contact() const {
    Contact own;
    own.node = control_.header().node;
    own.mail = mailbox_.address();
    char host[sizeof own.node_name] = {};
    ::gethostname(host, sizeof host - 1);
    if (config_.pretend_nodes == 0) {
        std::memcpy(own.node_name, host, sizeof host);
    } else {
        std::snprintf(own.node_name, sizeof own.node_name, "pretended node %d", own.node);
    }
    // "ucx (tcp over eth0)"
    const std::string description = network_->describe();
    const std::size_t length = std::min(description.find(' '), sizeof own.fabric_name - 1);
    description.copy(own.fabric_name, length);
    const Bytes address = network_->address();
    own.fabric_bytes = static_cast<std::uint32_t>(std::min(address.size(), own.fabric.size()));
    std::copy_n(address.begin(), own.fabric_bytes, own.fabric.begin());
    return own;
}

// By the lowest process of the node.
bool Runtime::gather_contacts(int generation, std::string& error) {
    Contact first;
    for (std::int32_t process = 0; process < control_.n_processes(); ++process) {
        Contact contact;
        if (!bootstrap_.read_contact_of(ProcId(process), generation, contact, error)) {
            return false;
        }
        first = process == 0 ? contact : first;
        if (std::strcmp(contact.fabric_name, first.fabric_name) != 0) {
            error = format(
                "process %d on %s uses %s between nodes and process 0 on %s uses %s: set SHMEM_TRANSPORT to "
                "what works on all nodes",
                process, contact.node_name, contact.fabric_name, first.node_name, first.fabric_name);
            return false;
        }
        control_.set_contact(ProcId(process), contact);
    }
    return true;
}

// By the lowest process of the node, to the lowest of each other one.
bool Runtime::can_reach_nodes(std::string& error) {
    enter(StartStep::trying_ways);
    std::vector<const Contact*> others;
    std::vector<MailAddress> addresses;
    std::vector<bool> is_known(static_cast<std::size_t>(control_.header().node) + 1);  // by node
    is_known.back() = true;
    for (std::int32_t process = 0; process < control_.n_processes(); ++process) {
        const Contact* contact = control_.contact(ProcId(process));
        const auto node = static_cast<std::size_t>(contact->node);
        is_known.resize(std::max(is_known.size(), node + 1));
        if (!is_known[node]) {
            is_known[node] = true;
            others.push_back(contact);
            addresses.push_back(contact->mail);
        }
    }
    const std::optional<Unreached> unreached = find_unreached(addresses, kReachPatienceNs, mailbox_.signing_key());
    if (unreached) {
        const Contact& other = *others[unreached->index];
        error = format(
            "%s cannot reach %s by interface %s (%s port %u: %s): is there a firewall between them, or does "
            "SHMEM_FT_INTERFACE name another network?",
            control_.contact(self())->node_name, other.node_name, interface_.name.c_str(),
            to_string(other.mail).c_str(), other.mail.port,
            unreached->error_number == ETIMEDOUT ? "no answer" : strerrordesc_np(unreached->error_number));
    }
    return !unreached;
}

bool Runtime::learn_nodes(int generation, std::string& error) {
    enter(StartStep::gathering);
    if (self() == bootstrap_.node_leader() && (!gather_contacts(generation, error) || !can_reach_nodes(error))) {
        return false;
    }
    enter(StartStep::learning_nodes);
    if (!bootstrap_.fence()) {
        error = "a process of the job ended inside shmem_init";
        return false;
    }
    if (!read_node_map(error)) {
        return false;
    }
    if (config_.port_guard == PortGuard::none) {
        return true;
    }
    admit_nodes();
    if (!network_->has_doors()) {
        return true;
    }
    enter(StartStep::admitting_nodes);
    if (!bootstrap_.fence()) {  // whoever connects is let in by now
        error = "a process of the job ended inside shmem_init";
        return false;
    }
    return true;
}

// Those that join are on nodes that are known already: they learn from a process there.
void Runtime::admit_nodes() {
    std::vector<ProcId> others;
    std::vector<HostAddress> hosts;
    for (std::int32_t process = 0; process < control_.n_processes(); ++process) {
        if (is_remote(ProcId(process))) {
            others.emplace_back(process);
            const Contact* contact = control_.contact(ProcId(process));
            Bytes address = contact->fabric_address();
            const Entrance entrance = unpack(address);
            hosts.insert(hosts.end(), entrance.hosts.begin(), entrance.hosts.end());
        }
    }
    const bool is_guarded = mailbox_.admit(std::move(hosts)) && (!network_->has_doors() || network_->admit(others));
    if (!is_guarded && self() == ProcId(0)) {
        say("warning: the system does not let the job's ports be kept from programs of other machines: run in a "
            "network "
            "that you trust");
    }
}

bool Runtime::read_node_map(std::string& error) {
    std::vector<NodeId> nodes;
    for (std::int32_t process = 0; process < control_.n_processes(); ++process) {
        const Contact* contact = control_.contact(ProcId(process));
        if (contact == nullptr) {
            error = format("process %d of the job ended inside shmem_init", process);
            return false;
        }
        nodes.emplace_back(contact->node);
    }
    node_map_ = NodeMap(std::move(nodes));
    return true;
}

// Nothing that this process has sent is under way.
void Runtime::quiet_network() noexcept {
    if (network_ != nullptr) {
        network_->quiet();
    }
}

// What they have sent may be on its way into memory still. The service thread does it too, when it comes to it.
void Runtime::forget_dead() noexcept {
    if (network_ == nullptr) {
        return;
    }
    for (const Death& death : coordinator_->known_deaths()) {
        if (is_remote(death.process)) {
            network_->forget(death.process);
        }
    }
}

// The others must have heard of the end: of one that is gone without a word they would think that it has died.
void Runtime::say_goodbye(Stage how) noexcept {
    constexpr std::int64_t kPatienceNs = 2'000'000'000;
    if (network_ != nullptr) {
        coordinator_->leave(how, now_ns() + kPatienceNs);
    }
}

DataGuard::Options Runtime::data_guard_options() {
    constexpr std::int64_t kNsPerMs = 1'000'000;
    // Pretended nodes share their addresses.
    const bool is_on = !bootstrap_.is_one_node() && control_.header().n_nodes > 1 && config_.pretend_nodes == 0;
    return {.coordinator = coordinator_.get(),
            .control = &control_,
            .is_on = is_on,
            .bound_ns = config_.stall_timeout_ms * kNsPerMs,
            .silence_ns = config_.node_timeout_ms * kNsPerMs,
            .interface = interface_.name};
}

// A death that everybody can see and none of whose consequences has to be thought of here: recovery is there for it.
void Runtime::leave_with_node() noexcept {
    JobExit::flush_output();
    for (std::size_t i = 0; i < pidfds_.size(); ++i) {
        if (pidfds_[i] >= 0) {
            const ProcessSlot& slot = control_.slot(ProcId(static_cast<std::int32_t>(i)));
            kill_process(pidfds_[i], slot.pid, slot.start_time);
        }
    }
    ::kill(::getpid(), SIGKILL);
}

BackupStore::Door Runtime::door_of(ProcId process) const {
    const ProcessSlot& slot = control_.slot(process);
    return {.pid = slot.pid,
            .start_time = slot.start_time,
            .store_fd = slot.store_fd,
            .process = process,
            .network = is_remote(process) ? network_.get() : nullptr};
}

}  // namespace sft
