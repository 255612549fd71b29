// Moves what several processes print to one descriptor, in whole lines: those of different processes do not mix. A line
// that is not complete waits for its end, but not for long: it may be a question.
#pragma once

#include <vector>

#include "tools/common/fd.hpp"
#include "tools/oshrun/pump_thread.hpp"

namespace sft::tools {

class LinePump : public PumpThread {
public:
    // sources: read ends, non-blocking.
    LinePump(std::vector<Fd> sources, int sink);
};

}  // namespace sft::tools
