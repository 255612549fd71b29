// Start-up: how a process meets the others of its node and those of other nodes, and what must be alike in all.

#include <gnu/libc-version.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/memory_domain.hpp"
#include "base/report.hpp"
#include "shmem_ft/process/runtime.hpp"

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

}  // namespace

// Whoever starts the job hears from all and can tell who is to blame. Without oshrun each process ends itself: nobody
// else would.
void Runtime::watch_start() {
    start_watch_ = std::make_unique<StartWatch>(config_.start_timeout_ms, [this](StartStep step) {
        if (channel_.is_connected()) {
            report(JobEventKind::start_late, static_cast<std::int32_t>(step), 0, describe(step), now_ns(), 0);
            return;
        }
        char host[256] = {};
        ::gethostname(host, sizeof host - 1);
        say("error: process %d on %s has not come through shmem_init within %u ms (SHMEM_FT_START_TIMEOUT): it %s",
            Bootstrap::rank_by_environment(), host, config_.start_timeout_ms, describe(step));
        ::_exit(kExitError);
    });
}

void Runtime::enter(StartStep step) noexcept {
    if (start_watch_ != nullptr) {
        start_watch_->enter(step);
    }
}

bool Runtime::compare_cards(const BootCard& mine, const BootCard& first, std::string& error) const {
    const int rank = self().value();
    if (mine.layout != first.layout) {
        error = format("process %d and process 0 run different versions of this library", rank);
    } else if (std::strcmp(mine.libc_version, first.libc_version) != 0) {
        error = format("process %d runs with libc %s, process 0 with libc %s: use the same system on all", rank,
                       mine.libc_version, first.libc_version);
    } else if (mine.program_fingerprint != first.program_fingerprint) {
        error = format("process %d runs another program (%s) than process 0 (%s): all PEs must run the same file", rank,
                       mine.program, first.program);
    } else if ((mine.globals_bytes == 0) != (first.globals_bytes == 0)) {
        error = format("process %d has another SHMEM_FT_GLOBALS than process 0: it must be the same for all", rank);
    } else if (mine.globals_begin != first.globals_begin || mine.globals_bytes != first.globals_bytes) {
        error = format(
            "the globals of process %d lie at another address than those of process 0: link with -no-pie "
            "(oshcc does) or start with oshrun",
            rank);
    } else if (mine.check_mode != first.check_mode) {
        error = format("process %d has another SHMEM_FT_CHECK than process 0: it must be the same for all", rank);
    } else if (mine.port_guard != first.port_guard) {
        error = format("process %d has another SHMEM_FT_GUARD_PORTS than process 0: it must be the same for all", rank);
    } else if (mine.heap_base != first.heap_base || mine.heap_bytes != first.heap_bytes) {
        error = format(
            "process %d has another symmetric heap than process 0: SHMEM_SYMMETRIC_SIZE and "
            "SHMEM_FT_HEAP_BASE must be the same for all",
            rank);
    } else if (mine.spares != first.spares || mine.backup_mode != first.backup_mode) {
        error = format(
            "process %d has other settings than process 0: SHMEM_FT_SPARES and SHMEM_FT_BACKUP_MODE must be "
            "the same for all",
            rank);
    }
    return error.empty();
}

bool Runtime::publish_slot(std::string& error) {
    ProcessSlot& slot = control_.slot(self());
    slot.pid = ::getpid();
    slot.start_time = process_start_time(slot.pid);
    if (slot.start_time == 0) {
        error = format("cannot read /proc/%d/stat: %s", slot.pid, describe_error(errno).c_str());
        return false;
    }
    slot.heap_fd = heap_segment_.fd();
    slot.globals_fd = globals_.segment().fd();
    slot.store_fd = store_.fd();
    slot.memory_domain = find_domain().value() + 1;
    slot.state.store(ProcessState::ready, std::memory_order_release);
    return true;
}

// Where this process is bound, if that is to decide where copies are kept. Then what it owns shall lie there as well,
// whoever writes to it first: peers put into its heap, and shadows are written by those whose state they hold.
DomainId Runtime::find_domain() const {
    if (!bootstrap_.is_one_node() || !config_.memory_domains || config_.backup_mode == BackupMode::none) {
        return kNoDomain;
    }
    const DomainId domain = find_memory_domain();
    bool is_placed = domain != kNoDomain;
    for (const Segment* segment : {&heap_segment_, &globals_.segment(), &store_.segment()}) {
        is_placed = is_placed && (segment->fd() < 0 || place_in_domain(segment->fd(), segment->bytes(), domain));
    }
    if (config_.debug && domain != kNoDomain) {
        say("process %d: memory domain %d%s", self().value(), domain.value(),
            is_placed ? "" : "; where its memory comes from is up to the system");
    }
    return domain;
}

// REQUIRES: all processes that the job starts with have published their slots. So all read the same.
void Runtime::read_domains() {
    std::vector<DomainId> domains;
    for (std::int32_t process = 0; process < control_.n_processes(); ++process) {
        domains.emplace_back(control_.slot(ProcId(process)).memory_domain - 1);
    }
    domains_ = DomainMap(std::move(domains));
}

BootCard Runtime::own_card() const {
    BootCard mine;
    mine.spares = config_.spares;
    mine.heap_base = live_.heap.begin;
    mine.heap_bytes = live_.heap.bytes;
    mine.globals_begin = live_.globals.begin;
    mine.globals_bytes = live_.globals.bytes;
    mine.program_fingerprint = program_fingerprint();
    mine.backup_mode = static_cast<std::uint32_t>(config_.backup_mode);
    mine.check_mode = static_cast<std::uint32_t>(config_.check);
    mine.port_guard = static_cast<std::uint32_t>(config_.port_guard);
    std::snprintf(mine.libc_version, sizeof mine.libc_version, "%s", ::gnu_get_libc_version());
    const ssize_t length = ::readlink("/proc/self/exe", mine.program, sizeof mine.program - 1);
    mine.program[length < 0 ? 0 : length] = '\0';
    return mine;
}

bool Runtime::check_sizes(std::string& error) const {
    const std::int32_t n_processes = bootstrap_.n_processes();
    if (first_spare() < 1) {
        error = format("SHMEM_FT_SPARES=%u leaves no PE: the job has %d processes", config_.spares, n_processes);
        return false;
    }
    if (n_processes > kProcessesMax) {
        error = format("the job has %d processes: this version takes at most %d", n_processes, kProcessesMax);
        return false;
    }
    return true;
}

// The lowest process of each node makes the node's segment; process 0 chooses for all.
bool Runtime::prepare_cards(BootCard& card, SegmentCard& segment, std::string& error) {
    if (self() != bootstrap_.node_leader()) {
        return true;
    }
    std::vector<NodeId> nodes;
    if (!bootstrap_.find_nodes(nodes, error) || !control_.create(first_spare(), bootstrap_.n_processes(), error)) {
        return false;
    }
    control_.header().node = nodes[self().index()].value();
    control_.header().n_nodes = NodeMap(nodes).n_nodes();
    segment = {.pid = ::getpid(), .control_fd = control_.fd(), .start_time = process_start_time(::getpid())};
    if (self() == ProcId(0)) {
        const std::optional<MailToken> token = make_mail_token();
        if (!token) {
            error = format("the system gives no random numbers: %s", std::strerror(errno));
            return false;
        }
        card.mail_name = token->name;
        card.mail_secret = token->secret;
        // Pretended nodes share the processors of the one that there is.
        nodes.resize(static_cast<std::size_t>(first_spare()));
        card.is_crowded = is_crowd(config_.pretend_nodes != 0 ? first_spare() : most_on_a_node(nodes)) ? 1 : 0;
    }
    return true;
}

bool Runtime::meet_the_others(int generation, std::string& error) {
    BootCard mine = own_card();
    SegmentCard segment;
    if (!check_sizes(error) || !prepare_cards(mine, segment, error)) {
        return false;
    }
    BootCard first = mine;
    enter(StartStep::meeting);
    const bool leads_node = self() == bootstrap_.node_leader();
    if (!bootstrap_.share_cards(first, segment, generation, error) || !compare_cards(mine, first, error)) {
        return false;
    }
    if (!leads_node && !control_.attach(segment.pid, segment.start_time, segment.control_fd, error)) {
        error += " (in shmem_init)";
        return false;
    }
    if (leads_node) {
        static_assert(sizeof first <= kCardBytesMax);
        std::memcpy(control_.header().card, &first, sizeof first);
    }
    enter(StartStep::opening_doors);
    if (!store_.create(config_.backup_mode, live_, control_.n_pes(), error) || !open_doors(first, error)) {
        return false;
    }
    if (!publish_slot(error)) {
        return false;
    }
    enter(StartStep::publishing);
    const bool is_one_node = bootstrap_.is_one_node();
    if (!is_one_node && !bootstrap_.publish_contact(own_contact(), generation, error)) {
        return false;
    }
    if (!bootstrap_.fence(is_one_node ? Bootstrap::Collect::no : Bootstrap::Collect::yes)) {
        error = "a process of the job ended inside shmem_init";
        return false;
    }
    if (is_one_node) {
        read_domains();
    }
    return is_one_node || learn_nodes(generation, error);
}

}  // namespace sft
