// Moves the launcher's stderr to ours through the filter. Any other stream may be moved the same way, as it is.
#pragma once

#include "tools/common/fd.hpp"
#include "tools/oshrun/pump_thread.hpp"

namespace sft::tools {

class StderrPump : public PumpThread {
public:
    // source is the read end of the launcher's stderr.
    explicit StderrPump(Fd source);
    // To another descriptor, and without the filter.
    StderrPump(Fd source, int sink);
};

}  // namespace sft::tools
