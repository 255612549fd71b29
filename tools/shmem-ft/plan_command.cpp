// shmem-ft plan: what a job on given hosts would be like.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/config.hpp"
#include "tools/common/text.hpp"
#include "tools/shmem-ft/commands.hpp"
#include "tools/shmem-ft/plan.hpp"
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
        const bool is_level =
            task.topology && std::any_of(task.topology->levels().begin(), task.topology->levels().end(),
                                         [&](const auto& level) { return level.name == what; });
        if (what != "host" && !is_level) {
            return fmt::format("--mtbf: the topology has no level '{}'", what);
        }
        task.mtbf_days[what] = days;
    }
    return {};
}

}  // namespace

int run_plan(const PlanCommand& command) {
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
    if (command.hosts.empty()) {
        return refused(
            "on which hosts? shmem-ft plan --hosts node[1-4]:2 (each name or range with its number of slots)");
    }
    PlanTask task;
    task.backup = config.backup;
    std::string line;
    const auto hosts = parse_host_list(command.hosts, line);
    if (!hosts) {
        return refused(line);
    }
    if (!config.topology.empty()) {
        Result<Topology> read = Topology::read(config.topology);
        if (!read) {
            return refused(read.error().line);
        }
        task.topology = std::move(*read);
    }
    int n_slots = 0;
    for (const HostSlots& host : *hosts) {
        n_slots += host.slots;
    }
    const int spares = command.spares >= 0 ? command.spares : static_cast<int>(config.spares);
    const int pes = command.pes != 0 ? command.pes : n_slots - spares;
    if (pes < 1) {
        return refused(fmt::format("--spares: {} spare{} no slot for a PE on hosts with {} slot{}", spares,
                                   spares == 1 ? " leaves" : "s leave", n_slots, n_slots == 1 ? "" : "s"));
    }
    if (command.spare_nodes >= static_cast<int>(hosts->size())) {
        return refused(
            fmt::format("--spare-nodes: {} of {} hosts leave none for PEs", command.spare_nodes, hosts->size()));
    }
    task.placement = {.hosts = *hosts,
                      .pes = pes,
                      .spares = spares,
                      .spare_nodes = command.spare_nodes,
                      .is_by_node = command.is_by_node};
    if (const auto lack = lack_of_room(task.placement)) {
        return refused(*lack);
    }
    task.window_s = command.window_s;
    task.run_days = command.run_days;
    if (const std::string wrong = enter_mtbf(command.mtbf, task); !wrong.empty()) {
        return refused(wrong);
    }
    if (command.run_days > 0 && command.mtbf.empty()) {
        return refused("--run: how often is a host lost? --mtbf DAYS");
    }
    const Plan plan = make_plan(task);
    fmt::print("{}", command.as_json ? json_of(plan).dump(2) + "\n" : text_of(plan, task.backup));
    return 0;
}

}  // namespace sft::tools
