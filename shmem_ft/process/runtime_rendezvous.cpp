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

bool Runtime::publish_slot(std::string& error) {
    ProcessSlot& slot = control_.slot(self());
    slot.pid = ::getpid();
    slot.start_time = process_start_time(slot.pid);
    if (slot.start_time == 0) {
        error = format("cannot read /proc/%d/stat: %s", slot.pid, describe_error(errno).c_str());
        return false;
    }
    slot.heap_fd = memory_.heap_segment().fd();
    slot.globals_fd = memory_.globals_segment().fd();
    slot.store_fd = protector_.store().fd();
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
    for (const Segment* segment :
         {&memory_.heap_segment(), &memory_.globals_segment(), &protector_.store().segment()}) {
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

// The lowest process of each node makes the node's segment; process 0 chooses for all.
bool Runtime::prepare_cards(JobCard& card, SegmentCard& segment, std::string& error) {
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

bool Runtime::rendezvous(int generation, std::string& error) {
    const JobCard mine = own_card(config_, memory_.live().heap, memory_.live().globals);
    JobCard first = mine;
    SegmentCard segment;
    if (!holds(check_sizes(config_, bootstrap_.n_processes()), error) || !prepare_cards(first, segment, error)) {
        return false;
    }
    enter(StartStep::meeting);
    const bool leads_node = self() == bootstrap_.node_leader();
    if (!bootstrap_.share_cards(first, segment, generation, error) ||
        !holds(compare_cards(mine, first, self()), error)) {
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
    enter(StartStep::opening_listeners);
    if (!holds(protector_.create(config_.backup_mode, control_.n_pes()), error) || !open_links(first, error) ||
        !publish_slot(error)) {
        return false;
    }
    enter(StartStep::publishing);
    const bool is_one_node = bootstrap_.is_one_node();
    if (!is_one_node && !bootstrap_.publish_contact(links_.own_contact(), generation, error)) {
        return false;
    }
    if (!bootstrap_.fence(is_one_node ? Bootstrap::Collect::no : Bootstrap::Collect::yes)) {
        error = "a process of the job ended inside shmem_init";
        return false;
    }
    if (is_one_node) {
        read_domains();
        return true;
    }
    return holds(links_.learn_nodes(generation, [this](StartStep step) { enter(step); }), error);
}

}  // namespace sft
