// What a process does when a system call fails on it while everybody lives: a process of the job cannot be opened,
// there are no descriptors, a connection is lost.
//
// Fault model: any open, map, connect, send or receive may fail at any time, for this process alone, once or for ever.
// What fails says nothing about the process at the other end (base/process_watch.hpp): only the kernel's word about
// that one does, by its pidfd, its port, or its start time. So there are three ends: it works when tried again; the
// other one turns out to be dead, and the death is decided about; or, within a bound, the job ends with a line that
// names what failed. To end it takes messages, which may be what fails: then this process leaves alone, and its end
// tells the others.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/report.hpp"
#include "shmem_ft/process/runtime.hpp"

namespace sft {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kUntilHeardNs = 60'000 * kNsPerMs;  // of one that is gone for certain
constexpr std::int64_t kUntilEndedNs = 10'000 * kNsPerMs;

}  // namespace

// What could not be opened at `process`. If that has died, its death will be decided about. If it has not, nobody would
// decide anything, so this process has to say what is wrong.
Duties::Done Runtime::must_be_gone(ProcId process, Reach reach, const Trouble& trouble) noexcept {
    const bool is_own_lack = reach == Reach::cannot_be_opened && is_lack(trouble.error);
    const std::int64_t patience_ns = reach == Reach::gone ? kUntilHeardNs : FailureService::kUntilGoneNs;
    if (is_own_lack || !coordinator_->await_death(process, now_ns() + patience_ns)) {
        const bool is_far = is_remote(process);
        fail_job(format("PE %d cannot reach the memory of process %d%s, which lives: %s", me_.load().value(),
                        process.value(), is_far ? " on another node" : "", trouble.what.c_str()));
    }
    return Done::source_gone;
}

// ---- the memory of peers ----

// REQUIRES: the holder is on this node.
Reach Runtime::show_memory(PeId pe, ProcId holder, Trouble& trouble) {
    const ProcessSlot& slot = control_.slot(holder);
    struct Part {
        const char* name;
        int fd;
        Window& window;
    };
    const Part parts[] = {{"heap", slot.heap_fd, heap_windows_[pe.index()]},
                          {"globals", slot.globals_fd, globals_windows_[pe.index()]}};
    const std::size_t n_parts = live_.globals.bytes != 0 ? 2 : 1;
    for (std::size_t i = 0; i < n_parts; ++i) {
        const Part& part = parts[i];
        const Opening opening = open_descriptor_of(slot.pid, slot.start_time, part.fd);
        if (opening.reach != Reach::opened) {
            trouble = {format("cannot open the %s of process %d (pid %d): %s", part.name, holder.value(), slot.pid,
                              opening.reach == Reach::gone ? "it is gone" : describe_error(opening.error).c_str()),
                       opening.error};
            return opening.reach;
        }
        std::string error;
        const bool is_shown = part.window.show(opening.fd, 0, error);
        const int problem = errno;
        ::close(opening.fd);
        if (!is_shown) {
            trouble = {format("the %s of process %d: %s", part.name, holder.value(), error.c_str()), problem};
            return Reach::cannot_be_opened;
        }
    }
    return Reach::opened;
}

Reach Runtime::map_peer(PeId pe, ProcId holder, Trouble& trouble) {
    PeerEntry& entry = entries_[pe.index()];
    if (pe == me_) {
        entry.heap_difference.store(0);
        entry.globals_difference.store(0);
        return Reach::opened;
    }
    if (is_remote(holder)) {
        mapped_holder_[pe.index()] = holder;
        entry.globals_difference.store(kRemote);
        entry.heap_difference.store(kRemote);
        network_->set_holder(pe, holder);
        return Reach::opened;
    }
    if (network_ != nullptr) {
        network_->set_holder(pe, kNoProc);
    }
    if (const Reach reach = show_memory(pe, holder, trouble); reach != Reach::opened) {
        return reach;
    }
    mapped_holder_[pe.index()] = holder;
    entry.globals_difference.store(reinterpret_cast<std::intptr_t>(globals_windows_[pe.index()].address()) -
                                   static_cast<std::intptr_t>(live_.globals.begin));
    entry.heap_difference.store(reinterpret_cast<std::intptr_t>(heap_windows_[pe.index()].address()) -
                                static_cast<std::intptr_t>(live_.heap.begin));
    return Reach::opened;
}

// In the order of the PEs, until one cannot be reached.
Runtime::ClosedPeer Runtime::show_new_holders(const JobState& state) {
    const JobShape& shape = coordinator_->shape();
    const Locked lock(view_mutex_);
    for (std::int32_t i = 0; i < shape.n_pes; ++i) {
        ClosedPeer found;
        found.process = shape.holder(state, PeId(i));
        if (mapped_holder_[PeId(i).index()] != found.process) {
            found.reach = map_peer(PeId(i), found.process, found.trouble);
        }
        if (found.reach != Reach::opened) {
            return found;
        }
    }
    return {};
}

// At the start. Of a peer that is gone the service thread will know in a moment.
bool Runtime::map_peers(std::string& error) {
    const JobShape& shape = coordinator_->shape();
    const JobState state = coordinator_->state();
    for (std::int32_t pe = 0; pe < shape.n_pes; ++pe) {
        Trouble trouble;
        const Locked lock(view_mutex_);
        if (map_peer(PeId(pe), shape.holder(state, PeId(pe)), trouble) == Reach::cannot_be_opened) {
            error = format("PE %d cannot map the memory of PE %d: %s", me_.load().value(), pe, trouble.what.c_str());
            return false;
        }
    }
    return true;
}

// ---- an end without help ----

// The others do not hear, or do not decide: they will hear of the end of this process, for which it waits for nobody.
void Runtime::leave_alone() noexcept {
    flush_output();
    ::_exit(kExitError);
}

void Runtime::fail_job(const std::string& line, EndReason reason) noexcept {
    note_last_line(line);
    if (channel_.is_connected()) {
        tell_end(line);  // before anybody can end because of it
    }
    service_->release_reserve();
    coordinator_->request_end(reason, kExitError);
    if (!coordinator_->await_end(now_ns() + kUntilEndedNs)) {
        say("error: %s", line.c_str());
        leave_alone();
    }
    leave_ended_job();
}

// The same by the service thread, which must go on to hear what follows: decided() ends the process.
void Runtime::end_by_service(const std::string& line) noexcept {
    if (leave_by_ns_ != 0) {
        return;
    }
    leave_by_ns_ = now_ns() + kUntilEndedNs;
    note_last_line(line);
    if (channel_.is_connected()) {
        tell_end(line);
    }
    service_->release_reserve();
    coordinator_->request_end(EndReason::requested, kExitError);
}

}  // namespace sft
