// The start of a job: who is missing, where, and for how long it may take.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/clock.hpp"
#include "tools/common/exit_codes.hpp"
#include "tools/oshrun/job_ledger.hpp"

namespace sft::tools {
namespace {

// What processes say of themselves when the time is over gets that long.
constexpr std::int64_t kLatePatience_ns = 1'000 * kNsPerMs;
constexpr std::size_t kNamesMax = 6;

}  // namespace

void JobLedger::name_host(std::int32_t host, const std::string& name) {
    host_names_.resize(std::max(host_names_.size(), static_cast<std::size_t>(host) + 1));
    host_names_[static_cast<std::size_t>(host)] = name;
}

// Where it runs, else where it shall; empty: nobody knows.
std::string JobLedger::host_of(std::size_t rank) const {
    const Process& item = processes_[rank];
    const auto host = static_cast<std::size_t>(item.host);
    if (item.launched_pid > 0 && host < host_names_.size() && !host_names_[host].empty()) {
        return host_names_[host];
    }
    return rank < shape_.hosts.size() ? shape_.hosts[rank] : std::string();
}

std::string JobLedger::on_host(std::size_t rank) const {
    std::set<std::string> names(shape_.hosts.begin(), shape_.hosts.end());
    names.insert(host_names_.begin(), host_names_.end());
    names.erase("");
    const std::string host = host_of(rank);
    return names.size() < 2 || host.empty() ? "" : " on " + host;
}

// "PE 2, PE 3 on node1, spare 0 on node2"
std::string JobLedger::names(const std::vector<std::size_t>& ranks) const {
    std::string text;
    const std::size_t n_named = std::min(ranks.size(), kNamesMax);
    for (std::size_t i = 0; i < n_named; ++i) {
        const std::string where = on_host(ranks[i]);
        const bool is_told_by_next = i + 1 < n_named && on_host(ranks[i + 1]) == where;
        text += (i == 0 ? "" : ", ") + name(ranks[i]) + (is_told_by_next ? "" : where);
    }
    return n_named == ranks.size() ? text : text + fmt::format(" and {} more", ranks.size() - n_named);
}

std::vector<std::size_t> JobLedger::started_ranks(const std::function<bool(const Process&)>& is_meant) const {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < started().size(); ++rank) {
        if (is_meant(processes_[rank])) {
            ranks.push_back(rank);
        }
    }
    return ranks;
}

// Before everybody is initialised nobody can be replaced: the others would wait in shmem_init for ever.
void JobLedger::check_start(std::int64_t now_ns) {
    if (!has_anybody_said_hello() || is_everybody_initialized()) {
        return;
    }
    std::optional<std::size_t> first;
    for (std::size_t rank = 0; rank < started().size(); ++rank) {
        const Process& item = processes_[rank];
        if (!item.end || item.is_finalized || item.end_order <= ends_before_complete_) {
            continue;
        }
        // Its own report has been heard, so those of the others may be on their way: they get some time.
        if (item.is_initialized && now_ns - item.end_ns < kPatience_ns) {
            continue;
        }
        if (!first || item.end_order < processes_[*first].end_order) {
            first = rank;
        }
    }
    if (!first) {
        return;
    }
    const FailureReason reason = *processes_[*first].end;
    const int code = exit_code_of(reason);
    decide({code == 0 ? kExitFailed : code, fmt::format("{}{} {} before shmem_init was complete on all PEs",
                                                        name(*first), on_host(*first), describe_end(reason))});
}

// Somebody waits: the launcher for a host, or a process in shmem_init for another one. A program that never calls
// shmem_init, or whose PEs all work before they do, makes nobody wait.
std::optional<std::int64_t> JobLedger::start_deadline_ns() const {
    const bool is_launched = have_all_been_launched();
    if (shape_.start_timeout_ms == 0 || has_started_ || verdict_ || launcher_end_ || !start_news_ns_ ||
        (is_launched && !has_anybody_said_hello())) {
        return std::nullopt;
    }
    return *start_news_ns_ + shape_.start_timeout_ms * kNsPerMs + (is_launched ? kLatePatience_ns : 0);
}

void JobLedger::check_time_of_start(std::int64_t now_ns) {
    if (!start_news_ns_ || start_news_seen_ != start_news_) {
        start_news_seen_ = start_news_;
        start_news_ns_ = now_ns;
    }
    const auto deadline = start_deadline_ns();
    if (deadline && now_ns >= *deadline) {
        decide({kExitFailed, have_all_been_launched() ? late_in_init() : late_for_launcher()});
    }
}

std::string JobLedger::late_for_launcher() const {
    const auto missing = started_ranks([](const Process& item) { return item.launched_pid <= 0; });
    const std::string host = host_of(missing.front());
    const bool is_one_host = !host.empty() && std::all_of(missing.begin(), missing.end(),
                                                          [&](std::size_t rank) { return host_of(rank) == host; });
    return fmt::format(
        "{} {} not been started within {} ms (SHMEM_FT_START_TIMEOUT): is {} up, can {} start programs there, are "
        "oshrun and the current folder there under the same paths, and can it connect to this host?",
        names(missing), missing.size() == 1 ? "has" : "have", shape_.start_timeout_ms,
        is_one_host ? host : "every host", shape_.launcher);
}

// Whoever has come least far is to blame: the others wait for it.
std::string JobLedger::late_in_init() const {
    const std::string bound = fmt::format("{} ms (SHMEM_FT_START_TIMEOUT)", shape_.start_timeout_ms);
    const auto outside = started_ranks([](const Process& item) { return !item.has_said_hello; });
    if (!outside.empty()) {
        return fmt::format("{} {} not called shmem_init within {} after the others", names(outside),
                           outside.size() == 1 ? "has" : "have", bound);
    }
    const auto is_inside = [](const Process& item) { return item.has_said_hello && !item.is_initialized; };
    const auto silent =
        started_ranks([&](const Process& item) { return is_inside(item) && !item.late_step.has_value(); });
    if (!silent.empty()) {
        return fmt::format("{} {} in shmem_init for {}: stopped, or {} host does not run", names(silent),
                           silent.size() == 1 ? "stands still" : "stand still", bound,
                           silent.size() == 1 ? "its" : "their");
    }
    const auto inside = started_ranks(is_inside);
    const auto last = *std::min_element(inside.begin(), inside.end(), [this](std::size_t a, std::size_t b) {
        return *processes_[a].late_step < *processes_[b].late_step;
    });
    const int step = *processes_[last].late_step;
    const auto ranks = started_ranks([&](const Process& item) { return is_inside(item) && *item.late_step == step; });
    return fmt::format("{} {} not come through shmem_init within {}: {} {}", names(ranks),
                       ranks.size() == 1 ? "has" : "have", bound, ranks.size() == 1 ? "it" : "each",
                       processes_[last].late_in);
}

}  // namespace sft::tools
