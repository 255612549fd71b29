// shmem-ft plan: what a job on given hosts would be like, or is like that runs.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/config.hpp"
#include "base/result.hpp"
#include "tools/common/text.hpp"
#include "tools/shmem-ft/commands.hpp"
#include "tools/shmem-ft/plan.hpp"
#include "tools/shmem-ft/plan_running.hpp"
#include "tools/shmem-ft/refusal.hpp"

namespace sft::tools {
namespace {

using Json = nlohmann::ordered_json;

int refused(const std::string& line) { return refuse("plan: " + line); }

Json json_of(const Plan& plan) {
    Json json = {{"pes", plan.n_pes}, {"spares", plan.n_spares}, {"copies", plan.copies}, {"apart", plan.apart}};
    json["parity"] = plan.group_smallest == 0 ? Json(nullptr)
                                              : Json{{"smallest_group", plan.group_smallest},
                                                     {"largest_group", plan.group_largest},
                                                     {"survives", plan.group_parity}};
    json["hosts"] = Json::array();
    for (const Plan::Host& host : plan.hosts) {
        Json item = {{"name", host.name}};
        for (std::size_t level = 0; level < plan.levels.size(); ++level) {
            const std::string& domain = host.domains[level];
            item["domains"][plan.levels[level]] = domain.empty() ? Json(nullptr) : Json(domain);
        }
        item["pes"] = host.pes;
        item["spares"] = host.spares;
        item["copies_of_pes"] = host.kept_of;
        item["memory_in_states"] = host.memory;
        json["hosts"].push_back(std::move(item));
    }
    json["losses"] = Json::array();
    for (const Plan::Losses& losses : plan.losses) {
        json["losses"].push_back({{"what", losses.what},
                                  {"at_once", losses.n_at_once},
                                  {"sets", losses.n_sets},
                                  {"survived", losses.n_survived},
                                  {"is_sample", losses.is_sample},
                                  {"fatal", losses.fatal.empty() ? Json(nullptr) : Json(losses.fatal)}});
    }
    json["demands"] = Json::array();
    for (const Plan::Demand& demand : plan.demands) {
        json["demands"].push_back({{"what", demand.what},
                                   {"at_once", demand.n_at_once},
                                   {"why_not", demand.why_not.empty() ? Json(nullptr) : Json(demand.why_not)}});
    }
    for (const Plan::Risk& risk : plan.risks) {
        Json item = {{"what", risk.what}, {"mtbf_days", risk.mtbf_days}, {"window_s", plan.window_s}};
        for (const Plan::Risk::AtOnce& at_once : risk.at_once) {
            item["at_once"].push_back(
                {{"smallest_sets", at_once.n_sets}, {"a_day", at_once.a_day}, {"a_day_error", at_once.a_day_error}});
        }
        if (risk.n_orders > 0) {
            item["run"] = {{"days", plan.run_days},
                           {"ended", risk.runs_ended},
                           {"ended_error", risk.runs_ended_error},
                           {"orders", risk.n_orders}};
        }
        json["risks"].push_back(std::move(item));
    }
    return json;
}

// Null: the topology has none of that name.
const Topology::Level* level_of(const PlanTask& task, std::string_view name) {
    if (!task.topology) {
        return nullptr;
    }
    const auto& levels = task.topology->levels();
    const auto found =
        std::find_if(levels.begin(), levels.end(), [&](const auto& level) { return level.name == name; });
    return found == levels.end() ? nullptr : &*found;
}

// "1000" is of hosts, "rack=20000" of a level. Empty: all are good.
std::string enter_mtbf(const std::vector<std::string>& words, PlanTask& task) {
    for (const std::string& word : words) {
        const std::size_t sign = word.find('=');
        const std::string what = sign == std::string::npos ? "host" : word.substr(0, sign);
        const std::string number = sign == std::string::npos ? word : word.substr(sign + 1);
        char* end = nullptr;
        const double days = std::strtod(number.c_str(), &end);
        if (number.empty() || *end != '\0' || !(days > 0)) {
            return fmt::format("--mtbf: '{}' is no number of days above 0 (1000 of hosts, rack=20000 of a level)",
                               word);
        }
        if (what != "host" && level_of(task, what) == nullptr) {
            return fmt::format("--mtbf: the topology has no level '{}'", what);
        }
        task.mtbf_days[what] = days;
    }
    return {};
}

// The placement that oshrun would choose.
std::string enter_hosts(const PlanCommand& command, const Config& config, PlanTask& task) {
    if (command.hosts.empty()) {
        return "on which hosts? shmem-ft plan --hosts node[1-4]:2 (each name or range with its number of slots); or "
               "of which job that runs? shmem-ft plan PID";
    }
    std::string line;
    const auto hosts = parse_host_list(command.hosts, line);
    if (!hosts) {
        return line;
    }
    int n_slots = 0;
    for (const HostSlots& host : *hosts) {
        n_slots += host.slots;
    }
    const int spares = command.spares >= 0 ? command.spares : static_cast<int>(config.spares);
    const int pes = command.pes != 0 ? command.pes : n_slots - spares;
    if (pes < 1) {
        return fmt::format("--spares: {} spare{} no slot for a PE on hosts with {}", spares,
                           spares == 1 ? " leaves" : "s leave", counted(n_slots, "slot"));
    }
    if (command.spare_nodes >= static_cast<int>(hosts->size())) {
        return fmt::format("--spare-nodes: {} of {} hosts leave none for PEs", command.spare_nodes, hosts->size());
    }
    task.placement = {.hosts = *hosts,
                      .pes = pes,
                      .spares = spares,
                      .spare_nodes = command.spare_nodes,
                      .is_by_node = command.is_by_node};
    return lack_of_room(task.placement).value_or("");
}

// The hosts that are meant; the failure says what is wrong.
Result<std::vector<std::int32_t>> hosts_of(const std::string& word, const PlanTask& task) {
    std::vector<std::int32_t> found;
    const auto take = [&](const auto& is_meant) {
        for (std::size_t host = 0; host < task.placement.hosts.size(); ++host) {
            if (is_meant(task.placement.hosts[host].name)) {
                found.push_back(static_cast<std::int32_t>(host));
            }
        }
    };
    take([&](const std::string& name) { return name == word; });
    const std::size_t sign = word.find('=');
    if (!found.empty()) {
        return found;
    }
    if (sign != std::string::npos) {
        const Topology::Level* const level = level_of(task, word.substr(0, sign));
        if (level == nullptr) {
            return fails(fmt::format("--lost: the topology has no level '{}'", word.substr(0, sign)));
        }
        take([&](const std::string& name) {
            const auto domain = task.topology->domain_of(*level, name);
            return domain && level->domains[static_cast<std::size_t>(*domain)] == word.substr(sign + 1);
        });
        return found;
    }
    std::string line;
    const auto names = parse_host_list(word, line);
    if (!names) {
        return fails("--lost" + line.substr(std::min(line.find(' '), line.size())));  // it says --host
    }
    take([&](const std::string& name) {
        return std::any_of(names->begin(), names->end(), [&](const HostSlots& host) { return host.name == name; });
    });
    return found;
}

// "node[3-4]", "rack=r1". Empty: all are good.
std::string enter_lost(const std::vector<std::string>& words, PlanTask& task) {
    for (const std::string& word : words) {
        const Result<std::vector<std::int32_t>> hosts = hosts_of(word, task);
        if (!hosts) {
            return hosts.error().line;
        }
        if (hosts->empty()) {
            return fmt::format("--lost: no host of the job is in '{}'", word);
        }
        task.lost.insert(task.lost.end(), hosts->begin(), hosts->end());
    }
    return {};
}

// Empty: it is written.
std::string write_drawing(const std::string& path, const std::string& svg) {
    std::ofstream file(path);
    file << svg;
    file.close();
    return file ? "" : fmt::format("--svg: {} cannot be written: {}", path, std::strerror(errno));
}

int print_plans(const PlanCommand& command, PlanTask task) {
    const std::vector<std::int32_t> lost = std::exchange(task.lost, {});
    const Plan now = make_plan(task);
    const int code = now.meets_demands() ? 0 : 1;
    std::optional<Plan> after;
    if (!lost.empty()) {
        task.lost = lost;
        after = make_plan(task);
    }
    if (!command.svg.empty()) {
        const std::string svg = svg_of(after ? *after : now, task.backup);
        if (command.svg == "-") {
            fmt::print("{}", svg);
            return code;
        }
        if (const std::string wrong = write_drawing(command.svg, svg); !wrong.empty()) {
            return refused(wrong);
        }
    }
    if (command.as_json) {
        Json json = json_of(now);
        if (after) {
            json["after_loss"] = after->ends.empty() ? json_of(*after) : Json{{"ends", after->ends}};
        }
        fmt::print("{}\n", json.dump(2));
        return code;
    }
    fmt::print("{}", text_of(now, task.backup));
    if (after) {
        const std::string words = fmt::format("{}", fmt::join(command.lost, ", "));
        fmt::print("\n{}", after->ends.empty()
                               ? fmt::format("after the loss of {}: {}", words, text_of(*after, task.backup))
                               : fmt::format("the loss of {} is not survived: {}\n", words, after->ends));
    }
    return code;
}

}  // namespace

int run_plan(const PlanCommand& command) {
    PlanTask task;
    std::optional<FoundJob> job;
    if (!command.job.empty()) {
        if (!command.hosts.empty() || command.pes != 0 || command.spares >= 0 || command.spare_nodes != 0 ||
            command.is_by_node) {
            return refused(
                "--hosts, -n, --spares, --spare-nodes, --map-by: a job that runs has its hosts and processes");
        }
        Result<FoundJob> found = find_running(command.job);
        if (!found) {
            return refused(found.error().line);
        }
        job = std::move(*found);
        use_settings_of(*job);
    }
    // As the library reads them.
    if (!command.backup.empty()) {
        ::setenv("SHMEM_FT_BACKUP_MODE", command.backup.c_str(), 1);
    }
    if (!command.topology.empty()) {
        ::setenv("SHMEM_FT_TOPOLOGY", command.topology.c_str(), 1);
    }
    Config config;
    if (const Result<> loaded = load_config(config); !loaded) {
        return refused(loaded.error().line);
    }
    task.backup = config.backup;
    if (!config.topology.empty()) {
        Result<Topology> read = Topology::read(config.topology);
        if (!read) {
            return refused(read.error().line);
        }
        task.topology = std::move(*read);
    }
    task.window_s = command.window_s;
    task.run_days = command.run_days;
    task.state_bytes = command.state_bytes;
    if (job) {
        task.placement = std::move(job->placement);
        task.running = std::move(job->state);
    } else if (const std::string wrong = enter_hosts(command, config, task); !wrong.empty()) {
        return refused(wrong);
    }
    for (const std::string& wrong : {enter_mtbf(command.mtbf, task), enter_lost(command.lost, task)}) {
        if (!wrong.empty()) {
            return refused(wrong);
        }
    }
    if (command.run_days > 0 && command.mtbf.empty()) {
        return refused("--run: how often is a host lost? --mtbf DAYS");
    }
    return print_plans(command, std::move(task));
}

}  // namespace sft::tools
