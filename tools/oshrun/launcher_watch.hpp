// Whether a launcher that does not end has still something to pass on. mpirun reads from whoever connects to one of its
// ports, and waits for the rest of what a stranger has begun to say: then it passes on nothing, and does not end.
#pragma once

#include <sys/types.h>

namespace sft::tools {

// Bytes have arrived for it (from its daemons on other hosts) and it has not taken them. False also when the system
// does not tell.
[[nodiscard]] bool has_unread_input(pid_t launcher);

// Both our standard output and error take more: nobody who does not read keeps the launcher waiting.
[[nodiscard]] bool are_outputs_open();

}  // namespace sft::tools
