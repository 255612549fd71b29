// How a thread of a PE waits: spin briefly, give up the processor to others, then sleep.
//
// Three ways. block_until: whoever makes the condition true rings the doorbell of this process afterwards, so the
// waiter may sleep in the kernel. poll_until: the condition is changed by plain stores of other processes (puts,
// AMOs) that ring no bell, so the waiter yields and then naps for bounded, growing times. receive_until: the condition
// looks for a message of another node; the bell is rung when one has come.
//
// In a job of several nodes the last two take in themselves what the network brings, as long as they spin: nobody has
// to be woken for it then. When they sleep the progress thread does it again (net/network.hpp).
//
// Fault rule: both return false as soon as a fault is pending (unless the condition already holds); no wait is
// longer than the detection of a death, because the service thread rings the own doorbell when it learns of one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"

namespace sft {

class Network;

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
static_assert(sizeof(Doorbell) == 64 && offsetof(Doorbell, rings) == 4);
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "the kernel sees a plain word (futex)");

// Process-private. pending is set by the service thread when a PE is known dead, and cleared when a recovery is
// complete. A substitute starts with it set: until it has joined the survivors nothing may block or move data.
//
// It also knows the network, in the same word: what a routine has to do besides while a fault is pending, or because
// there are other nodes, is one branch away from the path that most calls of most jobs take.
class FaultGate {
    static constexpr std::uint32_t kFault = 1;
    static constexpr std::uint32_t kNetwork = 2;

    struct Pending {
        void store(bool is_pending) noexcept {
            if (is_pending) {
                word.fetch_or(kFault);
            } else {
                word.fetch_and(~kFault);
            }
        }
        std::atomic<std::uint32_t> word{0};
    };

public:
    Pending pending;

    // Null: all PEs are on this node. REQUIRES: no thread is in a routine that looks for it.
    void set_network(Network* network) noexcept {
        network_ = network;
        if (network == nullptr) {
            pending.word.fetch_and(~kNetwork);
        } else {
            pending.word.fetch_or(kNetwork);
        }
    }
    [[nodiscard]] Network* network() const noexcept { return network_; }

    [[nodiscard]] bool is_pending() const noexcept {
        return (pending.word.load(std::memory_order_relaxed) & kFault) != 0;
    }
    // There is neither a fault nor a network.
    [[nodiscard]] bool is_plain() const noexcept { return pending.word.load(std::memory_order_relaxed) == 0; }

private:
    Network* network_ = nullptr;
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
            // Where something may come through the network, it is looked for from the beginning.
            if (i == 0 && gate_->network() != nullptr) [[unlikely]] {
                return wait_on_network(WaitEnd::nap, condition);
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

    // Where there is a network.
    template <class Condition>
    bool receive_until(Condition&& condition) noexcept {
        return wait_on_network(WaitEnd::sleep, condition);
    }

    // For a caller that looks again and again by itself: others may run. It yields, and sleeps for the shortest time
    // every few milliseconds, or when others did run at the last yield. Whoever never sleeps, beside threads of its
    // session that nap, can keep Linux 6.18 from running any other session for tens of seconds, other hosts' agents
    // among them (docs/cluster.md, "Limits").
    [[gnu::cold]] static void give_way() noexcept;

    // There are more PEs than processors. The same on all PEs of a node.
    [[nodiscard]] bool is_crowded() const noexcept { return style_.yields != 0; }

    [[nodiscard]] bool fault_pending() const noexcept { return gate_->is_pending(); }
    [[nodiscard]] Network* network() const noexcept { return gate_->network(); }

private:
    class Sleep {
    public:
        explicit Sleep(Doorbell* bell) noexcept;
        ~Sleep();
        Sleep(const Sleep&) = delete;
        Sleep& operator=(const Sleep&) = delete;
        void wait() noexcept;
        void wait_ns(long ns_max) noexcept;
        [[nodiscard]] bool is_rung() const noexcept;

    private:
        Doorbell* bell_;
        std::uint32_t seen_;
    };

    static void pause() noexcept {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    // What follows when spinning has not helped.
    enum class WaitEnd { nap, sleep };
    template <class Condition>
    bool wait_on_network(WaitEnd end, Condition& condition) noexcept {
        return wait_on_network(
            end, [](void* it) noexcept { return (*static_cast<Condition*>(it))(); }, &condition);
    }
    [[gnu::cold]] bool wait_on_network(WaitEnd end, bool (*holds)(void*) noexcept, void* condition) noexcept;

    [[nodiscard]] bool look_at_network(bool (*holds)(void*) noexcept, void* condition) noexcept;

    static void yield() noexcept;
    static void nap(std::uint32_t turn) noexcept;

    Doorbell* own_ = nullptr;
    const FaultGate* gate_ = nullptr;
    WaitStyle style_;
};

}  // namespace sft
