// How the processes of a job find each other: by PMIx, or, where oshrun itself has started all of them on one host, by
// the line to oshrun.
//
// The lowest process of each node creates the node's control segment and publishes where it is; what concerns one node
// is exchanged through the segment. In a job on several nodes every process also publishes how it is reached from
// others (Contact), and the lowest of each node collects these in the segment. So start-up moves O(1) data per process
// besides the fences, and one process per node looks at all. Whatever must be alike in all processes is in the card of
// process 0, and every process compares it with its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/job_channel.hpp"
#include "base/result.hpp"
#include "shmem_ft/start/job_card.hpp"
#include "transport/contact.hpp"

namespace sft {

// Published by the lowest process of each node: where its control segment can be opened.
struct SegmentCard {
    std::int32_t pid = 0;
    std::int32_t control_fd = -1;
    std::uint64_t start_time = 0;  // of the process
};
static_assert(sizeof(SegmentCard) == 16 && std::has_unique_object_representations_v<SegmentCard>);

class Bootstrap {
public:
    // Connects to the PMIx server of the launcher, or, if oshrun has started the job itself, goes by `oshrun`, which
    // has to be connected then and to outlive this. pretend_nodes: SHMEM_FT_PRETEND_NODES.
    [[nodiscard]] Result<> connect(JobChannel& oshrun, std::uint32_t pretend_nodes);
    // What self() will be, known before connect().
    [[nodiscard]] static std::int32_t rank_by_environment() noexcept;
    // Instead of connect(): this process comes to a job that runs, as one more.
    void join_existing(ProcId self, std::int32_t n_processes, bool is_one_node) noexcept;
    // As often as connect() succeeded, at the end of the process.
    static void disconnect() noexcept;

    [[nodiscard]] ProcId self() const noexcept { return self_; }
    [[nodiscard]] std::int32_t n_processes() const noexcept { return n_processes_; }
    [[nodiscard]] const char* name_space() const noexcept { return name_space_; }
    [[nodiscard]] bool is_one_node() const noexcept { return is_one_node_; }
    // Slurm's own PMIx server has started this job (srun --mpi=pmix).
    [[nodiscard]] bool is_slurm_step() const noexcept;
    // The lowest process of this node.
    [[nodiscard]] ProcId node_leader() const noexcept { return node_leader_; }
    // By process. Nodes are numbered in the order of their lowest processes. Looks at all processes, so for the lowest
    // of each node only.
    [[nodiscard]] Result<> find_nodes(std::vector<NodeId>& nodes) const;

    // Collective: process 0's card becomes `card` everywhere, the one of the lowest process of the node `segment`.
    // `generation` counts the initialisations of the library.
    [[nodiscard]] Result<> share_cards(JobCard& card, SegmentCard& segment, int generation);
    // To be read by others after the next fence.
    [[nodiscard]] Result<> publish_contact(const Contact& contact, int generation);
    [[nodiscard]] Result<> read_contact_of(ProcId process, int generation, Contact& contact) const;
    // Collective. collects: what was published before can be read afterwards. False: a process of the job has ended.
    enum class Collect { no, yes };
    [[nodiscard]] bool fence(Collect collect = Collect::no) noexcept;
    // Calls `lost` (on a thread of PMIx) when the launcher is gone, until the process has done its part in the job:
    // then it has an exit code of its own, and the launcher's daemon on its node may have died unnoticed.
    void watch_launcher(void (*lost)()) noexcept;
    static void forget_launcher() noexcept { is_launcher_needed_.store(false); }

private:
    [[nodiscard]] Result<> meet(std::span<std::byte> shared) noexcept;

    JobChannel* oshrun_ = nullptr;  // null: PMIx
    ProcId self_ = kNoProc;
    std::int32_t n_processes_ = 0;
    bool is_one_node_ = true;
    std::uint32_t pretend_nodes_ = 0;
    ProcId node_leader_{0};
    static std::atomic<bool> is_launcher_needed_;  // PMIx is one for the process
    char name_space_[256] = {};
};

// Identifies the running executable's file by its contents.
[[nodiscard]] std::uint64_t program_fingerprint() noexcept;

}  // namespace sft
