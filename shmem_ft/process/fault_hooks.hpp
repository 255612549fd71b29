// Who this process is for a schedule of faults, and what the faults other than deaths do to it
// (base/faults/fault_points.hpp). One object of a process at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "backup/protector.hpp"
#include "base/faults/fault_points.hpp"
#include "base/ids.hpp"
#include "base/own_pe.hpp"
#include "recovery/coordinator.hpp"
#include "symheap/symmetric_memory.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class FaultHooks {
public:
    struct Options {
        const ControlSegment* control = nullptr;
        Coordinator* coordinator = nullptr;
        Protector* protector = nullptr;
        const SymmetricMemory* memory = nullptr;
        ProcId self = kNoProc;
        const OwnPe* me = nullptr;
        std::function<ProgramPhase()> phase = {};
        std::function<void()> wake_service = {};
        bool has_network = false;
    };
    FaultHooks() = default;
    ~FaultHooks();
    FaultHooks(const FaultHooks&) = delete;
    FaultHooks& operator=(const FaultHooks&) = delete;

    void open(Options options) noexcept { o_ = std::move(options); }
    // Once there is a coordinator, and again when this process has become a PE or its phase has changed.
    void introduce_self();
    // By the service thread, when it has been woken: what cannot be done at its fault point, where messages are sent
    // and received, because the lock of those is held there.
    void carry_out() noexcept;

private:
    [[nodiscard]] bool cut(FaultPoint where, std::int64_t duration_ms) noexcept;

    Options o_;
    std::atomic<std::int64_t> cut_end_ns_{0};  // 0: nothing is to be cut
};

}  // namespace sft
