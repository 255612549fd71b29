// When a PE may begin to write its file if only so many nodes write at once (SHMEM_FT_STORE_NODES): when those are
// there of the PEs of another node, which comes so many places before its own.
//
// Whoever waits keeps what changes meanwhile, as whoever writes does. No other version is begun while somebody waits,
// but when a PE could not write its file: then this version cannot become complete, and nobody waits for it any more.
// To decide about that all PEs are asked; between question and answer a PE that waits does not begin to write (hold).
//
// Fault model: who is waited for may fail to write its file, or die. Its substitute writes it, and does not wait, if it
// comes to that version; since it may have come too late, everybody who waits gives up in a recovery.
//
// Threads: the calls come from that of the collective calls; awaited(), take() and end() from the one that writes.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/ids.hpp"
#include "base/mutex.hpp"

namespace sft {

class StoreTurn {
public:
    // The version is to be written as soon as the files of these are there.
    void begin(Version version, std::vector<PeId> before) SFT_EXCLUDES(mutex_) {
        const Locked lock(mutex_);
        version_ = version;
        stage_ = before.empty() ? Stage::given : Stage::awaited;
        before_ = std::move(before);
        ++ticket_;
    }
    // True: this PE waits, and its turn does not come before release().
    [[nodiscard]] bool hold() SFT_EXCLUDES(mutex_) {
        const Locked lock(mutex_);
        stage_ = stage_ == Stage::awaited ? Stage::held : stage_;
        return stage_ == Stage::held;
    }
    void release() SFT_EXCLUDES(mutex_) {
        const Locked lock(mutex_);
        stage_ = stage_ == Stage::held ? Stage::awaited : stage_;
    }
    // It waits no more, and is not going to write that version. REQUIRES: hold() was true.
    void drop() SFT_EXCLUDES(mutex_) {
        const Locked lock(mutex_);
        SFT_ASSERT(stage_ == Stage::held);
        stage_ = Stage::none;
        ++ticket_;
    }

    struct Awaited {
        std::uint64_t ticket = 0;
        Version version = kNoVersion;
        std::vector<PeId> before;  // none: its turn has come
    };
    // Nothing: there is no version to be written.
    [[nodiscard]] std::optional<Awaited> awaited() const SFT_EXCLUDES(mutex_) {
        const Locked lock(mutex_);
        if (stage_ == Stage::none) {
            return std::nullopt;
        }
        return Awaited{ticket_, version_, stage_ == Stage::given ? std::vector<PeId>() : before_};
    }
    // What was awaited is there. False: not now, or another version is to be written.
    [[nodiscard]] bool take(std::uint64_t ticket) SFT_EXCLUDES(mutex_) {
        const Locked lock(mutex_);
        if (ticket == ticket_ && stage_ == Stage::awaited) {
            stage_ = Stage::given;
        }
        return ticket == ticket_ && stage_ == Stage::given;
    }
    // It is written, or could not be. Before anybody may begin the next one.
    void end() SFT_EXCLUDES(mutex_) {
        const Locked lock(mutex_);
        SFT_ASSERT(stage_ == Stage::given);
        stage_ = Stage::none;
    }

private:
    enum class Stage : std::uint8_t { none, awaited, held, given };

    mutable Mutex mutex_{MutexRank::drain};
    Stage stage_ SFT_GUARDED_BY(mutex_) = Stage::none;
    std::uint64_t ticket_ SFT_GUARDED_BY(mutex_) = 0;
    Version version_ SFT_GUARDED_BY(mutex_) = kNoVersion;
    std::vector<PeId> before_ SFT_GUARDED_BY(mutex_);
};

}  // namespace sft
