// What the program does itself when a version is made or gone back to, for state that lies outside of its memory. The
// order is that of pthread_atfork: what was registered last is saved first and restored last, because it may rest on
// what was there before.
//
// Threads: any. No lock is held while a handler runs.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "base/fault_action.hpp"
#include "base/ids.hpp"
#include "base/mutex.hpp"

namespace sft {

class VersionHandlers {
public:
    // False: null, or no memory is left.
    [[nodiscard]] bool add(VersionHandler handler, void* context) noexcept SFT_EXCLUDES(mutex_);
    [[nodiscard]] bool is_empty() const noexcept { return !has_any_.load(std::memory_order_acquire); }
    // Calls all of them, up to the first that does not return 0. What that one has returned; 0: all is well.
    [[nodiscard]] int call(VersionEvent event, Version version) const SFT_EXCLUDES(mutex_);

private:
    struct Entry {
        VersionHandler handler;
        void* context;
    };
    [[nodiscard]] std::size_t size() const SFT_EXCLUDES(mutex_);
    [[nodiscard]] Entry at(std::size_t i) const SFT_EXCLUDES(mutex_);

    mutable Mutex mutex_{MutexRank::handlers};
    std::vector<Entry> entries_ SFT_GUARDED_BY(mutex_);
    std::atomic<bool> has_any_{false};
};

}  // namespace sft
