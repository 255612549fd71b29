// Which process of a job runs on which host: lists of hosts as users and batch systems write them, and the one function
// that places PEs and spares on them. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sft::tools {

struct HostSlots {
    std::string name;
    int slots = 1;
    int slots_max = 0;  // not more processes than that, however many there are; 0: no limit

    friend bool operator==(const HostSlots&, const HostSlots&) = default;
};

// "a:2,b,n[1-4]:2": a name without number has one slot, ranges are those of expand_hosts (base/topology.hpp), a name
// given twice has the sum. Nothing: error_line names the culprit.
[[nodiscard]] std::optional<std::vector<HostSlots>> parse_host_list(std::string_view text, std::string& error_line);

// One host a line, "a slots=2 max_slots=4" or "a:2", comments behind #, ends of lines of any system. file: its name,
// for error_line.
[[nodiscard]] std::optional<std::vector<HostSlots>> parse_hostfile(std::string_view content, std::string_view file,
                                                                   std::string& error_line);

// What Slurm says of an allocation: SLURM_JOB_NODELIST ("n[1-3,07],login") and SLURM_TASKS_PER_NODE ("2(x3),1").
// Nothing: not understood.
[[nodiscard]] std::optional<std::vector<HostSlots>> parse_slurm_nodes(std::string_view nodes,
                                                                      std::string_view tasks_per_node);

struct PlacementTask {
    std::vector<HostSlots> hosts;
    int pes = 0;
    int spares = 0;
    int spare_nodes = 0;      // so many hosts at the end of the list have spares only
    bool is_by_node = false;  // PEs go round the hosts; else they fill one host after the other
};

// Says which limit of the hosts is too low for that many processes; nothing: all have room.
[[nodiscard]] std::optional<std::string> lack_of_room(const PlacementTask& task);

// By rank (PEs first, then spares): the index of its host. More processes than slots go round once more. A spare goes
// where a slot is free and the fewest spares are, so that the spares that are woken one after the other are on
// different hosts. REQUIRES: 0 <= spare_nodes < hosts.size(), no lack of room.
[[nodiscard]] std::vector<int> place(const PlacementTask& task);

}  // namespace sft::tools
