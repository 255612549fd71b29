// Spares that are started while the job runs: because somebody asks (oshrun --join), or because the job waits for one.
// The guardian starts them itself, or by the agent of another host; the launcher has no part in it. (PMIx_Spawn would
// be its way. Open MPI's mpirun ends the whole job when it is asked to spawn after it has lost a host.)

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/clock.hpp"
#include "tools/common/text.hpp"
#include "tools/oshrun/guardian_impl.hpp"
#include "tools/oshrun/joining.hpp"
#include "tools/oshrun/tcp.hpp"

namespace sft::tools {

void Guardian::take_join(const Fact& fact) {
    const JobSocket::Peer* peer = fact.host == 0 ? local_.peer(fact.connection) : nullptr;
    if (peer == nullptr) {
        return;
    }
    const std::string host(fact.event.text, strnlen(fact.event.text, sizeof fact.event.text));
    const std::string problem = problem_of_join(fact.event.code, host);
    if (problem.empty()) {
        joins_wanted_.insert(joins_wanted_.end(), static_cast<std::size_t>(fact.event.code),
                             {host.empty() ? host : settled_host_name(host), -1, now_ns()});
    }
    answer_join(*peer, problem);
}

// Empty: there is none.
std::string Guardian::problem_of_join(int count, const std::string& host) const {
    const int room = kJoinersMax - ledger_.joiners() - static_cast<int>(joins_wanted_.size());
    if (ending_ || control_fds_.empty()) {
        return ending_ ? "the job is ending" : "the job has not passed shmem_init yet";
    }
    if (count < 1 || count > room) {
        return fmt::format("a job takes {} spares in this way in all, and this one has room for {}", kJoinersMax, room);
    }
    if (!host.empty() && !choose_host(host_loads(-1), settled_host_name(host))) {
        return fmt::format("no process of the job lives on host {}", host);
    }
    return {};
}

void Guardian::serve_wishes() {
    if (ending_ || control_fds_.empty() || !demand_.has_wishes()) {
        return;
    }
    if (demand_.is_hopeless()) {
        ledger_.nobody_can_join(demand_.wished_pe(), why_not_joined_);
        return;
    }
    const auto& processes = ledger_.processes();
    int idle = static_cast<int>(joins_wanted_.size());
    for (auto rank = static_cast<std::size_t>(task_.shape.pes + task_.shape.spares); rank < processes.size(); ++rank) {
        idle += !processes[rank].end && processes[rank].pe < 0 ? 1 : 0;
    }
    const int room = kJoinersMax - ledger_.joiners() - static_cast<int>(joins_wanted_.size());
    std::vector<Demand::Wish> wishes = demand_.to_serve(idle);
    wishes.resize(std::min(wishes.size(), static_cast<std::size_t>(std::max(room, 0))));
    for (const Demand::Wish& wish : wishes) {
        joins_wanted_.push_back({"", wish.pe, wish.since_ns});
        demand_.started();
        ++idle;
    }
    if (demand_.is_exhausted() && demand_.unserved(idle) && !has_named_limit_) {
        has_named_limit_ = true;
        print_line(
            fmt::format("oshrun: warning: the job waits for a spare, but no more are started than {} "
                        "(--on-demand-limit)",
                        task_.on_demand.limit));
    }
}

void Guardian::start_joiners() {
    serve_wishes();
    while (!joins_wanted_.empty() && !ending_ && !control_fds_.empty()) {
        const int rank = static_cast<int>(ledger_.processes().size());
        const auto host = choose_host(host_loads(joins_wanted_.front().pe), joins_wanted_.front().host);
        if (!host) {
            break;  // where it could be started is gone; a wish stays a wish
        }
        const JoinRequest request = joins_wanted_.front();
        joins_wanted_.pop_front();
        start_joiner_on(*host, request, rank);
    }
    let_in();
}

// They start all at once, and join one after the other in the order of their ranks.
void Guardian::let_in() {
    const auto next = ledger_.next_to_join();
    const auto waiting = next ? joiners_waiting_.find(*next) : joiners_waiting_.end();
    if (waiting == joiners_waiting_.end() || ending_) {
        return;
    }
    const Fact fact = waiting->second;
    joiners_waiting_.erase(waiting);
    if (fact.host != 0) {
        hub_.answer(fact.host, fact.connection, Answer::go);
    } else {
        local_.answer_go(fact.connection, -1);
    }
}

void Guardian::start_joiner_on(std::int32_t host, const JoinRequest& request, int rank) {
    const auto donor = std::find_if(control_fds_.begin(), control_fds_.end(),
                                    [host](const auto& item) { return item.first.host == host; });
    joins_going_[rank] = request;
    if (host != 0) {
        ledger_.process_joined({-1, host});
        hub_.start(host, {rank, donor->first.pid, donor->second}, task_.joiner_command);
        return;
    }
    JoinerTask task;
    task.command = task_.joiner_command;
    task.rank = rank;
    task.donor_pid = donor->first.pid;
    task.donor_fd = donor->second;
    const std::int32_t pid = start_joiner(task);
    if (pid < 0) {
        print_line(fmt::format("oshrun: warning: cannot start a spare: {}", strerrordesc_np(errno)));
        return;
    }
    ledger_.process_joined(pid);
    local_.watch_process(pid);
}

void Guardian::take_started(const AgentHub::AgentEvent& news) {
    if (news.started.pid > 0) {
        ledger_.joiner_started(news.started.rank, {news.started.pid, news.host});
        return;
    }
    ledger_.joiner_failed(news.started.rank, now_ns());
    print_line(fmt::format("oshrun: warning: cannot start a spare on {}: {}", host_name(news.host),
                           strerrordesc_np(news.started.error_number)));
}

// The job has counted it in.
void Guardian::note_joined(int rank) {
    const auto found = joins_going_.find(rank);
    if (found == joins_going_.end()) {
        return;
    }
    const std::int32_t host = ledger_.processes()[static_cast<std::size_t>(rank)].host;
    const std::int64_t took_ns = now_ns() - found->second.wish_ns;
    log_.spare_joined(rank, host_name(host), host == 0 ? "guardian" : "agent", took_ns);
    demand_.joined();
    if (found->second.pe >= 0 && !task_.is_quiet) {
        print_line(fmt::format(
            "oshrun: warning: no spare was left for PE {}: one has been started on {} and has joined after {} ms",
            found->second.pe, host_name(host), took_ns / kNsPerMs));
    }
    joins_going_.erase(found);
}

// The first word about it is the reason, as its end is a consequence.
void Guardian::note_failed_joiner(int rank, const std::string& why) {
    if (!joiners_failed_.insert(rank).second) {
        return;
    }
    print_line(fmt::format("oshrun: warning: a spare could not join the job: {}", why));
    why_not_joined_ = why;
    demand_.failed();
}

std::vector<HostLoad> Guardian::host_loads(int pe) const {
    std::vector<HostLoad> loads;
    for (const AgentHub::Host& host : hub_.hosts()) {
        loads.push_back({.name = host.name});
    }
    for (const JobLedger::Process& process : ledger_.processes()) {
        loads[static_cast<std::size_t>(process.host)].processes += process.launched_pid > 0 && !process.end ? 1 : 0;
    }
    const auto n_started = static_cast<std::size_t>(task_.shape.pes + task_.shape.spares);
    for (std::size_t rank = n_started; rank < ledger_.processes().size(); ++rank) {
        // An agent has been told to start it and has not answered yet.
        const JobLedger::Process& process = ledger_.processes()[rank];
        loads[static_cast<std::size_t>(process.host)].processes += process.launched_pid <= 0 && !process.end ? 1 : 0;
    }
    for (std::size_t rank = 0; rank < n_started; ++rank) {
        ++loads[static_cast<std::size_t>(ledger_.processes()[rank].host)].places;
    }
    for (const auto& [key, descriptor] : control_fds_) {
        loads[static_cast<std::size_t>(key.host)].is_usable = !hub_.hosts()[static_cast<std::size_t>(key.host)].is_lost;
    }
    if (pe >= 0 && pe < task_.shape.pes) {
        const auto holder = static_cast<std::size_t>(ledger_.holders()[static_cast<std::size_t>(pe)]);
        HostLoad& home = loads[static_cast<std::size_t>(ledger_.processes()[holder].host)];
        home.was_home = true;
        // The job knows that it is dead; the news of its end may be on their way from its host.
        home.processes -= ledger_.processes()[holder].end ? 0 : 1;
        loads[static_cast<std::size_t>(keeper_host(pe))].is_keeper = true;
    }
    return loads;
}

// A PE's copy lies on the next host round the ring of those that hold PEs, in the order of their lowest processes.
std::int32_t Guardian::keeper_host(int pe) const {
    std::vector<std::pair<int, std::int32_t>> ring;  // lowest process, host
    std::set<std::int32_t> known;
    std::vector<int> ranks = ledger_.holders();
    std::sort(ranks.begin(), ranks.end());
    for (const int rank : ranks) {
        const std::int32_t host = ledger_.processes()[static_cast<std::size_t>(rank)].host;
        if (known.insert(host).second) {
            ring.emplace_back(rank, host);
        }
    }
    const int holder = ledger_.holders()[static_cast<std::size_t>(pe)];
    const std::int32_t home = ledger_.processes()[static_cast<std::size_t>(holder)].host;
    for (std::size_t i = 0; i < ring.size(); ++i) {
        if (ring[i].second == home) {
            return ring[(i + 1) % ring.size()].second;
        }
    }
    return home;
}

}  // namespace sft::tools
