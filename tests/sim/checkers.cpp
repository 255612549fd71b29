#include "tests/sim/checkers.hpp"

#include <algorithm>

#include "base/report.hpp"

namespace sft::sim {

const char* name_of(Call call) noexcept {
    switch (call) {
        case Call::checkpoint: return "checkpoint";
        case Call::restart: return "restart";
        case Call::finish: return "finish";
    }
    return "?";
}

const char* name_of(Participant::Do what) noexcept {
    switch (what) {
        case Participant::Do::wait: return "wait";
        case Participant::Do::replicate: return "replicate";
        case Participant::Do::update_local_copy: return "update its local copy";
        case Participant::Do::restore: return "restore";
        case Participant::Do::protect: return "protect";
        case Participant::Do::give_up: return "give up";
        case Participant::Do::committed: return "committed";
        case Participant::Do::fault: return "fault";
        case Participant::Do::resumed: return "resumed";
        case Participant::Do::rejected: return "rejected";
        case Participant::Do::finished: return "finished";
        case Participant::Do::ended: return "ended";
    }
    return "?";
}

class Checkers::Bookkeeper final : public Observer {
public:
    Bookkeeper(Account& account, Verdict& verdict) : account_(account), verdict_(verdict) {}
    void gone(ProcId process, Gone how) override {
        account_.is_gone[process.index()] = true;
        account_.n_deaths += how == Gone::killed || how == Gone::stopped_itself ? 1 : 0;
    }
    void told_of_death(ProcId process, const Death& death) override {
        account_.declared.insert(death.process);
        account_.has_uncertain = account_.has_uncertain || !death.is_certain;
        if (account_.lives(death.process) && !may_mistake(account_.scenario)) {
            verdict_.fail("detector", format("process %d calls process %d dead, which lives", process.value(),
                                             death.process.value()));
        }
    }

private:
    Account& account_;
    Verdict& verdict_;
};

Checkers::Checkers(const Scenario& scenario, Verdict& verdict) : account_(scenario) {
    all_.push_back(std::make_unique<Bookkeeper>(account_, verdict));
    all_.push_back(std::make_unique<AgreementChecker>(account_, verdict));
    all_.push_back(std::make_unique<OutcomeChecker>(account_, verdict));
    all_.push_back(std::make_unique<MemoryChecker>(account_, verdict));
    all_.push_back(std::make_unique<EndChecker>(account_, verdict));
    all_.push_back(std::make_unique<LoadChecker>(account_, verdict));
}

Checkers::~Checkers() = default;

std::vector<Observer*> Checkers::observers() {
    std::vector<Observer*> observers;
    for (const auto& checker : all_) {
        observers.push_back(checker.get());
    }
    return observers;
}

// ---- agreement ----

namespace {

bool may_follow(const JobState& from, const JobState& to) {
    const Stage after = to.stage;
    if (from.joined.size() != to.joined.size() && from.stage == after && !is_over(from)) {
        return true;
    }
    switch (from.stage) {
        case Stage::running: return after != Stage::updating && after != Stage::planned && after != Stage::restored;
        case Stage::replicating:
            return after == Stage::replicating || after == Stage::updating || after == Stage::faulted ||
                   after == Stage::ended;
        case Stage::updating: return after == Stage::running || after == Stage::ended;
        case Stage::faulted: return after == Stage::faulted || after == Stage::planned || after == Stage::ended;
        case Stage::planned: return after == Stage::planned || after == Stage::restored || after == Stage::ended;
        case Stage::restored: return after == Stage::planned || after == Stage::running || after == Stage::ended;
        case Stage::finished:
        case Stage::ended: return false;
    }
    return false;
}

// Without nodes there is no lease (node_watch.hpp): who was cut off while the others died cannot know.
bool may_be_left_behind(const Account& account, ProcId process) {
    return account.declared.contains(process) && account.scenario.detection == Detection::heartbeats &&
           !account.scenario.partitions.empty();
}

}  // namespace

AgreementChecker::AgreementChecker(const Account& account, Verdict& verdict) : account_(account), verdict_(verdict) {}

void AgreementChecker::decided(ProcId process, const JobState& before, const JobState& after) {
    if (values_.empty()) {
        values_[before.index] = before;
        if (const std::string wrong = wrong_start(account_.scenario, before); !wrong.empty()) {
            verdict_.fail("value", "the job starts with " + wrong);
        }
    }
    known_index_[process] = after.index;
    const auto known = values_.find(before.index);
    if (known == values_.end() || !(known->second == before)) {
        if (may_be_left_behind(account_, process)) {
            return;
        }
        verdict_.fail("agreement", format("process %d has moved on from a value that was never decided (%s)",
                                          process.value(), to_string(before).c_str()));
        return;
    }
    if (after.index <= before.index) {
        verdict_.fail("agreement", format("process %d goes back", process.value()));
        return;
    }
    const auto same = values_.find(after.index);
    if (same == values_.end()) {
        check_first(process, before, after);
        values_[after.index] = after;
    } else if (!(same->second == after) && !is_of_orphans(process, before, after)) {
        verdict_.fail("agreement", format("process %d decides %s, another one %s", process.value(),
                                          to_string(after).c_str(), to_string(same->second).c_str()));
    }
    if (is_over(after)) {
        ends_.insert(after.stage);
    }
}

// Who says that a value is decided has decided it, even if it dies before anything else is seen of that.
void AgreementChecker::sent(ProcId from, ProcId /*to*/, const Message& message, std::int32_t /*hops*/) {
    const bool tells_decided = message.kind == MessageKind::collect || message.kind == MessageKind::decide;
    if (tells_decided && message.state) {
        recorded(from, *message.state);
    }
}

// Nor has it said anything if it has recorded it and stops then, and others may read that.
void AgreementChecker::recorded(ProcId process, const JobState& value) {
    const auto before = values_.find(value.index - 1);
    if (before != values_.end() && !values_.contains(value.index)) {
        check_first(process, before->second, value);
        values_[value.index] = value;
    }
}

void AgreementChecker::check_first(ProcId process, const JobState& before, const JobState& after) {
    if (after.index != before.index + 1) {
        verdict_.fail("agreement", format("process %d skips to value %llu that nobody has decided", process.value(),
                                          static_cast<unsigned long long>(after.index)));
        return;
    }
    const std::string broken = check_invariants(account_.scenario.shape, after, &before);
    if (!broken.empty()) {
        verdict_.fail("job state",
                      format("%s after %s: %s", to_string(after).c_str(), to_string(before).c_str(), broken.c_str()));
    }
    if (!may_follow(before, after)) {
        verdict_.fail("job state", format("%s follows %s", name_of(after.stage), name_of(before.stage)));
    }
    if (const std::string wrong = wrong_step(account_.scenario, before, after); !wrong.empty()) {
        verdict_.fail("value",
                      format("%s after %s: %s", to_string(after).c_str(), to_string(before).c_str(), wrong.c_str()));
    }
    for (const Death& death : after.deaths) {
        if (!account_.declared.contains(death.process)) {
            verdict_.fail("agreement",
                          format("process %d is agreed to be dead and nobody was told so", death.process.value()));
        }
    }
    for (const Replacement& replacement : after.replacements) {
        const bool is_new =
            std::find(before.replacements.begin(), before.replacements.end(), replacement) == before.replacements.end();
        const ProcId old = account_.scenario.shape.holder(before, replacement.pe);
        const bool is_old_dead = std::any_of(after.deaths.begin(), after.deaths.end(),
                                             [&](const Death& death) { return death.process == old; });
        if (is_new && !is_old_dead) {
            verdict_.fail("holders",
                          format("PE %d is taken from process %d, which lives", replacement.pe.value(), old.value()));
        }
    }
}

// When every holder is dead nobody can know what they decided last; a spare that ends the job then harms nobody.
bool AgreementChecker::is_of_orphans(ProcId process, const JobState& before, const JobState& after) const {
    const JobShape& shape = account_.scenario.shape;
    // A sleeping spare follows only what concerns it, so it may not know with which number and why the job is over.
    const bool is_over = after.stage == Stage::finished || after.stage == Stage::ended;
    // Who was declared dead may have accepted another end than the one that was decided.
    const bool is_outside = shape.held_by(before, process) == kNoPe || account_.declared.contains(process);
    if (is_over && is_outside && ends_.contains(after.stage)) {
        return true;
    }
    if (!may_be_left_behind(account_, process) &&
        (after.stage != Stage::ended || shape.held_by(before, process) != kNoPe)) {
        return false;
    }
    for (const auto& [index, value] : values_) {
        for (std::int32_t pe = 0; index >= before.index && pe < shape.n_pes; ++pe) {
            const ProcId holder = shape.holder(value, PeId(pe));
            // A substitute that has never been told is none yet.
            const auto known = known_index_.find(holder);
            const bool has_been_told = known != known_index_.end() && known->second >= index;
            if (account_.lives(holder) && holder != process && has_been_told) {
                return false;
            }
        }
    }
    return true;
}

void AgreementChecker::returned(ProcId process, PeId pe, Call call, Participant::Do result, std::uint32_t view,
                                Version /*version*/) {
    if (result != Participant::Do::committed && result != Participant::Do::resumed) {
        return;
    }
    // A restart is entered in one view and left in the next.
    const std::uint32_t acts_in = call == Call::restart ? view + 1 : view;
    const auto [at, is_new] = actors_.emplace(std::pair{acts_in, pe}, process);
    if (!is_new && at->second != process) {
        verdict_.fail("holders", format("processes %d and %d are both PE %d in view %u", at->second.value(),
                                        process.value(), pe.value(), acts_in));
    }
}

// ---- outcomes ----

void OutcomeChecker::returned(ProcId process, PeId /*pe*/, Call call, Participant::Do result, std::uint32_t view,
                              Version version) {
    if (result == Participant::Do::ended || result == Participant::Do::rejected || call == Call::finish) {
        return;
    }
    const auto [at, is_new] = outcomes_.emplace(std::tuple{view, version, call}, result);
    // A substitute's first checkpoint fails by definition, and no survivor makes that call.
    const bool is_substitutes = call == Call::checkpoint && version == kNoVersion && result == Participant::Do::fault;
    if (is_new && is_substitutes) {
        outcomes_.erase(at);
    } else if (!is_new && at->second != result && !is_substitutes) {
        verdict_.fail("outcomes",
                      format("process %d returns from %s of version %u in view %u with %s, another one with %s",
                             process.value(), name_of(call), version.value(), view, name_of(result),
                             name_of(at->second)));
    }
}

void OutcomeChecker::gave_list(ProcId process, std::uint32_t view, const std::vector<FailedPe>& list) {
    const auto [at, is_new] = lists_.emplace(view, list);
    if (!is_new && at->second != list && !may_be_left_behind(account_, process)) {
        verdict_.fail("failed list", format("process %d has another list in view %u", process.value(), view));
    }
    if (list.empty()) {
        verdict_.fail("failed list", format("process %d asks for a restart with an empty list", process.value()));
    }
}

void OutcomeChecker::gave_list_as_substitute(PeId pe, const std::vector<FailedPe>& list) {
    if (std::none_of(list.begin(), list.end(), [&](const FailedPe& item) { return item.pe == pe; })) {
        verdict_.fail("failed list", format("the substitute of PE %d has a list without it", pe.value()));
    }
}

void OutcomeChecker::gone(ProcId /*process*/, Gone how) {
    has_finished_ = has_finished_ || how == Gone::finished;
    has_ended_ = has_ended_ || how == Gone::ended;
}

void OutcomeChecker::over() {
    if (has_finished_ && has_ended_) {
        verdict_.fail("outcomes", "the job is finished for some and ended for others");
    }
    static_cast<void>(account_);
}

}  // namespace sft::sim
