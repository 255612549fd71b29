// How often the program has called shmem_ft_algo_init, by which a substitute knows which of its initialisations are
// done already: those that the version it is given was made behind.
//
// Thread safety: none; the thread that makes the collective calls.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/assert.hpp"

namespace sft {

class InitCalls {
public:
    // The program is at one. True: it has to initialise.
    [[nodiscard]] bool enter(bool is_substitute) noexcept {
        ++own_;
        return !is_substitute || own_ > fetched_;
    }
    // As of now: what is saved with a version.
    [[nodiscard]] std::uint32_t count() const noexcept { return std::max(own_, fetched_); }
    // This process has been given the state of a PE that had made so many.
    void fetch(std::uint32_t count) noexcept { fetched_ = count; }
    // A version is committed that was made behind so many, or, of a substitute, has been restored.
    void commit(std::uint32_t count) noexcept {
        SFT_ASSERT(count <= this->count());
        committed_ = count;
    }
    void commit_fetched() noexcept { commit(fetched_); }
    // What the program has initialised since the last version would be lost by going back to that.
    [[nodiscard]] bool is_ahead() const noexcept { return count() > committed_; }

private:
    std::uint32_t own_ = 0;
    std::uint32_t fetched_ = 0;
    std::uint32_t committed_ = 0;
};

}  // namespace sft
