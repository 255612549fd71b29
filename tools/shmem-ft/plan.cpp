#include "tools/shmem-ft/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "recovery/loss_demands.hpp"
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

class Planner {
public:
    explicit Planner(const PlanTask& task)
        : task_(task), host_of_(task.running ? task.running->host_of : place(task.placement)) {
        find_shape();
        state_ = task.running && task.running->state ? *task.running->state : JobRules::first_state(shape_);
        state_.stage = Stage::running;  // a checkpoint that goes on changes nothing of this
        if (state_.version == kNoVersion) {
            state_.version = shape_.first_version;  // plans are of what is to come behind it
        }
        for (const Death& death : state_.deaths) {
            insert_sorted(dead_, death);
        }
        look_round();
        if (!task.lost.empty()) {
            lose(task.lost);
        }
    }

    [[nodiscard]] Plan plan() {
        Plan plan;
        plan.n_pes = task_.placement.pes;
        plan.n_spares = static_cast<std::int32_t>(spares_.size());
        plan.ends = ends_;
        plan.window_s = task_.window_s;
        plan.run_days = task_.run_days;
        plan.state_bytes = task_.state_bytes;
        if (groups_) {
            plan.group_smallest = groups_->smallest();
            plan.group_largest = groups_->largest();
            plan.group_parity = std::min(task_.backup.parity, groups_->smallest() - 1);
        }
        plan.copies = groups_ ? 0 : static_cast<std::int32_t>(losses_->keepers_of(PeId(0)).size());
        plan.apart = is_by_area_ ? task_.topology->apart().name : "host";
        describe_hosts(plan);
        std::vector<Unit> hosts;
        for (std::size_t host = 0; host < plan.hosts.size(); ++host) {
            if (plan.hosts[host].is_used()) {
                hosts.push_back({plan.hosts[host].name, {static_cast<std::int32_t>(host)}});
            }
        }
        look_at("host", hosts, plan);
        look_at_risk("host", hosts, plan);
        for (std::size_t level = 0; level < plan.levels.size(); ++level) {
            std::map<std::string, Unit> domains;
            for (std::size_t host = 0; host < plan.hosts.size(); ++host) {
                const std::string& name = plan.hosts[host].domains[level];
                if (!name.empty() && plan.hosts[host].is_used()) {
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
        look_at_demands(plan);
        return plan;
    }

private:
    // What the library would see of the job at its start.
    void find_shape() {
        std::vector<NodeId> nodes;
        const auto n_processes = static_cast<std::size_t>(task_.placement.pes + task_.placement.spares);
        SFT_ASSERT(n_processes <= host_of_.size());  // others may have joined
        for (std::size_t process = 0; process < n_processes; ++process) {
            const int host = host_of_[process];
            // In the order of the lowest processes, as the library numbers them.
            const NodeId next(static_cast<std::int32_t>(nodes_of_hosts_.size()));
            const auto [at, is_new] = nodes_of_hosts_.emplace(host, next);
            nodes.push_back(at->second);
            if (is_new) {
                names_.push_back(task_.placement.hosts[static_cast<std::size_t>(host)].name);
            }
        }
        nodes_ = NodeMap(std::move(nodes));
        area_map_ = task_.topology ? AreaMap(task_.topology->areas_of(names_)) : AreaMap();
        shape_ = {.n_pes = task_.placement.pes,
                  .n_processes = static_cast<std::int32_t>(n_processes),
                  .nodes = nodes_.is_one_node() ? nullptr : &nodes_,
                  .areas = area_map_.has_several() ? &area_map_ : nullptr,
                  .keeps_near = task_.backup.mode == BackupMode::single_copy,
                  .memory = task_.backup.parity != 0 || nodes_.is_one_node() ? &node_memory() : &process_memory()};
        groups_ = groups_for(shape_, task_.backup);
        shape_.groups = groups_ ? &*groups_ : nullptr;
        shape_.scheme = &scheme_of(shape_, task_.backup);
    }

    // What follows from the state, and is asked often.
    void look_round() {
        holders_.clear();
        for (std::int32_t pe = 0; pe < shape_.n_pes; ++pe) {
            holders_.push_back(shape_.holder(state_, PeId(pe)));
        }
        spares_ = shape_.idle_spares(state_, dead_);
        is_by_area_ = shape_.areas != nullptr && !shape_.keeps_near && task_.backup.mode != BackupMode::none;
        losses_.emplace(shape_, state_, dead_);
    }

    // All of these hosts at one moment.
    void lose(const std::vector<std::int32_t>& hosts) {
        ends_ = losses_->why_fatal(as_nodes({{.name = "", .hosts = hosts}}).front().nodes);
        if (!ends_.empty()) {
            return;
        }
        std::optional<JobState> next = without(state_, dead_, hosts);
        if (!next) {
            ends_ = "the rules of the job end it";
            return;
        }
        state_ = *std::move(next);
        look_round();
    }

    void describe_hosts(Plan& plan) const {
        for (const HostSlots& host : task_.placement.hosts) {
            plan.hosts.push_back({.name = host.name, .domains = {}, .pes = {}, .spares = {}, .kept_of = {}});
        }
        for (std::int32_t pe = 0; pe < plan.n_pes; ++pe) {
            plan.hosts[host_of(holders_[static_cast<std::size_t>(pe)])].pes.push_back(pe);
        }
        for (const ProcId spare : spares_) {
            plan.hosts[host_of(spare)].spares.push_back(spare.value());
        }
        for (std::int32_t pe = 0; pe < plan.n_pes; ++pe) {
            for (const ProcId keeper : losses_->keepers_of(PeId(pe))) {
                plan.hosts[host_of(keeper)].kept_of.push_back(pe);
            }
        }
        for (std::int32_t group = 0; groups_ && group < groups_->n_groups(); ++group) {
            plan.groups.emplace_back();
            for (std::int32_t position = 0; position < groups_->size_of(group); ++position) {
                plan.groups.back().push_back(groups_->member(group, position).value());
            }
        }
        count_memory(plan);
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

    // What others have in two versions takes twice as much.
    void count_memory(Plan& plan) const {
        const bool has_local_copy = task_.backup.mode == BackupMode::double_copy;
        for (Plan::Host& host : plan.hosts) {
            host.memory = (has_local_copy ? 2.0 : 1.0) * static_cast<double>(host.pes.size());
            if (!groups_) {
                host.memory += 2.0 * static_cast<double>(host.kept_of.size());
            }
            for (const std::int32_t pe : host.pes) {
                if (groups_) {
                    const std::int32_t group = groups_->group_of(PeId(pe));
                    const std::int32_t n_parity = groups_->tolerated(group);
                    host.memory += 2.0 * n_parity / static_cast<double>(groups_->size_of(group) - n_parity);
                }
            }
        }
    }

    void look_at(const std::string& what, const std::vector<Unit>& units, Plan& plan) const {
        const auto n = static_cast<std::int32_t>(units.size());
        const std::vector<LossUnit> nodes = as_nodes(units);
        for (std::int32_t k = 1; k <= kAtOnceMax && k < n; ++k) {
            Plan::Losses losses{
                .what = what, .n_at_once = k, .n_sets = 0, .n_survived = 0, .is_sample = false, .fatal = ""};
            const auto judge = [&](const UnitSet& set) {
                const std::string why = losses_->why_fatal(nodes, set);
                ++losses.n_sets;
                losses.n_survived += why.empty() ? 1 : 0;
                losses.fatal = losses.fatal.empty() ? why : losses.fatal;
            };
            losses.is_sample = each_set(n, k, kSetsMax, judge);
            plan.losses.push_back(std::move(losses));
        }
    }

    void look_at_demands(Plan& plan) const {
        if (!task_.topology) {
            return;
        }
        for (const Topology::Demand& demand : task_.topology->demands()) {
            plan.demands.push_back(
                {.what = demand.what,
                 .n_at_once = demand.n,
                 .why_not =
                     why_not_met(demand, {.topology = *task_.topology, .shape = shape_, .names = names_}, *losses_)});
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
        const std::vector<LossUnit> nodes = as_nodes(units);
        for (std::int32_t k = 1; k <= std::min(kAtOnceMax, n); ++k) {
            const Estimate sets =
                smallest_fatal_sets(n, k, [&](const UnitSet& set) { return !losses_->why_fatal(nodes, set).empty(); });
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

    // How many losses in this order the job survives if it is protected again before the next one.
    [[nodiscard]] std::int32_t survived(const std::vector<Unit>& units, const std::vector<std::int32_t>& order) const {
        JobState state = state_;
        std::vector<Death> dead = dead_;
        for (std::size_t i = 0; i < order.size(); ++i) {
            std::optional<JobState> next = without(state, dead, units[static_cast<std::size_t>(order[i])].hosts);
            if (!next) {
                return static_cast<std::int32_t>(i);
            }
            state = *std::move(next);
        }
        return static_cast<std::int32_t>(order.size());
    }

    // By the library's own rules, when everybody is protected again; nothing: the job has ended. dead: grows.
    [[nodiscard]] std::optional<JobState> without(const JobState& state, std::vector<Death>& dead,
                                                  const std::vector<std::int32_t>& hosts) const {
        const JobRules rules(shape_);
        const Tree before(shape_, state, dead, kFanOut);
        for (const std::int32_t host : hosts) {
            for (std::size_t process = 0; process < host_of_.size(); ++process) {
                if (host_of_[process] == host) {
                    insert_sorted(dead, {.process = ProcId(static_cast<std::int32_t>(process)), .reason = {}});
                }
            }
        }
        const Tree after(shape_, state, dead, kFanOut);
        if (!is_quorum(after.size(), before.size(), after.root() == before.root())) {
            return std::nullopt;
        }
        if (after.size() == before.size()) {
            return state;  // only spares were there
        }
        std::optional<JobState> next = rules.after_deaths(state, dead);
        if (next && next->stage == Stage::faulted) {
            next = rules.after_restart(*next, {Goal::restart, false, JobRules::hash_of(next->failed)}, dead);
        }
        if (next && next->stage == Stage::planned) {
            next = rules.after_ready(rules.after_ready(*next, Goal::restore), Goal::protect);
        }
        return next && next->stage == Stage::running ? next : std::nullopt;
    }

    // As the library knows them: hosts without processes are no nodes.
    [[nodiscard]] std::vector<LossUnit> as_nodes(const std::vector<Unit>& units) const {
        std::vector<LossUnit> found;
        for (const Unit& unit : units) {
            found.push_back({.name = unit.name, .nodes = {}});
            for (const std::int32_t host : unit.hosts) {
                if (const auto node = nodes_of_hosts_.find(host); node != nodes_of_hosts_.end()) {
                    found.back().nodes.push_back(node->second);
                }
            }
        }
        return found;
    }

    [[nodiscard]] std::size_t host_of(ProcId process) const {
        return static_cast<std::size_t>(host_of_[process.index()]);
    }

    const PlanTask& task_;
    std::vector<int> host_of_;  // by process
    NodeMap nodes_;
    std::vector<std::string> names_;                 // by node
    std::map<std::int32_t, NodeId> nodes_of_hosts_;  // with processes
    AreaMap area_map_;
    std::optional<ParityGroups> groups_;  // that keep parity
    JobShape shape_;
    JobState state_;
    std::vector<Death> dead_;      // sorted by process
    std::vector<ProcId> holders_;  // by PE
    std::vector<ProcId> spares_;
    std::optional<Losses> losses_;
    std::string ends_;  // why the job does not survive what is lost
    bool is_by_area_ = false;
};

}  // namespace

Plan make_plan(const PlanTask& task) { return Planner(task).plan(); }

}  // namespace sft::tools
