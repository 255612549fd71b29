// How a process meets the others of its job: those of its node by the control segment, those of other nodes by their
// contacts, and what must be alike in all. A process that starts with the job meets them through its launcher; a spare
// that comes while the job runs (oshrun --join) through the control segment of one of them.
//
// Fault model: any other process may die or stand still before it has come through its start. A fence tells of the
// first, and a bound on the whole start of the second (start_watch.hpp).
//
// Order: say_hello(); connect() or attach(); the memory of this process is made; meet() or join().
// Threads: that of shmem_init. Nothing changes behind meet() and join(); domains() may be read by anybody then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/config.hpp"
#include "base/domain_map.hpp"
#include "base/job_channel.hpp"
#include "base/result.hpp"
#include "shmem_ft/start/bootstrap.hpp"
#include "shmem_ft/start/node_links.hpp"
#include "shmem_ft/start/start_watch.hpp"
#include "transport/mail/mailbox.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class Rendezvous {
public:
    struct Options {
        const Config* config = nullptr;
        JobChannel* channel = nullptr;
        Bootstrap* bootstrap = nullptr;
        ControlSegment* control = nullptr;
        NodeLinks* links = nullptr;
        Mailbox* mailbox = nullptr;
    };
    struct File {
        int fd = -1;  // none
        std::size_t bytes = 0;
        std::size_t offset = 0;
    };
    // Memory files of this process that others open.
    struct Files {
        File heap;
        File globals;
        File store;
        std::uint64_t heap_in_node_file = 0;  // as ProcessSlot has them
        std::uint64_t globals_in_node_file = 0;
        int node_file = -1;
    };
    // What this process brings along.
    struct Own {
        AddressRange heap;
        AddressRange globals;
        // Memory that outlives the processes of this node. By the lowest of them, in a job of several PEs; result: no
        // file if there is to be none.
        std::function<Result<File>(std::int32_t n_pes)> make_node_file;
        // By the others.
        std::function<Result<>(std::int32_t pid, std::uint64_t start_time, const File& file)> open_node_file;
        // Once the number of PEs is known, and that is there.
        std::function<Result<Files>(std::int32_t n_pes)> make_store;
        // After that. first: the card of process 0.
        std::function<Result<>(const JobCard& first)> open_links;
    };
    explicit Rendezvous(const Options& options) noexcept : o_(options) {}

    // Tells oshrun, if there is one, that this process exists.
    [[nodiscard]] Result<> say_hello();
    // A bound on what follows, until end_watch(). Whoever starts the job hears from all and can tell who is to blame;
    // without oshrun each process ends itself.
    void watch_start();
    void enter(StartStep step) noexcept;
    void end_watch() noexcept { watch_.reset(); }

    // ---- with the job ----

    [[nodiscard]] Result<> connect();
    // Collective. `generation` counts the initialisations of the library.
    [[nodiscard]] Result<> meet(int generation, const Own& own);

    // ---- while the job runs ----

    // REQUIRES: oshrun gives every number to one process only.
    [[nodiscard]] Result<> attach();
    // Several may come at once: returns when it is this one's turn to ask the others to count it in.
    [[nodiscard]] Result<> join(const Own& own);
    // Whom it asks: all but itself, with those that have joined before, one of which may be leading.
    [[nodiscard]] std::vector<ProcId> everybody_else() const;

    // Of the PEs and spares that the job has started with. Null: there are not several, or it runs on several nodes.
    [[nodiscard]] const DomainMap* domains() const noexcept { return domains_.has_several() ? &domains_ : nullptr; }

private:
    [[nodiscard]] ProcId self() const noexcept { return o_.bootstrap->self(); }
    [[nodiscard]] std::int32_t n_pes() const noexcept;
    [[nodiscard]] Result<> prepare_cards(JobCard& card, SegmentCard& segment, const Own& own);
    [[nodiscard]] Result<> share_cards(const JobCard& mine, JobCard& first, int generation, const Own& own);
    [[nodiscard]] Result<> make_node_file(const Own& own);
    [[nodiscard]] Result<> open_node_file(const Own& own, std::int32_t pid, std::uint64_t start_time, int fd);
    [[nodiscard]] Result<> open_node_file_of_anybody(const Own& own);
    [[nodiscard]] Result<> tell_others(int generation);
    [[nodiscard]] Result<> publish_slot(const Files& files);
    [[nodiscard]] DomainId find_domain(const Files& files) const;
    void read_domains();
    [[nodiscard]] Result<> check_segment(int pid) const;
    [[nodiscard]] Result<> await_turn();

    Options o_;
    DomainMap domains_;
    std::unique_ptr<StartWatch> watch_;  // while this process is in shmem_init for the first time
};

}  // namespace sft
