// A job on this host without a launcher: the guardian starts the processes itself, as its children. Nothing listens on
// the network, and nobody but the kernel stands between a process and what the guardian knows of it. The processes find
// each other by the line to oshrun (shmem_ft/start/bootstrap.hpp).
//
// Fault model: a process may end at any time; one that cannot become the program says why and ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "tools/common/fd.hpp"
#include "tools/oshrun/line_pump.hpp"
#include "tools/oshrun/poller.hpp"

namespace sft::tools {

struct OwnLaunchTask {
    std::string path;
    std::vector<std::string> words;  // what main gets
    int processes = 0;
    int stdin_fd = -1;  // for rank 0; the others have none
};

class OwnLaunch {
public:
    // REQUIRES: this process has one thread. If it fails, some may have been started.
    [[nodiscard]] Result<> start(const OwnLaunchTask& task, Poller& poller);

    // By rank.
    [[nodiscard]] const std::vector<pid_t>& pids() const noexcept { return pids_; }
    // Of those that could not become the program, the next one. It is there before its end is.
    [[nodiscard]] std::optional<std::pair<int, int>> take_exec_failure();  // rank, errno
    [[nodiscard]] bool have_all_ended() const;
    // They have, nobody holds their output any more, and all of it has been moved.
    [[nodiscard]] bool is_output_moved() const;
    // Of the pumps: readable when done.
    [[nodiscard]] std::vector<int> done_fds() const;
    // The error number with which something could not be written to a standard descriptor of ours; 0: nothing is
    // missing.
    [[nodiscard]] int lost_output(int descriptor) const;
    void signal(int number) const;

private:
    std::vector<pid_t> pids_;
    std::vector<Fd> pidfds_;
    Fd exec_failures_;
    std::unique_ptr<LinePump> stdout_pump_;
    std::unique_ptr<LinePump> stderr_pump_;
};

}  // namespace sft::tools
