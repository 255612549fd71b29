// A mutex that knows its place: mutexes are taken in the order of their ranks, so nobody waits for himself or in a
// circle. The compiler says so where it can (Clang, -Wthread-safety: SFT_EXCLUDES and SFT_REQUIRES at functions), and
// each lock() looks: a thread that breaks the order aborts with a line. Its death is recovered like any other, while
// a thread that waits for itself would hold up the job for ever. They are for what happens rarely: a look costs a few
// instructions.
#pragma once

#include <cstdint>
#include <mutex>

#if defined(__clang__)
#define SFT_THREAD_SAFETY(x) __attribute__((x))
#else
#define SFT_THREAD_SAFETY(x)
#endif
#define SFT_EXCLUDES(...) SFT_THREAD_SAFETY(locks_excluded(__VA_ARGS__))       // the caller does not hold it
#define SFT_REQUIRES(...) SFT_THREAD_SAFETY(requires_capability(__VA_ARGS__))  // the caller holds it
#define SFT_GUARDED_BY(x) SFT_THREAD_SAFETY(guarded_by(x))

namespace sft {

// From the one that is taken first to the one that is taken last. The coordinator's own mutex comes behind all of them.
enum class MutexRank : std::uint8_t { calls, view, peers, list, waiting, status, told, ending };

class SFT_THREAD_SAFETY(capability("mutex")) Mutex {
public:
    explicit Mutex(MutexRank rank) noexcept : bit_(1U << static_cast<unsigned>(rank)) {}
    Mutex(const Mutex&) = delete;
    Mutex& operator=(const Mutex&) = delete;

    void lock() noexcept SFT_THREAD_SAFETY(acquire_capability());
    void unlock() noexcept SFT_THREAD_SAFETY(release_capability());

private:
    std::mutex mutex_;
    std::uint32_t bit_;
};

// Holds it until its own end, or from lock() to unlock().
class SFT_THREAD_SAFETY(scoped_lockable) Locked {
public:
    explicit Locked(Mutex& mutex) noexcept SFT_THREAD_SAFETY(acquire_capability(mutex)) : mutex_(mutex) {
        mutex_.lock();
    }
    ~Locked() SFT_THREAD_SAFETY(release_capability()) {
        if (is_held_) {
            mutex_.unlock();
        }
    }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

    void unlock() noexcept SFT_THREAD_SAFETY(release_capability()) {
        is_held_ = false;
        mutex_.unlock();
    }
    void lock() noexcept SFT_THREAD_SAFETY(acquire_capability()) {
        mutex_.lock();
        is_held_ = true;
    }

private:
    Mutex& mutex_;
    bool is_held_ = true;
};

}  // namespace sft
