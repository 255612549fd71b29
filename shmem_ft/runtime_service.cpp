// The service thread of a process: learns of deaths from the kernel, writes them into the agreed log, and makes the
// application's thread notice.
//
// Every process watches every other one of its node through a pidfd, so whichever processes survive, somebody reports.
// The thread sleeps in poll; it costs nothing while nothing happens.

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "shmem_ft/base/clock.hpp"
#include "shmem_ft/base/report.hpp"
#include "shmem_ft/runtime.hpp"

namespace sft {

namespace {

// One descriptor per process of the node, besides the application's own.
void allow_descriptors(std::int32_t n_processes) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        const rlim_t wanted = limit.rlim_cur + static_cast<rlim_t>(n_processes);
        limit.rlim_cur = std::min(wanted, limit.rlim_max);
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

}  // namespace

bool Runtime::watch_processes(std::string& error) {
    allow_descriptors(control_.n_processes());
    pidfds_.assign(static_cast<std::size_t>(control_.n_processes()), -1);
    for (std::int32_t process = 0; process < control_.n_processes(); ++process) {
        if (ProcId(process) == self()) {
            continue;
        }
        const ProcessSlot& slot = control_.slot(ProcId(process));
        if (slot.state.load(std::memory_order_acquire) == ProcessState::starting) {
            error = format("process %d of the job ended inside shmem_init", process);
            return false;
        }
        const int pidfd = open_process(slot.pid, slot.start_time);
        if (pidfd < 0 && errno != 0) {
            error = format("cannot watch process %d (pid %d): %s", process, slot.pid, std::strerror(errno));
            return false;
        }
        if (pidfd < 0) {
            control_.death_log().append(ProcId(process), {FailureKind::died, 0});
        }
        pidfds_[ProcId(process).index()] = pidfd;
    }
    return true;
}

void Runtime::start_service() {
    stop_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    // Signals are the application's business: its threads get them.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    service_ = std::thread([this] { serve(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Runtime::stop_service() noexcept {
    if (service_.joinable()) {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(stop_fd_, &one, sizeof one);
        service_.join();
    }
    if (stop_fd_ >= 0) {
        ::close(stop_fd_);
        stop_fd_ = -1;
    }
    for (int& pidfd : pidfds_) {
        if (pidfd >= 0) {
            ::close(pidfd);
            pidfd = -1;
        }
    }
}

void Runtime::serve() noexcept {
    // Deaths that were noticed before this thread existed.
    refresh_view();
    std::vector<pollfd> polled;
    std::vector<ProcId> watched;
    for (;;) {
        polled.assign({{stop_fd_, POLLIN, 0}, {channel_.fd(), 0, 0}});
        watched.clear();
        for (std::size_t i = 0; i < pidfds_.size(); ++i) {
            if (pidfds_[i] >= 0) {
                polled.push_back({pidfds_[i], POLLIN, 0});
                watched.push_back(ProcId(static_cast<std::int32_t>(i)));
            }
        }
        if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) {
            die("PE %d: cannot watch the processes of the job: %s", me_.value(), std::strerror(errno));
        }
        if (polled[0].revents != 0) {
            return;
        }
        if (polled[1].revents != 0) {
            // oshrun is gone: nobody would take this job's result.
            ::_exit(kExitError);
        }
        for (std::size_t i = 0; i < watched.size(); ++i) {
            if (polled[i + 2].revents != 0) {
                process_ended(watched[i]);
            }
        }
        if (control_.agreed().stage == Stage::ended && !finished_) {
            if (control_.end_owner() == self()) {
                return;  // the application's thread has ended the job and still has to tell why
            }
            leave_ended_job();
        }
    }
}

void Runtime::process_ended(ProcId process) noexcept {
    const std::int64_t seen_ns = now_ns();
    const int pidfd = pidfds_[process.index()];
    const ProcessSlot& slot = control_.slot(process);
    pidfds_[process.index()] = -1;
    FailureReason reason = reason_of_end(pidfd, slot.pid);
    ::close(pidfd);
    const Stage stage = control_.agreed().stage;
    if (slot.state.load() == ProcessState::finalized || stage == Stage::finished || stage == Stage::ended) {
        return;
    }
    const std::uint32_t last_words = slot.exit_status.load();
    if (reason.kind == FailureKind::died && last_words != 0) {
        reason = {FailureKind::exited, static_cast<std::uint16_t>((last_words - 1) & 0xffU)};
    }
    const bool first = control_.death_log().append(process, reason);
    refresh_view();
    if (first) {
        note_death(process, reason, seen_ns);
    }
    control_.ring_working();
    control_.slot(self()).doorbell.ring();
}

void Runtime::note_death(ProcId process, FailureReason reason, std::int64_t seen_ns) noexcept {
    const Agreed agreed = control_.agreed();
    PeId held = kNoPe;
    for (std::int32_t pe = 0; pe < control_.n_pes(); ++pe) {
        if (control_.assignment(agreed.epoch, PeId(pe)).holder.load() == process.value()) {
            held = PeId(pe);
        }
    }
    JobEvent event;
    event.kind = JobEventKind::failure_seen;
    event.pe = held.value();
    event.value = static_cast<std::uint64_t>(process.value());
    event.code = reason.status();
    event.begin_ns = seen_ns;
    if (channel_.is_connected()) {
        channel_.report(event);
    }
    if (held != kNoPe && agreed.version == kNoVersion && agreed.stage == Stage::running) {
        fail_job(format("PE %d failed (%s) before the first checkpoint was committed: there is nothing to go back to",
                        held.value(), describe(reason).c_str()));
    }
}

void Runtime::refresh_view() noexcept {
    const std::lock_guard lock(view_mutex_);
    const Agreed agreed = control_.agreed();
    const DeathCount deaths = control_.death_log().length();
    for (const Coordinator::Failed& failed : coordinator_->failed_pes(agreed, deaths)) {
        entries_[failed.pe.index()].heap_difference.store(kUnreachable);
        entries_[failed.pe.index()].globals_difference.store(kUnreachable);
        engine_.gate.pending.store(true);
    }
}

PeId Runtime::sleep_as_spare() noexcept {
    Waiter waiter(&control_.slot(self()).doorbell, &never_, 0);
    ProcessSlot& slot = control_.slot(self());
    Stage stage = Stage::running;
    waiter.block_until([&] {
        coordinator_->take_over_orphaned_job();
        stage = control_.agreed().stage;
        return slot.bound_pe.load() != 0 || stage == Stage::finished || stage == Stage::ended;
    });
    if (stage == Stage::ended) {
        end_unrecoverable();
    }
    if (slot.bound_pe.load() == 0) {
        // The job is over and did not need this process. It never ran the application, so nothing of the
        // application's may run at its exit.
        slot.state.store(ProcessState::finalized);
        report(JobEventKind::finalized, 0, 0, "", now_ns(), 0);
        stop_service();
        bootstrap_.disconnect();
        ::_exit(0);
    }
    return PeId(slot.bound_pe.load() - 1);
}

// What the program has printed is not lost. Only a stream that is free is flushed: this may be the service thread, and
// the application's may hold one for ever, waiting for input.
void Runtime::flush_output() noexcept {
    for (FILE* const stream : {stdout, stderr}) {
        if (::ftrylockfile(stream) == 0) {
            ::fflush_unlocked(stream);
            ::funlockfile(stream);
        }
    }
}

void Runtime::leave_ended_job() noexcept {
    const auto status = static_cast<int>(control_.header().end_record.load() >> 32);
    flush_output();
    ::_exit(status);
}

}  // namespace sft
