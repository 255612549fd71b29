// A fault that is not repaired: after ten seconds somebody should be told, since a program that spins in a loop which
// no call ends, or that never comes to its checkpoint, shows nothing at all from outside.
//
// The service thread asks for the time; the threads of the program leave traces of where they are, on paths that are
// taken while a fault is pending only, or that take milliseconds anyway.
//
// Thread safety: tick and timeout_ms by one thread; everything else by any thread at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace sft {

inline constexpr std::int64_t kPendingToldNs = 10'000'000'000;

class PendingWatch {
public:
    // True once for each fault, when it has been pending for kPendingToldNs.
    [[nodiscard]] bool tick(bool is_pending, std::int64_t now_ns) noexcept;
    // Until tick() should be called again; -1: when something happens.
    [[nodiscard]] int timeout_ms(std::int64_t now_ns) const noexcept;

    // A call has met the fault and goes back to the program. `routine` lives for ever.
    void met(const char* routine) noexcept {
        last_met_.store(routine, std::memory_order_relaxed);
        n_met_.fetch_add(1, std::memory_order_relaxed);
    }

    // While it lives, this PE is in a call that waits for all PEs although a fault is pending.
    class Inside {
    public:
        Inside(PendingWatch& watch, const char* routine) noexcept : watch_(watch) { watch_.inside_.store(routine); }
        ~Inside() { watch_.inside_.store(nullptr); }
        Inside(const Inside&) = delete;
        Inside& operator=(const Inside&) = delete;

    private:
        PendingWatch& watch_;
    };

    // Where this PE stands, in words.
    [[nodiscard]] std::string where() const;
    // The fault is over.
    void clear() noexcept {
        last_met_.store(nullptr);
        n_met_.store(0);
        is_over_.store(true);
    }

private:
    std::int64_t since_ns_ = 0;  // 0: nothing is pending
    bool is_told_ = false;
    std::atomic<bool> is_over_{false};  // the one that was timed; the next may be pending already
    std::atomic<const char*> inside_{nullptr};
    std::atomic<const char*> last_met_{nullptr};
    std::atomic<std::uint64_t> n_met_{0};
};

}  // namespace sft
