#include "shmem_ft/process/fault_hooks.hpp"

#include <cstdint>

#include "base/clock.hpp"
#include "base/faults/fault_points.hpp"
#include "recovery/membership/scheme.hpp"

namespace sft {

FaultHooks::~FaultHooks() {
    forget_fault_self();  // it points into this object
}

void FaultHooks::introduce_self() {
    FaultSelf self;
    self.process = o_.self;
    self.pe = o_.me->get();
    self.n_pes = o_.control->n_pes();
    self.n_processes = o_.control->n_processes();
    self.fired = &o_.control->header().faults_fired;
    self.context = this;
    self.leads = [](void* context) { return static_cast<FaultHooks*>(context)->o_.coordinator->leads(); };
    self.keeper = [](void* context, PeId pe) {
        const Coordinator& coordinator = *static_cast<FaultHooks*>(context)->o_.coordinator;
        return first_holder(sources_of(coordinator.shape(), coordinator.state(), pe));
    };
    self.incarnation = o_.control->incarnation_of(self.pe);
    self.phase = o_.phase();
    set_fault_self(self);
    FaultHook hook;
    hook.context = this;
    hook.flip = [](void* context, FaultCopy copy, std::uint64_t seed) {
        const Options& o = static_cast<FaultHooks*>(context)->o_;
        const auto which = copy == FaultCopy::local ? BackupStore::Copy::local : BackupStore::Copy::shadow;
        return !o.protector->store().flip_bit(which, seed, o.memory->live()).empty();
    };
    hook.cut = [](void* context, FaultPoint where, std::int64_t duration_ms) {
        return static_cast<FaultHooks*>(context)->cut(where, duration_ms);
    };
    set_fault_hook(hook);
}

bool FaultHooks::cut(FaultPoint where, std::int64_t duration_ms) noexcept {
    if (!o_.has_network) {
        return false;
    }
    const std::int64_t end_ns = duration_ms == kForEver ? INT64_MAX : now_ns() + duration_ms * kNsPerMs;
    if (where == FaultPoint::message_send || where == FaultPoint::message_receive) {
        cut_end_ns_.store(end_ns);
        o_.wake_service();
    } else {
        o_.coordinator->cut_until(end_ns);
    }
    return true;
}

void FaultHooks::carry_out() noexcept {
    if (const std::int64_t end_ns = cut_end_ns_.exchange(0); end_ns != 0) {
        o_.coordinator->cut_until(end_ns);
    }
}

}  // namespace sft
