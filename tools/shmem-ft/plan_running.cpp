#include "tools/shmem-ft/plan_running.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

#include "recovery/value_records.hpp"
#include "tools/common/fd.hpp"
#include "tools/shmem-ft/status_find.hpp"

namespace sft::tools {
namespace {

std::string name_of_this_host() {
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

std::optional<JobState> agreed_by(const SeenJob& job) {
    if (job.records_begin == 0 || job.node_file_fd < 0) {
        return std::nullopt;
    }
    const Fd file(
        ::open(fmt::format("/proc/{}/fd/{}", job.living_pid, job.node_file_fd).c_str(), O_RDONLY | O_CLOEXEC));
    return file.get() < 0 ? std::nullopt : ValueRecords::latest(file.get(), job.records_begin, job.n_slots);
}

// Hosts in the order of their lowest processes.
void place_processes(const SeenJob& seen, FoundJob& job) {
    job.placement.pes = seen.n_pes;
    job.placement.spares = seen.n_processes - seen.n_pes;
    const std::string here = seen.node_name.empty() ? name_of_this_host() : seen.node_name;
    std::map<std::string, int> numbers;
    for (const SeenProcess& process : seen.processes) {
        const std::string& name = process.node_name.empty() ? here : process.node_name;
        const auto [at, is_new] = numbers.emplace(name, static_cast<int>(numbers.size()));
        if (is_new) {
            job.placement.hosts.push_back({.name = name, .slots = 0, .slots_max = 0});
        }
        ++job.placement.hosts[static_cast<std::size_t>(at->second)].slots;
        const auto number = static_cast<std::size_t>(process.process);
        job.state.host_of.resize(std::max(job.state.host_of.size(), number + 1), -1);
        job.state.host_of[number] = at->second;
    }
}

// Who sleeps does not hear of everything that the job decides.
bool has_pe_here(const SeenJob& job) {
    return std::any_of(job.processes.begin(), job.processes.end(), [&](const SeenProcess& it) {
        return it.is_alive && (it.status ? it.status->pe >= 0 : it.process < job.n_pes);
    });
}

// What has been read belongs to this job.
bool fits(const JobState& state, const FoundJob& job) {
    const auto has_host = [&](ProcId process) {
        return process.value() >= 0 && process.index() < job.state.host_of.size() &&
               job.state.host_of[process.index()] >= 0;
    };
    const auto is_known = [&](const auto& item) { return has_host(item.process); };
    const auto is_good = [&](const Replacement& item) {
        return has_host(item.process) && item.pe.value() >= 0 && item.pe.value() < job.placement.pes;
    };
    return std::all_of(state.deaths.begin(), state.deaths.end(), is_known) &&
           std::all_of(state.joined.begin(), state.joined.end(), is_known) &&
           std::all_of(state.replacements.begin(), state.replacements.end(), is_good) &&
           (state.witness == kNoProc || has_host(state.witness));
}

}  // namespace

Result<FoundJob> find_running(const std::string& word) {
    const Sighting sighting = find_jobs(WhoseJobs::own);
    const auto& jobs = sighting.jobs;
    const auto is_named = [&](const SeenJob& job) { return is_meant(job, word); };
    auto seen =
        std::find_if(jobs.begin(), jobs.end(), [&](const SeenJob& job) { return is_named(job) && has_pe_here(job); });
    const bool has_pe = seen != jobs.end();
    seen = has_pe ? seen : std::find_if(jobs.begin(), jobs.end(), is_named);
    if (seen == jobs.end()) {
        return fails(no_job_line(word) + "; or --hosts for a job that is to come");
    }
    // On nodes that are only pretended a job is seen several times.
    const auto is_another = [&](const SeenJob& job) {
        return is_named(job) && &job != &*seen && (job.oshrun_pid == 0 || job.oshrun_pid != seen->oshrun_pid);
    };
    if (std::any_of(jobs.begin(), jobs.end(), is_another)) {
        return fails(fmt::format("'{}' is the program of several jobs: give the pid of one's oshrun", word));
    }
    if (seen->living_pid == 0) {
        return fails(fmt::format("the processes of '{}' have not come to shmem_init yet", word));
    }
    if (!has_pe) {
        return fails(fmt::format("the job '{}' has only spares on this node: ask on another one of it", word));
    }
    FoundJob job;
    job.pid = seen->living_pid;
    place_processes(*seen, job);
    std::optional<JobState> state = agreed_by(*seen);
    const bool is_as_started = std::none_of(seen->processes.begin(), seen->processes.end(), [](const SeenProcess& it) {
        return it.death.kind != FailureKind::none || (it.status && it.status->view != 0);
    });
    if (!state && !is_as_started) {
        return fails(
            fmt::format("the job '{}' has had deaths, and no memory in which it says what it has agreed on: it "
                        "has one PE on several nodes; shmem-ft status tells what it survives",
                        word));
    }
    if (state &&
        (state->stage == Stage::faulted || state->stage == Stage::planned || state->stage == Stage::restored)) {
        return fails(fmt::format("the job '{}' is recovering at the moment: ask again", word));
    }
    if (state && (is_over(*state) || !fits(*state, job))) {
        return fails(fmt::format("the job '{}' ends", word));
    }
    job.state.state = std::move(state);
    return job;
}

void use_settings_of(const FoundJob& job) {
    std::ifstream file(fmt::format("/proc/{}/environ", job.pid), std::ios::binary);
    for (std::string entry; std::getline(file, entry, '\0');) {
        const std::size_t sign = entry.find('=');
        if (!entry.starts_with("SHMEM_FT_") || sign == std::string::npos) {
            continue;
        }
        const std::string name = entry.substr(0, sign);
        std::string value = entry.substr(sign + 1);
        if (name == "SHMEM_FT_TOPOLOGY" && !value.empty() && value.front() != '/') {
            value = fmt::format("/proc/{}/cwd/{}", job.pid, value);
        }
        ::setenv(name.c_str(), value.c_str(), 1);
    }
}

}  // namespace sft::tools
