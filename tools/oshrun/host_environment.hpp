// Where oshrun has been started: which launchers are there, is this inside an allocation of a batch system, which hosts
// may a job use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/oshrun/options.hpp"
#include "tools/oshrun/placement.hpp"
#include "tools/oshrun/preflight.hpp"

namespace sft::tools {

[[nodiscard]] bool is_inside_slurm();

// Settles options.launcher, which is not `automatic` afterwards.
// Why oshrun cannot start the processes itself (--launcher own); empty: it can.
[[nodiscard]] std::string needs_launcher(const Options& options, const std::vector<HostSlots>& hosts,
                                         std::uint32_t pretended_nodes);
[[nodiscard]] std::optional<Refusal> find_launcher(Options& options, std::string& path);

// The hosts that options, the allocation or the launcher's own configuration name, with their slots. Empty: the
// launcher is to choose. Refuses a list that cannot be read, and spare nodes that are not there.
[[nodiscard]] std::optional<Refusal> find_hosts(const Options& options, std::vector<HostSlots>& hosts);

// Processes may come to run on other hosts than this one, or act as if they did.
[[nodiscard]] bool may_use_other_hosts(const Options& options, const std::vector<HostSlots>& hosts);

// Settles options.pes and options.spares as far as they follow from the hosts.
void count_by_hosts(Options& options, const std::vector<HostSlots>& hosts);

}  // namespace sft::tools
