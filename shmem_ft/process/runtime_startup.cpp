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
    status_->set_startup(StartupPhase::recording);
    engine_.startup = startup_.get();
    take_input();
}

void Runtime::repeat_startup() {
    if (!memory_.has_startup_record()) {
        return;
    }
    startup_ = std::make_unique<Startup>();
    startup_->begin_replay(engine_, startup_memory());
    status_->set_startup(StartupPhase::repeating);
    engine_.startup = startup_.get();
    take_input();
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
    const Startup::Size size = startup_->size();
    status_->set_startup(size.state == StartupState::too_large      ? StartupPhase::too_large
                         : size.state == StartupState::many_threads ? StartupPhase::many_threads
                                                                    : StartupPhase::closed,
                         size.bytes);
}

// The first version is committed, or this substitute has joined: from here on calls go the short way. The marks are of
// no use any more, and their pages go.
void Runtime::end_startup() noexcept {
    if (startup_ == nullptr) {
        return;
    }
    if (links_.network() != nullptr) {
        links_.network()->set_marks({});
    }
    if (status_->startup() == StartupPhase::repeating) {
        status_->set_startup(StartupPhase::closed);
    } else if (me_ == PeId(0) && life_ == 1) {
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
