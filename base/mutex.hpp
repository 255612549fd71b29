// A mutex that knows its place: mutexes are taken in the order of their ranks, so nobody waits for himself or in a
// circle. Clang checks at compile time what is annotated (-Wthread-safety, an error): which data a mutex guards, which
// functions need it or must not hold it. The order is checked when a mutex is taken, for some ranks in every build and
// for all of them in builds with slow assertions (base/assert.hpp): a thread that breaks it ends the job with a
// line, while one that waits for itself would hold it up for ever.
//
// A lambda is a function of its own for Clang: where one is called with the mutex held, it begins with assert_held().
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/assert.hpp"

#if defined(__clang__)
#define SFT_THREAD_SAFETY(x) __attribute__((x))
#else
#define SFT_THREAD_SAFETY(x)
#endif
#define SFT_EXCLUDES(...) SFT_THREAD_SAFETY(locks_excluded(__VA_ARGS__))       // the caller does not hold it
#define SFT_REQUIRES(...) SFT_THREAD_SAFETY(requires_capability(__VA_ARGS__))  // the caller holds it
#define SFT_ACQUIRES(...) SFT_THREAD_SAFETY(acquire_capability(__VA_ARGS__))   // the caller holds it afterwards
#define SFT_GUARDED_BY(x) SFT_THREAD_SAFETY(guarded_by(x))

namespace sft {

// From the one that is taken first to the one that is taken last.
enum class MutexRank : std::uint8_t {
    start_watch,  // StartWatch: held while the process is ended because a start takes too long
    calls,        // Runtime: one collective call of fault tolerance at a time
    blocks,       // BlockTable: held while a wrong call ends the job
    checks,       // Checker: held while a wrong call ends the job
    peers,        // PeerMap
    handlers,     // VersionHandlers
    list,         // FaultPolicy
    waiting,      // SpareWait
    status,       // StatusPublisher
    events,       // FailureEvents: held while the service notes what the launcher says
    told,         // FailureService
    ending,       // JobExit
    scrubber,     // Scrubber
    idle,         // IdleThread
    store,        // BackupStore: the copies; fault points among them
    drain,        // Drain's thread, which is woken while the copies are held
    coordinator,  // Coordinator: state machines and mailbox
    network,      // Network
    parity,       // ParityPlace: what processes of this node fold, the network's threads among them
    ways,         // signed_ways.cpp: inside of a fabric, which calls connect()
    snapshot,     // Coordinator: for a copy; anybody may ask, fault points among them
    arrays,       // Storage: files are read while it is held
    fault_lab,    // fault_points.cpp: fault points may be anywhere
    tool,         // programs in tools/: each is held alone
};
inline constexpr unsigned kMutexRanks = static_cast<unsigned>(MutexRank::tool) + 1;

// Whether mutexes of this rank look at the order in every build. The others are taken for each message or each
// operation on another node.
[[nodiscard]] constexpr bool is_rank_checked(MutexRank rank) noexcept {
    switch (rank) {
        case MutexRank::calls:
        case MutexRank::peers:
        case MutexRank::list:
        case MutexRank::waiting:
        case MutexRank::ending:
        case MutexRank::status:
        case MutexRank::told: return true;
        default: return SFT_SLOW_ASSERTIONS != 0;
    }
}

class SFT_THREAD_SAFETY(capability("mutex")) Mutex {
public:
    constexpr explicit Mutex(MutexRank rank) noexcept
        : bit_(is_rank_checked(rank) ? 1U << static_cast<unsigned>(rank) : 0) {}
    Mutex(const Mutex&) = delete;
    Mutex& operator=(const Mutex&) = delete;

    void lock() noexcept SFT_ACQUIRES() {
        if (bit_ != 0) {
            check_order();
        }
        mutex_.lock();
        note_taken();
    }
    // Waits for nobody, so it may be called with any other mutex held.
    [[nodiscard]] bool try_lock() noexcept SFT_THREAD_SAFETY(try_acquire_capability(true)) {
        const bool is_taken = mutex_.try_lock();
        if (is_taken) {
            note_taken();
        }
        return is_taken;
    }
    void unlock() noexcept SFT_THREAD_SAFETY(release_capability()) {
        if (bit_ != 0) {
            note_left();
        }
        mutex_.unlock();
    }
    // Ends the process if this thread does not hold it; looks only where the order is checked.
    void assert_held() const noexcept SFT_THREAD_SAFETY(assert_capability(this)) {
        if (bit_ != 0) {
            check_held();
        }
    }

private:
    friend class Condition;

    void note_taken() noexcept {
        if (bit_ != 0) {
            note_held();
        }
    }
    void check_order() const noexcept;
    void check_held() const noexcept;
    void note_held() const noexcept;
    void note_left() const noexcept;

    std::mutex mutex_;
    const std::uint32_t bit_;  // 0: not checked
};

struct AdoptMutex {};

// Holds it until its own end, or from lock() to unlock().
class SFT_THREAD_SAFETY(scoped_lockable) Locked {
public:
    explicit Locked(Mutex& mutex) noexcept SFT_ACQUIRES(mutex) : mutex_(mutex) { mutex_.lock(); }
    // One that this thread has taken by try_lock().
    Locked(Mutex& mutex, AdoptMutex) noexcept SFT_REQUIRES(mutex) : mutex_(mutex) { mutex_.assert_held(); }
    ~Locked() SFT_THREAD_SAFETY(release_capability()) {
        if (is_held_) {
            mutex_.unlock();
        }
    }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

    void unlock() noexcept SFT_THREAD_SAFETY(release_capability()) {
        SFT_ASSERT(is_held_);
        is_held_ = false;
        mutex_.unlock();
    }
    void lock() noexcept SFT_ACQUIRES() {
        SFT_ASSERT(!is_held_);
        mutex_.lock();
        is_held_ = true;
    }

private:
    Mutex& mutex_;
    bool is_held_ = true;
};

// What threads wait for with a mutex held. They may wake up for nothing, so a wait stands in a loop: with a predicate
// Clang could not see that the mutex is held where it is looked at.
class Condition {
public:
    void wait(Mutex& mutex) SFT_REQUIRES(mutex) {
        mutex.assert_held();
        std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
        condition_.wait(lock);
        static_cast<void>(lock.release());
    }
    // False: that time has come.
    [[nodiscard]] bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point end) SFT_REQUIRES(mutex) {
        mutex.assert_held();
        std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
        const bool is_in_time = condition_.wait_until(lock, end) == std::cv_status::no_timeout;
        static_cast<void>(lock.release());
        return is_in_time;
    }
    void notify_one() noexcept { condition_.notify_one(); }
    void notify_all() noexcept { condition_.notify_all(); }

private:
    std::condition_variable condition_;
};

}  // namespace sft
