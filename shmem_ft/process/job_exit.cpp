#include "shmem_ft/process/job_exit.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/private_data.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"

namespace sft {
namespace {

constexpr std::int64_t kUntilEndedNs = 10'000'000'000;
constexpr std::int64_t kUntilKilledNs = 10'000'000'000;  // oshrun has asked by then, and killed

// Who tells of a failed assertion.
SFT_LIBRARY_STATE std::atomic<const JobExit*> g_teller{nullptr};

}  // namespace

void JobExit::open(Options options) noexcept {
    SFT_ASSERT(options.slot != nullptr && options.gate != nullptr && options.coordinator != nullptr);
    options_ = std::move(options);
}

// ---- a failed assertion ----

void JobExit::hear_of_defects() noexcept {
    g_teller.store(this);
    set_defect_hook(&end_by_defect);
}

void JobExit::ignore_defects() noexcept {
    set_defect_hook(nullptr);
    g_teller.store(nullptr);
}

// Whoever fails may hold any mutex. oshrun prints the line, so this process prints none, and ends all processes, so it
// waits for that: the others would recover from a death before oshrun has ended them.
void JobExit::end_by_defect(const char* line) noexcept {
    const JobExit* const exit = g_teller.load();
    if (exit == nullptr || !exit->channel_.is_connected()) {
        return;
    }
    exit->channel_.report(exit->event(JobEventKind::unrecoverable, kExitError, line));
    pollfd guardian{exit->channel_.fd(), 0, 0};  // hung up: it is gone
    const std::int64_t end_ns = now_ns() + kUntilKilledNs;
    for (std::int64_t left_ns = kUntilKilledNs; left_ns > 0; left_ns = end_ns - now_ns()) {
        if (::poll(&guardian, 1, static_cast<int>(left_ns / kNsPerMs) + 1) > 0) {
            break;
        }
    }
    ::_exit(kExitError);
}

// ---- telling ----

JobEvent JobExit::event(JobEventKind kind, std::int32_t code, const char* text) const noexcept {
    JobEvent event;
    event.kind = kind;
    event.pe = me_.value();
    event.code = code;
    event.begin_ns = now_ns();
    std::snprintf(event.text, sizeof event.text, "%s", text);
    return event;
}

void JobExit::tell(const std::string& line) noexcept {
    if (channel_.is_connected()) {
        channel_.report(event(JobEventKind::unrecoverable, kExitError, line.c_str()));
    } else {
        say("error: %s", line.c_str());
    }
}

// Only a stream that is free is flushed: this may be the service thread, and the application's may hold one for ever,
// waiting for input.
void JobExit::flush_output() noexcept {
    for (FILE* const stream : {stdout, stderr}) {
        if (::ftrylockfile(stream) == 0) {
            ::fflush_unlocked(stream);
            ::funlockfile(stream);
        }
    }
}

// ---- the end of the job ----

void JobExit::ask_for_end(const std::string& line, EndReason reason) noexcept {
    SFT_ASSERT(options_.coordinator != nullptr && !line.empty());
    {
        const Locked lock(mutex_);
        last_line_ = line;
    }
    if (channel_.is_connected()) {
        tell(line);
    }
    release_descriptors();
    options_.coordinator->request_end(reason, kExitError);
}

void JobExit::fail_job(const std::string& line, EndReason reason) noexcept {
    ask_for_end(line, reason);
    if (!options_.coordinator->await_end(now_ns() + kUntilEndedNs)) {
        say("error: %s", line.c_str());
        leave_alone();
    }
    leave_ended_job();
}

// By whichever thread comes here first, unless another one is on its way out through shmem_global_exit, with the exit
// handlers of the program.
void JobExit::leave_ended_job() noexcept {
    const pid_t exiting = exiting_thread_.load();
    if ((exiting != 0 && exiting != ::gettid()) || is_leaving_.test_and_set()) {
        sleep_until_the_end();
    }
    const JobState state = options_.coordinator->state();
    SFT_ASSERT(is_over(state));
    const bool leads = options_.coordinator->leads();
    if (leads && (state.end_reason == EndReason::copies_lost || state.end_reason == EndReason::nothing_committed ||
                  state.end_reason == EndReason::all_died)) {
        options_.tell_data_lost(state.lost);
    }
    // What followed from the deaths everybody can tell, and oshrun takes what it hears first; without it one has to do.
    const bool is_mine = state.ended_by == options_.self;
    std::string line;
    if (is_mine) {
        const Locked lock(mutex_);
        line = last_line_;
    } else {
        line = options_.explain(state);
    }
    if (!line.empty() && (channel_.is_connected() || is_mine || leads)) {
        tell(line);
    }
    flush_output();
    options_.say_goodbye(Stage::ended);
    options_.slot->state.store(ProcessState::ended);
    ::_exit(state.exit_status);
}

void JobExit::global_exit(int status) noexcept {
    // By the first thread that comes here; in an exit handler it may come here again.
    pid_t nobody = 0;
    const pid_t self = ::gettid();
    if (!exiting_thread_.compare_exchange_strong(nobody, self) && nobody != self) {
        sleep_until_the_end();
    }
    // Only this PE runs its exit handlers; the others are told by its end and flush their output.
    note_finished();
    flush_output();  // before anybody can lose patience with the exit handlers
    channel_.report(event(JobEventKind::global_exit, status, ""));
    options_.coordinator->request_end(EndReason::requested, status & 0xff);
    // Not before it is decided: a request of a process that is dead by the time it is heard does not count.
    options_.coordinator->wait_until([](const JobState& state) { return is_over(state); });
    exit_once(status);
}

// ---- exit() ----

void JobExit::record_exit(int status) noexcept {
    if (is_finished()) {
        return;
    }
    options_.slot->exit_status.store(static_cast<std::uint32_t>(status & 0xff) + 1);
    channel_.report(event(JobEventKind::exiting, status, ""));
}

void JobExit::wait_for_nobody(int status) noexcept {
    if (!is_finished()) {
        options_.slot->exit_status.store(static_cast<std::uint32_t>(status & 0xff) + 1);
    }
    options_.gate->pending.store(true);
}

// ---- an end without help ----

// The others do not hear, or do not decide: they will hear of the end of this process, for which it waits for nobody.
void JobExit::leave_alone() noexcept {
    flush_output();
    ::_exit(kExitError);
}

void JobExit::end_by_service(const std::string& line) noexcept {
    if (leave_by_ns_ != 0) {
        return;
    }
    leave_by_ns_ = now_ns() + kUntilEndedNs;
    ask_for_end(line);
}

void JobExit::leave_if_unheard(std::int64_t now_ns) noexcept {
    if (leave_by_ns_ != 0 && now_ns >= leave_by_ns_) {
        leave_alone();
    }
}

Result<> JobExit::reserve_descriptors(int any_fd) noexcept {
    for (std::atomic<int>& fd : reserve_) {
        SFT_ASSERT(fd.load() < 0);
        fd.store(::fcntl(any_fd, F_DUPFD_CLOEXEC, 0));
        if (fd.load() < 0) {
            const int problem = errno;
            release_descriptors();
            return fails(describe_error(problem), problem);
        }
    }
    return {};
}

void JobExit::release_descriptors() noexcept {
    for (std::atomic<int>& item : reserve_) {
        if (const int fd = item.exchange(-1); fd >= 0) {
            ::close(fd);
        }
    }
}

}  // namespace sft
