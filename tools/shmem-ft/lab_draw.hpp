// Makes schedules: random ones from a seed, and the complete list of a sweep. Pure; the same seed and the same visits
// give the same schedule on every machine and with every standard library.
//
// Two runs tell which visits there are to aim at: one without faults, and one (the probe) with a single kill in the
// middle, which shows the points of a recovery.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/shmem-ft/lab_run.hpp"

namespace sft::tools {

struct Terrain {
    int pes = 0;
    int spares = 0;
    std::vector<ProcessRecord> calm;    // of the run without faults, by process
    std::vector<ProcessRecord> probe;   // of the run with the trigger; empty: there was none
    std::optional<FaultEntry> trigger;  // the kill of the probe
};

// A kill in the middle of a checkpoint in the middle of the run. None: the program takes no checkpoints.
[[nodiscard]] std::optional<FaultEntry> choose_trigger(const std::vector<ProcessRecord>& calm, int pes);

// REQUIRES: some PE has visited some point.
[[nodiscard]] FaultSchedule draw_schedule(std::uint64_t seed, const Terrain& terrain);

// Every point that was visited, at its first, middle and last visit, with every kind of victim.
[[nodiscard]] std::vector<FaultSchedule> sweep_schedules(const Terrain& terrain);

}  // namespace sft::tools
