// The file of `oshrun --events`: one JSON object a line, written as things happen. The format is described in
// docs/oshrun.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shmem_ft/base/job_channel.hpp"
#include "tools/common/fd.hpp"
#include "tools/oshrun/job_ledger.hpp"

namespace sft::tools {

class EventLog {
public:
    EventLog() = default;
    explicit EventLog(Fd file) : file_(std::move(file)) {}

    void start(const JobShape& shape, const std::vector<std::string>& command);
    void event(const JobEvent& event);
    void process_ended(int rank, int pid, int pe, FailureReason reason);
    void end(const Outcome& outcome, const JobLedger& ledger);

private:
    void write_line(const std::string& json);

    Fd file_;
};

}  // namespace sft::tools
