// The file of `oshrun --events`: one JSON object a line, written as things happen. The format is described in
// docs/oshrun.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/job_channel.hpp"
#include "tools/common/fd.hpp"
#include "tools/oshrun/job_ledger.hpp"

namespace sft::tools {

class EventLog {
public:
    EventLog() = default;
    explicit EventLog(Fd file) : file_(std::move(file)) {}

    void start(const JobShape& shape, const std::vector<std::string>& command);
    void event(const JobEvent& event, const std::string& host);
    void process_ended(int rank, int pid, int pe, FailureReason reason, const std::string& host);
    void host_lost(const std::string& host, const std::string& why);
    // A spare that has been started while the job ran, and how long it took from the wish until it was counted in.
    void spare_joined(int rank, const std::string& host, const char* way, std::int64_t took_ns);
    void end(const Outcome& outcome, const JobLedger& ledger);
    // The error number with which something could not be written; 0: the file is complete.
    [[nodiscard]] int lost() const noexcept { return lost_; }

private:
    void write_line(const std::string& json);

    Fd file_;
    int lost_ = 0;
};

}  // namespace sft::tools
