#include "tests/sim/cost.hpp"

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <queue>

#include "recovery/detection/detector.hpp"
#include "recovery/membership/agreement.hpp"
#include "recovery/participant.hpp"
#include "recovery/rules.hpp"

namespace sft::sim {
namespace {

std::size_t allocated_bytes() {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

class CostWorld {
public:
    CostWorld(const CostModel& model, std::int32_t pes)
        : model_(model), shape_{pes, pes + model.spares}, rules_(shape_) {
        const auto n = static_cast<std::size_t>(shape_.n_processes);
        busy_until_.resize(n);
        load_.resize(n);
        is_dead_.resize(n);
        ports_.reserve(n);
        const JobState first = JobRules::first_state(shape_);
        const std::size_t before = allocated_bytes();
        agreements_.reserve(n);
        for (std::int32_t process = 0; process < shape_.n_processes; ++process) {
            ports_.push_back(std::make_unique<Port>(*this, ProcId(process)));
            Agreement::Options options;
            options.shape = shape_;
            options.self = ProcId(process);
            options.fan_out = model.fan_out;
            options.rules = &rules_;
            options.world = ports_.back().get();
            options.first = first;
            agreements_.emplace_back(options);
        }
        const std::size_t ports = n * (sizeof(Port) + 16);
        bytes_counted_ = static_cast<double>(allocated_bytes() - before - ports) / static_cast<double>(n);
    }

    // Everybody is ready for this goal at the same time.
    void sweep(Goal goal, std::uint64_t hash, ControlCost& cost) {
        begin();
        const JobState state = agreements_[observer_].decided();
        for (std::int32_t process = 0; process < shape_.n_processes; ++process) {
            const ProcId id(process);
            if (!is_dead_[id.index()] && shape_.held_by(state, id) != kNoPe) {
                now_ = start_;
                agreements_[id.index()].ready(state.index, goal, hash);
            }
        }
        finish(cost);
    }

    // Two others see the silence and tell.
    void kill(ProcId victim, ControlCost& cost) {
        begin();
        is_dead_[victim.index()] = true;
        observer_ = victim.value() == 0 ? 1 : observer_;
        for (const std::int32_t distance : {1, 2}) {
            const std::int32_t n = shape_.n_processes;
            now_ = start_;
            const ProcId watcher((victim.value() + n - distance) % n);
            agreements_[watcher.index()].process_died({victim, {FailureKind::died, 0}, true});
        }
        finish(cost);
    }

    [[nodiscard]] const JobState& state() const { return agreements_[observer_].decided(); }
    [[nodiscard]] double bytes_counted() const noexcept { return bytes_counted_; }
    void memory(double& mean, double& most) const {
        double sum = 0;
        most = 0;
        for (const Agreement& agreement : agreements_) {
            const auto bytes = static_cast<double>(agreement.bytes() + sizeof(Participant) + sizeof(Detector) + 3 * 24);
            sum += bytes;
            most = std::max(most, bytes);
        }
        mean = sum / static_cast<double>(agreements_.size());
    }

private:
    struct Port final : AgreementWorld {
        Port(CostWorld& to, ProcId process) : world(to), self(process) {}
        void send(ProcId to, const Message& message) override { world.send(self, to, message); }
        void decided(const JobState& /*before*/, const JobState& /*after*/) override {
            world.last_decision_ = std::max(world.last_decision_, world.now_);
        }
        void heard_of_death(const Death& /*death*/) override {}
        void must_stop(const Stop& /*why*/) override {}

        CostWorld& world;
        ProcId self;
    };
    struct Parcel {
        Message message;
        double wire_us = 0;
    };
    struct Event {
        double time = 0;
        std::uint64_t order = 0;
        std::int32_t from = 0;
        std::int32_t to = 0;
        std::shared_ptr<const Parcel> parcel;
    };
    struct IsLater {
        bool operator()(const Event& a, const Event& b) const noexcept {
            return a.time != b.time ? a.time > b.time : a.order > b.order;
        }
    };

    void begin() {
        start_ = last_decision_ = now_ = std::max(now_, *std::max_element(busy_until_.begin(), busy_until_.end()));
        std::fill(load_.begin(), load_.end(), 0U);
        n_messages_ = 0;
    }

    void finish(ControlCost& cost) {
        while (!queue_.empty()) {
            const Event event = queue_.top();
            queue_.pop();
            const auto to = static_cast<std::size_t>(event.to);
            if (is_dead_[to]) {
                continue;
            }
            now_ = busy_until_[to] = std::max(event.time, busy_until_[to]) + model_.overhead_us;
            ++load_[to];
            agreements_[to].receive(ProcId(event.from), event.parcel->message);
        }
        cost.us += last_decision_ - start_;
        cost.messages += n_messages_;
        cost.most_at_one += *std::max_element(load_.begin(), load_.end());
        now_ = last_decision_;
    }

    // What is passed on to several is stored once.
    void send(ProcId from, ProcId to, const Message& message) {
        if (!last_ || !(last_->message == message)) {
            const double bytes = static_cast<double>(encode(message).size());
            last_ = std::make_shared<const Parcel>(Parcel{message, bytes / (model_.network_gb_s * 1000.0)});
        }
        double& busy = busy_until_[from.index()];
        busy = std::max(busy, now_) + model_.overhead_us + last_->wire_us;
        ++load_[from.index()];
        ++n_messages_;
        queue_.push({busy + model_.latency_us, order_++, from.value(), to.value(), last_});
    }

    const CostModel& model_;
    JobShape shape_;
    JobRules rules_;
    std::vector<std::unique_ptr<Port>> ports_;
    std::vector<Agreement> agreements_;
    std::vector<double> busy_until_;
    std::vector<std::uint32_t> load_;
    std::vector<bool> is_dead_;
    std::priority_queue<Event, std::vector<Event>, IsLater> queue_;
    std::shared_ptr<const Parcel> last_;
    double now_ = 0;
    double start_ = 0;
    double last_decision_ = 0;
    double bytes_counted_ = 0;
    std::uint64_t order_ = 0;
    std::uint64_t n_messages_ = 0;
    std::size_t observer_ = 0;  // a process that lives
};

// The real detector of one watcher, with a neighbour that falls silent between two heartbeats.
double detection_ms(const CostModel& model, std::int32_t pes) {
    const auto ns = [](double ms) { return static_cast<std::int64_t>(ms * 1e6); };
    Detector detector({ProcId(0), pes, ns(model.period_ms), ns(model.bound_ms), 2});
    detector.update({}, kNoProc, 0);
    std::int64_t now = 0;
    const std::int64_t death = ns(10.5 * model.period_ms);
    while (true) {
        now += ns(model.period_ms);
        if (now < death) {
            detector.heard(ProcId(1), now);
        }
        detector.heard(ProcId(2), now);
        if (!detector.suspects(now).empty()) {
            return static_cast<double>(now - death) / 1e6 + 2 * model.latency_us / 1000.0;
        }
    }
}

void recover(CostWorld& world, ControlCost& cost) {
    world.sweep(Goal::restart, JobRules::hash_of(world.state().failed), cost);
    world.sweep(Goal::restore, 0, cost);
    world.sweep(Goal::protect, 0, cost);
}

// Young's interval, and what is lost with it.
void judge(const CostModel& model, CostRow& row) {
    const double checkpoint_s = row.checkpoint.us / 1e6 + row.checkpoint_data_ms / 1e3;
    const double recovery_s =
        row.detection_ms / 1e3 + (row.fault.us + row.recovery.us) / 1e6 + row.recovery_data_ms / 1e3;
    const double mtbf_s = model.process_mtbf_years * 365.25 * 86400.0 / row.pes;
    row.job_mtbf_h = mtbf_s / 3600.0;
    row.interval_s = std::sqrt(2 * checkpoint_s * mtbf_s);
    row.efficiency = std::max(0.0, 1.0 - checkpoint_s / row.interval_s - (row.interval_s / 2 + recovery_s) / mtbf_s);
}

}  // namespace

CostRow measure(const CostModel& model, std::int32_t pes) {
    CostRow row;
    row.pes = pes;
    row.detection_ms = detection_ms(model, pes);
    CostWorld world(model, pes);
    for (const Goal goal : {Goal::arrive, Goal::replicate, Goal::update}) {
        world.sweep(goal, 0, row.checkpoint);
    }
    row.bytes_counted = world.bytes_counted();
    world.kill(ProcId(pes - 1), row.fault);
    recover(world, row.recovery);
    world.kill(ProcId(0), row.leader_fault);
    ControlCost again;
    recover(world, again);
    world.memory(row.bytes_per_pe, row.bytes_most);
    const double changed_mb = model.state_mb * model.changed_share;
    // Ship over the network, then fold in memory; a substitute fetches all, and one shadow is made anew.
    row.checkpoint_data_ms = changed_mb / model.network_gb_s + changed_mb / model.memory_gb_s;
    row.recovery_data_ms = 2 * model.state_mb / model.network_gb_s + model.state_mb / model.memory_gb_s;
    judge(model, row);
    return row;
}

std::string check_growth(const std::vector<CostRow>& rows) {
    for (std::size_t i = 1; i < rows.size(); ++i) {
        const CostRow& small = rows[i - 1];
        const CostRow& large = rows[i];
        const double allowed = 1.25 * std::log(large.pes) / std::log(small.pes);
        const auto grows = [&](const ControlCost& a, const ControlCost& b) {
            return b.us > allowed * a.us || b.most_at_one > 1.5 * a.most_at_one + 4;
        };
        if (grows(small.checkpoint, large.checkpoint) || grows(small.fault, large.fault) ||
            grows(small.leader_fault, large.leader_fault) || grows(small.recovery, large.recovery)) {
            return "control grows faster than log P between " + std::to_string(small.pes) + " and " +
                   std::to_string(large.pes) + " PEs";
        }
        if (large.bytes_per_pe > 1.1 * small.bytes_per_pe || large.bytes_most > 1.1 * small.bytes_most) {
            return "memory per process grows between " + std::to_string(small.pes) + " and " +
                   std::to_string(large.pes) + " PEs";
        }
    }
    return {};
}

}  // namespace sft::sim
