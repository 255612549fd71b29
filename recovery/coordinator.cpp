#include "recovery/coordinator.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"

namespace sft {

Coordinator::Coordinator(const Options& options)
    : shape_(options.shape),
      mailbox_(options.mailbox),
      actions_(options.actions),
      observer_(options.observer),
      has_lease_(options.has_lease),
      waits_for_spares_(options.policy == UnreplacedPolicy::wait),
      rules_(options.shape),
      agreement_({.shape = options.shape,
                  .self = options.self,
                  .fan_out = kFanOut,
                  .rules = &rules_,
                  .world = this,
                  .first = JobRules::first_state(options.shape)}) {
    rules_.set_keeps_copies(options.keeps_copies);
    rules_.set_policy(options.policy);
    snapshot_ = agreement_.decided();
    leads_.store(agreement_.leader() == options.self);
}

namespace {

std::optional<FaultPoint> point_of(Goal goal) noexcept {
    switch (goal) {
        case Goal::arrive: return FaultPoint::arrived;
        case Goal::ship: return FaultPoint::shipped;
        case Goal::fold: return FaultPoint::folded;
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

// Without the lock: a process that is stopped or delayed here must still hear messages.
template <class Lock, class What>
void visit(Lock& lock, What what) {
    if (const auto point = point_of(what)) {
        lock.unlock();
        fault_point(*point);
        lock.lock();
    }
}

}  // namespace

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

void Coordinator::decided(const JobState& before, const JobState& after) {
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
        const std::lock_guard lock(snapshot_mutex_);
        snapshot_ = after;
    }
    leads_.store(agreement_.leader() == agreement_.self());
    news_.push_back(
        {.kind = News::Kind::decision, .death = {}, .before = before, .after = after, .awaited = {}, .why_stop = {}});
    changed_.notify_all();
}

void Coordinator::heard_of_death(const Death& death) {
    leads_.store(agreement_.leader() == agreement_.self());
    // On this node the kernel will tell, and what it has sent is to be heard first.
    if (death.is_certain && shape_.nodes != nullptr) {
        mailbox_->forget(death.process);
    } else if (!death.is_certain) {
        mailbox_->give_up(death.process);
    }
    news_.push_back(
        {.kind = News::Kind::death, .death = death, .before = {}, .after = {}, .awaited = {}, .why_stop = {}});
    changed_.notify_all();  // await_death
}

void Coordinator::must_stop(const Stop& why) {
    news_.push_back({.kind = News::Kind::stop, .death = {}, .before = {}, .after = {}, .awaited = {}, .why_stop = why});
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
        news_.push_back({.kind = News::Kind::awaiting,
                         .death = {},
                         .before = {},
                         .after = {},
                         .awaited = std::move(now),
                         .why_stop = {}});
    }
}

void Coordinator::tell(Lock& lock) {
    if (waits_for_spares_) {
        note_awaited();
    }
    // One teller at a time keeps the order; another thread's news are told by the one that is at it.
    if (is_telling_) {
        return;
    }
    is_telling_ = true;
    while (!news_.empty()) {
        const std::vector<News> news = std::exchange(news_, {});
        lock.unlock();
        for (const News& item : news) {
            switch (item.kind) {
                case News::Kind::death: observer_->heard_of_death(item.death); break;
                case News::Kind::decision: observer_->decided(item.before, item.after); break;
                case News::Kind::stop: observer_->must_stop(item.why_stop); break;
                case News::Kind::awaiting: observer_->awaits_spares(item.awaited); break;
            }
        }
        lock.lock();
    }
    is_telling_ = false;
}

// ---- the service thread ----

bool Coordinator::pump() {
    Lock lock(mutex_);
    const bool has_worked = take_messages();
    tell(lock);
    return has_worked;
}

// REQUIRES: the mutex is held.
bool Coordinator::take_messages() {
    return mailbox_->pump([this](ProcId from, std::span<const std::byte> bytes) {
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
    Lock lock(mutex_);
    if (death.is_certain) {
        mailbox_->forget(death.process);
    }
    agreement_.process_died(death);
    tell(lock);
}

void Coordinator::process_left(ProcId process, Stage how) {
    Lock lock(mutex_);
    agreement_.process_left(process, how);
    tell(lock);
}

// ---- several nodes ----

std::vector<RemoteMail::Gone> Coordinator::take_gone() {
    const Lock lock(mutex_);
    return mailbox_->take_gone();
}

std::vector<RemoteMail::Stuck> Coordinator::stuck() const {
    const Lock lock(mutex_);
    return mailbox_->stuck();
}

std::vector<Coordinator::Stalled> Coordinator::take_stalled() {
    const Lock lock(mutex_);
    return std::exchange(stalled_, {});
}

void Coordinator::tell_stalled(ProcId to, std::int64_t age_ns) {
    const Lock lock(mutex_);
    Message message;
    message.kind = MessageKind::stalled;
    message.ballot = agreement_.ballot();
    message.index = agreement_.decided().index;
    message.asked_ns = age_ns;
    send(to, message);
}

void Coordinator::probe_node_of(ProcId process) {
    const Lock lock(mutex_);
    if (shape_.nodes == nullptr || process.value() >= shape_.n_processes) {
        return;
    }
    const NodeId node = shape_.nodes->node_of(process);
    for (std::int32_t other = 0; other < shape_.n_processes; ++other) {
        if (shape_.nodes->node_of(ProcId(other)) == node && !contains(agreement_.known_deaths(), ProcId(other))) {
            mailbox_->probe(ProcId(other));
        }
    }
}

std::vector<Coordinator::Heard> Coordinator::take_heard() {
    const Lock lock(mutex_);
    return std::exchange(heard_, {});
}

void Coordinator::ping(const std::vector<ProcId>& processes, std::int64_t asked_ns, NodeId about) {
    const Lock lock(mutex_);
    Message question;
    question.kind = MessageKind::ping;
    question.ballot = agreement_.ballot();
    question.index = agreement_.decided().index;
    question.asked_ns = asked_ns;
    question.node = about;
    const std::vector<std::byte> bytes = encode(question);
    for (const ProcId process : processes) {
        // Mail finds out whether the process is there at all, and whether mail gets there.
        send(process, question);
        mailbox_->send_datagram(process, bytes);
    }
}

void Coordinator::testify(std::map<NodeId, Testimony> testimonies) {
    const Lock lock(mutex_);
    testimonies_ = std::move(testimonies);
}

Testimony Coordinator::testimony_about(NodeId node) const {
    const auto at = testimonies_.find(node);
    return at == testimonies_.end() ? Testimony::none : at->second;
}

void Coordinator::give_way() {
    Lock lock(mutex_);
    agreement_.give_way();
    tell(lock);
}

void Coordinator::remind() {
    const Lock lock(mutex_);
    agreement_.remind();
}

void Coordinator::cut_until(std::int64_t end_ns) {
    const Lock lock(mutex_);
    mailbox_->cut_until(end_ns);
}

// The agreement may hear what comes meanwhile, but nobody is told any more.
void Coordinator::leave(Stage how, std::int64_t end_ns) {
    constexpr int kLook_ms = 10;
    for (;;) {
        {
            const Lock lock(mutex_);
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
    Lock lock(mutex_);
    agreement_.request_join(std::move(everybody), node);
    tell(lock);
}

// ---- the collective calls ----

void Coordinator::await_change(Lock& lock, std::uint64_t index) {
    changed_.wait(lock, [&] { return agreement_.decided().index != index; });
}

Participant::Do Coordinator::drive(Lock& lock, Participant::Do next) {
    using Do = Participant::Do;
    for (;;) {
        const JobState state = agreement_.decided();  // what `next` follows from
        visit(lock, next);
        Participant::Outcome result = Participant::Outcome::ok;
        switch (next) {
            case Do::wait: {
                const Participant::Ready ready = participant_.ready();
                if (ready.goal != Goal::none) {
                    agreement_.ready(participant_.ready_index(), ready.goal, ready.hash);
                    tell(lock);
                    visit(lock, ready.goal);
                }
                await_change(lock, state.index);
                next = participant_.decided(agreement_.decided());
                continue;
            }
            case Do::replicate:
                lock.unlock();
                actions_->replicate(state.version.next());
                break;
            case Do::update_local_copy:
                lock.unlock();
                actions_->update_local_copy(state.version.next());
                break;
            case Do::restore:
                lock.unlock();
                result = actions_->restore(state);
                break;
            case Do::protect:
                lock.unlock();
                result = actions_->protect(state);
                break;
            default: return next;
        }
        lock.lock();
        next = participant_.done(agreement_.decided(), result);
    }
}

Participant::Do Coordinator::checkpoint() {
    Lock lock(mutex_);
    return drive(lock, participant_.checkpoint(agreement_.decided()));
}

Participant::Do Coordinator::restart(std::uint64_t list_hash, bool joins) {
    Lock lock(mutex_);
    return drive(lock, participant_.restart(agreement_.decided(), list_hash, joins));
}

Participant::Do Coordinator::finish() {
    Lock lock(mutex_);
    return drive(lock, participant_.finish(agreement_.decided()));
}

void Coordinator::request_end(EndReason reason, std::int32_t exit_status) {
    Lock lock(mutex_);
    agreement_.request_end(reason, exit_status);
    tell(lock);
}

// ---- questions ----

JobState Coordinator::wait_until(const std::function<bool(const JobState&)>& is_reached) {
    Lock lock(mutex_);
    while (!is_reached(agreement_.decided())) {
        await_change(lock, agreement_.decided().index);
    }
    return agreement_.decided();
}

JobState Coordinator::state() const {
    const std::lock_guard lock(snapshot_mutex_);
    return snapshot_;
}

bool Coordinator::is_dead(ProcId process) const {
    const Lock lock(mutex_);
    return contains(agreement_.known_deaths(), process);
}

bool Coordinator::await_death(ProcId process, std::int64_t end_ns) {
    Lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(std::max<std::int64_t>(end_ns - now_ns(), 0)),
                             [&] { return contains(agreement_.known_deaths(), process); });
}

bool Coordinator::await_end(std::int64_t end_ns) {
    Lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::nanoseconds(std::max<std::int64_t>(end_ns - now_ns(), 0)),
                             [&] { return is_over(agreement_.decided()); });
}

bool Coordinator::has_trouble() const {
    const Lock lock(mutex_);
    return mailbox_->has_trouble();
}

std::optional<Trouble> Coordinator::lasting_trouble(std::int64_t begin_ns) const {
    const Lock lock(mutex_);
    return mailbox_->lasting_trouble(begin_ns);
}

std::vector<Mailbox::Lost> Coordinator::lost_connections() const {
    const Lock lock(mutex_);
    return mailbox_->lost();
}

void Coordinator::settle_lost(ProcId process) {
    const Lock lock(mutex_);
    mailbox_->settle_lost(process);
}

std::vector<Death> Coordinator::known_deaths() const {
    const Lock lock(mutex_);
    return agreement_.known_deaths();
}

ProcId Coordinator::leader() const {
    const Lock lock(mutex_);
    return agreement_.leader();
}

std::int32_t Coordinator::protected_losses() const {
    const Lock lock(mutex_);
    return rules_.protected_losses(agreement_.decided(), agreement_.known_deaths());
}

Coordinator::Knowledge Coordinator::knowledge() const {
    const Lock lock(mutex_);
    const JobState& state = agreement_.decided();
    const std::vector<Death>& deaths = agreement_.known_deaths();
    return {.state = state,
            .deaths = deaths,
            .protected_losses = rules_.protected_losses(state, deaths),
            .waits_for_spare = !rules_.awaiting_spares(state, deaths).empty()};
}

NodeLosses Coordinator::node_losses(const Knowledge& known, std::int32_t n_on_demand) const {
    const Lock lock(mutex_);
    return rules_.node_losses(known.state, known.deaths, n_on_demand);
}

Coordinator::Times Coordinator::times() const {
    const Lock lock(mutex_);
    return times_;
}

}  // namespace sft
