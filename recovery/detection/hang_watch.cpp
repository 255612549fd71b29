#include "recovery/detection/hang_watch.hpp"

#include "base/assert.hpp"
#include "base/poll_timeout.hpp"

namespace sft {

HangWatch::HangWatch(const Options& options, std::int64_t now_ns)
    : control_(options.control),
      heartbeat_(options.heartbeat),
      self_(options.self),
      bound_ns_(options.bound_ns),
      period_ns_(options.bound_ns / kTicksPerBound),
      began_ns_(now_ns),
      last_tick_ns_(now_ns),
      detector_({.self = options.self,
                 .n_processes = options.control->n_slots(),
                 .period_ns = period_ns_,
                 .bound_ns = options.bound_ns}),
      last_seen_(static_cast<std::size_t>(options.control->n_slots())) {
    SFT_ASSERT(bound_ns_ == 0 || period_ns_ > 0);
    SFT_ASSERT(self_.value() >= 0 && self_.value() < control_->n_slots());
    heartbeat_->begin();
    // The own node is that of the segment: the map does not know a process that has joined.
    const NodeId here(control_->header().node);
    for (std::int32_t process = 0; options.nodes != nullptr && process < options.control->n_processes(); ++process) {
        if (options.nodes->node_of(ProcId(process)) != here) {
            elsewhere_.push_back({ProcId(process), {}, true});
        }
    }
}

int HangWatch::timeout_ms(std::int64_t now_ns) const noexcept {
    return bound_ns_ == 0 ? kNoTimeout : ms_until(last_tick_ns_ + period_ns_, now_ns);
}

void HangWatch::tick(std::span<const Death> dead, std::int64_t now_ns, const std::function<void(ProcId)>& kill) {
    SFT_ASSERT(now_ns >= last_tick_ns_);
    if (bound_ns_ == 0 || now_ns - last_tick_ns_ < period_ns_) {
        return;
    }
    const bool has_been_away = now_ns - last_tick_ns_ > 2 * period_ns_;
    last_tick_ns_ = now_ns;
    heartbeat_->beat();
    // Who is on another node, and slots that no joined spare of this node has taken, are left out of the ring like the
    // dead.
    std::vector<Death> absent = elsewhere_;
    for (const Death& death : dead) {
        insert_sorted(absent, death);
    }
    for (std::int32_t process = control_->n_processes(); process < control_->n_slots(); ++process) {
        if (control_->slot(ProcId(process)).state.load() == ProcessState::starting) {
            insert_sorted(absent, {ProcId(process), {}, true});
        }
    }
    detector_.update(absent, kNoProc, now_ns);
    for (const ProcId process : detector_.watched()) {
        SFT_ASSERT(process != self_ && process.index() < last_seen_.size());
        SFT_ASSERT_SLOW(!contains(elsewhere_, process));  // nobody's word is read across nodes
        const ProcessSlot& slot = control_->slot(process);
        const std::uint32_t heartbeat = slot.heartbeat.load();
        const bool is_starting = heartbeat == 0 && now_ns - began_ns_ < kStartBounds * bound_ns_;
        if (heartbeat != last_seen_[process.index()] || slot.state.load() != ProcessState::ready || is_starting) {
            last_seen_[process.index()] = heartbeat;
            detector_.heard(process, now_ns);
        }
    }
    if (has_been_away) {
        detector_.forgive(now_ns);
    }
    for (const ProcId suspect : detector_.suspects(now_ns)) {
        if (is_traced(control_->slot(suspect).pid)) {
            detector_.heard(suspect, now_ns);
            continue;
        }
        SFT_ASSERT(suspect != self_);
        control_->slot(suspect).is_hung.store(1);
        kill(suspect);
    }
}

}  // namespace sft
