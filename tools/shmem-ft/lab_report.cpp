#include "tools/shmem-ft/lab_report.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace sft::tools {
namespace {

using Json = nlohmann::ordered_json;

// Without the victim: "kill", "exit 3".
std::string kind_of(const FaultEntry& entry) {
    const std::string text = to_string(entry);
    return text.substr(0, text.find(' '));
}

// Which faults have struck in a start-up, or in a substitute that repeated one.
std::string in_phases(const LabRun& run) {
    std::string text;
    for (const HappenedFault& fault : run.record.faults) {
        if (fault.phase == ProgramPhase::start_up || fault.phase == ProgramPhase::replay) {
            text +=
                fmt::format("{}fault {} in the {}", text.empty() ? "" : ", ", fault.entry + 1, phase_name(fault.phase));
        }
    }
    return text.empty() ? "" : fmt::format(" [{}]", text);
}

Json json_of(const LabRun& run, const LabOptions& options) {
    Json json = {{"run", run.number}};
    if (run.seed) {
        json["seed"] = *run.seed;
    }
    json["schedule"] = to_string(run.schedule);
    json["class"] = class_name(run.verdict.run_class);
    json["failure"] = is_failure(run, options);
    json["why"] = run.verdict.why;
    json["exit_code"] = run.record.exit_code;
    json["seconds"] = run.record.seconds;
    json["command"] = reproduction(options.job, run.schedule);
    Json faults = Json::array();
    for (const HappenedFault& fault : run.record.faults) {
        faults.push_back({{"entry", to_string(run.schedule.at(fault.entry))},
                          {"process", fault.process},
                          {"pe", fault.pe},
                          {"keeper", fault.keeper},
                          {"phase", phase_name(fault.phase)},
                          {"time_ns", fault.time_ns}});
    }
    json["faults"] = faults;
    Json phases = Json::array();
    for (const PhaseSpan& span : run.record.phases) {
        phases.push_back(
            {{"phase", phase_name(span.phase)}, {"pe", span.pe}, {"begin_ns", span.begin_ns}, {"end_ns", span.end_ns}});
    }
    json["phases"] = phases;
    json["recoveries"] = run.record.restarts.size();
    return json;
}

}  // namespace

bool is_failure(const LabRun& run, const LabOptions& options) noexcept {
    switch (run.verdict.run_class) {
        case RunClass::wrong_answer:
        case RunClass::hang: return true;
        case RunClass::unexpected_error: return !options.allows_errors;
        default: return false;
    }
}

std::string describe(const LabRun& run, const LabOptions& options) {
    std::string text = fmt::format("run {}", run.number);
    if (run.seed) {
        text += fmt::format(" seed {}", *run.seed);
    }
    text += fmt::format(": {} ({:.2f} s) {}{}\n", class_name(run.verdict.run_class), run.record.seconds,
                        to_string(run.schedule), in_phases(run));
    if (!run.verdict.why.empty()) {
        text += fmt::format("    {}\n", run.verdict.why);
    }
    if (is_failure(run, options)) {
        text += fmt::format("    repeat it: {}\n", reproduction(options.job, run.schedule));
    }
    return text;
}

std::vector<FaultPoint> points_never_visited(const std::vector<LabRun>& runs) {
    std::set<FaultPoint> visited;
    for (const LabRun& run : runs) {
        for (const ProcessRecord& process : run.record.processes) {
            for (const auto& [point, count] : process.visits) {
                visited.insert(point);
            }
        }
    }
    std::vector<FaultPoint> never;
    for (const FaultPointInfo& info : fault_point_infos()) {
        if (!visited.contains(info.point)) {
            never.push_back(info.point);
        }
    }
    return never;
}

std::string summary(const std::vector<LabRun>& runs) {
    std::array<int, kRunClasses> counts{};
    std::map<std::string, int> kinds;
    std::map<std::string, int> points;
    std::map<ProgramPhase, int> phases;
    for (const LabRun& run : runs) {
        ++counts[static_cast<std::size_t>(run.verdict.run_class)];
        for (const HappenedFault& fault : run.record.faults) {
            ++kinds[kind_of(run.schedule.at(fault.entry))];
            ++phases[fault.phase];
            ++points[fault_point_name(run.schedule.at(fault.entry).point)];
        }
    }
    std::string text = fmt::format("\n{:<24}{:>6}\n", "outcome", "runs");
    for (std::size_t i = 0; i < kRunClasses; ++i) {
        text += fmt::format("{:<24}{:>6}\n", class_name(static_cast<RunClass>(i)), counts[i]);
    }
    text += "\nfaults that happened: ";
    bool is_first = true;
    for (const auto& [kind, count] : kinds) {
        text += fmt::format("{}{} {}", is_first ? "" : ", ", count, kind);
        is_first = false;
    }
    text += fmt::format("{} at {} different points\n", is_first ? "none" : "", points.size());
    text += fmt::format("of these in a start-up: {}, in a substitute that repeated one: {}\n",
                        phases[ProgramPhase::start_up], phases[ProgramPhase::replay]);
    const std::vector<FaultPoint> never = points_never_visited(runs);
    const std::size_t all = fault_point_infos().size();
    text += fmt::format("points that were visited: {} of {}", all - never.size(), all);
    for (std::size_t i = 0; i < never.size(); ++i) {
        text += fmt::format("{}{}", i == 0 ? ", never " : ", ", fault_point_name(never[i]));
    }
    return text + "\n";
}

Result<> write_json(const std::vector<LabRun>& runs, const Reference& reference, const LabOptions& options) {
    Json json;
    json["pes"] = options.job.pes;
    json["spares"] = options.job.spares;
    json["program"] = options.job.program;
    json["reference"] = {
        {"seconds", reference.seconds}, {"checkpoints", reference.last_version}, {"lines", reference.lines}};
    Json list = Json::array();
    int failures = 0;
    for (const LabRun& run : runs) {
        list.push_back(json_of(run, options));
        failures += is_failure(run, options) ? 1 : 0;
    }
    json["failures"] = failures;
    json["points_never_visited"] = Json::array();
    for (const FaultPoint point : points_never_visited(runs)) {
        json["points_never_visited"].push_back(fault_point_name(point));
    }
    json["runs"] = list;
    std::ofstream file(options.json_path);
    file << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
    file.close();
    if (!file) {
        return fails(fmt::format("--json {}: cannot write it: {}", options.json_path, std::strerror(errno)));
    }
    return {};
}

}  // namespace sft::tools
