#include "recovery/coordinator.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"

namespace sft {

Coordinator::Coordinator(const Options& options)
    : shape_(options.shape),
      mailbox_(options.mailbox),
      actions_(options.actions),
      observer_(options.observer),
      has_lease_(options.has_lease),
      records_(options.records),
      words_(options.words),
      waits_for_spares_(options.policy == UnreplacedPolicy::wait),
      rules_(options.shape),
      agreement_({.shape = options.shape,
                  .self = options.self,
                  .fan_out = kFanOut,
                  .rules = &rules_,
                  .world = this,
                  .first = JobRules::first_state(options.shape)}) {
    SFT_ASSERT(options.self.value() >= 0 && mailbox_ != nullptr && actions_ != nullptr && observer_ != nullptr);
    rules_.set_policy(options.policy);
    snapshot_ = agreement_.decided();
    leads_.store(agreement_.leader() == options.self);
}

namespace {

std::optional<FaultPoint> point_of(Goal goal) noexcept {
    switch (goal) {
        case Goal::arrive: return FaultPoint::arrived;
        case Goal::replicate: return FaultPoint::replicated;
        case Goal::update: return FaultPoint::updated;
        case Goal::restart: return FaultPoint::restart_arrived;
        case Goal::restore: return FaultPoint::restored;
        case Goal::protect: return FaultPoint::protected_again;
        case Goal::finish: return FaultPoint::finalize_arrived;
        default: return std::nullopt;
    }
}

std::optional<FaultPoint> point_of(Participant::Do next) noexcept {
    using Do = Participant::Do;
    switch (next) {
        case Do::update_local_copy: return FaultPoint::commit_decided;
        case Do::restore: return FaultPoint::plan_decided;
        case Do::protect: return FaultPoint::restored_decided;
        case Do::fault: return FaultPoint::fault_decided;
        case Do::resumed: return FaultPoint::resume_decided;
        case Do::finished: return FaultPoint::finish_decided;
        default: return std::nullopt;
    }
}

std::chrono::steady_clock::time_point end_of(std::int64_t end_ns) noexcept {
    return std::chrono::steady_clock::now() + std::chrono::nanoseconds(std::max<std::int64_t>(end_ns - now_ns(), 0));
}

}  // namespace

// A process that is stopped or delayed here must still hear messages.
template <class What>
void Coordinator::visit(What what) {
    if (const auto point = point_of(what)) {
        mutex_.unlock();
        fault_point(*point);
        mutex_.lock();
    }
}

// ---- what the agreement does to the world ----

void Coordinator::send(ProcId to, const Message& message) {
    fault_point(FaultPoint::message_send);
    // An answer goes the way of its question.
    if (message.kind == MessageKind::heartbeat && mailbox_->is_taking_datagram()) {
        mailbox_->send_datagram(to, encode(message));
        return;
    }
    mailbox_->send(to, encode(message));
}

void Coordinator::record(const JobState& value) {
    if (records_ != nullptr) {
        records_->write(value);
    }
}

void Coordinator::decided(const JobState& before, const JobState& after) {
    SFT_ASSERT(after.index > before.index);
    switch (after.stage) {
        case Stage::planned:
            if (before.stage != Stage::planned && before.stage != Stage::restored) {
                times_ = {.planned = now_ns(), .restored = 0, .resumed = 0};
            }
            break;
        case Stage::restored: times_.restored = now_ns(); break;
        case Stage::running:
            if (before.stage == Stage::restored) {
                times_.resumed = now_ns();
            }
            break;
        default: break;
    }
    {
        const Locked lock(snapshot_mutex_);
        SFT_ASSERT(after.index > snapshot_.index && after.joined.size() >= snapshot_.joined.size());
        snapshot_ = after;
    }
    leads_.store(agreement_.leader() == agreement_.self());
    events_.push_back(
        {.kind = Event::Kind::decision, .death = {}, .before = before, .after = after, .awaited = {}, .why_stop = {}});
    changed_.notify_all();
    if (words_ != nullptr) {
        words_->move_on();
    }
}

void Coordinator::wake_for_words() {
    const JobState& state = agreement_.decided();
    for (std::int32_t pe = 0; pe < shape_.n_pes; ++pe) {
        if (const ProcId holder = shape_.holder(state, PeId(pe)); holder != agreement_.self()) {
            words_->wake(holder);
        }
    }
}

std::optional<JobState> Coordinator::decided_by(std::span<const Death> dead) const {
    if (records_ == nullptr) {
        return std::nullopt;
    }
    const std::optional<JobState> latest = records_->latest(dead);
    return latest ? latest : JobRules::first_state(shape_);
}

void Coordinator::heard_of_death(const Death& death) {
    leads_.store(agreement_.leader() == agreement_.self());
    SFT_ASSERT(death.process != agreement_.self());  // who reads of his own death stops
    // On this node the kernel will tell, and what it has sent is to be heard first.
    if (death.is_certain && shape_.nodes != nullptr) {
        mailbox_->retire_peer(death.process);
    } else if (!death.is_certain) {
        mailbox_->give_up(death.process);
    }
    events_.push_back(
        {.kind = Event::Kind::death, .death = death, .before = {}, .after = {}, .awaited = {}, .why_stop = {}});
    changed_.notify_all();  // await_death
}

void Coordinator::must_stop(const Stop& why) {
    events_.push_back(
        {.kind = Event::Kind::stop, .death = {}, .before = {}, .after = {}, .awaited = {}, .why_stop = why});
}

// Follows from everything that calls tell(), so it is looked for there.
void Coordinator::note_awaited() {
    const JobState& state = agreement_.decided();
    const bool is_asked =
        state.stage == Stage::faulted ? agreement_.leads_restart() : agreement_.leader() == agreement_.self();
    std::vector<PeId> now;
    if (is_asked) {
        now = rules_.awaiting_spares(state, agreement_.known_deaths());
    }
    if (now != awaited_) {
        awaited_ = now;
        events_.push_back({.kind = Event::Kind::awaiting,
                           .death = {},
                           .before = {},
                           .after = {},
                           .awaited = std::move(now),
                           .why_stop = {}});
    }
}

void Coordinator::tell() {
    if (waits_for_spares_) {
        note_awaited();
    }
    // One teller at a time keeps the order; another thread's news are told by the one that is at it.
    if (is_telling_) {
        return;
    }
    is_telling_ = true;
    while (!events_.empty()) {
        const std::vector<Event> events = std::exchange(events_, {});
        mutex_.unlock();
        for (const Event& item : events) {
            switch (item.kind) {
                case Event::Kind::death: observer_->heard_of_death(item.death); break;
                case Event::Kind::decision: observer_->decided(item.before, item.after); break;
                case Event::Kind::stop: observer_->must_stop(item.why_stop); break;
                case Event::Kind::awaiting: observer_->awaits_spares(item.awaited); break;
            }
        }
        mutex_.lock();
        SFT_ASSERT(is_telling_);  // else two told at once, and not in order
    }
    is_telling_ = false;
}

// ---- the service thread ----

bool Coordinator::pump() {
    const Locked lock(mutex_);
    const bool has_worked = take_messages();
    tell();
    return has_worked;
}

bool Coordinator::take_messages() {
    return mailbox_->pump([this](ProcId from, std::span<const std::byte> bytes) {
        mutex_.assert_held();
        fault_point(FaultPoint::message_receive);
        const std::optional<Message> message = decode(bytes);
        if (shape_.nodes != nullptr) {
            Heard heard{.from = from, .has_mail = !mailbox_->is_taking_datagram()};
            if (message && message->kind == MessageKind::heartbeat) {
                heard.asked_ns = message->asked_ns;
                heard.about = message->node;
                heard.testimony = message->testimony;
            }
            note_heard(heard);
        }
        if (message && message->kind == MessageKind::stalled) {
            stalled_.push_back({from, message->asked_ns});
        }
        if (message) {
            agreement_.receive(from, *message);
        }
    });
}

void Coordinator::note_heard(const Heard& heard) {
    const auto at =
        std::find_if(heard_.begin(), heard_.end(), [&](const Heard& other) { return other.from == heard.from; });
    if (at == heard_.end()) {
        heard_.push_back(heard);
    } else {
        at->asked_ns = std::max(at->asked_ns, heard.asked_ns);
        at->has_mail = at->has_mail || heard.has_mail;
        if (heard.about != kNoNode) {
            at->about = heard.about;
            at->testimony = heard.testimony;
        }
    }
}

void Coordinator::process_died(const Death& death) {
    const Locked lock(mutex_);
    if (death.is_certain) {
        mailbox_->retire_peer(death.process);
    }
    agreement_.process_died(death);
    tell();
}

void Coordinator::process_left(ProcId process, Stage how) {
    const Locked lock(mutex_);
    agreement_.process_left(process, how);
    tell();
}

// ---- leaving and joining ----

// The agreement may hear what comes meanwhile, but nobody is told any more.
void Coordinator::leave(Stage how, std::int64_t end_ns) {
    constexpr int kLook_ms = 10;
    for (;;) {
        {
            const Locked lock(mutex_);
            take_messages();
            if (mailbox_->is_settled() || now_ns() >= end_ns) {
                mailbox_->leave(static_cast<std::uint64_t>(how));
                return;
            }
        }
        pollfd entry{mailbox_->fd(), POLLIN, 0};
        ::poll(&entry, 1, kLook_ms);
    }
}

void Coordinator::request_join(std::vector<ProcId> everybody, NodeId node) {
    const Locked lock(mutex_);
    agreement_.request_join(std::move(everybody), node);
    tell();
}

// ---- the collective calls ----

void Coordinator::await_change(std::uint64_t index) {
    while (agreement_.decided().index == index) {
        if (!await_words() && agreement_.decided().index == index) {
            changed_.wait(mutex_);
        }
    }
}

// False: the next value will come by messages, or has come.
bool Coordinator::await_words() {
    if (words_ == nullptr || !agreement_.is_open()) {
        return false;
    }
    const std::uint64_t word = word_of(agreement_.decided());
    std::vector<ProcId> missing = agreement_.missing_words();
    if (std::find(missing.begin(), missing.end(), agreement_.self()) != missing.end()) {
        return false;  // this process waits for something else
    }
    const std::uint64_t moves = words_->moves();
    mutex_.unlock();
    const bool are_there = words_->await(std::move(missing), word, moves);
    mutex_.lock();
    if (are_there) {
        agreement_.look();
        tell();
    }
    return are_there;
}

Participant::Do Coordinator::enter(const Call& call) {
    const JobState& state = agreement_.decided();
    switch (call.kind) {
        case Call::Kind::checkpoint: return participant_.checkpoint(state);
        case Call::Kind::restart: return participant_.restart(state, call.list_hash, call.joins);
        case Call::Kind::finish: break;
    }
    return participant_.finish(state);
}

Participant::Do Coordinator::carry_out(const Call& call) {
    using Do = Participant::Do;
    const Locked lock(mutex_);
    Do next = enter(call);
    for (;;) {
        const JobState state = agreement_.decided();  // what `next` follows from
        visit(next);
        Participant::Outcome result = Participant::Outcome::ok;
        switch (next) {
            case Do::wait: {
                const Participant::Ready ready = participant_.ready();
                if (ready.goal != Goal::none) {
                    SFT_ASSERT(participant_.ready_index() == state.index);
                    agreement_.ready(participant_.ready_index(), ready.goal, ready.hash);
                    tell();
                    visit(ready.goal);
                }
                await_change(state.index);
                next = participant_.decided(agreement_.decided());
                continue;
            }
            case Do::replicate:
                mutex_.unlock();
                actions_->replicate(shape_.version_after(state.version));
                break;
            case Do::update_local_copy:
                mutex_.unlock();
                actions_->update_local_copy(shape_.version_after(state.version));
                break;
            case Do::restore:
                mutex_.unlock();
                result = actions_->restore(state);
                break;
            case Do::protect:
                mutex_.unlock();
                result = actions_->protect(state);
                break;
            default: return next;
        }
        mutex_.lock();
        next = participant_.done(agreement_.decided(), result);
    }
}

void Coordinator::request_end(EndReason reason, std::int32_t exit_status) {
    const Locked lock(mutex_);
    agreement_.request_end(reason, exit_status);
    tell();
}

// ---- questions ----

JobState Coordinator::wait_until(const std::function<bool(const JobState&)>& is_reached) {
    const Locked lock(mutex_);
    while (!is_reached(agreement_.decided())) {
        await_change(agreement_.decided().index);
    }
    return agreement_.decided();
}

JobState Coordinator::state() const {
    const Locked lock(snapshot_mutex_);
    return snapshot_;
}

bool Coordinator::is_dead(ProcId process) const {
    const Locked lock(mutex_);
    return contains(agreement_.known_deaths(), process);
}

bool Coordinator::await_death(ProcId process, std::int64_t end_ns) {
    const Locked lock(mutex_);
    const auto end = end_of(end_ns);
    while (!contains(agreement_.known_deaths(), process)) {
        if (!changed_.wait_until(mutex_, end)) {
            return contains(agreement_.known_deaths(), process);
        }
    }
    return true;
}

bool Coordinator::await_end(std::int64_t end_ns) {
    const Locked lock(mutex_);
    const auto end = end_of(end_ns);
    while (!is_over(agreement_.decided())) {
        if (!changed_.wait_until(mutex_, end)) {
            return is_over(agreement_.decided());
        }
    }
    return true;
}

bool Coordinator::has_trouble() const {
    const Locked lock(mutex_);
    return mailbox_->has_trouble();
}

std::optional<Trouble> Coordinator::lasting_trouble(std::int64_t begin_ns) const {
    const Locked lock(mutex_);
    return mailbox_->lasting_trouble(begin_ns);
}

std::vector<Mailbox::Lost> Coordinator::lost_connections() const {
    const Locked lock(mutex_);
    return mailbox_->lost();
}

void Coordinator::settle_lost(ProcId process) {
    const Locked lock(mutex_);
    mailbox_->settle_lost(process);
}

std::vector<Death> Coordinator::known_deaths() const {
    const Locked lock(mutex_);
    return agreement_.known_deaths();
}

ProcId Coordinator::leader() const {
    const Locked lock(mutex_);
    return agreement_.leader();
}

std::int32_t Coordinator::protected_losses() const {
    const Locked lock(mutex_);
    return rules_.protected_losses(agreement_.decided(), agreement_.known_deaths());
}

Coordinator::Knowledge Coordinator::knowledge() const {
    const Locked lock(mutex_);
    const JobState& state = agreement_.decided();
    const std::vector<Death>& deaths = agreement_.known_deaths();
    return {.state = state,
            .deaths = deaths,
            .protected_losses = rules_.protected_losses(state, deaths),
            .waits_for_spare = !rules_.awaiting_spares(state, deaths).empty()};
}

NodeLosses Coordinator::node_losses(const Knowledge& known, std::int32_t n_on_demand) const {
    const Locked lock(mutex_);
    return rules_.node_losses(known.state, known.deaths, n_on_demand);
}

Coordinator::Times Coordinator::times() const {
    const Locked lock(mutex_);
    return times_;
}

}  // namespace sft
