#include "tools/shmem-ft/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "recovery/membership/job_state.hpp"
#include "recovery/membership/memory_holder.hpp"
#include "recovery/membership/parity_groups.hpp"
#include "recovery/membership/parity_scheme.hpp"
#include "recovery/membership/placement.hpp"
#include "recovery/membership/quorum.hpp"
#include "recovery/membership/scheme.hpp"
#include "recovery/membership/tree.hpp"
#include "recovery/rules.hpp"
#include "tools/common/text.hpp"
#include "tools/shmem-ft/plan_risk.hpp"

namespace sft::tools {
namespace {

constexpr std::int32_t kAtOnceMax = 3;
constexpr double kSecondsInDay = 86'400;
// Orders in which units are lost, fewer for more PEs.
constexpr std::int32_t kOrderWork = 100'000;
constexpr std::int32_t kOrdersMin = 20;
constexpr std::int32_t kOrdersMax = 2'000;

// Hosts that are lost as one.
struct Unit {
    std::string name;
    std::vector<std::int32_t> hosts;
};

std::string counted(std::int64_t n, const std::string& what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

class Planner {
public:
    explicit Planner(const PlanTask& task) : task_(task), host_of_(place(task.placement)) {
        const auto n_pes = static_cast<std::size_t>(task.placement.pes);
        std::vector<NodeId> nodes;
        std::vector<std::string> names;  // by node
        std::map<int, NodeId> numbers;   // in the order of the lowest processes, as the library numbers them
        for (const int host : host_of_) {
            const NodeId next(static_cast<std::int32_t>(numbers.size()));
            const auto [at, is_new] = numbers.emplace(host, next);
            nodes.push_back(at->second);
            if (is_new) {
                names.push_back(task.placement.hosts[static_cast<std::size_t>(host)].name);
            }
        }
        nodes_ = NodeMap(std::move(nodes));
        area_map_ = task.topology ? AreaMap(task.topology->areas_of(names)) : AreaMap();
        const bool has_areas = area_map_.has_several();
        shape_ = {.n_pes = task.placement.pes,
                  .n_processes = static_cast<std::int32_t>(host_of_.size()),
                  .nodes = nodes_.is_one_node() ? nullptr : &nodes_,
                  .areas = has_areas ? &area_map_ : nullptr,
                  .keeps_near = task.backup.mode == BackupMode::single_copy,
                  .memory = task.backup.parity != 0 ? &node_memory() : &process_memory()};
        groups_ = groups_for(shape_, task.backup);
        shape_.groups = groups_ ? &*groups_ : nullptr;
        shape_.scheme = &scheme_of(shape_, task.backup);
        keepers_.resize(n_pes);
        if (task.backup.mode == BackupMode::none) {
            return;
        }
        if (n_pes == 1) {  // a spare keeps for it
            const ProcId witness = one_partner().witness_for(shape_, {});
            keepers_[0] = witness == kNoProc ? std::vector<std::int32_t>{} : std::vector{witness.value()};
            is_by_area_ = has_areas;
            return;
        }
        is_by_area_ = has_areas && !shape_.keeps_near;
        if (groups_) {
            arrange_groups();
            return;
        }
        const Placement placement(shape_, {}, {}, task.backup.partners);
        for (std::size_t pe = 0; pe < n_pes; ++pe) {
            for (std::int32_t number = 0; number < placement.n_keepers(); ++number) {
                keepers_[pe].push_back(placement.keeper_of(PeId(static_cast<std::int32_t>(pe)), number).value());
            }
        }
    }

    [[nodiscard]] Plan plan() {
        Plan plan;
        plan.n_pes = task_.placement.pes;
        plan.n_spares = task_.placement.spares;
        plan.window_s = task_.window_s;
        plan.run_days = task_.run_days;
        if (groups_) {
            plan.group_smallest = groups_->smallest();
            plan.group_largest = groups_->largest();
            plan.group_parity = std::min(task_.backup.parity, groups_->smallest() - 1);
        }
        plan.copies = keepers_.front().empty() || groups_ ? 0 : static_cast<std::int32_t>(keepers_.front().size());
        plan.apart = is_by_area_ ? task_.topology->apart().name : "host";
        describe_hosts(plan);
        std::vector<Unit> hosts;
        for (std::size_t host = 0; host < plan.hosts.size(); ++host) {
            if (!plan.hosts[host].pes.empty() || !plan.hosts[host].spares.empty()) {
                hosts.push_back({plan.hosts[host].name, {static_cast<std::int32_t>(host)}});
            }
        }
        look_at("host", hosts, plan);
        look_at_risk("host", hosts, plan);
        for (std::size_t level = 0; level < plan.levels.size(); ++level) {
            std::map<std::string, Unit> domains;
            for (std::size_t host = 0; host < plan.hosts.size(); ++host) {
                if (const std::string& name = plan.hosts[host].domains[level]; !name.empty()) {
                    domains[name].name = name;
                    domains[name].hosts.push_back(static_cast<std::int32_t>(host));
                }
            }
            std::vector<Unit> units;
            for (auto& [name, unit] : domains) {
                units.push_back(std::move(unit));
            }
            look_at(plan.levels[level], units, plan);
            look_at_risk(plan.levels[level], units, plan);
        }
        return plan;
    }

private:
    // Who keeps parity of a PE: the others of its group.
    void arrange_groups() {
        for (std::size_t pe = 0; pe < keepers_.size(); ++pe) {
            for (const PeId other : shape_.scheme->apart_from(shape_, PeId(static_cast<std::int32_t>(pe)))) {
                keepers_[pe].push_back(other.value());
            }
        }
    }

    void describe_hosts(Plan& plan) const {
        for (const HostSlots& host : task_.placement.hosts) {
            plan.hosts.push_back({.name = host.name, .domains = {}, .pes = {}, .spares = {}, .kept_of = {}});
        }
        for (std::size_t process = 0; process < host_of_.size(); ++process) {
            Plan::Host& host = plan.hosts[static_cast<std::size_t>(host_of_[process])];
            const auto number = static_cast<std::int32_t>(process);
            (number < plan.n_pes ? host.pes : host.spares).push_back(number);
        }
        for (std::size_t pe = 0; pe < keepers_.size(); ++pe) {
            for (const std::int32_t keeper : keepers_[pe]) {
                const int host = host_of_[static_cast<std::size_t>(keeper)];
                plan.hosts[static_cast<std::size_t>(host)].kept_of.push_back(static_cast<std::int32_t>(pe));
            }
        }
        if (!task_.topology) {
            return;
        }
        for (const Topology::Level& level : task_.topology->levels()) {
            plan.levels.push_back(level.name);
            for (Plan::Host& host : plan.hosts) {
                const auto domain = task_.topology->domain_of(level, host.name);
                host.domains.push_back(domain ? level.domains[static_cast<std::size_t>(*domain)] : "");
            }
        }
    }

    void look_at(const std::string& what, const std::vector<Unit>& units, Plan& plan) const {
        const auto n = static_cast<std::int32_t>(units.size());
        for (std::int32_t k = 1; k <= kAtOnceMax && k < n; ++k) {
            Plan::Losses losses{
                .what = what, .n_at_once = k, .n_sets = 0, .n_survived = 0, .is_sample = false, .fatal = ""};
            const auto judge = [&](const UnitSet& set) {
                const std::string why = why_fatal(units, set);
                ++losses.n_sets;
                losses.n_survived += why.empty() ? 1 : 0;
                losses.fatal = losses.fatal.empty() ? why : losses.fatal;
            };
            losses.is_sample = each_set(n, k, judge);
            plan.losses.push_back(std::move(losses));
        }
    }

    void look_at_risk(const std::string& what, const std::vector<Unit>& units, Plan& plan) const {
        const auto mtbf = task_.mtbf_days.find(what);
        const auto n = static_cast<std::int32_t>(units.size());
        if (mtbf == task_.mtbf_days.end() || n == 0) {
            return;
        }
        Plan::Risk risk{.what = what, .mtbf_days = mtbf->second};
        const double window_days = task_.window_s / kSecondsInDay;
        for (std::int32_t k = 1; k <= std::min(kAtOnceMax, n); ++k) {
            const Estimate sets =
                smallest_fatal_sets(n, k, [&](const UnitSet& set) { return !why_fatal(units, set).empty(); });
            risk.at_once.push_back({.n_sets = sets.value,
                                    .a_day = losses_a_day(sets.value, k, risk.mtbf_days, window_days),
                                    .a_day_error = losses_a_day(sets.error, k, risk.mtbf_days, window_days)});
        }
        if (task_.run_days > 0) {
            one_after_another(units, risk);
        }
        plan.risks.push_back(std::move(risk));
    }

    // In the orders that are drawn, how many are survived if the job is protected again before the next one; from that,
    // how often a run has more.
    void one_after_another(const std::vector<Unit>& units, Plan::Risk& risk) const {
        std::mt19937 random(1);
        std::vector<std::int32_t> order(units.size());
        std::iota(order.begin(), order.end(), 0);
        risk.n_orders = std::clamp(kOrderWork / task_.placement.pes, kOrdersMin, kOrdersMax);
        double sum = 0;
        double sum_of_squares = 0;
        for (std::int32_t i = 0; i < risk.n_orders; ++i) {
            std::shuffle(order.begin(), order.end(), random);
            const double more = probability_of_more(static_cast<std::int32_t>(units.size()), survived(units, order),
                                                    risk.mtbf_days, task_.run_days);
            sum += more;
            sum_of_squares += more * more;
        }
        risk.runs_ended = sum / risk.n_orders;
        risk.runs_ended_error = std::sqrt(
            std::max(0.0, sum_of_squares / risk.n_orders - risk.runs_ended * risk.runs_ended) / risk.n_orders);
    }

    // By the library's own rules, from the first committed version on.
    [[nodiscard]] std::int32_t survived(const std::vector<Unit>& units, const std::vector<std::int32_t>& order) const {
        const JobRules rules(shape_);
        JobState state = JobRules::first_state(shape_);
        state.version = shape_.first_version;
        std::vector<Death> dead;
        for (std::size_t i = 0; i < order.size(); ++i) {
            const Tree before(shape_, state, dead, kFanOut);
            for (const std::int32_t host : units[static_cast<std::size_t>(order[i])].hosts) {
                for (std::size_t process = 0; process < host_of_.size(); ++process) {
                    if (host_of_[process] == host) {
                        insert_sorted(dead, {.process = ProcId(static_cast<std::int32_t>(process)), .reason = {}});
                    }
                }
            }
            const Tree after(shape_, state, dead, kFanOut);
            if (!is_quorum(after.size(), before.size(), after.root() == before.root())) {
                return static_cast<std::int32_t>(i);
            }
            if (after.size() == before.size()) {
                continue;  // only spares were there
            }
            std::optional<JobState> next = rules.after_deaths(state, dead);
            if (next && next->stage == Stage::faulted) {
                next = rules.after_restart(*next, {Goal::restart, false, JobRules::hash_of(next->failed)}, dead);
            }
            if (next && next->stage == Stage::planned) {
                next = rules.after_ready(rules.after_ready(*next, Goal::restore), Goal::protect);
            }
            if (!next || next->stage != Stage::running) {
                return static_cast<std::int32_t>(i);
            }
            state = *std::move(next);
        }
        return static_cast<std::int32_t>(order.size());
    }

    // Empty: the job survives it.
    [[nodiscard]] std::string why_fatal(const std::vector<Unit>& units, const UnitSet& set) const {
        std::vector<char> is_lost(task_.placement.hosts.size(), 0);
        std::vector<std::string> names;
        for (const std::int32_t number : set) {
            const Unit& unit = units[static_cast<std::size_t>(number)];
            names.push_back(unit.name);
            for (const std::int32_t host : unit.hosts) {
                is_lost[static_cast<std::size_t>(host)] = 1;
            }
        }
        const auto lost = [&](std::int32_t process) {
            return is_lost[static_cast<std::size_t>(host_of_[static_cast<std::size_t>(process)])] != 0;
        };
        std::int32_t n_lost = 0;
        for (std::int32_t pe = 0; pe < task_.placement.pes; ++pe) {
            if (!lost(pe)) {
                continue;
            }
            ++n_lost;
            const std::vector<std::int32_t>& keepers = keepers_[static_cast<std::size_t>(pe)];
            if (groups_) {
                const auto n = static_cast<std::int32_t>(std::count_if(keepers.begin(), keepers.end(), lost));
                if (n + 1 > std::min(task_.backup.parity, static_cast<std::int32_t>(keepers.size()))) {
                    return fmt::format("{}: {} of the group of PE {} are there", fmt::join(names, ", "),
                                       counted(n + 1, "PE"), pe);
                }
            } else if (std::all_of(keepers.begin(), keepers.end(), lost)) {
                return fmt::format("{}: PE {} and all its copies are there", fmt::join(names, ", "), pe);
            }
        }
        const std::int32_t n_left = task_.placement.pes - n_lost;
        if (!is_quorum(n_left, task_.placement.pes, !lost(0))) {
            return fmt::format("{}: {} of {} PEs are left, which cannot tell whether they are the part that is cut off",
                               fmt::join(names, ", "), n_left, task_.placement.pes);
        }
        std::int32_t n_spares = 0;
        for (std::size_t process = static_cast<std::size_t>(task_.placement.pes); process < host_of_.size();
             ++process) {
            n_spares += lost(static_cast<std::int32_t>(process)) ? 0 : 1;
        }
        if (n_spares < n_lost) {
            return fmt::format("{}: {} {} lost, and {} {} left elsewhere", fmt::join(names, ", "),
                               counted(n_lost, "PE"), n_lost == 1 ? "is" : "are", counted(n_spares, "spare"),
                               n_spares == 1 ? "is" : "are");
        }
        return {};
    }

    const PlanTask& task_;
    std::vector<int> host_of_;  // by process
    NodeMap nodes_;
    AreaMap area_map_;
    JobShape shape_;
    bool is_by_area_ = false;
    std::optional<ParityGroups> groups_;              // that keep parity
    std::vector<std::vector<std::int32_t>> keepers_;  // by PE: processes
};

// "0-3, 7"
std::string ranges_of(const std::vector<std::int32_t>& sorted) {
    std::string text;
    for (std::size_t i = 0; i < sorted.size();) {
        std::size_t end = i + 1;
        while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) {
            ++end;
        }
        text += text.empty() ? "" : ",";
        text += end - i == 1 ? fmt::format("{}", sorted[i]) : fmt::format("{}-{}", sorted[i], sorted[end - 1]);
        i = end;
    }
    return text.empty() ? "-" : text;
}

std::string table_of(const Plan& plan) {
    std::vector<std::vector<std::string>> rows = {{"host"}};
    for (const std::string& level : plan.levels) {
        rows.front().push_back(level);
    }
    rows.front().insert(rows.front().end(),
                        {"PEs", "spares", plan.group_smallest != 0 ? "parity of PEs" : "copies of PEs"});
    for (const Plan::Host& host : plan.hosts) {
        rows.push_back({host.name});
        for (const std::string& domain : host.domains) {
            rows.back().push_back(domain.empty() ? "-" : domain);
        }
        std::vector<std::int32_t> kept = host.kept_of;
        std::sort(kept.begin(), kept.end());
        kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
        rows.back().insert(rows.back().end(), {ranges_of(host.pes), ranges_of(host.spares), ranges_of(kept)});
    }
    std::string text;
    for (const std::vector<std::string>& row : rows) {
        std::string line = " ";
        for (std::size_t column = 0; column < row.size(); ++column) {
            std::size_t width = 0;
            for (const std::vector<std::string>& other : rows) {
                width = std::max(width, other[column].size());
            }
            line +=
                column + 1 == row.size() ? fmt::format(" {}", row[column]) : fmt::format(" {:<{}}", row[column], width);
        }
        text += line + "\n";
    }
    return text;
}

std::string risks_of(const Plan& plan) {
    std::string text;
    for (const Plan::Risk& risk : plan.risks) {
        text += fmt::format(
            "\nif each {} is lost once in {} days (--mtbf), and the job is protected again after {} s (--window):\n",
            risk.what, risk.mtbf_days, plan.window_s);
        for (std::size_t i = 0; i < risk.at_once.size(); ++i) {
            const Plan::Risk::AtOnce& item = risk.at_once[i];
            if (item.n_sets > 0 || item.a_day_error > 0) {
                text += fmt::format("  {} at once that the job does not survive: {:.2g} a day{}\n",
                                    counted(static_cast<std::int64_t>(i) + 1, risk.what), item.a_day,
                                    item.a_day_error > 0 ? fmt::format(" (+- {:.1g}, drawn)", item.a_day_error) : "");
            }
        }
        double all = 0;
        for (const Plan::Risk::AtOnce& item : risk.at_once) {
            all += item.a_day;
        }
        text += fmt::format("  all of these: {:.2g} a day\n", all);
        if (risk.n_orders > 0) {
            text += fmt::format(
                "  in a run of {} days (--run): {:.2g}; and {:.2g} (+- {:.1g}, {} orders drawn) that more are lost one "
                "after another than spares and majority allow\n",
                plan.run_days, -std::expm1(-all * plan.run_days), risk.runs_ended, risk.runs_ended_error,
                risk.n_orders);
        }
    }
    return text;
}

}  // namespace

Plan make_plan(const PlanTask& task) { return Planner(task).plan(); }

std::string text_of(const Plan& plan, const Backup& backup) {
    const std::int32_t memory = backup.mode == BackupMode::none          ? 1
                                : backup.mode == BackupMode::single_copy ? 3
                                                                         : 2 + 2 * plan.copies;
    std::string text = fmt::format("{} and {} on {}\n\n", counted(plan.n_pes, "PE"), counted(plan.n_spares, "spare"),
                                   counted(static_cast<std::int64_t>(plan.hosts.size()), "host"));
    text += table_of(plan);
    if (plan.group_smallest != 0) {
        const std::string sizes = plan.group_smallest == plan.group_largest
                                      ? fmt::format("{}", plan.group_smallest)
                                      : fmt::format("{} to {}", plan.group_smallest, plan.group_largest);
        text += fmt::format(
            "\nparity in groups of {} PEs, kept apart by {}; any {} of a group may be lost; memory of a PE: up to "
            "{:.2f} "
            "times what its symmetric state takes\n\nlost at one moment:\n",
            sizes, plan.apart, plan.group_parity,
            2 + 2.0 * plan.group_parity / static_cast<double>(plan.group_smallest - plan.group_parity));
    } else {
        text += fmt::format(
            "\n{} of each PE in other processes{}; memory of a PE: {} times what its symmetric state "
            "takes\n\nlost at one moment:\n",
            plan.copies == 1 ? "1 copy" : fmt::format("{} copies", plan.copies),
            plan.copies == 0 ? "" : ", kept apart by " + plan.apart, memory);
    }
    for (const Plan::Losses& losses : plan.losses) {
        text += fmt::format("  {}: {} of {} {}survived{}{}\n", counted(losses.n_at_once, losses.what),
                            losses.n_survived, losses.n_sets, losses.is_sample ? "drawn ones " : "",
                            losses.fatal.empty() ? "" : "; not ", losses.fatal);
    }
    return text + risks_of(plan);
}

}  // namespace sft::tools
