// The ways between this process and those of other nodes, from the start to the end of the process: the mailbox, which
// every job has, and in a job on several nodes the network, with what is known of who is where.
//
// Order of a start: everybody listens (open), and only then publishes where, so that a port which refuses later on
// means a death; the lowest process of each node collects all contacts in the node's segment; a fence; from then on
// everybody finds everybody (learn_nodes).
//
// Threads: that of shmem_init until learn_nodes() has come back; then nothing here changes, and is_remote() may be
// asked by anybody. note_lost() any, at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/area_map.hpp"
#include "base/config.hpp"
#include "base/node_map.hpp"
#include "base/result.hpp"
#include "base/topology.hpp"
#include "shmem_ft/start/bootstrap.hpp"
#include "shmem_ft/start/start_watch.hpp"
#include "transport/contact.hpp"
#include "transport/mail/mailbox.hpp"
#include "transport/net/network.hpp"
#include "transport/shm/control.hpp"
#include "transport/shm/write_marks.hpp"

namespace sft {

class NodeLinks {
public:
    struct Options {
        const Config* config = nullptr;
        Bootstrap* bootstrap = nullptr;
        ControlSegment* control = nullptr;
        Mailbox* mailbox = nullptr;
    };
    // What the network needs of this process.
    struct Own {
        AddressRange heap;
        AddressRange globals;
        FaultGate* gate = nullptr;
        WriteMarks marks;  // the first put may come before this process is through its start
        std::size_t message_bytes_max = 0;
    };
    explicit NodeLinks(const Options& options) noexcept : o_(options) {}

    // The file of SHMEM_FT_TOPOLOGY. Before anything else.
    [[nodiscard]] Result<> read_topology();
    // Listens. `first`: process 0's card.
    [[nodiscard]] Result<> open(const JobCard& first, const Own& own);
    // How this process is reached by others.
    [[nodiscard]] Contact own_contact() const;
    // Collective, behind a fence that all have published their contacts before. enter: what is being done.
    [[nodiscard]] Result<> learn_nodes(int generation, const std::function<void(StartStep)>& enter);
    // The same for a process that comes to a job that runs: others have learnt long ago.
    [[nodiscard]] Result<> read_nodes();
    // Others are let in, and let this one in. Those that come later are on nodes that are known already: they learn
    // from a process there.
    void admit_nodes();
    void close() noexcept;

    // A living process cannot be reached any more. Nobody says that it is dead, so nobody will ever forget it; and
    // without it this process waits for ever. By the network's own thread.
    void note_lost(ProcId process) noexcept;
    // Whom a line of it is given, once it is possible; of one that was lost before as well: processes that have started
    // earlier may send something to this one before it can do anything about it. tell: by any thread, and without
    // waiting until the job has ended.
    void tell_of_lost(std::function<void(const std::string& line)> tell) noexcept;

    // Of those that the job has started with, and those that joined. On their own node these have a slot.
    [[nodiscard]] bool is_remote(ProcId process) const noexcept;
    // Null: the job is on one node.
    [[nodiscard]] Network* network() const noexcept { return network_.get(); }
    [[nodiscard]] const NodeMap* nodes() const noexcept { return o_.bootstrap->is_one_node() ? nullptr : &nodes_; }
    [[nodiscard]] const NodeInterface& interface() const noexcept { return interface_; }
    // Null: nothing is known but nodes, or all of them are in one area.
    [[nodiscard]] const AreaMap* areas() const noexcept { return areas_.has_several() ? &areas_ : nullptr; }
    // The file of SHMEM_FT_TOPOLOGY; nothing: there is none.
    [[nodiscard]] const std::optional<Topology>& topology() const noexcept { return topology_; }
    [[nodiscard]] std::uint64_t topology_fingerprint() const noexcept {
        return topology_ ? topology_->fingerprint() : 0;
    }
    // As a user knows it.
    [[nodiscard]] std::string name_of(NodeId node) const;
    // Nothing that this process has sent is under way.
    void quiet() noexcept;

private:
    [[nodiscard]] Result<> open_network(const JobCard& first, const Own& own);
    [[nodiscard]] std::string own_name() const;
    [[nodiscard]] Result<> gather_contacts(int generation);
    [[nodiscard]] Result<> try_ways();
    void tell_lost() noexcept;

    Options o_;
    NodeInterface interface_;
    NodeMap nodes_;
    AreaMap areas_;
    std::optional<Topology> topology_;
    std::unique_ptr<Network> network_;
    std::function<void(const std::string&)> tell_;
    std::atomic<bool> has_listener_{false};  // tell_ is set
    std::atomic<ProcId> lost_{kNoProc};      // nobody has been told of it yet
};

}  // namespace sft
