// What the guardian tells the process that may start the job again: memory that both have.
#pragma once

#include <atomic>

namespace sft::tools {

struct RetryNote {
    // The job has ended because processes or hosts were lost, not because its program or somebody wanted it to.
    std::atomic<bool> is_worth_retry{false};
};

}  // namespace sft::tools
