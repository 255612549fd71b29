// oshrun --join: more spares for a job that runs. The new oshrun only asks; the guardian of the job starts the
// processes as its own children, with the program, the arguments and the environment of the job, and gives each a
// number of its own behind those of the launcher's processes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/job_channel.hpp"
#include "tools/oshrun/job_socket.hpp"

namespace sft::tools {

// On the job channel, from an oshrun that is no part of the job. code: how many; text: on which host, or empty; the
// answer is a message of the same kind: code 0, or text says what is wrong.
inline constexpr auto kEventJoin = static_cast<JobEventKind>(1002);

// The asking side. job: the pid of an oshrun, or of its guardian; host: where, empty: anywhere. Returns the exit
// status.
[[nodiscard]] int ask_to_join(const std::string& job, int count, const std::string& host);

// The guardian's side.
inline constexpr int kJoinersMax = 64;  // as the library's control segment has room for
struct JoinerTask {
    std::vector<std::string> command;
    int rank = 0;
    std::int32_t donor_pid = 0;  // whose control segment it opens, by this descriptor
    int donor_fd = 0;
    int stdout_fd = -1;  // -1: as ours
    int stderr_fd = -1;
};
// The pid, or -1 with errno set.
[[nodiscard]] std::int32_t start_joiner(const JoinerTask& task);
void answer_join(const JobSocket::Peer& peer, const std::string& problem);

}  // namespace sft::tools
