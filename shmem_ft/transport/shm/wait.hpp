// How a thread of a PE waits: spin briefly, give up the processor to others, then sleep.
//
// Two ways. block_until: whoever makes the condition true rings the doorbell of this process afterwards, so the
// waiter may sleep in the kernel. poll_until: the condition is changed by plain stores of other processes (puts,
// AMOs) that ring no bell, so the waiter yields and then naps for bounded, growing times.
//
// Fault rule: both return false as soon as a fault is pending (unless the condition already holds); no wait is
// longer than the detection of a death, because the service thread rings the own doorbell when it learns of one.
#pragma once

#include <atomic>
#include <cstdint>

namespace sft {

// A futex word in shared memory, one per process.
struct alignas(64) Doorbell {
    std::atomic<std::uint32_t> sleepers;  // threads of the process that sleep or are about to
    std::atomic<std::uint32_t> rings;     // the futex word

    void ring_if_sleeping() noexcept {
        if (sleepers.load(std::memory_order_seq_cst) != 0) [[unlikely]] {
            ring();
        }
    }
    void ring() noexcept;
};
static_assert(sizeof(Doorbell) == 64);

// Process-private. pending is set by the service thread when a PE is known dead, and cleared when a recovery is
// complete. A substitute starts with it set: until it has joined the survivors nothing may block or move data.
struct FaultGate {
    std::atomic<bool> pending{false};

    [[nodiscard]] bool is_pending() const noexcept { return pending.load(std::memory_order_relaxed); }
};

// The same on all PEs of a node.
struct WaitStyle {
    std::uint32_t spins = 0;
    // Going to sleep and being woken costs several switches of processes. Where there are more PEs than processors, the
    // one that is waited for most likely comes next when the processor is given up. Too many of them keep those that
    // have something to do waiting for those that only look.
    std::uint32_t yields = 0;
};

class Waiter {
public:
    Waiter() = default;
    Waiter(Doorbell* own, const FaultGate* gate, WaitStyle style) noexcept : own_(own), gate_(gate), style_(style) {}

    template <class Condition>
    bool block_until(Condition&& condition) noexcept {
        for (std::uint32_t i = 0; i < style_.spins; ++i) {
            if (condition()) {
                return true;
            }
            pause();
        }
        for (std::uint32_t i = 0; i < style_.yields && !gate_->is_pending(); ++i) {
            if (condition()) {
                return true;
            }
            yield();
        }
        while (!condition()) {
            if (gate_->is_pending()) {
                return condition();
            }
            Sleep sleep(own_);
            // Checked again after the sleeping flag is visible: a ring between the two is not lost.
            if (condition()) {
                return true;
            }
            if (!gate_->is_pending()) {
                sleep.wait();
            }
        }
        return true;
    }

    template <class Condition>
    bool poll_until(Condition&& condition) noexcept {
        for (std::uint32_t i = 0; i < style_.spins; ++i) {
            if (condition()) {
                return true;
            }
            pause();
        }
        for (std::uint32_t turn = 0; !condition(); ++turn) {
            if (gate_->is_pending()) {
                return condition();
            }
            nap(turn);
        }
        return true;
    }

    // There are more PEs than processors. The same on all PEs of a node.
    [[nodiscard]] bool is_crowded() const noexcept { return style_.yields != 0; }

    [[nodiscard]] bool fault_pending() const noexcept { return gate_->is_pending(); }

private:
    class Sleep {
    public:
        explicit Sleep(Doorbell* bell) noexcept;
        ~Sleep();
        Sleep(const Sleep&) = delete;
        Sleep& operator=(const Sleep&) = delete;
        void wait() noexcept;

    private:
        Doorbell* bell_;
        std::uint32_t seen_;
    };

    static void pause() noexcept {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    static void yield() noexcept;
    static void nap(std::uint32_t turn) noexcept;

    Doorbell* own_ = nullptr;
    const FaultGate* gate_ = nullptr;
    WaitStyle style_;
};

}  // namespace sft
