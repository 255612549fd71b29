#include "tests/sim/process.hpp"

#include <algorithm>

#include "base/report.hpp"
#include "recovery/membership/mutation.hpp"

namespace sft::sim {
namespace {

// For a spare to come, of a job that waits for one.
constexpr Time kWaitTimeout = 100 * kMilli;

Agreement::Options agreement_options(const World& world, ProcId self, AgreementWorld* outside, const JobState& first) {
    Agreement::Options options;
    options.shape = world.scenario().shape;
    options.self = self;
    options.fan_out = world.scenario().fan_out;
    options.rules = &world.rules();
    options.world = outside;
    options.first = first;
    return options;
}

}  // namespace

SimProcess::SimProcess(World& world, ProcId self, const JobState& first)
    : world_(world),
      self_(self),
      program_(world.scenario().program),
      agreement_(agreement_options(world, self, this, first)),
      detector_({self, world.scenario().shape.n_processes, world.scenario().period, world.scenario().bound, 2}),
      node_watch_({world.scenario().shape, self, world.scenario().bound}),
      pe_(world.scenario().shape.held_by(first, self)) {}

void SimProcess::start() {
    if (world_.scenario().detection == Detection::heartbeats) {
        detector_.update({}, agreement_.depends_on(), 0);
        world_.later(self_, world_.random().between(0, world_.scenario().period), [this] { tick(); });
    }
    if (world_.scenario().detection == Detection::nodes) {
        node_watch_.update(state(), {}, 0);
        world_.later(self_, world_.random().between(0, node_watch_.period_ns()), [this] { tick_nodes(); });
    }
    if (pe_ != kNoPe) {
        share_holders_ = holders_of(sources_of(world_.scenario().shape, state(), pe_));
        compute();
    }
}

void SimProcess::come(std::vector<ProcId> everybody) {
    if (world_.scenario().detection == Detection::nodes) {
        world_.later(self_, world_.random().between(0, node_watch_.period_ns()), [this] { tick_nodes(); });
    }
    hops_ = 0;
    agreement_.request_join(std::move(everybody), node_of(world_.scenario(), self_));
    after_agreement();
}

// ---- the program ----

void SimProcess::compute() {
    if (passed().value() >= world_.scenario().versions) {
        begin_call(Call::finish);
        return;
    }
    if (live_[kStepWord] >= program_.steps_at(passed().value() + 1)) {
        begin_call(Call::checkpoint);
        return;
    }
    const Time most = world_.scenario().step_max * (self_.value() == world_.scenario().slow_process ? 10 : 1);
    world_.later(self_, world_.random().between(0, most), [this] { step(); });
}

void SimProcess::step() {
    world_.note_progress();
    write_computed();
    put(0);
    put(1);
    if (is_alive()) {
        compute();
    }
}

void SimProcess::put(std::size_t inbox) {
    const PeId target = program_.target(pe_, inbox);
    const std::uint32_t value = program_.value(pe_, live_[kStepWord], 2 + static_cast<std::uint32_t>(inbox));
    if (target == pe_) {
        write(*this, kInbox + inbox, value);
        return;
    }
    const ProcId to = world_.scenario().shape.holder(state(), target);
    if (contains(agreement_.known_deaths(), to)) {
        return;  // a put to the dead is dropped
    }
    const Put put{target, inbox, value, state().view};
    ++unacknowledged_[to];
    SimProcess& receiver = world_.process(to);
    world_.put(
        self_, to, [&receiver, from = self_, put] { receiver.take_put(from, put); },
        [this, to] {
            if (const auto at = unacknowledged_.find(to); at != unacknowledged_.end() && at->second > 0) {
                --at->second;
            }
            enter_if_quiet();
        });
}

void SimProcess::take_put(ProcId from, const Put& put) {
    if (!takes_from(from)) {
        return;
    }
    write(world_.process(from), kInbox + put.inbox, put.value);
    world_.tell(&Observer::put_applied, from, put.view, put.pe, self_, state().view);
}

bool SimProcess::takes_from(ProcId writer) const noexcept {
    return !contains(agreement_.known_deaths(), writer) || is_mutated(Mutation::take_puts_of_dead);
}

// ---- calls ----

// All own puts have to be complete before a collective call begins.
void SimProcess::begin_call(Call call) {
    if (!has_settled(call)) {
        return;
    }
    call_ = call;
    is_waiting_for_quiet_ = true;
    enter_if_quiet();
}

void SimProcess::enter_if_quiet() {
    if (!is_waiting_for_quiet_) {
        return;
    }
    for (const auto& [process, n] : unacknowledged_) {
        if (n > 0 && !contains(agreement_.known_deaths(), process) && !is_mutated(Mutation::enter_before_quiet)) {
            return;
        }
    }
    is_waiting_for_quiet_ = false;
    view_at_entry_ = state().view;
    world_.note_progress();
    world_.trace(self_, format("calls %s (PE %d, version %u)", name_of(call_), pe_.value(), version_.value()));
    world_.tell(&Observer::entered, self_, pe_, call_, view_at_entry_, version_);
    if (call_ == Call::checkpoint && goes_on_meanwhile()) {
        come_to_line();
        return;
    }
    is_in_call_ = true;
    switch (call_) {
        case Call::checkpoint: act(participant_.checkpoint(state())); break;
        case Call::restart: enter_restart(); break;
        case Call::finish: act(participant_.finish(state())); break;
    }
}

void SimProcess::enter_restart() {
    std::vector<FailedPe> list = state().failed;
    if (is_substitute_) {
        const bool is_named =
            std::any_of(list.begin(), list.end(), [&](const FailedPe& item) { return item.pe == pe_; });
        if (!is_named) {
            list.insert(list.end(), state().further.begin(), state().further.end());
        }
        world_.tell(&Observer::gave_list_as_substitute, pe_, list);
    } else {
        world_.tell(&Observer::gave_list, self_, state().view, list);
    }
    std::uint64_t hash = JobRules::hash_of(list);
    // Not for ever: one wrong list keeps everybody from going on.
    if (!is_substitute_ && state().rejections < 3 && world_.random().percent(world_.scenario().wrong_list_percent)) {
        world_.trace(self_, "gives a wrong list");
        hash ^= 1;
    }
    act(participant_.restart(state(), hash, is_substitute_));
}

void SimProcess::pump() {
    is_pump_due_ = false;
    if (is_in_call_ && !is_working_ && is_alive()) {
        act(participant_.decided(state()));
    }
}

void SimProcess::act(Participant::Do what) {
    switch (what) {
        case Participant::Do::wait: {
            if (participant_.ready().goal == Goal::none) {
                return;
            }
            // The thread that speaks for the agreement gets it a little later, when the value may have moved on.
            const auto offer = [this, ready = participant_.ready(), index = participant_.ready_index()] {
                hops_ = 0;
                agreement_.ready(index, ready.goal, ready.hash);
                after_agreement();
            };
            if (world_.random().percent(50)) {
                offer();
            } else {
                world_.later(self_, world_.random().between(0, 5 * kMicro), offer);
            }
            return;
        }
        case Participant::Do::replicate:
        case Participant::Do::update_local_copy:
        case Participant::Do::restore:
        case Participant::Do::protect: begin_work(what); return;
        case Participant::Do::give_up:
            world_.trace(self_, "has a corrupt copy and ends the job");
            world_.tell(&Observer::gave_up, self_, pe_, state());
            request_end(EndReason::requested);
            return;
        default: returned(what);
    }
}

void SimProcess::returned(Participant::Do result) {
    is_in_call_ = false;
    end_still(result);
    const bool is_going_on = is_in_background_;
    world_.note_progress();
    world_.trace(self_, format("returns from %s: %s", name_of(call_), name_of(result)));
    const Version before = version_;
    if (result == Participant::Do::committed) {
        version_ = version_.next();
    } else if (result == Participant::Do::resumed) {
        version_ = state().version;
        is_substitute_ = false;
        has_failed_ = false;
    }
    world_.tell(&Observer::returned, self_, pe_, call_, result, view_at_entry_, before);
    if (is_going_on && result != Participant::Do::ended) {
        returned_meanwhile(result);
        return;
    }
    if (result == Participant::Do::committed || result == Participant::Do::resumed ||
        result == Participant::Do::finished) {
        world_.tell(&Observer::live_memory, self_, pe_, version_, live_);
    }
    if (call_ == Call::finish && result == Participant::Do::fault) {
        // A program that is at its end cannot be rolled back.
        request_end(EndReason::past_the_end);
        return;
    }
    switch (result) {
        case Participant::Do::committed:
        case Participant::Do::resumed: compute(); break;
        case Participant::Do::fault:
        case Participant::Do::rejected:
            world_.later(self_, world_.random().between(0, 20 * kMicro), [this] { begin_call(Call::restart); });
            break;
        case Participant::Do::finished: world_.leave(self_, Gone::finished); break;
        default: world_.leave(self_, Gone::ended); break;
    }
}

// The program of a spare that was given a PE runs from its beginning; it comes to a checkpoint that fails, or asks.
void SimProcess::become_substitute() {
    pe_ = world_.scenario().shape.held_by(state(), self_);
    is_substitute_ = true;
    world_.trace(self_, format("becomes PE %d", pe_.value()));
    world_.later(self_, work_delay(), [this] { prepare_as_substitute(); });
}

// ---- around the agreement ----

void SimProcess::deliver(ProcId from, const Message& message, std::int32_t hops) {
    if (world_.scenario().detection == Detection::nodes) {
        const bool is_answer = message.kind == MessageKind::heartbeat;
        node_watch_.heard(from, world_.now(), is_answer ? message.asked_ns : 0);
        if (is_answer) {
            node_watch_.testified(from, message.node, message.testimony, world_.now());
        }
    }
    if (message.kind == MessageKind::heartbeat || message.kind == MessageKind::ping) {
        detector_.heard(from, world_.now());
        hops_ = 0;
        agreement_.receive(from, message);
        return;
    }
    const bool is_idle_spare =
        self_.value() >= world_.scenario().shape.n_pes && pe_ == kNoPe && state().witness != self_;
    world_.tell(&Observer::handled, self_, is_idle_spare, message);
    if (world_.scenario().detection == Detection::heartbeats) {
        detector_.heard(from, world_.now());
    }
    hops_ = hops;
    agreement_.receive(from, message);
    after_agreement();
}

void SimProcess::learn_of_death(const Death& death) {
    hops_ = 0;
    agreement_.process_died(death);
    after_agreement();
}

void SimProcess::learn_that_left(ProcId process, Stage how) {
    hops_ = 0;
    agreement_.process_left(process, how);
    after_agreement();
}

void SimProcess::request_end(EndReason reason) {
    world_.trace(self_, "asks for the end of the job");
    world_.tell(&Observer::requested_end, self_, reason);
    hops_ = 0;
    agreement_.request_end(reason, 70);
    after_agreement();
}

void SimProcess::after_agreement() {
    if (!is_alive()) {
        return;
    }
    if (world_.scenario().detection == Detection::heartbeats) {
        detector_.update(agreement_.known_deaths(), agreement_.depends_on(), world_.now());
    }
    watch_nodes();
    if (world_.scenario().waits_for_spares) {
        ask_for_spares();
    }
    enter_if_quiet();
    look_at_line();
}

// What the coordinator and the runtime do: whoever leads asks oshrun, and gives up when nobody has come.
void SimProcess::ask_for_spares() {
    const bool is_asked = state().stage == Stage::faulted ? agreement_.leads_restart() : agreement_.leader() == self_;
    std::vector<PeId> now;
    if (is_asked) {
        now = world_.rules().awaiting_spares(state(), agreement_.known_deaths());
    }
    if (now == awaited_) {
        return;
    }
    awaited_ = std::move(now);
    ++n_awaits_;
    if (awaited_.empty()) {
        return;
    }
    world_.trace(self_, format("waits for %zu spares", awaited_.size()));
    world_.want_spares(awaited_.size());
    world_.later(self_, kWaitTimeout, [this, n = n_awaits_] {
        if (n == n_awaits_) {
            request_end(EndReason::requested);
        }
    });
}

void SimProcess::watch_nodes() {
    if (world_.scenario().detection == Detection::nodes) {
        node_watch_.update(state(), agreement_.known_deaths(), world_.now());
    }
}

void SimProcess::send(ProcId to, const Message& message) { world_.send(self_, to, message, hops_ + 1); }

void SimProcess::record(const JobState& value) {
    if (is_alive()) {
        world_.record(self_, value);
        world_.tell(&Observer::recorded, self_, value);
    }
}

void SimProcess::write_ready_word(std::uint64_t word) {
    if (is_alive()) {
        world_.write_ready_word(self_, word);
    }
}

void SimProcess::wake_for_words() {
    if (is_alive()) {
        world_.tell(&Observer::found_all_words, self_);
        world_.wake_for_words();
    }
}

// The program's thread, which waits in a call.
void SimProcess::look_at_words() {
    if (is_in_call_ && !is_working_) {
        hops_ = 0;
        agreement_.look();
        after_agreement();
    }
}

std::optional<JobState> SimProcess::decided_by(std::span<const Death> dead) const {
    return world_.scenario().has_node_memory ? std::optional(world_.decided_by(dead)) : std::nullopt;
}

void SimProcess::decided(const JobState& before, const JobState& after) {
    if (!is_alive()) {
        return;
    }
    world_.trace(self_, "decides " + sft::to_string(after));
    world_.tell(&Observer::decided, self_, before, after);
    world_.at_decision(self_, after);
    if (!is_alive()) {
        return;
    }
    if (pe_ == kNoPe && world_.scenario().shape.held_by(after, self_) != kNoPe) {
        become_substitute();
    }
    for (std::size_t i = before.joined.size(); i < after.joined.size(); ++i) {
        if (after.joined[i].process != self_) {
            world_.watch(self_, after.joined[i].process);
        }
    }
    const bool is_over = after.stage == Stage::ended || (after.stage == Stage::finished && pe_ == kNoPe);
    if (is_over) {
        // What is being handled now is completed first: others may have to be told.
        world_.later(self_, world_.random().between(0, 20 * kMicro), [this, stage = after.stage] {
            world_.leave(self_, stage == Stage::ended ? Gone::ended : Gone::finished);
        });
    } else if (is_in_call_ && !is_pump_due_) {
        // The program's thread wakes up a little later, and may then find more than one new value.
        is_pump_due_ = true;
        world_.later(self_, world_.random().between(0, 5 * kMicro), [this] { pump(); });
    }
}

void SimProcess::heard_of_death(const Death& death) {
    if (is_alive()) {
        world_.trace(self_, format("hears that p%d is dead%s", death.process.value(),
                                   death.is_certain ? "" : " or unreachable"));
        world_.tell(&Observer::heard_of_death, self_, death);
    }
}

void SimProcess::must_stop(const Stop& why) {
    if (is_alive()) {
        world_.tell(&Observer::must_stop, self_, state(), why);
        world_.leave(self_, Gone::stopped_itself);
    }
}

}  // namespace sft::sim
