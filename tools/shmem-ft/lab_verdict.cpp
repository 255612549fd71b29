#include "tools/shmem-ft/lab_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

namespace sft::tools {
namespace {

constexpr std::string_view kNamePrefix = "oshrun: ";

std::vector<std::string> split_lines(const std::string& text) {
    std::vector<std::string> lines;
    std::size_t begin = 0;
    while (begin < text.size()) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return lines;
}

// The one line that says why the job has ended; empty if there is none.
std::string named_error(const std::string& errors) {
    std::string found;
    for (const std::string& line : split_lines(errors)) {
        if (line.starts_with(kNamePrefix)) {
            found = line;
        }
    }
    return found;
}

bool is_copy_kept_by(const HappenedFault& of, const HappenedFault& by) { return of.pe >= 0 && of.keeper == by.process; }

// Whether the job was whole again between two moments: a recovery that began after the first one was completed by all
// that took part in it.
bool recovered_between(const RunRecord& record, std::int64_t first_ns, std::int64_t second_ns) {
    return std::any_of(record.restarts.begin(), record.restarts.end(), [&](const TimeSpan& restart) {
        return restart.end_ns > first_ns && restart.end_ns <= second_ns && restart.begin_ns >= first_ns;
    });
}

std::vector<HappenedFault> deaths_of(const RunRecord& record, const FaultSchedule& schedule) {
    std::vector<HappenedFault> deaths;
    for (const HappenedFault& fault : record.faults) {
        if (fault.entry < schedule.size() && is_deadly(schedule[fault.entry].kind)) {
            deaths.push_back(fault);
        }
    }
    return deaths;
}

// Points that a process comes to only after it has seen a commit.
bool knew_of_commit(FaultPoint point) noexcept {
    return point >= FaultPoint::commit_decided && point < FaultPoint::finalize_enter;
}

// Between a later initialisation block and the checkpoint behind it nobody may die: what the block has made would be
// lost by going back, and the survivors would not make it again.
bool died_after_initialisation(const RunRecord& record, const Judging& judging, const HappenedFault& death) {
    const FaultPoint point = judging.schedule[death.entry].point;
    // All wait for everybody at these points, so the death was in the checkpoint behind the block, after its commit.
    const bool is_committed = point >= FaultPoint::commit_decided && point <= FaultPoint::updated;
    return std::any_of(record.initialisations.begin(), record.initialisations.end(), [&](const TimeSpan& block) {
        const auto is_over = [&](const TimeSpan& commit) {
            return commit.version > block.version && commit.end_ns <= death.time_ns;
        };
        return death.pe >= 0 && !is_committed && std::none_of(record.commits.begin(), record.commits.end(), is_over) &&
               !recovered_between(record, death.time_ns, block.begin_ns);
    });
}

std::string excuse_by_time(const RunRecord& record, const Judging& judging, const std::vector<HappenedFault>& deaths) {
    std::int64_t first_commit_ns = INT64_MAX;
    std::int64_t last_checkpoint_ns = INT64_MAX;
    for (const TimeSpan& commit : record.commits) {
        first_commit_ns = std::min(first_commit_ns, commit.end_ns);
        if (commit.version >= judging.reference.last_version) {
            last_checkpoint_ns = std::min(last_checkpoint_ns, commit.begin_ns);
        }
    }
    for (const HappenedFault& death : deaths) {
        if (death.time_ns < first_commit_ns && !knew_of_commit(judging.schedule[death.entry].point)) {
            return "a process died before the first commit";
        }
        if (death.seen_ns >= last_checkpoint_ns) {
            return "a process died after the last commit";
        }
        if (died_after_initialisation(record, judging, death)) {
            return "a process died between an initialisation block and the commit of the checkpoint behind it";
        }
    }
    return {};
}

// Whether all that a process kept was lost in the end. In memory of the node it is while somebody of the job lives
// there.
bool is_lost(int process, const RunRecord& record, const std::vector<HappenedFault>& deaths) {
    const auto own = record.nodes.find(process);
    return own == record.nodes.end() || std::all_of(record.nodes.begin(), record.nodes.end(), [&](const auto& at) {
               return at.second != own->second ||
                      std::any_of(deaths.begin(), deaths.end(),
                                  [&](const HappenedFault& death) { return death.process == at.first; });
           });
}

// What all PEs had agreed on is read from memory of their nodes: by somebody who lives there.
std::string excuse_by_agreement(const RunRecord& record, const Judging& judging,
                                const std::vector<HappenedFault>& deaths) {
    std::map<int, const HappenedFault*> last;  // by PE
    for (const HappenedFault& death : deaths) {
        if (death.pe >= 0) {
            last[death.pe] = &death;
        }
    }
    if (last.empty() || static_cast<int>(last.size()) < judging.pes) {
        return {};
    }
    const auto [first_death, last_death] =
        std::minmax_element(last.begin(), last.end(),
                            [](const auto& a, const auto& b) { return a.second->time_ns < b.second->time_ns; });
    if (recovered_between(record, first_death->second->time_ns, last_death->second->time_ns)) {
        return {};
    }
    for (const auto& [pe, death] : last) {
        if (is_lost(death->process, record, deaths)) {
            return fmt::format("all PEs died at once, and nobody was left on the node of process {}", death->process);
        }
    }
    return {};
}

// Copies that died with their keepers.
std::string excuse_by_copies(const RunRecord& record, const std::vector<HappenedFault>& deaths) {
    for (std::size_t i = 0; i < deaths.size(); ++i) {
        for (std::size_t j = i + 1; j < deaths.size(); ++j) {
            if (recovered_between(record, deaths[i].time_ns, deaths[j].time_ns)) {
                continue;
            }
            if ((is_copy_kept_by(deaths[i], deaths[j]) && is_lost(deaths[j].process, record, deaths)) ||
                (is_copy_kept_by(deaths[j], deaths[i]) && is_lost(deaths[i].process, record, deaths))) {
                return fmt::format("processes {} and {} died at once, and one kept the other's copy", deaths[i].process,
                                   deaths[j].process);
            }
            // In the middle of a recovery: the first death had taken its copy, and there was no new one yet.
            if (deaths[i].pe >= 0 && deaths[j].pe >= 0 && deaths[j].keeper < 0 &&
                deaths[i].time_ns < deaths[j].time_ns && is_lost(deaths[i].process, record, deaths)) {
                return fmt::format("process {} died before the copy that died with process {} was made again",
                                   deaths[j].process, deaths[i].process);
            }
        }
    }
    return {};
}

std::string shown(const std::set<std::string>& lines) {
    return lines.empty() ? "" : fmt::format("'{}'", lines.begin()->substr(0, 120));
}

std::set<std::string> without(const std::set<std::string>& all, const std::set<std::string>& others) {
    std::set<std::string> rest;
    std::set_difference(all.begin(), all.end(), others.begin(), others.end(), std::inserter(rest, rest.end()));
    return rest;
}

std::string describe_hang(const RunRecord& record) {
    std::string where;
    for (const ProcessRecord& process : record.processes) {
        where += fmt::format("{}process {}{} at {}{}", where.empty() ? "" : ", ", process.process,
                             process.pe < 0 ? "" : fmt::format(" (PE {})", process.pe),
                             process.last_point.empty() ? "no point" : process.last_point,
                             process.phase == ProgramPhase::start_up ? ", in its start-up"
                             : process.phase == ProgramPhase::replay ? ", repeating the start-up"
                                                                     : "");
    }
    return fmt::format("not ended after {:.1f} s; last seen: {}", record.seconds, where.empty() ? "nobody" : where);
}

}  // namespace

const char* class_name(RunClass run_class) noexcept {
    switch (run_class) {
        case RunClass::recovered: return "recovered";
        case RunClass::nothing_happened: return "nothing happened";
        case RunClass::expected_error: return "named error, excused";
        case RunClass::unexpected_error: return "NAMED ERROR";
        case RunClass::wrong_answer: return "WRONG ANSWER";
        case RunClass::hang: return "HANG";
    }
    return "";
}

bool is_deadly(FaultKind kind) noexcept {
    return kind == FaultKind::kill || kind == FaultKind::segv || kind == FaultKind::abort || kind == FaultKind::exit;
}

bool IgnoredLines::contains(const std::string& line) const {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::regex& pattern) { return std::regex_search(line, pattern); });
}

std::set<std::string> lines_of(const std::string& output, const IgnoredLines& ignored) {
    std::set<std::string> lines;
    for (std::string& line : split_lines(output)) {
        if (!ignored.contains(line)) {
            lines.insert(std::move(line));
        }
    }
    return lines;
}

std::string excuse_for(const RunRecord& record, const Judging& judging) {
    const std::vector<HappenedFault> deaths = deaths_of(record, judging.schedule);
    // Ending in time with a line that says which one is right then.
    if (std::any_of(record.faults.begin(), record.faults.end(), [&](const HappenedFault& fault) {
            return fault.entry < judging.schedule.size() && judging.schedule[fault.entry].kind == FaultKind::fail;
        })) {
        return "a system call failed";
    }
    if (deaths.empty()) {
        return {};
    }
    if (deaths.size() > static_cast<std::size_t>(judging.spares)) {
        return fmt::format("{} deaths, {} spares", deaths.size(), judging.spares);
    }
    if (std::string excuse = excuse_by_copies(record, deaths); !excuse.empty()) {
        return excuse;
    }
    if (std::string excuse = excuse_by_agreement(record, judging, deaths); !excuse.empty()) {
        return excuse;
    }
    const bool flipped = std::any_of(record.faults.begin(), record.faults.end(), [&](const HappenedFault& fault) {
        return fault.entry < judging.schedule.size() && judging.schedule[fault.entry].kind == FaultKind::flip;
    });
    return flipped ? "a stored copy was damaged before a death" : excuse_by_time(record, judging, deaths);
}

Verdict judge(const RunRecord& record, const Judging& judging) {
    if (record.is_hang) {
        return {RunClass::hang, describe_hang(record)};
    }
    if (!record.left_behind.empty()) {
        return {RunClass::wrong_answer,
                fmt::format("process {} of the job was left behind", record.left_behind.front())};
    }
    const std::set<std::string> lines = lines_of(record.output, judging.ignored);
    const std::set<std::string> unknown = without(lines, judging.reference.lines);
    if (!unknown.empty()) {
        return {RunClass::wrong_answer,
                fmt::format("printed {}, which the run without faults does not", shown(unknown))};
    }
    if (record.exit_code == 0) {
        const std::set<std::string> missing = without(judging.reference.lines, lines);
        if (!missing.empty()) {
            return {RunClass::wrong_answer, fmt::format("did not print {}", shown(missing))};
        }
        return {record.faults.empty() ? RunClass::nothing_happened : RunClass::recovered, ""};
    }
    const std::string error = named_error(record.errors);
    if (error.empty()) {
        return {RunClass::wrong_answer, fmt::format("ended with {} and no line that says why", record.exit_code)};
    }
    const std::string excuse = excuse_for(record, judging);
    if (excuse.empty()) {
        return {RunClass::unexpected_error, error};
    }
    return {RunClass::expected_error, fmt::format("{} [{}]", error, excuse)};
}

}  // namespace sft::tools
