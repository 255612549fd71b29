#include "shmem_ft/start/rendezvous.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/memory_domain.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

bool is_crowd(std::int32_t n_pes) { return n_pes > ::sysconf(_SC_NPROCESSORS_ONLN); }

std::int32_t most_on_a_node(const std::vector<NodeId>& nodes) {
    std::vector<std::int32_t> counts(nodes.size());
    std::int32_t most = 0;
    for (const NodeId node : nodes) {
        most = std::max(most, ++counts[node.index()]);
    }
    return most;
}

// Whoever would wait for this job's result is gone.
void launcher_lost() { ::_exit(kExitError); }

}  // namespace

std::int32_t Rendezvous::n_pes() const noexcept {
    return o_.bootstrap->n_processes() - static_cast<std::int32_t>(o_.config->spares);
}

// Before PMIx: if a process dies while it connects, the launcher's server may leave the others waiting for ever, and
// then only oshrun, which has heard of all of them, can end the job.
Result<> Rendezvous::say_hello() {
    if (o_.config->job_socket.empty()) {
        return {};  // nobody to say it to
    }
    o_.channel->set_rank(Bootstrap::rank_by_environment());
    if (Result<> done = o_.channel->connect(o_.config->job_socket); !done) {
        return done;
    }
    o_.channel->report({.kind = JobEventKind::hello, .begin_ns = now_ns()});
    return {};
}

void Rendezvous::watch_start() {
    SFT_ASSERT(watch_ == nullptr);
    watch_ = std::make_unique<StartWatch>(o_.config->start_timeout_ms, [this](StartStep step) {
        if (o_.channel->is_connected()) {
            JobEvent event{
                .kind = JobEventKind::start_late, .code = static_cast<std::int32_t>(step), .begin_ns = now_ns()};
            std::snprintf(event.text, sizeof event.text, "%s", describe(step));
            o_.channel->report(event);
            return;
        }
        char host[256] = {};
        ::gethostname(host, sizeof host - 1);
        say("error: process %d on %s has not come through shmem_init within %u ms (SHMEM_FT_START_TIMEOUT): it %s",
            Bootstrap::rank_by_environment(), host, o_.config->start_timeout_ms, describe(step));
        ::_exit(kExitError);
    });
}

void Rendezvous::enter(StartStep step) noexcept {
    if (watch_ != nullptr) {
        watch_->enter(step);
    }
}

// ---- with the job ----

Result<> Rendezvous::connect() {
    if (Result<> done = o_.bootstrap->connect(*o_.channel, o_.config->pretend_nodes); !done) {
        return done;
    }
    o_.bootstrap->watch_launcher(&launcher_lost);
    enter(StartStep::making_memory);
    return {};
}

// The lowest process of each node makes the node's segment; process 0 chooses for all.
Result<> Rendezvous::prepare_cards(JobCard& card, SegmentCard& segment, const Own& own) {
    if (self() != o_.bootstrap->node_leader()) {
        return {};
    }
    std::vector<NodeId> nodes;
    Result<> created = o_.bootstrap->find_nodes(nodes).then(
        [this] { return o_.control->create(n_pes(), o_.bootstrap->n_processes()); });
    if (!created) {
        return created;
    }
    SFT_ASSERT(nodes.size() == static_cast<std::size_t>(o_.bootstrap->n_processes()));
    o_.control->header().node = nodes[self().index()].value();
    o_.control->header().n_nodes = NodeMap(nodes).n_nodes();
    if (Result<> made = make_node_file(own); !made) {
        return made;
    }
    segment = {.pid = ::getpid(), .control_fd = o_.control->fd(), .start_time = process_start_time(::getpid())};
    if (self() == ProcId(0)) {
        const std::optional<MailToken> token = make_mail_token();
        if (!token) {
            return fails(format("the system gives no random numbers: %s", std::strerror(errno)));
        }
        card.mail_name = token->name;
        card.mail_secret = token->secret;
        // Pretended nodes share the processors of the one that there is.
        nodes.resize(static_cast<std::size_t>(n_pes()));
        card.is_crowded = is_crowd(o_.config->pretend_nodes != 0 ? n_pes() : most_on_a_node(nodes)) ? 1 : 0;
    }
    return {};
}

// In a job of one PE on several nodes the copies are with its witness; and with nobody in one of a single process.
Result<> Rendezvous::make_node_file(const Own& own) {
    ControlHeader& header = o_.control->header();
    if (n_pes() == 1 && (header.n_nodes > 1 || o_.bootstrap->n_processes() == 1)) {
        return {};
    }
    const Result<File> made = own.make_node_file(n_pes());
    if (!made) {
        return fails(made.error());
    }
    header.node_file_fd = made->fd;
    header.node_file_bytes = made->bytes;
    return {};
}

Result<> Rendezvous::open_node_file(const Own& own, std::int32_t pid, std::uint64_t start_time, int fd) {
    const std::uint64_t bytes = o_.control->header().node_file_bytes;
    if (bytes == 0) {
        return {};
    }
    const Result<> opened = own.open_node_file(pid, start_time, {.fd = fd, .bytes = bytes});
    return opened ? opened
                  : fails(format("cannot open the memory of the node, of the process with pid %d: %s (in shmem_init)",
                                 pid, opened.error().line.c_str()));
}

// Whoever this process has met the job through may have died since; the others have it open as well.
Result<> Rendezvous::open_node_file_of_anybody(const Own& own) {
    if (o_.control->header().node_file_bytes == 0) {
        return {};
    }
    Result<> opened = fails("nobody is there who has the memory of the node open");
    for (std::int32_t process = 0; process < o_.control->n_slots() && !opened; ++process) {
        const ProcessSlot& slot = o_.control->slot(ProcId(process));
        if (slot.state.load(std::memory_order_acquire) == ProcessState::ready) {
            opened = open_node_file(own, slot.pid, slot.start_time, slot.node_file_fd);
        }
    }
    return opened;
}

// ENSURES: the segment of this node is attached, and process 0's card lies in it.
Result<> Rendezvous::share_cards(const JobCard& mine, JobCard& first, int generation, const Own& own) {
    SegmentCard segment;
    if (Result<> checked = check_sizes(*o_.config, o_.bootstrap->n_processes()); !checked) {
        return checked;
    }
    if (Result<> prepared = prepare_cards(first, segment, own); !prepared) {
        return prepared;
    }
    enter(StartStep::meeting);
    if (Result<> done = o_.bootstrap->share_cards(first, segment, generation); !done) {
        return done;
    }
    if (Result<> compared = compare_cards(mine, first, self()); !compared) {
        return compared;
    }
    if (self() == o_.bootstrap->node_leader()) {
        static_assert(sizeof first <= kCardBytesMax);
        std::memcpy(o_.control->header().card, &first, sizeof first);
        return {};
    }
    Result<> attached = o_.control->attach(segment.pid, segment.start_time, segment.control_fd);
    if (!attached) {
        return fails(attached.error().line + " (in shmem_init)");
    }
    return open_node_file(own, segment.pid, segment.start_time, o_.control->header().node_file_fd);
}

Result<> Rendezvous::meet(int generation, const Own& own) {
    const JobCard mine = own_card(*o_.config, own.heap, own.globals, o_.links->topology_fingerprint());
    JobCard first = mine;
    if (Result<> shared = share_cards(mine, first, generation, own); !shared) {
        return shared;
    }
    enter(StartStep::opening_listeners);
    const Result<Files> files = own.make_store(o_.control->n_pes());
    if (!files) {
        return fails(files.error());
    }
    if (Result<> opened = own.open_links(first); !opened) {
        return opened;
    }
    if (Result<> published = publish_slot(*files); !published) {
        return published;
    }
    return tell_others(generation);
}

Result<> Rendezvous::tell_others(int generation) {
    enter(StartStep::publishing);
    const bool is_one_node = o_.bootstrap->is_one_node();
    if (!is_one_node) {
        if (Result<> done = o_.bootstrap->publish_contact(o_.links->own_contact(), generation); !done) {
            return done;
        }
    }
    if (!o_.bootstrap->fence(is_one_node ? Bootstrap::Collect::no : Bootstrap::Collect::yes)) {
        return fails("a process of the job ended inside shmem_init");
    }
    if (is_one_node) {
        read_domains();
        return {};
    }
    return o_.links->learn_nodes(generation, [this](StartStep step) { enter(step); });
}

Result<> Rendezvous::publish_slot(const Files& files) {
    ProcessSlot& slot = o_.control->slot(self());
    slot.pid = ::getpid();
    SFT_ASSERT(slot.state.load() != ProcessState::ready);  // published once
    slot.start_time = process_start_time(slot.pid);
    if (slot.start_time == 0) {
        return fails(format("cannot read /proc/%d/stat: %s", slot.pid, describe_error(errno).c_str()));
    }
    slot.heap_fd = files.heap.fd;
    slot.globals_fd = files.globals.fd;
    slot.store_fd = files.store.fd;
    slot.heap_in_node_file.store(files.heap_in_node_file);
    slot.globals_in_node_file = files.globals_in_node_file;
    slot.pidfd_number = own_pidfd_number();
    slot.node_file_fd = files.node_file;
    slot.memory_domain = find_domain(files).value() + 1;
    slot.state.store(ProcessState::ready, std::memory_order_release);
    return {};
}

// ---- memory domains ----

// Where this process is bound, if that is to decide where copies are kept. Then what it owns shall lie there as well,
// whoever writes to it first: peers put into its heap, and shadows are written by those whose state they hold.
DomainId Rendezvous::find_domain(const Files& files) const {
    if (!o_.bootstrap->is_one_node() || !o_.config->memory_domains || o_.config->backup.mode == BackupMode::none) {
        return kNoDomain;
    }
    const DomainId domain = find_memory_domain();
    bool is_placed = domain != kNoDomain;
    for (const File& file : {files.heap, files.globals, files.store}) {
        is_placed = is_placed && (file.fd < 0 || place_in_domain(file.fd, file.offset, file.bytes, domain));
    }
    if (o_.config->debug && domain != kNoDomain) {
        say("process %d: memory domain %d%s", self().value(), domain.value(),
            is_placed ? "" : "; where its memory comes from is up to the system");
    }
    return domain;
}

// REQUIRES: all processes that the job starts with have published their slots. So all read the same.
void Rendezvous::read_domains() {
    SFT_ASSERT(o_.bootstrap->is_one_node());
    std::vector<DomainId> domains;
    for (std::int32_t process = 0; process < o_.control->n_processes(); ++process) {
        domains.emplace_back(o_.control->slot(ProcId(process)).memory_domain - 1);
        SFT_ASSERT(domains.back() == kNoDomain || domains.back().value() >= 0);
    }
    domains_ = DomainMap(std::move(domains));
}

// ---- while the job runs ----

Result<> Rendezvous::attach() {
    int pid = 0;
    int descriptor = 0;
    if (std::sscanf(o_.config->join.c_str(), "%d:%d", &pid, &descriptor) != 2) {
        return fails(format("SHMEM_FT_JOIN=%s: not PID:DESCRIPTOR", o_.config->join.c_str()));
    }
    if (Result<> done = o_.control->attach(pid, process_start_time(pid), descriptor); !done) {
        return done;
    }
    if (Result<> checked = check_segment(pid); !checked) {
        return checked;
    }
    const ProcId self(Bootstrap::rank_by_environment());
    if (self.value() < o_.control->n_processes() || self.value() >= o_.control->n_slots()) {
        return fails(
            format("process %d cannot join: the job has room for %d processes that join", self.value(), kJoinSlots));
    }
    o_.bootstrap->join_existing(self, o_.control->n_processes(), o_.control->header().n_nodes == 1);
    return {};
}

// oshrun has only the number of the process, which may by now be that of another one, with a segment of another job.
Result<> Rendezvous::check_segment(int pid) const {
    for (std::int32_t process = 0; process < o_.control->n_slots(); ++process) {
        const ProcessSlot& slot = o_.control->slot(ProcId(process));
        if (slot.pid == pid && slot.start_time == process_start_time(pid)) {
            return {};
        }
    }
    return fails(format("SHMEM_FT_JOIN=%s: the process with that pid is not of the job whose segment it has open",
                        o_.config->join.c_str()));
}

Result<> Rendezvous::join(const Own& own) {
    JobCard first;
    static_assert(std::is_trivially_copyable_v<JobCard>);
    std::memcpy(&first, o_.control->header().card, sizeof first);
    if (Result<> compared =
            compare_cards(own_card(*o_.config, own.heap, own.globals, o_.links->topology_fingerprint()), first, self());
        !compared) {
        return compared;
    }
    if (Result<> opened = open_node_file_of_anybody(own); !opened) {
        return opened;
    }
    const Result<Files> files = own.make_store(o_.control->n_pes());
    if (!files) {
        return fails(files.error());
    }
    if (!o_.bootstrap->is_one_node()) {
        if (Result<> read = o_.links->read_nodes(); !read) {
            return read;
        }
    }
    if (Result<> opened = own.open_links(first); !opened) {
        return opened;
    }
    if (Result<> is_next = await_turn(); !is_next) {
        return is_next;
    }
    if (Result<> published = publish_slot(*files); !published) {
        return published;
    }
    if (o_.bootstrap->is_one_node()) {
        read_domains();
        return {};
    }
    if (o_.config->port_guard != PortGuard::none) {
        o_.links->admit_nodes();
    }
    const Contact contact = o_.links->own_contact();
    o_.control->set_contact(self(), contact);
    o_.mailbox->introduce_self(contact);
    return {};
}

// Spares join in the order of their numbers (recovery/membership/agreement.hpp), and oshrun knows who of those below is
// still on its way: everything that takes long comes before this, and only what is left is done one after the other.
Result<> Rendezvous::await_turn() {
    o_.channel->report({.kind = JobEventKind::join_ready});
    if (o_.channel->is_connected() && !o_.channel->await_answer()) {
        return fails("oshrun is gone");
    }
    return {};
}

std::vector<ProcId> Rendezvous::everybody_else() const {
    std::vector<ProcId> everybody;
    for (std::int32_t process = 0; process < o_.control->n_slots(); ++process) {
        const bool is_ready = o_.control->slot(ProcId(process)).state.load() == ProcessState::ready;
        const bool is_elsewhere =
            o_.links->is_remote(ProcId(process)) && o_.control->contact(ProcId(process)) != nullptr;
        if ((is_ready || is_elsewhere) && ProcId(process) != self()) {
            everybody.emplace_back(process);
        }
    }
    return everybody;
}

}  // namespace sft
