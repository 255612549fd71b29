#include "recovery/loss_demands.hpp"

#include <algorithm>
#include <optional>

#include "base/assert.hpp"
#include "base/config.hpp"
#include "base/report.hpp"
#include "recovery/membership/parity_groups.hpp"
#include "recovery/membership/parity_scheme.hpp"
#include "recovery/membership/scheme.hpp"
#include "recovery/rules.hpp"

namespace sft {
namespace {

// Sets times PEs: a part of a second.
constexpr std::uint64_t kWork = 50'000'000;
constexpr std::uint64_t kSetsMin = 1'000;
constexpr std::uint64_t kSetsMax = 20'000;

struct Mode {
    const char* name;
    Backup backup;
};

// By what they take of memory.
constexpr Mode kModes[] = {
    {"xor:8", {.mode = BackupMode::double_copy, .data = 7, .parity = 1}},
    {"rs:8+2", {.mode = BackupMode::double_copy, .data = 8, .parity = 2}},
    {"xor:4", {.mode = BackupMode::double_copy, .data = 3, .parity = 1}},
    {"rs:4+2", {.mode = BackupMode::double_copy, .data = 4, .parity = 2}},
    {"double", {.mode = BackupMode::double_copy}},
    {"rs:2+2", {.mode = BackupMode::double_copy, .data = 2, .parity = 2}},
    {"replica:2", {.mode = BackupMode::double_copy, .partners = 2}},
    {"replica:3", {.mode = BackupMode::double_copy, .partners = 3}},
    {"replica:4", {.mode = BackupMode::double_copy, .partners = 4}},
    {"replica:5", {.mode = BackupMode::double_copy, .partners = 5}},
    {"replica:6", {.mode = BackupMode::double_copy, .partners = 6}},
    {"replica:7", {.mode = BackupMode::double_copy, .partners = 7}},
    {"replica:8", {.mode = BackupMode::double_copy, .partners = 8}},
};

Losses at_first(const JobShape& shape) { return Losses(shape, JobRules::first_state(shape), {}); }

std::string text_of(const Topology::Demand& demand) { return format("%s = %d", demand.what.c_str(), demand.n); }

bool meets_all(const std::vector<Topology::Demand>& demands, const DemandedJob& job) {
    const Losses losses = at_first(job.shape);
    return std::all_of(demands.begin(), demands.end(),
                       [&](const Topology::Demand& demand) { return why_not_met(demand, job, losses).empty(); });
}

// Null: none does.
const char* mode_for(const std::vector<Topology::Demand>& demands, const DemandedJob& job) {
    for (const Mode& mode : kModes) {
        JobShape shape = job.shape;
        shape.keeps_near = false;
        const std::optional<ParityGroups> groups = groups_for(shape, mode.backup);
        const bool is_parity = mode.backup.parity != 0;
        if (is_parity && (!groups || groups->smallest() < mode.backup.data + mode.backup.parity)) {
            continue;  // smaller groups take more memory than they are here for
        }
        shape.groups = groups ? &*groups : nullptr;
        shape.scheme = &scheme_of(shape, mode.backup);
        if (meets_all(demands, {.topology = job.topology, .shape = shape, .names = job.names})) {
            return mode.name;
        }
    }
    return nullptr;
}

// demands: all; unmet: that one of them is not.
std::string what_would_do(std::vector<Topology::Demand> demands, std::size_t unmet, const DemandedJob& job) {
    if (const char* const mode = mode_for(demands, job)) {
        return format("SHMEM_FT_BACKUP_MODE=%s would survive it", mode);
    }
    while (--demands[unmet].n > 0) {
        if (const char* const mode = mode_for(demands, job)) {
            return format(
                "no mode survives it with these nodes, PEs and spares; the most is %s, with "
                "SHMEM_FT_BACKUP_MODE=%s",
                text_of(demands[unmet]).c_str(), mode);
        }
    }
    return "no mode survives it with these nodes, PEs and spares";
}

}  // namespace

std::vector<LossUnit> units_of(const DemandedJob& job, const std::string& what) {
    std::vector<LossUnit> units;
    const auto& levels = job.topology.levels();
    const auto level =
        std::find_if(levels.begin(), levels.end(), [&](const Topology::Level& it) { return it.name == what; });
    if (level == levels.end()) {
        for (std::size_t node = 0; node < job.names.size(); ++node) {
            units.push_back({.name = job.names[node], .nodes = {NodeId(static_cast<std::int32_t>(node))}});
        }
        return units;
    }
    for (const std::string& domain : level->domains) {
        units.push_back({.name = domain, .nodes = {}});
    }
    for (std::size_t node = 0; node < job.names.size(); ++node) {
        if (const auto domain = job.topology.domain_of(*level, job.names[node])) {
            units[static_cast<std::size_t>(*domain)].nodes.emplace_back(static_cast<std::int32_t>(node));
        } else {
            units.push_back({.name = job.names[node], .nodes = {NodeId(static_cast<std::int32_t>(node))}});
        }
    }
    std::erase_if(units, [](const LossUnit& unit) { return unit.nodes.empty(); });
    return units;
}

std::string why_not_met(const Topology::Demand& demand, const DemandedJob& job, const Losses& losses) {
    const std::vector<LossUnit> units = units_of(job, demand.what);
    const auto n = static_cast<std::int32_t>(units.size());
    SFT_ASSERT(n > 0);  // each node is in one
    const auto n_pes = static_cast<std::uint64_t>(job.shape.n_pes);
    std::string why;
    static_cast<void>(
        each_set(n, std::min(demand.n, n), std::clamp(kWork / n_pes, kSetsMin, kSetsMax), [&](const UnitSet& set) {
            if (why.empty()) {
                why = losses.why_fatal(units, set);
            }
        }));
    return why;
}

std::string unmet_demand(const DemandedJob& job) {
    const std::vector<Topology::Demand>& demands = job.topology.demands();
    if (demands.empty()) {
        return {};
    }
    const Losses losses = at_first(job.shape);
    for (std::size_t i = 0; i < demands.size(); ++i) {
        if (const std::string why = why_not_met(demands[i], job, losses); !why.empty()) {
            return format("survive: %s (line %u) is not met: %s; %s", text_of(demands[i]).c_str(), demands[i].line,
                          why.c_str(), what_would_do(demands, i, job).c_str());
        }
    }
    return {};
}

}  // namespace sft
