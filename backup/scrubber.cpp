#include "backup/scrubber.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/report.hpp"

namespace sft {

bool Scrubber::start(BackupStore& store, const LiveState& live, const Config& config) {
    return config.scrub_seconds == 0 ||
           start(store, live, Pace{std::chrono::seconds(config.scrub_seconds), config.scrub_rate_bytes});
}

bool Scrubber::start(BackupStore& store, const LiveState& live, Pace pace) {
    SFT_ASSERT(pace.bytes_per_second > 0);
    return thread_.start([this, &store, &live, pace] { run(store, live, pace); });
}

void Scrubber::await_passes(std::uint64_t count) const {
    const Locked lock(mutex_);
    const std::uint64_t end = passes_.load() + count;
    while (passes_.load() < end) {
        passed_.wait(mutex_);
    }
}

void Scrubber::run(BackupStore& store, const LiveState& live, Pace pace) {
    while (thread_.nap(pace.between_passes)) {
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
        if (!thread_.nap(done == BackupStore::Scrubbed::busy ? std::max(batch_time, busy) : batch_time)) {
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
