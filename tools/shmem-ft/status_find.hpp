// The jobs that run on this node, seen from outside: their control segments, found through /proc and only read.
//
// A job that ends while it is looked at is no error: it is as if it had ended before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/process_watch.hpp"
#include "transport/shm/status.hpp"

namespace sft::tools {

struct SeenProcess {
    std::int32_t process = 0;
    std::string node_name;  // empty: this one. Of what is elsewhere nothing else is known here.
    std::int32_t pid = 0;   // 0: it has not come to shmem_init yet, or is elsewhere
    bool is_alive = false;
    std::int32_t memory_domain = -1;      // -1: not known, or of no interest
    std::optional<ProcessStatus> status;  // what it said last
    FailureReason death;                  // kind none: nobody in the job knows of any
    std::int64_t death_seen_ns = 0;
};

struct SeenJob {
    std::uint32_t user = 0;
    std::string program;                      // its path; empty when that cannot be told
    std::int32_t oshrun_pid = 0;              // 0: it was started without
    std::vector<std::int32_t> launcher_pids;  // what is between oshrun and the job's processes, and oshrun
    std::int32_t n_pes = 0;
    std::int32_t n_processes = 0;     // that it started with
    std::int32_t n_slots = 0;         // those that may join besides
    std::uint64_t records_begin = 0;  // ControlHeader's
    std::int32_t node_file_fd = -1;   // what they are in, as `living_pid` has it open
    std::int32_t living_pid = 0;      // one of its processes; 0: none of them has come to shmem_init yet
    std::int32_t n_nodes = 1;
    std::string node_name;                // of this one, if there are several
    std::vector<std::string> node_names;  // of all, by their numbers; empty where it is not known
    std::vector<SeenProcess> processes;
    std::int64_t seen_ns = 0;  // CLOCK_MONOTONIC
};

// By a pid of the job or of its oshrun, or by the program's name or path.
[[nodiscard]] bool is_meant(const SeenJob& job, const std::string& word);
// The line for a word that means none.
[[nodiscard]] std::string no_job_line(const std::string& word);

// A memory file that has the name of a control segment and cannot be read.
struct UnreadableFile {
    std::int32_t pid = 0;  // of a process that has it open
    std::string line;
};

struct Sighting {
    std::vector<SeenJob> jobs;
    std::vector<UnreadableFile> unreadable;
};

// Of the user who runs this program. all_users: of everybody whose processes it may look at, which takes root.
enum class WhoseJobs { own, all_users };
[[nodiscard]] Sighting find_jobs(WhoseJobs whose);

}  // namespace sft::tools
