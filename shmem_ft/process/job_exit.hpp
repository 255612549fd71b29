// How a process ends, and the job with it: an error that concerns everybody, an end that another one has asked for,
// shmem_global_exit, exit() and a failed assertion.
//
// Fault model: to end a job takes messages, which may be what fails. Then this process leaves alone, within a bound,
// and its end tells the others. oshrun prints the line that it hears first and ends the job by itself; so it is told
// before anybody can end because of it.
//
// Thread safety: every function by any thread, but reserve_descriptors() and those that say otherwise. Several threads
// may come here at once: one ends the process, the others sleep until it is gone.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/ids.hpp"
#include "base/job_channel.hpp"
#include "base/mutex.hpp"
#include "base/own_pe.hpp"
#include "base/result.hpp"
#include "recovery/coordinator.hpp"
#include "transport/shm/control.hpp"
#include "transport/shm/wait.hpp"

namespace sft {

class JobExit {
public:
    // me: the PE of this process, for those who are told.
    JobExit(JobChannel& channel, const OwnPe& me) noexcept : channel_(channel), me_(me) {}
    ~JobExit() { ignore_defects(); }
    JobExit(const JobExit&) = delete;
    JobExit& operator=(const JobExit&) = delete;

    struct Options {
        ProcId self = kNoProc;
        ProcessSlot* slot = nullptr;  // its own
        FaultGate* gate = nullptr;
        Coordinator* coordinator = nullptr;
        std::function<std::string(const JobState&)> explain = {};
        // By the leader: the state of these PEs is gone.
        std::function<void(const std::vector<PeId>&)> tell_data_lost = {};
        std::function<void(Stage)> say_goodbye = {};
    };
    // Before anybody can ask for an end; until then there is nothing but tell().
    void open(Options options) noexcept;
    // From here on a failed assertion ends the job by oshrun, if there is one. One object of a process at a time.
    void hear_of_defects() noexcept;
    static void ignore_defects() noexcept;  // also in a child made by fork()

    // To oshrun, or to the user if there is none.
    void tell(const std::string& line) noexcept;
    // Asks the others for the end of the job and returns: whoever hears of the decision ends the process.
    void ask_for_end(const std::string& line, EndReason reason = EndReason::requested) noexcept SFT_EXCLUDES(mutex_);
    // Ends the job on all PEs with one line.
    [[noreturn]] void fail_job(const std::string& line, EndReason reason = EndReason::requested) noexcept
        SFT_EXCLUDES(mutex_);
    // The job is over, as this process has learnt.
    [[noreturn]] void leave_ended_job() noexcept SFT_EXCLUDES(mutex_);
    [[noreturn]] void global_exit(int status) noexcept;

    // exit() was called: tell the others how, for kernels that do not.
    void record_exit(int status) noexcept;
    // The library ends this process with exit(), whose handlers may call it. From here on every wait of a call ends at
    // once, as if a fault were pending, and whoever watches this process takes no exit handler that stands still for
    // work.
    void wait_for_nobody(int status) noexcept;
    // Past the last finalize, or on the way out by global_exit().
    void note_finished() noexcept { is_finished_.store(true); }
    [[nodiscard]] bool is_finished() const noexcept { return is_finished_.load(); }

    // fail_job() for the service thread, which must go on to hear what follows; and what it does if nothing does.
    void end_by_service(const std::string& line) noexcept SFT_EXCLUDES(mutex_);
    [[nodiscard]] bool is_ending() const noexcept { return leave_by_ns_ != 0; }
    void leave_if_unheard(std::int64_t now_ns) noexcept;

    // So that the messages of the end have descriptors, whatever the program has done with all others.
    [[nodiscard]] Result<> reserve_descriptors(int any_fd) noexcept;
    void release_descriptors() noexcept;

    // What the program has printed is not lost.
    static void flush_output() noexcept;

private:
    static void end_by_defect(const char* line) noexcept;
    [[nodiscard]] JobEvent event(JobEventKind kind, std::int32_t code, const char* text) const noexcept;
    [[noreturn]] static void leave_alone() noexcept;

    JobChannel& channel_;
    const OwnPe& me_;
    Options options_;
    Mutex mutex_{MutexRank::ending};
    std::string last_line_ SFT_GUARDED_BY(mutex_);  // why this process ends the job
    std::atomic_flag is_leaving_ = ATOMIC_FLAG_INIT;
    std::atomic<pid_t> exiting_thread_{0};  // the one that called global_exit() first
    std::atomic<bool> is_finished_{false};
    std::int64_t leave_by_ns_ = 0;  // the service thread has asked for the end of the job; 0: it has not
    std::array<std::atomic<int>, 8> reserve_ = {-1, -1, -1, -1, -1, -1, -1, -1};
};

}  // namespace sft
