#include "tools/shmem-ft/status_report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "base/clock.hpp"
#include "tools/common/text.hpp"
#include "tools/shmem-ft/status_summary.hpp"

namespace sft::tools {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> seconds_since(const SeenJob& job, std::int64_t begin_ns) {
    if (begin_ns == 0) {
        return std::nullopt;
    }
    return std::max(static_cast<double>(job.seen_ns) - static_cast<double>(begin_ns), 0.0) / kNsPerSecond;
}

std::string ago(const SeenJob& job, std::int64_t begin_ns) {
    const auto seconds = seconds_since(job, begin_ns);
    return seconds ? fmt::format("{:.1f} s ago", *seconds) : "some time ago";
}

std::string amount(std::uint64_t bytes) {
    constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < std::size(kUnits)) {
        value /= 1024;
        ++unit;
    }
    return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

// oshrun's pid, or that of the first process that there is.
std::int32_t name_of(const SeenJob& job) {
    if (job.oshrun_pid != 0) {
        return job.oshrun_pid;
    }
    for (const SeenProcess& item : job.processes) {
        if (item.is_alive) {
            return item.pid;
        }
    }
    return 0;
}

std::string joined(const std::vector<std::string>& items) { return fmt::format("{}", fmt::join(items, "; ")); }

std::string process_name(std::int32_t process, std::int32_t pe) {
    return pe < 0 ? fmt::format("process {} (spare)", process) : fmt::format("process {} (PE {})", process, pe);
}

std::string domains_of(std::int32_t own, std::int32_t of_copy) {
    const auto name = [](std::int32_t domain) { return domain < 0 ? "?" : fmt::format("{}", domain); };
    return own < 0 && of_copy < 0 ? "" : fmt::format(", memory domain {} (own: {})", name(of_copy), name(own));
}

std::string further_of(const SeenPe& seen) {
    return seen.further_keepers.empty() ? ""
                                        : fmt::format(", process {}", fmt::join(seen.further_keepers, ", process "));
}

std::string place_of_copy(const SeenPe& seen) {
    switch (seen.protection) {
        case Protection::is_safe:
            if (seen.group_parity != 0) {
                return fmt::format("parity, with process {}{}", seen.keeper, further_of(seen));
            }
            if (!seen.keeper_node.empty()) {
                return fmt::format("process {} on {}{}", seen.keeper, harmless(seen.keeper_node), further_of(seen));
            }
            return process_name(seen.keeper, seen.keeper_pe) +
                   domains_of(seen.holder->memory_domain, seen.keeper_domain) + further_of(seen);
        case Protection::unprotected: return "its own memory only";
        default: return "-";
    }
}

std::string table_of(const JobSummary& summary) {
    std::string text = fmt::format("  {:>4} {:>8} {:>8} {:>12} {:>8}  {:<10} {}\n", "PE", "pid", "process",
                                   "incarnation", "version", "state", "copy in");
    std::int32_t n_elsewhere = 0;
    for (const SeenPe& seen : summary.pes) {
        if (seen.protection == Protection::elsewhere) {
            ++n_elsewhere;
        } else if (seen.holder == nullptr) {
            text += fmt::format("  {:>4} {:>8} {:>8} {:>12} {:>8}  {:<10} -\n", seen.pe, "-", "-", "-", "-",
                                name_of(seen.protection));
        } else {
            text += fmt::format("  {:>4} {:>8} {:>8} {:>12} {:>8}  {:<10} {}\n", seen.pe, seen.holder->pid,
                                seen.holder->process, seen.holder->status->incarnation, seen.holder->status->version,
                                name_of(seen.protection), place_of_copy(seen));
        }
    }
    if (n_elsewhere != 0) {
        text += fmt::format("  {} on other nodes: shmem-ft status there tells of {}\n", counted(n_elsewhere, "PE"),
                            n_elsewhere == 1 ? "it" : "them");
    }
    return text;
}

const char* name_of(StartupPhase phase) {
    switch (phase) {
        case StartupPhase::none: return "not recorded";
        case StartupPhase::recording: return "being recorded";
        case StartupPhase::closed: return "recorded";
        case StartupPhase::too_large: return "too large for SHMEM_FT_STARTUP_RECORD";
        case StartupPhase::many_threads: return "made by several threads, not recorded";
        case StartupPhase::repeating: return "being repeated";
    }
    return "?";
}

StartupPhase phase_of(const SeenPe& seen) {
    return seen.holder == nullptr ? StartupPhase::none : static_cast<StartupPhase>(seen.holder->status->startup);
}

// One line for each state that some PE is in.
std::string startup_of(const JobSummary& summary) {
    std::string text;
    for (std::uint32_t phase = 0; phase <= static_cast<std::uint32_t>(StartupPhase::repeating); ++phase) {
        std::vector<std::string> pes;
        std::uint64_t bytes = 0;
        for (const SeenPe& seen : summary.pes) {
            if (seen.holder != nullptr && phase_of(seen) == static_cast<StartupPhase>(phase)) {
                pes.push_back(std::to_string(seen.pe));
                bytes += seen.holder->status->startup_bytes;
            }
        }
        if (!pes.empty()) {
            text +=
                fmt::format("  {:<11} {} ({}{})\n", text.empty() ? "start-up" : "",
                            name_of(static_cast<StartupPhase>(phase)),
                            pes.size() == summary.pes.size() ? "all PEs" : fmt::format("PE {}", fmt::join(pes, ", ")),
                            bytes == 0 ? "" : ", " + amount(bytes));
        }
    }
    return text;
}

std::string time_text(std::int64_t ns) {
    const auto seconds = static_cast<double>(ns) / kNsPerSecond;
    if (seconds >= 120) {
        return fmt::format("{:.1f} min", seconds / 60);
    }
    return seconds >= 1 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.3g} ms", seconds * 1e3);
}

std::string checkpoints_of(const JobSummary& summary) {
    std::string text;
    if (summary.checkpoints != 0) {
        text += fmt::format("  checkpoints {} in {} calls, {} each, {:.2g} % of the time; one every {}, {} is best\n",
                            summary.checkpoints, summary.checkpoint_calls, time_text(summary.checkpoint_ns),
                            100 * summary.checkpoints_share, time_text(summary.interval_ns),
                            time_text(summary.best_interval_ns));
    }
    if (summary.room_most != 0) {
        text += fmt::format("  memory      at most {} for state and copies; the last look found {} left\n",
                            amount(summary.room_most), amount(summary.room_left));
    }
    return text;
}

// What the loss of a node would do. That of oshrun's own host always ends a job.
std::string nodes_of(const JobSummary& summary) {
    if (summary.n_nodes <= 1) {
        return {};
    }
    if (summary.fatal_node.empty()) {
        return fmt::format("  {:<11} the loss of any one of {} nodes, oshrun's host excepted\n", "", summary.n_nodes);
    }
    const std::string some = summary.node_losses == 0
                                 ? fmt::format("the loss of none of {} nodes", summary.n_nodes)
                                 : fmt::format("the loss of one of {} of {} nodes, oshrun's host excepted",
                                               summary.node_losses, summary.n_nodes);
    return fmt::format("  {:<11} {}: not of {}, {}\n", "", some, harmless(summary.fatal_node), summary.fatal_why);
}

std::string ends_of(const SeenJob& job, const JobSummary& summary) {
    std::string text;
    for (const SeenProcess* spare : summary.idle_spares) {
        text += fmt::format("  spare: process {}, pid {}\n", spare->process, spare->pid);
    }
    for (const SeenProcess* item : summary.dead) {
        text += fmt::format("  dead: {}, {}: {}\n", process_name(item->process, item->status ? item->status->pe : -1),
                            ago(job, item->death_seen_ns), describe(item->death));
    }
    return text;
}

Json json_of(const SeenPe& seen) {
    Json json = {{"pe", seen.pe}, {"state", name_of(seen.protection)}};
    json["process"] = seen.holder == nullptr ? Json(nullptr) : Json(seen.holder->process);
    json["pid"] = seen.holder == nullptr ? Json(nullptr) : Json(seen.holder->pid);
    json["incarnation"] = seen.holder == nullptr ? Json(nullptr) : Json(seen.holder->status->incarnation);
    json["version"] = seen.holder == nullptr ? Json(nullptr) : Json(seen.holder->status->version);
    json["stored_bytes"] = seen.holder == nullptr ? Json(nullptr) : Json(seen.holder->status->stored_bytes);
    json["startup"] = seen.holder == nullptr ? Json(nullptr) : Json(name_of(phase_of(seen)));
    json["startup_bytes"] = seen.holder == nullptr ? Json(nullptr) : Json(seen.holder->status->startup_bytes);
    const std::int32_t domain = seen.holder == nullptr ? -1 : seen.holder->memory_domain;
    json["memory_domain"] = domain < 0 ? Json(nullptr) : Json(domain);
    json["copy_in_memory_domain"] = seen.keeper_domain < 0 ? Json(nullptr) : Json(seen.keeper_domain);
    json["copy_on_node"] = seen.keeper_node.empty() ? Json(nullptr) : Json(seen.keeper_node);
    json["copy_in_process"] = seen.keeper < 0 ? Json(nullptr) : Json(seen.keeper);
    json["further_copies_in_processes"] = seen.further_keepers;
    json["parity_survives"] = seen.group_parity == 0 ? Json(nullptr) : Json(seen.group_parity);
    return json;
}

}  // namespace

std::string text_of(const SeenJob& job) {
    const JobSummary summary = summarize(job);
    const std::string path = job.program.empty() ? "?" : harmless(job.program);
    const auto n_spares = static_cast<std::int32_t>(job.processes.size()) - job.n_pes;
    std::string text =
        fmt::format("job {}: {}, {}, {}{}\n", name_of(job), std::filesystem::path(path).filename().string(),
                    counted(job.n_pes, "PE"), counted(n_spares, "spare"),
                    job.oshrun_pid == 0 ? "" : fmt::format(", oshrun {}", job.oshrun_pid));
    if (job.n_nodes > 1) {
        text += fmt::format("  node        {}, one of {}\n", harmless(job.node_name), job.n_nodes);
    }
    text += fmt::format("  program     {}\n", path);
    if (job.user != ::geteuid()) {
        text += fmt::format("  user        {}\n", job.user);
    }
    text += fmt::format("  stage       {}{}{}, view {}\n", summary.stage,
                        summary.attempt > 1 ? fmt::format(" (attempt {})", summary.attempt) : "",
                        summary.waits_for_spare ? " (waits for a spare)" : "", summary.view);
    if (summary.version == 0) {
        text += "  committed   nothing yet\n";
    } else {
        text += fmt::format("  committed   version {}, {}, {} stored\n", summary.version,
                            ago(job, summary.committed_ns), amount(summary.stored_bytes));
    }
    text += checkpoints_of(summary);
    text += startup_of(summary);
    text += fmt::format("  survivable  {} further loss{} of a PE at one moment, {} one after another: {}\n",
                        summary.protected_losses, summary.protected_losses == 1 ? "" : "es", summary.losses_in_turn,
                        joined(summary.limits));
    text += nodes_of(summary);
    if (summary.spares_on_demand > 0) {
        text += fmt::format("  on demand   oshrun starts up to {} when none is left (--on-demand-limit)\n",
                            counted(summary.spares_on_demand, "spare"));
    }
    text += fmt::format("  integrity   {} blocks checked, {} bad, {} repaired\n", summary.blocks_checked,
                        summary.blocks_bad, summary.blocks_repaired);
    return text + table_of(summary) + ends_of(job, summary);
}

Json json_of(const SeenJob& job) {
    const JobSummary summary = summarize(job);
    Json json = {{"job", name_of(job)}, {"program", job.program}, {"user", job.user}};
    json["oshrun_pid"] = job.oshrun_pid == 0 ? Json(nullptr) : Json(job.oshrun_pid);
    json["stage"] = summary.stage;
    json["waits_for_spare"] = summary.waits_for_spare;
    json["version"] = summary.version;
    const auto age = seconds_since(job, summary.committed_ns);
    json["committed_seconds_ago"] = age ? Json(*age) : Json(nullptr);
    json["view"] = summary.view;
    json["attempt"] = summary.attempt;
    json["protected_losses"] = summary.protected_losses;
    json["losses_in_turn"] = summary.losses_in_turn;
    json["limits"] = summary.limits;
    json["checkpoints"] = nullptr;
    if (summary.checkpoints != 0) {
        json["checkpoints"] = {{"calls", summary.checkpoint_calls},
                               {"made", summary.checkpoints},
                               {"seconds_each", static_cast<double>(summary.checkpoint_ns) / kNsPerSecond},
                               {"share_of_time", summary.checkpoints_share},
                               {"interval_seconds", static_cast<double>(summary.interval_ns) / kNsPerSecond},
                               {"best_interval_seconds", static_cast<double>(summary.best_interval_ns) / kNsPerSecond}};
    }
    json["memory"] = nullptr;
    if (summary.room_most != 0) {
        json["memory"] = {{"most_bytes", summary.room_most}, {"left_bytes", summary.room_left}};
    }
    json["node_losses"] = nullptr;
    if (summary.n_nodes > 1) {
        json["node_losses"] = {{"nodes", summary.n_nodes},
                               {"survivable", summary.node_losses},
                               {"fatal_node", summary.fatal_node.empty() ? Json(nullptr) : Json(summary.fatal_node)},
                               {"why", summary.fatal_why.empty() ? Json(nullptr) : Json(summary.fatal_why)}};
    }
    json["spares_on_demand"] = summary.spares_on_demand;
    json["stored_bytes"] = summary.stored_bytes;
    json["n_nodes"] = job.n_nodes;
    json["node"] = job.node_name.empty() ? Json(nullptr) : Json(job.node_name);
    json["n_pes"] = job.n_pes;
    json["n_spares"] = static_cast<std::int32_t>(job.processes.size()) - job.n_pes;
    json["pes"] = Json::array();
    for (const SeenPe& seen : summary.pes) {
        json["pes"].push_back(json_of(seen));
    }
    json["idle_spares"] = Json::array();
    for (const SeenProcess* spare : summary.idle_spares) {
        json["idle_spares"].push_back({{"process", spare->process}, {"pid", spare->pid}});
    }
    json["deaths"] = Json::array();
    for (const SeenProcess* item : summary.dead) {
        const std::int32_t pe = item->status ? item->status->pe : -1;
        json["deaths"].push_back({{"process", item->process},
                                  {"pe", pe < 0 ? Json(nullptr) : Json(pe)},
                                  {"pid", item->pid},
                                  {"reason", describe(item->death)},
                                  {"seconds_ago", *seconds_since(job, item->death_seen_ns)}});
    }
    json["integrity"] = {{"blocks_checked", summary.blocks_checked},
                         {"blocks_bad", summary.blocks_bad},
                         {"blocks_repaired", summary.blocks_repaired}};
    return json;
}

}  // namespace sft::tools
