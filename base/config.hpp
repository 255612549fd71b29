// The settings of a process, read once from the environment. config.def is the one table: name, type, default,
// range, unit and help; the parser, `shmem-ft config` and docs/config.md come from it. getenv is called nowhere
// else in the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/fault_action.hpp"
#include "base/faults/fault_schedule.hpp"
#include "base/result.hpp"

namespace sft {

// What happens when nobody is left to take over a PE.
enum class Unreplaced { abort, wait, handler };

enum class BackupMode { none, single_copy, double_copy };

// Which copies of a PE's state there are, besides the state itself.
inline constexpr std::int32_t kPartnersMax = 8;
inline constexpr std::int32_t kParityMax = 4;        // of rs:K+M, M
inline constexpr std::int32_t kParityGroupMax = 32;  // K + M
struct Backup {
    BackupMode mode = BackupMode::double_copy;
    std::int32_t partners = 1;  // that keep one, as far as there are so many nodes
    // Not 0: instead of copies at partners, groups of data + parity PEs keep parity, where the job has several nodes.
    std::int32_t data = 0;
    std::int32_t parity = 0;

    friend bool operator==(const Backup&, const Backup&) noexcept = default;
};

// What moves data between nodes.
enum class Transport { automatic, ucx, ofi };

// Who may connect to the ports of a job on several nodes: everybody, the nodes of the job, only who signs what he sends
// with the job's key.
enum class PortGuard { none, nodes, signatures };

// Whether the globals of the executable are symmetric. automatic: if the executable uses the library
// (symheap/globals.hpp).
enum class GlobalsMode { automatic, yes, no };

// What happens when a call breaks a rule whose breach the specification leaves undefined (ops/check.hpp).
enum class CheckMode { off, warn, abort };

// How checkpoints find what has changed (backup/live_tracker.hpp). automatic: as is cheaper; check: always by tracking,
// and what that does not name is compared.
enum class Tracking { off, automatic, always, check };

// Of a version that is made while the program goes on: what has changed is copied first, or writers are held up until
// it has been copied (symheap/heap_guard.hpp).
enum class BackgroundMode { copy, protect };

// Which calls of shmem_checkpoint_all make a version (backup/checkpoint_pace.hpp).
struct CheckpointInterval {
    enum class Kind : std::uint32_t { calls, time, automatic };
    Kind kind = Kind::calls;
    std::uint64_t amount = 1;  // of calls, or of nanoseconds
    bool operator==(const CheckpointInterval&) const = default;
};

// Of stored files.
struct StoreCompression {
    enum class Kind : std::uint32_t { none, lz4, zstd };
    Kind kind = Kind::none;
    std::int32_t level = 0;  // of zstd
    bool operator==(const StoreCompression&) const = default;
};

struct Config {
    std::uint64_t symmetric_size_bytes = 0;
    std::uint64_t startup_record_bytes = 0;
    std::uint64_t heap_base_address = 0;
    std::uint64_t scrub_rate_bytes = 0;
    std::uint64_t memory_limit_bytes = 0;  // 0: none but the system's
    CheckpointInterval interval;
    std::int64_t mtbf_ns = 0;
    std::uint32_t scrub_seconds = 0;
    bool first_touch = true;
    Tracking tracking = Tracking::automatic;
    BackgroundMode background = BackgroundMode::copy;
    std::uint32_t hang_timeout_ms = 0;
    std::uint32_t start_timeout_ms = 0;
    std::uint32_t stall_timeout_ms = 0;
    std::uint32_t node_timeout_ms = 0;
    bool realtime = true;
    PortGuard port_guard = PortGuard::nodes;
    bool memory_domains = true;
    std::uint32_t pretend_nodes = 0;  // 0: the real ones
    Transport transport = Transport::automatic;
    std::string interface;  // empty: chosen
    std::uint32_t spares = 0;
    Backup backup;
    std::string topology;  // empty: none
    std::string store;     // empty: copies are in memory only
    CheckpointInterval store_interval;
    std::uint32_t store_keep = 1;
    std::uint64_t store_rate_bytes = 0;  // 0: no bound
    std::uint32_t store_nodes = 0;       // that write at once; 0: no bound
    StoreCompression store_compression;
    std::string restart;  // empty: the job begins
    std::string load;     // empty: there is nothing to load arrays from
    Unreplaced unreplaced = Unreplaced::abort;
    std::uint32_t wait_timeout_seconds = 0;
    FaultAction on_fault = FaultAction::jump;
    CheckMode check = CheckMode::off;
    GlobalsMode globals = GlobalsMode::automatic;
    bool debug = false;
    bool info = false;
    bool version = false;
    bool quiet = false;   // no line of a recovery
    bool events = false;  // report the spans of a timeline to the launcher's front end
    std::string faults;
    std::string faults_file;
    FaultSchedule fault_schedule;  // of both
    std::string fault_visits;      // beginning of a file name; empty: visits are not counted
    std::string join;              // "PID:DESCRIPTOR" of a control segment; empty: starts with the job
    std::string job_socket;        // name of oshrun's abstract socket; empty: not started by oshrun
    std::uint32_t on_demand = 0;   // spares that oshrun starts at most if the job waits for some
};

// Reads every variable of config.def. On a bad value: returns false, leaves config as it was and sets one line that
// names the variable, the value and what would be accepted. Unknown SHMEM_FT_* variables are reported the same way (a
// typing error in a setting must not be lost silently). The line has neither the "shmem-ft: error: " in front nor the
// newline: whoever prints it adds them.
[[nodiscard]] Result<> load_config(Config& config);

// A row of config.def, for printing. All strings are constants; alias and unit may be empty.
struct SettingInfo {
    const char* name;
    const char* alias;  // deprecated name that still works; the other one wins
    const char* type;   // "size", "count", "flag", ...
    const char*
        default_value;  // as one would write it in the environment; "unset" for variables that only count as set
    const char* range;
    const char* unit;
    const char* help;
    bool is_internal;  // set by oshrun, not by users
};

[[nodiscard]] std::span<const SettingInfo> settings() noexcept;

// Where a value comes from: the name of the environment variable that set it, or null for the default.
[[nodiscard]] const char* setting_origin(const SettingInfo& setting);

// The value in config, in the form that one would write in the environment.
[[nodiscard]] std::string setting_value(const SettingInfo& setting, const Config& config);

// Parses one value as load_config does. If it fails, config is unchanged.
[[nodiscard]] Result<> parse_setting(const SettingInfo& setting, const char* text, Config& config);

}  // namespace sft
