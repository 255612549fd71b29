// shmem-ft status: the jobs of this user that run on this node, as they are now. It reads what their processes publish
// and touches nothing, so they do not notice.

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tools/common/exit_codes.hpp"
#include "tools/common/text.hpp"
#include "tools/shmem-ft/commands.hpp"
#include "tools/shmem-ft/status_report.hpp"

namespace sft::tools {
namespace {

constexpr int kMsPerSecond = 1000;

// Keeps what is asked for, and gives the lines about what is not there.
std::vector<std::string> select(Sighting& sighting, const std::vector<std::string>& words) {
    std::vector<std::string> lines;
    const auto is_named = [&](const UnreadableFile& file) {
        return std::find(words.begin(), words.end(), std::to_string(file.pid)) != words.end();
    };
    for (const UnreadableFile& file : sighting.unreadable) {
        if (words.empty() || is_named(file)) {
            lines.push_back(file.line);
        }
    }
    for (const std::string& word : words) {
        const bool is_job = std::any_of(sighting.jobs.begin(), sighting.jobs.end(),
                                        [&](const SeenJob& job) { return is_meant(job, word); });
        const bool is_told = std::any_of(sighting.unreadable.begin(), sighting.unreadable.end(),
                                         [&](const UnreadableFile& file) { return std::to_string(file.pid) == word; });
        if (!is_job && !is_told) {
            lines.push_back(no_job_line(word));
        }
    }
    if (!words.empty()) {
        std::erase_if(sighting.jobs, [&](const SeenJob& job) {
            return std::none_of(words.begin(), words.end(),
                                [&](const std::string& word) { return is_meant(job, word); });
        });
    } else if (sighting.jobs.empty() && lines.empty()) {
        lines.emplace_back("no running job of this user on this node");
    }
    return lines;
}

void print_jobs(const std::vector<SeenJob>& jobs, const StatusCommand& command) {
    if (command.as_json) {
        nlohmann::ordered_json all = {{"jobs", nlohmann::ordered_json::array()}};
        for (const SeenJob& job : jobs) {
            all["jobs"].push_back(json_of(job));
        }
        // Watching gives a line each time, which is easier to read piece by piece. A path need not be UTF-8,
        // and a terminal shows nothing but ASCII.
        const int indent = command.watch_seconds > 0 ? -1 : 2;
        fmt::print("{}\n", all.dump(indent, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
    } else {
        if (command.watch_seconds > 0 && ::isatty(STDOUT_FILENO) == 1) {
            fmt::print("\033[H\033[2J");
        }
        for (const SeenJob& job : jobs) {
            fmt::print("{}{}", &job == jobs.data() ? "" : "\n", text_of(job));
        }
    }
    std::fflush(stdout);
}

}  // namespace

int run_status(const StatusCommand& command) {
    bool is_first = true;
    for (;;) {
        Sighting sighting = find_jobs(command.of_all_users ? WhoseJobs::all_users : WhoseJobs::own);
        const std::vector<std::string> lines = select(sighting, command.words);
        const bool is_over = sighting.jobs.empty();
        if (!is_over || (is_first && command.as_json)) {
            print_jobs(sighting.jobs, command);
        }
        if (is_first) {
            for (const std::string& line : lines) {
                print_line("shmem-ft: " + line);
            }
        }
        if (is_over) {
            return is_first ? kExitFailed : 0;  // what was watched has ended
        }
        if (command.watch_seconds <= 0) {
            return 0;
        }
        ::poll(nullptr, 0, static_cast<int>(command.watch_seconds * kMsPerSecond));
        is_first = false;
    }
}

}  // namespace sft::tools
