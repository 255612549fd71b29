#include "shmem_ft/process/program_start.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <span>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "base/program_calls.hpp"
#include "transport/net/network.hpp"

// Null if it has not been linked into the program, which can be if the library is linked statically.
extern "C" __attribute__((weak)) int shmem_checkpoint_all();
extern "C" __attribute__((weak)) int shmem_ft_checkpoint_nb();

namespace sft {

bool ProgramStart::may_checkpoint() {
    return (shmem_checkpoint_all != nullptr && program_may_call("shmem_checkpoint_all")) ||
           (shmem_ft_checkpoint_nb != nullptr && program_may_call("shmem_ft_checkpoint_nb"));
}

void ProgramStart::open(Options options) {
    SFT_ASSERT(options.me != nullptr && options.phase_changed && options.report_span);
    SFT_ASSERT(options.engine != nullptr && options.memory != nullptr && options.status != nullptr);
    o_ = std::move(options);
}

void ProgramStart::enter() noexcept {
    SFT_ASSERT(begin_ns_ == 0);  // a process takes one PE in its life
    begin_ns_ = now_ns();
}

Startup::Memory ProgramStart::memory() const noexcept {
    const std::span<std::byte> record = o_.memory->startup_record();
    return {.record = record.data(),
            .record_bytes = record.size(),
            .marks = o_.memory->write_marks(),
            .queues = o_.memory->write_queues(o_.control->n_pes()),
            .symmetric = o_.memory,
            .peers = o_.peers,
            .told = &o_.control->header().startup_told};
}

void ProgramStart::begin() {
    SFT_ASSERT(startup_ != nullptr && o_.engine->startup == nullptr);
    show();
    o_.engine->startup = startup_.get();
    take_input();
}

void ProgramStart::record() {
    SFT_ASSERT(!o_.me->repeats_start());
    if (o_.memory->has_startup_record()) {
        startup_ = std::make_unique<Startup>();
        startup_->begin_recording(*o_.engine, memory());
        begin();
    }
}

void ProgramStart::repeat() {
    SFT_ASSERT(o_.me->repeats_start());
    if (o_.memory->has_startup_record()) {
        startup_ = std::make_unique<Startup>();
        startup_->begin_replay(*o_.engine, memory());
        begin();
        fault_point(FaultPoint::replay_begin);
    }
}

void ProgramStart::end_replay(Version version) noexcept {
    if (o_.me->has_joined() || begin_ns_ == 0) {
        return;  // it was there before, or it has come here already and its restart has been refused
    }
    if (startup_ != nullptr) {
        startup_->end_replay(Startup::End::restart, {"shmem_restart_pes", nullptr});
        fault_point(FaultPoint::replay_end);
    }
    o_.report_span("replay", std::exchange(begin_ns_, 0), version.value());
}

ProgramPhase ProgramStart::phase() const noexcept {
    if (o_.me->get() == kNoPe) {
        return ProgramPhase::none;
    }
    if (!o_.me->has_joined()) {
        return ProgramPhase::replay;
    }
    return begin_ns_ != 0 ? ProgramPhase::start_up : ProgramPhase::running;
}

void ProgramStart::show() noexcept {
    const Startup::Size size = startup_->size();
    StartupPhase phase = StartupPhase::none;
    switch (size.state) {
        case StartupState::none: break;
        case StartupState::recording: phase = StartupPhase::recording; break;
        case StartupState::complete:
            phase = o_.me->has_joined() ? StartupPhase::closed : StartupPhase::repeating;
            break;
        case StartupState::too_large: phase = StartupPhase::too_large; break;
        case StartupState::many_threads: phase = StartupPhase::many_threads; break;
    }
    o_.status->set_startup(phase, size.bytes);
    o_.status->publish(now_ns());
}

// What PE 0 reads from its standard input in its start-up is kept by oshrun, and given to a substitute again. Asked for
// by a line of its own: whatever comes by the other one is for the service thread. In a program that initialises the
// library again a substitute cannot be given what belongs to the later start-up alone, and gets none, as anything else.
void ProgramStart::take_input() noexcept {
    JobChannel line;
    line.set_rank(o_.self.value());
    if (o_.me->get() != PeId(0) || o_.life != 1 || !o_.channel->is_connected() || !line.connect(o_.job_socket)) {
        return;
    }
    const bool is_substitute = o_.me->is_substitute();
    JobEvent event{.kind = JobEventKind::input_wanted, .pe = 0, .code = is_substitute ? 1 : 0};
    std::snprintf(event.text, sizeof event.text, "%s", file_identity(STDIN_FILENO).c_str());
    line.report(event);
    int input = -1;
    if (!line.await_answer(input) || input < 0) {
        return;  // that oshrun is gone is heard by the other line
    }
    const int flags = ::fcntl(STDIN_FILENO, F_GETFL);
    if (!is_substitute && flags >= 0 && (flags & O_NONBLOCK) != 0) {
        static_cast<void>(::fcntl(input, F_SETFL, O_NONBLOCK));
    }
    if (input == STDIN_FILENO) {  // it was closed
        static_cast<void>(::fcntl(input, F_SETFD, 0));
        return;
    }
    static_cast<void>(::dup2(input, STDIN_FILENO));
    static_cast<void>(::close(input));
}

void ProgramStart::close() noexcept {
    if (startup_ == nullptr || !startup_->is_recording()) {
        return;
    }
    startup_->close_record();
    show();
    fault_point(FaultPoint::record_close);
}

// The marks are of no use any more, and their pages go.
void ProgramStart::end(Version version) noexcept {
    if (begin_ns_ != 0) {
        o_.report_span("start-up", std::exchange(begin_ns_, 0), version.value());
    }
    o_.phase_changed();
    if (startup_ == nullptr) {
        return;
    }
    if (o_.network != nullptr) {
        o_.network->set_marks({});
    }
    show();
    if (!o_.me->is_substitute() && o_.me->get() == PeId(0) && o_.life == 1) {
        o_.channel->report({.kind = JobEventKind::start_up_over, .pe = 0, .begin_ns = now_ns()});
    }
    o_.engine->startup = nullptr;
    attach_engine(o_.engine);
    startup_.reset();
    o_.memory->end_startup();
}

}  // namespace sft
