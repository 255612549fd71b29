#include "backup/scrubber.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "base/assert.hpp"
#include "base/report.hpp"

namespace sft {

bool Scrubber::start(BackupStore& store, const LiveState& live, const Config& config) {
    return config.scrub_seconds == 0 ||
           start(store, live, Pace{std::chrono::seconds(config.scrub_seconds), config.scrub_rate_bytes});
}

bool Scrubber::start(BackupStore& store, const LiveState& live, Pace pace) {
    SFT_ASSERT(!thread_.joinable() && pace.bytes_per_second > 0);
    // Signals are the application's business: its threads get them.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    {
        const Locked lock(mutex_);
        stop_ = false;
    }
    try {
        thread_ = std::thread([this, &store, &live, pace] { run(store, live, pace); });
    } catch (const std::system_error&) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread_.joinable();
}

void Scrubber::stop() noexcept {
    if (!thread_.joinable()) {
        return;
    }
    {
        const Locked lock(mutex_);
        stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
}

void Scrubber::await_passes(std::uint64_t count) const {
    const Locked lock(mutex_);
    const std::uint64_t end = passes_.load() + count;
    while (passes_.load() < end) {
        passed_.wait(mutex_);
    }
}

bool Scrubber::nap(std::chrono::nanoseconds duration) {
    const Locked lock(mutex_);
    const auto end = std::chrono::steady_clock::now() + duration;
    while (!stop_) {
        if (!wake_.wait_until(mutex_, end)) {
            return !stop_;
        }
    }
    return false;
}

void Scrubber::run(BackupStore& store, const LiveState& live, Pace pace) {
    // Not SCHED_IDLE: on a busy machine such a thread might get no time at all while it holds the store's mutex.
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);
    while (nap(pace.between_passes)) {
        pass(store, live, pace.bytes_per_second);
    }
}

void Scrubber::pass(BackupStore& store, const LiveState& live, std::uint64_t bytes_per_second) {
    using std::chrono::nanoseconds;
    constexpr double kBatchBytes = 2.0 * kBatchBlocks * kBlockBytes;
    const nanoseconds batch_time(static_cast<std::int64_t>(kBatchBytes * 1e9 / static_cast<double>(bytes_per_second)));
    const BackupStore::Counters before = store.counters();
    BackupStore::ScrubPlace place;
    for (;;) {
        const BackupStore::Scrubbed done = store.scrub(place, kBatchBlocks, live);
        if (done == BackupStore::Scrubbed::end) {
            break;
        }
        const nanoseconds busy = std::chrono::milliseconds(1);  // a checkpoint takes longer than that
        if (!nap(done == BackupStore::Scrubbed::busy ? std::max(batch_time, busy) : batch_time)) {
            return;
        }
    }
    const BackupStore::Counters after = store.counters();
    SFT_ASSERT(after.bad >= before.bad && after.repaired >= before.repaired);
    SFT_ASSERT(after.checked >= before.checked);
    if (after.bad - before.bad > after.repaired - before.repaired) {
        say("warning: %s; the next checkpoints replace it, but until then a failure may not be recoverable",
            store.explanation().c_str());
    }
    passes_.fetch_add(1);
    const Locked lock(mutex_);
    passed_.notify_all();
}

}  // namespace sft
