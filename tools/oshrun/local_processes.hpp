// The processes of a job on one host, as the guardian and the agents of other hosts watch them: their connections (see
// base/job_channel.hpp) and their ends.
//
// Fault model: a process may end at any time in any way; what it has said before its end is told before its end.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/job_channel.hpp"
#include "base/process_watch.hpp"
#include "tools/common/fd.hpp"
#include "tools/oshrun/job_socket.hpp"
#include "tools/oshrun/poller.hpp"

namespace sft::tools {

// What has been heard but not yet been judged: a report, or the end of a process.
struct Fact {
    std::int32_t connection = -1;  // of a report; among those of its host
    JobEvent event;
    std::int32_t ended_pid = -1;  // set: an end
    FailureReason reason;
    std::int32_t host = 0;
};

class LocalProcesses {
public:
    // Program: for a complaint about it.
    LocalProcesses(JobSocket socket, std::string program) : socket_(std::move(socket)), program_(std::move(program)) {}

    // REQUIRES: poller outlives this.
    void watch(Poller& poller);
    // News of the sources listener, connection and process; false: of another one.
    bool handle(const Poller::Event& news);

    void accept_peers();
    // Looks at all processes, whether the poller has told of them or not.
    void sweep_ended();
    // Children of ours other than `spared`: processes whose parents have ended.
    void reap_orphans(std::int32_t spared);
    void watch_process(std::int32_t pid);

    // What has been heard since the last call, in the order in which it happened as far as it is known; the line that
    // ends a job comes after the ends that may be its cause.
    [[nodiscard]] std::vector<Fact> take_facts();

    // To a process that waits to become the program (see exec_pe.hpp). descriptor: its standard input, or -1.
    void answer_go(std::int32_t connection, int descriptor);
    void answer_no(std::int32_t connection);
    void answer(std::int32_t connection, const JobEvent& event);
    // Null: it has ended.
    [[nodiscard]] const JobSocket::Peer* peer(std::int32_t connection) const;

    [[nodiscard]] bool is_watched(std::int32_t pid) const { return pidfds_.contains(pid); }
    [[nodiscard]] std::vector<std::int32_t> pids() const;
    void signal(std::int32_t pid, int number) const;
    void signal_all(int number) const;

private:
    [[nodiscard]] std::vector<int> connections_of(std::int32_t pid) const;
    void drain(int fd);
    void process_ended(std::int32_t pid);
    void watch_who_came(const std::vector<Fact>& facts);

    JobSocket socket_;
    std::string program_;
    Poller* poller_ = nullptr;
    std::map<int, JobSocket::Peer> connections_;  // by descriptor
    std::map<std::int32_t, Fd> pidfds_;           // by pid, of processes that have not ended
    std::vector<Fact> facts_;
};

}  // namespace sft::tools
