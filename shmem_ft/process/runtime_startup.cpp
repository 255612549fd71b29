// The start-up of the program (ops/startup.hpp): where its record and the marks of writes lie, and when it is over.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/program_calls.hpp"
#include "base/report.hpp"
#include "shmem_ft/process/runtime.hpp"

// Null if it has not been linked into the program, which can be if the library is linked statically.
extern "C" __attribute__((weak)) int shmem_checkpoint_all();

namespace sft {

// A program without checkpoints has no substitutes, and its calls go the short way from the beginning.
bool Runtime::may_checkpoint() const noexcept {
    return config_.backup_mode != BackupMode::none && shmem_checkpoint_all != nullptr &&
           program_may_call("shmem_checkpoint_all");
}

Startup::Memory Runtime::startup_memory() noexcept {
    const std::span<std::byte> record = memory_.startup_record();
    return {.record = record.data(),
            .record_bytes = record.size(),
            .marks = memory_.write_marks(),
            .queues = memory_.write_queues(control_.n_pes()),
            .told = &control_.header().startup_told};
}

void Runtime::record_startup() {
    if (!memory_.has_startup_record()) {
        return;
    }
    startup_ = std::make_unique<Startup>();
    startup_->begin_recording(engine_, startup_memory());
    show_startup();
    engine_.startup = startup_.get();
    take_input();
}

void Runtime::repeat_startup() {
    if (!memory_.has_startup_record()) {
        return;
    }
    startup_ = std::make_unique<Startup>();
    startup_->begin_replay(engine_, startup_memory());
    show_startup();
    engine_.startup = startup_.get();
    take_input();
    fault_point(FaultPoint::replay_begin);
}

// A substitute has come to shmem_restart_pes.
void Runtime::end_repetition() noexcept {
    if (startup_begin_ns_ == 0) {
        return;  // it was there before, and the restart has been refused
    }
    if (startup_ != nullptr) {
        startup_->end_replay(Startup::End::restart, {"shmem_restart_pes", nullptr});
        fault_point(FaultPoint::replay_end);
    }
    report_span("replay", startup_begin_ns_, now_ns(), coordinator_->state().version.value());
    startup_begin_ns_ = 0;
}

ProgramPhase Runtime::program_phase() const noexcept {
    if (me_ == kNoPe) {
        return ProgramPhase::none;
    }
    if (!joined_) {
        return ProgramPhase::replay;
    }
    return startup_begin_ns_ != 0 ? ProgramPhase::start_up : ProgramPhase::running;
}

void Runtime::show_startup() noexcept {
    const Startup::Size size = startup_->size();
    StartupPhase phase = StartupPhase::none;
    switch (size.state) {
        case StartupState::none: break;
        case StartupState::recording: phase = StartupPhase::recording; break;
        case StartupState::complete: phase = joined_ ? StartupPhase::closed : StartupPhase::repeating; break;
        case StartupState::too_large: phase = StartupPhase::too_large; break;
        case StartupState::many_threads: phase = StartupPhase::many_threads; break;
    }
    status_->set_startup(phase, size.bytes);
    status_->publish(now_ns());
}

// What PE 0 reads from its standard input in its start-up is kept by oshrun, and given to a substitute again. Asked for
// by a line of its own: whatever comes by the other one is for the service thread. In a program that initialises the
// library again a substitute cannot be given what belongs to the later start-up alone, and gets none, as anything else.
void Runtime::take_input() noexcept {
    JobChannel line;
    line.set_rank(self().value());
    std::string ignored;
    if (me_ != PeId(0) || life_ != 1 || !channel_.is_connected() || !line.connect(config_.job_socket, ignored)) {
        return;
    }
    JobEvent event;
    event.kind = JobEventKind::input_wanted;
    event.pe = 0;
    event.code = is_substitute_ ? 1 : 0;
    std::snprintf(event.text, sizeof event.text, "%s", file_identity(STDIN_FILENO).c_str());
    line.report(event);
    int input = -1;
    if (!line.await_answer(input) || input < 0) {
        return;  // that oshrun is gone is heard by the other line
    }
    const int flags = ::fcntl(STDIN_FILENO, F_GETFL);
    if (!is_substitute_ && flags >= 0 && (flags & O_NONBLOCK) != 0) {
        static_cast<void>(::fcntl(input, F_SETFL, O_NONBLOCK));
    }
    if (input == STDIN_FILENO) {  // it was closed
        static_cast<void>(::fcntl(input, F_SETFD, 0));
        return;
    }
    static_cast<void>(::dup2(input, STDIN_FILENO));
    static_cast<void>(::close(input));
}

// What was recorded goes into the version that is replicated now.
void Runtime::close_startup() noexcept {
    if (startup_ == nullptr || !startup_->is_recording()) {
        return;
    }
    startup_->close_record();
    show_startup();
    fault_point(FaultPoint::record_close);
}

// The first version is committed, or this substitute has joined: from here on calls go the short way. The marks are of
// no use any more, and their pages go.
void Runtime::end_startup(Version version) noexcept {
    if (startup_begin_ns_ != 0) {
        report_span("start-up", startup_begin_ns_, now_ns(), version.value());
        startup_begin_ns_ = 0;
    }
    tell_fault_points();
    if (startup_ == nullptr) {
        return;
    }
    if (links_.network() != nullptr) {
        links_.network()->set_marks({});
    }
    show_startup();
    if (!is_substitute_ && me_ == PeId(0) && life_ == 1) {
        report(JobEventKind::start_up_over, 0, 0, "", now_ns(), 0);
    }
    engine_.startup = nullptr;
    attach_engine(&engine_);
    startup_.reset();
    memory_.end_startup();
}

// Others' memory comes into the windows when this process joins; until then it reads as zeros, and what is stored there
// is lost.
void* Runtime::pointer_before_joining(const void* address, PeId pe) noexcept {
    const LiveState& live = memory_.live();
    const bool is_of_heap = live.heap.contains(address);
    if (pe == me_ || pe == kNoPe || (!is_of_heap && !live.globals.contains(address))) {
        return pe == me_ ? const_cast<void*>(address) : nullptr;
    }
    std::byte* const window = is_of_heap ? peers_.heap_before_joining(pe) : peers_.globals_before_joining(pe);
    const std::uintptr_t begin = is_of_heap ? live.heap.begin : live.globals.begin;
    if (window == nullptr) {
        return nullptr;
    }
    if (!has_told_pointer_) {
        has_told_pointer_ = true;
        say("warning: PE %d, a substitute, asks for a pointer to memory of PE %d (shmem_ptr), as the PE that it "
            "replaces "
            "had: before shmem_restart_pes it reads zeros there, and stores are lost",
            me_.load().value(), pe.value());
    }
    return window + (reinterpret_cast<std::uintptr_t>(address) - begin);
}

}  // namespace sft
