#include "tests/sim/world.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "base/report.hpp"
#include "recovery/membership/mutation.hpp"
#include "tests/sim/oshrun.hpp"
#include "tests/sim/process.hpp"

namespace sft::sim {
namespace {

// More than any run needs that is not stuck in a loop.
constexpr std::uint64_t kEventsPerProcess = 200'000;
// Nothing has gone on for so long after the last trouble: somebody waits for ever.
constexpr Time kPatience = 400 * kMilli;

}  // namespace

World::World(const Scenario& scenario, std::vector<Observer*> observers, Verdict& verdict, bool with_trace)
    : scenario_(scenario),
      observers_(std::move(observers)),
      verdict_(verdict),
      with_trace_(with_trace),
      random_(scenario.seed ^ 0x51ab),
      rules_(scenario.shape) {
    if (scenario.guardian) {
        oshrun_ = std::make_unique<SimOshrun>(*this, verdict);
        observers_.push_back(oshrun_.get());
    }
    rules_.set_policy(scenario.waits_for_spares ? UnreplacedPolicy::wait : UnreplacedPolicy::abort);
}

World::~World() = default;

void World::trace(ProcId process, const std::string& text) const {
    if (with_trace_) {
        fmt::print("{:>12.3f} us  p{:<4} {}\n", static_cast<double>(now_) / 1000.0, process.value(), text);
    }
}

void World::at(Time time, ProcId process, std::function<void()> what) {
    queue_.push({time, order_++, process, std::move(what)});
}

void World::later(ProcId process, Time delay, std::function<void()> what) {
    at(now_ + delay, process, std::move(what));
}

void World::run() {
    start();
    const std::uint64_t limit = kEventsPerProcess + 2000 * static_cast<std::uint64_t>(n_slots(scenario_));
    while (!queue_.empty() && is_anybody_left() && !verdict_.has_failed()) {
        // The queue gives no way to move its top out; nothing looks at it again before pop.
        Event event = std::move(const_cast<Event&>(queue_.top()));
        queue_.pop();
        now_ = event.time;
        ++n_events_;
        if (event.process != kNoProc) {
            const Fate& fate = fates_[event.process.index()];
            if (fate.is_gone) {
                continue;
            }
            if (fate.paused_until > now_) {
                at(fate.paused_until, event.process, std::move(event.what));
                continue;
            }
        }
        event.what();
        if (n_events_ > limit || is_stuck()) {
            verdict_.fail("liveness", n_events_ > limit ? "the job goes in circles" : "nothing goes on any more");
        }
    }
    if (is_anybody_left() && !verdict_.has_failed()) {
        verdict_.fail("liveness", format("%d processes wait for ever", n_alive_));
    }
    if (!verdict_.has_failed()) {
        tell(&Observer::over);
    }
}

// Newcomers that were not counted in end with their agents.
bool World::is_anybody_left() const {
    const auto is_in = [&](const std::unique_ptr<SimProcess>& process) {
        const Agreement& agreement = process->agreement();
        return is_alive(agreement.self()) &&
               (!is_newcomer(scenario_, agreement.self()) || has_joined(agreement.decided(), agreement.self()));
    };
    return n_alive_ > static_cast<std::int32_t>(scenario_.joins.size()) ||
           std::any_of(processes_.begin(), processes_.end(), is_in);
}

bool World::is_stuck() const noexcept { return now_ - std::max(progress_at_, disturbed_until_) > kPatience; }

void World::start() {
    const std::int32_t n = n_slots(scenario_);
    const JobState first = JobRules::first_state(scenario_.shape);
    words_.resize(static_cast<std::size_t>(n));
    fates_.resize(static_cast<std::size_t>(n));
    reasons_.resize(static_cast<std::size_t>(n));
    channels_.resize(static_cast<std::size_t>(n));
    puts_.resize(static_cast<std::size_t>(n));
    n_alive_ = scenario_.shape.n_processes;
    for (std::int32_t process = 0; process < n; ++process) {
        processes_.push_back(std::make_unique<SimProcess>(*this, ProcId(process), first));
        fates_[static_cast<std::size_t>(process)].has_come = process < scenario_.shape.n_processes;
    }
    if (oshrun_) {
        oshrun_->start();
    }
    plan_kills();
    plan_joins();
    plan_troubles();
    for (std::int32_t process = 0; process < scenario_.shape.n_processes; ++process) {
        processes_[static_cast<std::size_t>(process)]->start();
    }
}

void World::plan_troubles() {
    for (const Pause& pause : scenario_.pauses) {
        disturbed_until_ = std::max(disturbed_until_, pause.end);
        at(pause.begin, kNoProc, [this, pause] {
            trace(ProcId(pause.process), format("is paused until %.3f us", static_cast<double>(pause.end) / 1000.0));
            Fate& fate = fates_[static_cast<std::size_t>(pause.process)];
            fate.paused_until = std::max(fate.paused_until, pause.end);
        });
    }
    for (const Partition& partition : scenario_.partitions) {
        disturbed_until_ = std::max(disturbed_until_, partition.end);
        at(partition.begin, kNoProc, [this] { trace(kNoProc, "the network is cut"); });
        at(partition.end, kNoProc, [this] { trace(kNoProc, "the network is whole"); });
    }
    for (const DataCut& cut : scenario_.data_cuts) {
        disturbed_until_ = std::max(disturbed_until_, cut.end);
        at(cut.begin, kNoProc,
           [this, cut] { trace(ProcId(cut.a), format("puts and copies to and from p%d break", cut.b)); });
    }
    for (const Corruption& corruption : scenario_.corruptions) {
        at(corruption.time, kNoProc, [this, corruption] { corrupt(corruption); });
    }
    if (scenario_.end_request_process >= 0) {
        const ProcId requester(scenario_.end_request_process);
        at(scenario_.end_request_time, requester,
           [this, requester] { process(requester).request_end(EndReason::requested); });
    }
}

Time World::message_delay() noexcept {
    const Time delay = random_.between(scenario_.delay_min, scenario_.delay_max);
    return random_.percent(scenario_.slow_percent) ? 10 * delay : delay;
}

Time World::cut_until(ProcId a, ProcId b) const noexcept {
    Time until = 0;
    for (const Partition& cut : scenario_.partitions) {
        if (now_ >= cut.begin && now_ < cut.end && cut.side[a.index()] != cut.side[b.index()] &&
            cut.side[a.index()] != 2 && cut.side[b.index()] != 2) {
            until = std::max(until, cut.end);
        }
    }
    return until;
}

Time World::data_cut_until(ProcId a, ProcId b) const noexcept {
    Time until = cut_until(a, b);
    for (const DataCut& cut : scenario_.data_cuts) {
        const bool is_of_pair =
            (cut.a == a.value() && cut.b == b.value()) || (cut.a == b.value() && cut.b == a.value());
        if (is_of_pair && now_ >= cut.begin && now_ < cut.end) {
            until = std::max(until, cut.end);
        }
    }
    return until;
}

bool World::cannot_open(ProcId process) const noexcept {
    return std::any_of(scenario_.refusals.begin(), scenario_.refusals.end(), [&](const Refusal& refusal) {
        return refusal.process == process.value() && now_ >= refusal.begin && now_ < refusal.end;
    });
}

bool World::is_reachable(ProcId a, ProcId b) const noexcept { return cut_until(a, b) == 0; }

// What a receiver sees: a cut on the way keeps it waiting.
void World::pass(ProcId from, ProcId to, std::function<void()> what) {
    const Time until = cut_until(from, to);
    if (until == 0) {
        what();
        return;
    }
    at(until + message_delay(), to, [this, from, to, what = std::move(what)] { pass(from, to, what); });
}

void World::pass_data(ProcId from, ProcId to, std::function<void()> what) {
    const Time until = data_cut_until(from, to);
    if (until == 0) {
        what();
        return;
    }
    at(until + message_delay(), to, [this, from, to, what = std::move(what)] { pass_data(from, to, what); });
}

void World::send(ProcId from, ProcId to, const Message& message, std::int32_t hops) {
    if (!is_alive(from)) {
        return;
    }
    if (to.value() < 0 || to.value() >= n_slots(scenario_) || to == from) {
        verdict_.fail("agreement", format("process %d sends to process %d", from.value(), to.value()));
        return;
    }
    const std::optional<Message> decoded = decode(encode(message));
    if (!decoded.has_value() || !(*decoded == message)) {
        verdict_.fail("wire", format("a message (%s) changes when it is encoded and decoded", name_of(message.kind)));
        return;
    }
    tell(&Observer::sent, from, to, message, hops);
    const bool is_beat = message.kind == MessageKind::heartbeat || message.kind == MessageKind::ping;
    if (with_trace_ && !is_beat) {
        trace(from, format("-> p%d %s", to.value(), to_string(message).c_str()));
    }
    if (is_alive(to)) {
        channels_[from.index()][to.value()].push_back({*decoded, hops});
        at(now_ + message_delay(), to, [this, from, to] { deliver(from, to); });
    } else if (scenario_.detection == Detection::nodes && fates_[to.index()].how != Gone::finished &&
               fates_[to.index()].how != Gone::ended) {
        at(now_ + message_delay(), from,
           [this, from, to] { pass(to, from, [this, from, to] { break_connection(to, from); }); });
    }
    for (PlannedKill& planned : kills_) {
        if (planned.kill.trigger == Trigger::send && planned.kill.kind == message.kind) {
            trigger(planned, from, to);
        }
    }
}

// One event per message, but it takes whichever is next in the channel: that keeps the order within a pair.
void World::deliver(ProcId from, ProcId to) {
    pass(from, to, [this, from, to] {
        std::deque<Parcel>& channel = channels_[from.index()][to.value()];
        if (channel.empty()) {
            return;  // lost with its sender
        }
        const Parcel parcel = std::move(channel.front());
        channel.pop_front();
        for (PlannedKill& planned : kills_) {
            if (planned.kill.trigger == Trigger::receive && planned.kill.kind == parcel.message.kind) {
                trigger(planned, to, from);
            }
        }
        if (is_alive(to)) {
            process(to).deliver(from, parcel.message, parcel.hops);
        }
    });
}

// Like messages, puts of one process to another keep their order.
void World::put(ProcId from, ProcId to, std::function<void()> apply, std::function<void()> acknowledged) {
    if (!is_alive(from)) {
        return;
    }
    puts_[from.index()][to.value()].push_back({std::move(apply), std::move(acknowledged)});
    at(now_ + message_delay(), to, [this, from, to] {
        pass_data(from, to, [this, from, to] {
            std::deque<Store>& stores = puts_[from.index()][to.value()];
            const Store store = std::move(stores.front());
            stores.pop_front();
            store.apply();
            at(now_ + message_delay(), from, [this, from, to, store] {
                const bool is_sent_again =
                    data_cut_until(from, to) != 0 && is_mutated(Mutation::send_again_what_arrived);
                pass_data(to, from, store.acknowledged);
                if (is_sent_again) {
                    at(data_cut_until(from, to) + message_delay(), to, store.apply);
                }
            });
        });
    });
}

JobState World::decided_by(std::span<const Death> dead) const {
    JobState latest = JobRules::first_state(scenario_.shape);
    for (const Death& death : dead) {
        const auto at = records_.find(death.process);
        latest = at != records_.end() && at->second.index > latest.index ? at->second : latest;
    }
    return latest;
}

// Some wait awake: they see it, or do not see it yet.
void World::write_ready_word(ProcId process, std::uint64_t word) {
    if (word <= words_[process.index()]) {
        verdict_.fail("agreement", format("the word of process %d shrinks", process.value()));
    }
    words_[process.index()] = word;
    for (int i = 0; i < 2; ++i) {
        look_later(ProcId(random_.pick(0, n_slots(scenario_) - 1)));
    }
    for (PlannedKill& planned : kills_) {
        if (planned.kill.trigger == Trigger::word) {
            trigger(planned, process, kNoProc);
        }
    }
}

void World::wake_for_words() {
    for (std::int32_t other = 0; other < n_slots(scenario_); ++other) {
        look_later(ProcId(other));
    }
}

void World::look_later(ProcId process) {
    if (is_alive(process)) {
        later(process, random_.between(0, scenario_.delay_max),
              [this, process] { processes_[process.index()]->look_at_words(); });
    }
}

void World::at_decision(ProcId process, const JobState& state) {
    note_progress();
    version_reached_ = std::max(version_reached_, state.version.value());
    view_reached_ = std::max(view_reached_, state.view);
    for (PlannedKill& planned : kills_) {
        if (planned.kill.trigger == Trigger::decided && planned.kill.stage == state.stage) {
            trigger(planned, process, kNoProc);
        }
    }
}

void World::at_still(ProcId process) {
    for (PlannedKill& planned : kills_) {
        if (planned.kill.trigger == Trigger::still) {
            trigger(planned, process, kNoProc);
        }
    }
}

void World::at_work(ProcId process, Participant::Do work) {
    for (PlannedKill& planned : kills_) {
        if (planned.kill.trigger == Trigger::work && planned.kill.work == work) {
            trigger(planned, process, kNoProc);
        }
    }
}

}  // namespace sft::sim
