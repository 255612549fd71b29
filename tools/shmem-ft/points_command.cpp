// shmem-ft points: the places at which a fault schedule can make something happen.

#include <fmt/format.h>

#include "base/faults/fault_schedule.hpp"
#include "tools/shmem-ft/commands.hpp"

namespace sft::tools {

int run_points(const PointsCommand& command) {
    if (command.as_markdown) {
        fmt::print("| number | point | the process |\n|---|---|---|\n");
    }
    for (const FaultPointInfo& info : fault_point_infos()) {
        const auto number = static_cast<unsigned>(info.point);
        if (command.as_markdown) {
            fmt::print("| {} | `{}` | {} |\n", number, info.name, info.description);
        } else {
            fmt::print("{:>4}  {:<20}  {}\n", number, info.name, info.description);
        }
    }
    return 0;
}

}  // namespace sft::tools
