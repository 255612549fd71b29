#include "tools/oshrun/local_processes.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "tools/oshrun/exec_pe.hpp"

namespace sft::tools {

void LocalProcesses::watch(Poller& poller) {
    poller_ = &poller;
    poller.add(socket_.fd(), Source::listener, 0);
}

bool LocalProcesses::handle(const Poller::Event& news) {
    switch (news.source) {
        case Source::listener: accept_peers(); return true;
        case Source::connection: drain(static_cast<int>(news.id)); return true;
        case Source::process:
            accept_peers();
            process_ended(static_cast<std::int32_t>(news.id));
            return true;
        default: return false;
    }
}

void LocalProcesses::accept_peers() {
    while (auto peer = socket_.accept()) {
        const int fd = peer->fd.get();
        // What the same process has sent before through another connection comes first.
        for (const int earlier : connections_of(peer->pid)) {
            drain(earlier);
        }
        poller_->add(fd, Source::connection, static_cast<std::uint32_t>(fd));
        connections_[fd] = std::move(*peer);
        drain(fd);
    }
}

std::vector<int> LocalProcesses::connections_of(std::int32_t pid) const {
    std::vector<int> own;
    for (const auto& [fd, peer] : connections_) {
        if (peer.pid == pid) {
            own.push_back(fd);
        }
    }
    return own;
}

void LocalProcesses::drain(int fd) {
    const auto found = connections_.find(fd);
    if (found == connections_.end()) {
        return;
    }
    Fact fact;
    fact.connection = fd;
    while (true) {
        const JobSocket::Received received = JobSocket::receive(found->second, fact.event);
        if (received == JobSocket::Received::nothing) {
            return;
        }
        if (received == JobSocket::Received::closed) {
            break;
        }
        if (received == JobSocket::Received::foreign) {
            fact.event = version_complaint(program_, found->second.pid);
            facts_.push_back(fact);
            return;  // left open: its end would end the process, and that must not look like the cause
        }
        facts_.push_back(fact);
    }
    // Closing takes it out of the poller too.
    connections_.erase(found);
}

std::vector<Fact> LocalProcesses::take_facts() {
    const auto is_unrecoverable = [](const Fact& fact) {
        return fact.ended_pid < 0 && fact.event.kind == JobEventKind::unrecoverable;
    };
    if (std::any_of(facts_.begin(), facts_.end(), is_unrecoverable)) {
        // The job's exit status is that of the PE that has died before, whose end may still have to be heard.
        sweep_ended();
        std::stable_partition(facts_.begin(), facts_.end(), [&](const Fact& fact) { return !is_unrecoverable(fact); });
    }
    std::vector<Fact> facts = std::exchange(facts_, {});
    watch_who_came(facts);
    for (const Fact& fact : std::exchange(facts_, {})) {
        facts.push_back(fact);
    }
    return facts;
}

// Nobody whose end has been heard together with the hello: it is no longer watched, and to watch it anew would put an
// end whose status is not known beside the one that is.
void LocalProcesses::watch_who_came(const std::vector<Fact>& facts) {
    for (const Fact& fact : facts) {
        const bool is_launched = fact.ended_pid < 0 && fact.event.kind == kEventLaunched;
        const bool is_hello = fact.ended_pid < 0 && fact.event.kind == JobEventKind::hello;
        const auto is_its_end = [&](const Fact& other) { return other.ended_pid == fact.event.pid; };
        if (is_launched || (is_hello && std::none_of(facts.begin(), facts.end(), is_its_end))) {
            watch_process(fact.event.pid);
        }
    }
}

void LocalProcesses::watch_process(std::int32_t pid) {
    if (pidfds_.contains(pid)) {
        return;
    }
    Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd) {
        // It is gone already; an end that has been heard before is not replaced by this.
        Fact fact;
        fact.ended_pid = pid;
        fact.reason = {FailureKind::died, 0};
        facts_.push_back(fact);
        return;
    }
    poller_->add(pidfd.get(), Source::process, static_cast<std::uint32_t>(pid));
    pidfds_[pid] = std::move(pidfd);
}

void LocalProcesses::process_ended(std::int32_t pid) {
    // What it has reported before its end is in its connections.
    for (const int fd : connections_of(pid)) {
        drain(fd);
    }
    const auto found = pidfds_.find(pid);
    if (found == pidfds_.end()) {
        return;
    }
    Fact fact;
    fact.ended_pid = pid;
    fact.reason = reason_of_end(found->second.get(), pid);
    facts_.push_back(fact);
    pidfds_.erase(found);
}

void LocalProcesses::sweep_ended() {
    std::vector<pollfd> entries;
    std::vector<std::int32_t> pids;
    for (const auto& [pid, pidfd] : pidfds_) {
        entries.push_back({.fd = pidfd.get(), .events = POLLIN, .revents = 0});
        pids.push_back(pid);
    }
    poll(entries.data(), entries.size(), 0);
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].revents != 0) {
            process_ended(pids[i]);
        }
    }
}

void LocalProcesses::reap_orphans(std::int32_t spared) {
    siginfo_t info{};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
        if (info.si_pid == spared) {
            return;  // whoever spares it asks for it
        }
        process_ended(info.si_pid);
        waitpid(info.si_pid, nullptr, WNOHANG);
        info = {};
    }
}

void LocalProcesses::answer_go(std::int32_t connection, int descriptor) {
    if (const JobSocket::Peer* found = peer(connection)) {
        JobSocket::answer(*found, descriptor);
    }
}

void LocalProcesses::answer(std::int32_t connection, const JobEvent& event) {
    if (const JobSocket::Peer* found = peer(connection)) {
        // A peer that is gone needs no answer.
        [[maybe_unused]] const ssize_t sent = send(found->fd.get(), &event, sizeof event, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

void LocalProcesses::answer_no(std::int32_t connection) {
    if (peer(connection) != nullptr) {
        shutdown(connection, SHUT_RDWR);
    }
}

const JobSocket::Peer* LocalProcesses::peer(std::int32_t connection) const {
    const auto found = connections_.find(connection);
    return found == connections_.end() ? nullptr : &found->second;
}

std::vector<std::int32_t> LocalProcesses::pids() const {
    std::vector<std::int32_t> pids;
    pids.reserve(pidfds_.size());
    for (const auto& item : pidfds_) {
        pids.push_back(item.first);
    }
    return pids;
}

void LocalProcesses::signal(std::int32_t pid, int number) const {
    if (const auto found = pidfds_.find(pid); found != pidfds_.end()) {
        syscall(SYS_pidfd_send_signal, found->second.get(), number, nullptr, 0);
    }
}

void LocalProcesses::signal_all(int number) const {
    for (const auto& item : pidfds_) {
        signal(item.first, number);
    }
}

}  // namespace sft::tools
