// A spare that comes while the job runs (oshrun --join): it meets the others through the control segment of one of them
// instead of through the launcher, and then asks them to count it among the spares.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/clock.hpp"
#include "base/process_watch.hpp"
#include "base/report.hpp"
#include "shmem_ft/process/runtime.hpp"

namespace sft {

// REQUIRES: oshrun gives every number to one process only.
bool Runtime::join_running_job(std::string& error) {
    int pid = 0;
    int descriptor = 0;
    if (std::sscanf(config_.join.c_str(), "%d:%d", &pid, &descriptor) != 2) {
        error = format("SHMEM_FT_JOIN=%s: not PID:DESCRIPTOR", config_.join.c_str());
        return false;
    }
    if (!control_.attach(pid, process_start_time(pid), descriptor, error)) {
        return false;
    }
    // oshrun has only the number of the process, which may by now be that of another one, with a segment of another
    // job.
    bool is_of_process = false;
    for (std::int32_t process = 0; process < control_.n_slots(); ++process) {
        const ProcessSlot& slot = control_.slot(ProcId(process));
        is_of_process = is_of_process || (slot.pid == pid && slot.start_time == process_start_time(pid));
    }
    if (!is_of_process) {
        error = format("SHMEM_FT_JOIN=%s: the process with that pid is not of the job whose segment it has open",
                       config_.join.c_str());
        return false;
    }
    const ProcId self(Bootstrap::rank_by_environment());
    if (self.value() < control_.n_processes() || self.value() >= control_.n_slots()) {
        error = format("process %d cannot join: the job has room for %d processes that join", self.value(), kJoinSlots);
        return false;
    }
    bootstrap_.join_existing(self, control_.n_processes(), control_.header().n_nodes == 1);
    JobCard first;
    std::memcpy(&first, control_.header().card, sizeof first);
    if (!create_memory(error) ||
        !holds(compare_cards(own_card(config_, memory_.live().heap, memory_.live().globals), first, self), error) ||
        !holds(protector_.create(config_.backup_mode, control_.n_pes()), error) ||
        (!bootstrap_.is_one_node() && !holds(links_.read_nodes(), error)) || !open_links(first, error)) {
        return false;
    }
    if (!await_turn(error) || !publish_slot(error)) {
        return false;
    }
    if (bootstrap_.is_one_node()) {
        read_domains();
    } else {
        if (config_.port_guard != PortGuard::none) {
            links_.admit_nodes();
        }
        const Contact own = links_.own_contact();
        control_.set_contact(self, own);
        mailbox_.introduce_self(own);
    }
    return true;
}

// Several may come at once. Spares join in the order of their numbers (agreement.hpp), and oshrun knows who of those
// below is still on its way: everything that takes long comes before this, and only what is left is done one after the
// other.
bool Runtime::await_turn(std::string& error) {
    JobEvent event;
    event.kind = JobEventKind::join_ready;
    channel_.report(event);
    if (channel_.is_connected() && !channel_.await_answer()) {
        error = "oshrun is gone";
        return false;
    }
    return true;
}

// Also those that have joined before: one of them may be leading.
void Runtime::ask_to_join() {
    std::vector<ProcId> everybody;
    for (std::int32_t process = 0; process < control_.n_slots(); ++process) {
        const bool is_ready = control_.slot(ProcId(process)).state.load() == ProcessState::ready;
        const bool is_elsewhere = is_remote(ProcId(process)) && control_.contact(ProcId(process)) != nullptr;
        if ((is_ready || is_elsewhere) && ProcId(process) != self()) {
            everybody.emplace_back(process);
        }
    }
    coordinator_->request_join(std::move(everybody), NodeId(control_.header().node));
    // oshrun lets the next one in when this one is counted in.
    coordinator_->wait_until([this](const JobState& now) { return has_joined(now, self()) || is_over(now); });
}

}  // namespace sft
