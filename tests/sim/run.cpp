#include "tests/sim/run.hpp"

#include <fmt/core.h>

#include "tests/recovery/two_partners.hpp"
#include "tests/sim/checkers.hpp"
#include "tests/sim/process.hpp"

namespace sft::sim {
namespace {

class Summary final : public Observer {
public:
    explicit Summary(Outcome& outcome) : outcome_(outcome) {}
    void decided(ProcId /*process*/, const JobState& /*before*/, const JobState& after) override {
        if (after.index > outcome_.n_values) {
            outcome_.n_values = after.index;
            outcome_.stage = after.stage;
            outcome_.end_reason = after.end_reason;
            outcome_.n_views = after.view;
        }
    }
    void gone(ProcId /*process*/, Gone how) override {
        outcome_.is_stopped = outcome_.is_stopped || how == Gone::stopped_itself;
    }

private:
    Outcome& outcome_;
};

}  // namespace

Outcome run_seed(std::uint64_t seed, const RunOptions& options) {
    Scenario scenario = make_scenario(seed);
    if (options.has_two_partners) {
        scenario.shape.scheme = &two_partners();
        scenario.n_partners = 2;
    } else {
        scenario.shape.scheme = &partners(options.n_replicas);
        scenario.n_replicas = options.n_replicas;
    }
    if (options.has_areas) {
        give_areas(scenario);
    }
    if (options.has_node_memory && !give_node_memory(scenario)) {
        return {};
    }
    if (options.n_parity != 0 && !give_parity(scenario, options.n_data, options.n_parity)) {
        return {};
    }
    if (options.has_ready_words && !give_ready_words(scenario)) {
        return {};
    }
    if (options.has_background && !give_background(scenario, options.has_held)) {
        return {};
    }
    if (options.with_trace) {
        fmt::print("{}\n", describe(scenario));
    }
    Outcome outcome;
    Verdict verdict;
    Checkers checkers(scenario, verdict);
    Summary summary(outcome);
    std::vector<Observer*> observers = checkers.observers();
    observers.push_back(&summary);
    outcome.coverage.begin(scenario);
    observers.push_back(&outcome.coverage);
    World world(scenario, std::move(observers), verdict, options.with_trace);
    world.run();
    outcome.statistics = world.statistics();
    outcome.violation = verdict.text();
    return outcome;
}

}  // namespace sft::sim
