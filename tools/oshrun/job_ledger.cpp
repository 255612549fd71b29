#include "tools/oshrun/job_ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/report.hpp"
#include "tools/common/exit_codes.hpp"
#include "tools/common/text.hpp"
#include "tools/oshrun/options.hpp"

namespace sft::tools {
namespace {

constexpr int kSignalBase = 128;

std::string signal_name(int signal) {
    const char* name = sigdescr_np(signal);
    return name == nullptr ? "" : fmt::format(" ({})", name);
}

// The text of an event, which the sender has cut to its field.
std::string text_of(const JobEvent& event) { return {event.text, strnlen(event.text, sizeof event.text)}; }

}  // namespace

std::string describe_end(FailureReason reason) {
    switch (reason.kind) {
        case FailureKind::signal:
            return fmt::format("was killed by signal {}{}", reason.code, signal_name(reason.code));
        case FailureKind::exited: return fmt::format("exited with code {}", reason.code);
        case FailureKind::node_lost: return "was lost with its host";
        case FailureKind::hung: return "stood still";
        case FailureKind::unreachable: return "could not be reached any more";
        default: return "ended in a way that the system does not tell";
    }
}

int exit_code_of(FailureReason reason) {
    switch (reason.kind) {
        case FailureKind::signal: return kSignalBase + reason.code;
        case FailureKind::exited: return reason.code;
        default: return kExitFailed;
    }
}

JobLedger::JobLedger(JobShape shape) : shape_(std::move(shape)) {
    processes_.resize(static_cast<std::size_t>(shape_.pes + shape_.spares));
    for (int pe = 0; pe < shape_.pes; ++pe) {
        processes_[static_cast<std::size_t>(pe)].pe = pe;
        holder_.push_back(pe);
        taken_ns_.push_back(0);
    }
}

JobLedger::Process* JobLedger::process(int rank) {
    const bool is_rank = rank >= 0 && static_cast<std::size_t>(rank) < processes_.size();
    return is_rank ? &processes_[static_cast<std::size_t>(rank)] : nullptr;
}

std::optional<std::size_t> JobLedger::index_of(ProcessKey key) const {
    const auto found = std::find_if(processes_.begin(), processes_.end(), [key](const Process& item) {
        return item.pid == key.pid && item.host == key.host && key.pid > 0;
    });
    return found == processes_.end() ? std::nullopt
                                     : std::optional(static_cast<std::size_t>(found - processes_.begin()));
}

int JobLedger::rank_of(ProcessKey key) const {
    const auto index = index_of(key);
    return index ? static_cast<int>(*index) : -1;
}

int JobLedger::pe_of(ProcessKey key) const {
    const auto index = index_of(key);
    return index ? processes_[*index].pe : -1;
}

void JobLedger::process_launched(int rank, ProcessKey key) {
    if (Process* item = process(rank); item != nullptr && item->launched_pid < 0) {
        item->launched_pid = key.pid;
        item->host = key.host;
        ++start_news_;
        if (!item->has_said_hello) {
            item->pid = key.pid;
        }
    }
}

void JobLedger::process_joined(ProcessKey key) {
    Process& item = processes_.emplace_back();
    item.pid = item.launched_pid = key.pid;
    item.host = key.host;
}

void JobLedger::joiner_started(int rank, ProcessKey key) {
    if (Process* item = process(rank); item != nullptr && item->pid < 0 && item->host == key.host) {
        item->pid = item->launched_pid = key.pid;
    }
}

void JobLedger::joiner_failed(int rank, std::int64_t now_ns) {
    if (Process* item = process(rank); item != nullptr && is_joining(rank) && !item->end) {
        enter_end(*item, {FailureKind::died, 0}, now_ns);
    }
}

std::span<const JobLedger::Process> JobLedger::started() const {
    return {processes_.data(), static_cast<std::size_t>(shape_.pes + shape_.spares)};
}

bool JobLedger::is_joiner_running() const {
    return std::any_of(processes_.begin() + static_cast<std::ptrdiff_t>(started().size()), processes_.end(),
                       [](const Process& item) { return !item.end; });
}

std::optional<int> JobLedger::next_to_join() const {
    const auto found =
        std::find_if(processes_.begin() + static_cast<std::ptrdiff_t>(started().size()), processes_.end(),
                     [](const Process& item) { return !item.end && !item.is_initialized; });
    return found == processes_.end() ? std::nullopt : std::optional(static_cast<int>(found - processes_.begin()));
}

bool JobLedger::is_joining(int rank) const {
    return rank >= static_cast<int>(started().size()) && rank < static_cast<int>(processes_.size()) &&
           !processes_[static_cast<std::size_t>(rank)].is_initialized;
}

void JobLedger::exec_failed(int rank, int error_number) {
    if (is_joining(rank)) {
        return;
    }
    // The first report is enough: the others fail alike.
    decide({kExitCannotRun, fmt::format("{}: cannot be run{}: {}", shell_quoted(shape_.program),
                                        on_host(static_cast<std::size_t>(rank)), strerrordesc_np(error_number))});
}

void JobLedger::nobody_can_join(int pe, const std::string& why) {
    const auto dead = pe >= 0 && pe < shape_.pes ? static_cast<std::size_t>(holder_[static_cast<std::size_t>(pe)]) : 0;
    const auto end = processes_[dead].end ? processes_[dead].end : processes_[dead].seen_dead;
    const int code = end ? exit_code_of(*end) : kExitFailed;
    decide({code == 0 ? kExitFailed : code,
            fmt::format("PE {}{} and no spare is left to take over, nor can one be started: {}", pe,
                        end ? " " + describe_end(*end) : " has failed", why)});
}

void JobLedger::event(const JobEvent& event, std::int64_t now_ns, std::int32_t host) {
    last_fact_ns_ = now_ns;
    Process* item = process(event.rank);
    if (item == nullptr) {
        return;
    }
    switch (event.kind) {
        case JobEventKind::hello:
            // When the program is a wrapper (a debugger, a script) the library runs in a process behind it.
            if (!item->has_said_hello) {
                if (item->pid != event.pid) {
                    item->end.reset();
                }
                item->has_said_hello = true;
                item->pid = event.pid;
                item->host = host;
            }
            // Again after a shmem_finalize: the program initialises the library once more.
            item->is_finalized = false;
            item->is_initialized = false;
            ++start_news_;
            break;
        case JobEventKind::initialized:
            item->is_initialized = true;
            ++start_news_;
            if (is_everybody_initialized()) {
                has_started_ = true;
                ends_before_complete_ = ends_;
            }
            break;
        case JobEventKind::pe_taken:
            if (event.pe >= 0 && event.pe < shape_.pes) {
                item->pe = event.pe;
                // Every process has a line of its own: the report of a substitute that has died may be read after that
                // of the next one.
                if (event.begin_ns >= taken_ns_[static_cast<std::size_t>(event.pe)]) {
                    taken_ns_[static_cast<std::size_t>(event.pe)] = event.begin_ns;
                    holder_[static_cast<std::size_t>(event.pe)] = event.rank;
                }
            }
            break;
        case JobEventKind::start_late:
            item->late_step = event.code;
            item->late_in = text_of(event);
            break;
        case JobEventKind::failure_seen:
            if (Process* dead = process(static_cast<int>(std::min<std::uint64_t>(event.value, INT32_MAX)))) {
                dead->seen_dead = FailureReason::from_status(event.code);
            }
            break;
        case JobEventKind::finalized: item->is_finalized = true; break;
        case JobEventKind::exiting: item->announced_code = event.code & 0xff; break;
        case JobEventKind::global_exit: {
            const int code = event.code & 0xff;
            has_exited_globally_ = has_exited_globally_ || !verdict_;
            decide({code, code == 0 ? std::string()
                                    : fmt::format("{} called shmem_global_exit({})",
                                                  name(static_cast<std::size_t>(event.rank)), event.code)});
            break;
        }
        case JobEventKind::unrecoverable:
            if (!is_joining(event.rank)) {
                decide(unrecoverable(event));
            }
            break;
        default: break;
    }
}

void JobLedger::process_ended(ProcessKey key, FailureReason reason, std::int64_t now_ns) {
    const auto index = index_of(key);
    if (index && !processes_[*index].end) {
        enter_end(processes_[*index], reason, now_ns);
    }
}

void JobLedger::agreed_lost(int rank) {
    if (Process* item = process(rank)) {
        item->is_agreed_lost = true;
    }
}

bool JobLedger::are_all_agreed_lost(std::int32_t host) const {
    return std::all_of(processes_.begin(), processes_.end(), [host](const Process& item) {
        return item.host != host || item.launched_pid <= 0 || item.end || item.is_agreed_lost;
    });
}

void JobLedger::host_lost(std::int32_t host, std::int64_t now_ns) {
    for (Process& item : processes_) {
        if (item.host == host && item.launched_pid > 0 && !item.end) {
            enter_end(item, {FailureKind::node_lost, 0}, now_ns);
        }
    }
    for (std::size_t rank = started().size(); rank < processes_.size(); ++rank) {
        if (processes_[rank].host == host) {
            joiner_failed(static_cast<int>(rank), now_ns);
        }
    }
    if (!have_all_been_launched()) {
        decide({kExitFailed, "a host was lost before all processes of the job had been started"});
    }
}

void JobLedger::enter_end(Process& item, FailureReason reason, std::int64_t now_ns) {
    if (reason.kind == FailureKind::died && item.announced_code) {
        reason = {FailureKind::exited, static_cast<std::uint16_t>(*item.announced_code)};
    }
    if (item.is_agreed_lost && reason.kind == FailureKind::signal) {
        reason = {FailureKind::node_lost, 0};  // whoever ended it, that is what its end follows from
    }
    item.end = reason;
    item.end_ns = now_ns;
    item.end_order = ++ends_;
    last_fact_ns_ = now_ns;
}

void JobLedger::launcher_ended(FailureReason reason) {
    launcher_end_ = reason;
    if (std::any_of(started().begin(), started().end(),
                    [](const Process& item) { return item.pid >= 0 && !item.end; })) {
        if (auto failure = launcher_failure()) {
            decide(*failure);
        }
    }
}

void JobLedger::told_to_end(int signal) {
    is_told_to_end_ = true;
    decide({kSignalBase + signal, fmt::format("told to end by signal {}{}", signal, signal_name(signal))});
}

void JobLedger::front_lost() {
    is_told_to_end_ = true;
    decide({kExitFailed, "was killed while the job ran: the job has been ended"});
}

void JobLedger::decide(Outcome outcome) {
    if (!verdict_) {
        verdict_ = std::move(outcome);
    }
}

bool JobLedger::is_everybody_initialized() const {
    return std::all_of(started().begin(), started().end(), [](const Process& item) { return item.is_initialized; });
}

bool JobLedger::has_anybody_said_hello() const {
    return std::any_of(processes_.begin(), processes_.end(), [](const Process& item) { return item.has_said_hello; });
}

bool JobLedger::all_ended() const {
    return std::all_of(processes_.begin(), processes_.end(),
                       [](const Process& item) { return item.pid < 0 || item.end.has_value(); });
}

bool JobLedger::have_all_been_launched() const {
    return std::all_of(started().begin(), started().end(), [](const Process& item) { return item.launched_pid > 0; });
}

bool JobLedger::have_all_pes_ended() const {
    return std::all_of(holder_.begin(), holder_.end(),
                       [this](int rank) { return processes_[static_cast<std::size_t>(rank)].end.has_value(); });
}

std::string JobLedger::name(std::size_t rank) const {
    const int pe = processes_[rank].pe;
    return pe >= 0 ? fmt::format("PE {}", pe) : fmt::format("spare {}", static_cast<int>(rank) - shape_.pes);
}

bool JobLedger::must_end(std::int64_t now_ns) {
    if (verdict_) {
        return true;
    }
    check_start(now_ns);
    check_time_of_start(now_ns);
    if (!verdict_ && have_all_pes_ended() && !all_ended() && now_ns - last_fact_ns_ >= kPatience_ns) {
        // Spares that nobody will wake any more.
        decide(first_failure().value_or(Outcome{}));
    }
    return verdict_.has_value();
}

std::optional<std::int64_t> JobLedger::next_deadline_ns() const {
    std::optional<std::int64_t> deadline = start_deadline_ns();
    const bool is_starting = has_anybody_said_hello() && !is_everybody_initialized();
    if (!verdict_ && !all_ended() && ends_ != 0 && (have_all_pes_ended() || is_starting)) {
        const std::int64_t patience_ends = last_fact_ns_ + kPatience_ns;
        deadline = deadline ? std::min(*deadline, patience_ends) : patience_ends;
    }
    return deadline;
}

// Nothing when the process did what a PE must do.
std::optional<Outcome> JobLedger::failure_of(std::size_t rank) const {
    const Process& item = processes_[rank];
    if (!item.end) {
        return Outcome{kExitFailed, fmt::format("{} did not end", name(rank))};
    }
    const FailureReason reason = *item.end;
    const int code = exit_code_of(reason);
    if (item.is_finalized) {
        // Lost with its host after all its work was done: nobody has missed it.
        if (reason == FailureReason{FailureKind::exited, 0} || reason.kind == FailureKind::died ||
            reason.kind == FailureKind::node_lost) {
            return std::nullopt;
        }
        const char* when = reason.kind == FailureKind::signal ? " after shmem_finalize" : "";
        return Outcome{code, fmt::format("{} {}{}", name(rank), describe_end(reason), when)};
    }
    const char* what = reason.kind == FailureKind::exited ? " without calling shmem_finalize" : "";
    return Outcome{code == 0 ? kExitFailed : code, fmt::format("{} {}{}", name(rank), describe_end(reason), what)};
}

std::optional<Outcome> JobLedger::first_failure() const {
    std::optional<Outcome> first;
    int first_order = 0;
    for (const int rank : holder_) {
        const auto index = static_cast<std::size_t>(rank);
        const auto failure = failure_of(index);
        // Those that have not ended come after all that have.
        const int order = processes_[index].end ? processes_[index].end_order : ends_ + 1;
        if (failure && (!first || order < first_order)) {
            first = failure;
            first_order = order;
        }
    }
    return first;
}

std::optional<Outcome> JobLedger::launcher_failure() const {
    if (!launcher_end_ || *launcher_end_ == FailureReason{FailureKind::exited, 0}) {
        return std::nullopt;
    }
    return Outcome{exit_code_of(*launcher_end_), fmt::format("the launcher {} {}; the job has ended with it",
                                                             shape_.launcher, describe_end(*launcher_end_))};
}

// Nobody has called shmem_init.
Outcome JobLedger::outcome_without_init() const {
    const std::string program = shell_quoted(shape_.program);
    const Process* first = nullptr;
    std::size_t first_rank = 0;
    for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
        const Process& item = processes_[rank];
        if (item.end && exit_code_of(*item.end) != 0 && (first == nullptr || item.end_order < first->end_order)) {
            first = &item;
            first_rank = rank;
        }
    }
    if (first == nullptr) {
        if (auto failure = launcher_failure()) {
            return *failure;
        }
        return {kExitFailed, fmt::format("{} ended without calling shmem_init: is it linked with the library "
                                         "(see oshcc)?",
                                         program)};
    }
    // With that status the library ends a process, behind a line that says why: a call in front of shmem_init, say.
    const bool has_library = first->end->kind == FailureKind::exited && first->end->code == kExitError;
    const bool is_signal = first->end->kind == FailureKind::signal;
    const std::string what = fmt::format("{}{} {}", name(first_rank), on_host(first_rank), describe_end(*first->end));
    return {exit_code_of(*first->end),
            is_signal || has_library
                ? fmt::format("{} before it called shmem_init", what)
                : fmt::format("{} without calling shmem_init: is {} linked with the library (see oshcc)?", what,
                              program)};
}

Outcome JobLedger::unrecoverable(const JobEvent& event) const {
    const auto teller = static_cast<std::size_t>(event.rank);
    // What is wrong with the start is wrong on the host of whoever says it, as a rule.
    const std::string where = has_started_ ? "" : on_host(teller);
    Outcome outcome{kExitFailed,
                    where.empty() ? text_of(event) : fmt::format("{}{}: {}", name(teller), where, text_of(event))};
    outcome.exit_code = (event.code & 0xff) == 0 ? kExitFailed : event.code & 0xff;
    // The first PE that has died and not been replaced is the one it is about; not those that the library has ended
    // because of it, with the status of the report.
    const FailureReason consequence{FailureKind::exited, static_cast<std::uint16_t>(event.code & 0xff)};
    int first_order = ends_ + 1;
    for (const int rank : holder_) {
        const Process& item = processes_[static_cast<std::size_t>(rank)];
        // What others have seen is enough: news of another host may come later than theirs.
        const auto end = item.end ? item.end : item.seen_dead;
        const int order = item.end ? item.end_order : ends_;
        if (end && !item.is_finalized && *end != consequence && order < first_order) {
            first_order = order;
            const int code = exit_code_of(*end);
            outcome.exit_code = code == 0 ? kExitFailed : code;
        }
    }
    return outcome;
}

bool JobLedger::is_worth_retry() const {
    if (is_told_to_end_ || has_exited_globally_ || !has_started_ || outcome_of_processes().exit_code == 0) {
        return false;
    }
    return std::any_of(holder_.begin(), holder_.end(), [this](int rank) {
        const Process& item = processes_[static_cast<std::size_t>(rank)];
        const auto end = item.end ? item.end : item.seen_dead;
        return end && !item.is_finalized && end->kind != FailureKind::exited;
    });
}

Outcome JobLedger::outcome() const {
    Outcome outcome = outcome_of_processes();
    if (outcome.exit_code == 0 && !is_output_whole_) {
        return {
            kExitFailed,
            fmt::format("the launcher {} hangs after all processes have ended: what they have printed may be missing",
                        shape_.launcher)};
    }
    return outcome;
}

Outcome JobLedger::outcome_of_processes() const {
    if (verdict_) {
        return *verdict_;
    }
    if (launcher_end_ && launcher_end_->kind == FailureKind::signal) {
        return *launcher_failure();
    }
    if (!has_anybody_said_hello()) {
        return outcome_without_init();
    }
    if (auto failure = first_failure()) {
        return *failure;
    }
    return launcher_failure().value_or(Outcome{});
}

}  // namespace sft::tools
