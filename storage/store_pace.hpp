// Which versions go to files (SHMEM_FT_STORE_INTERVAL). All PEs answer alike: they ask PE 0 in the same checkpoints, by
// the number of the version or by counting from the last answer, and only a version that nobody has to leave out is
// stored: so no two PEs write different ones in turn, and never a whole version.
//
// Thread safety: none; the thread that makes the collective calls.
#pragma once

#include <cstdint>

#include "base/config.hpp"
#include "base/ids.hpp"

namespace sft {

class StorePace {
public:
    // Fixed layout: it is sent.
    struct Answer {
        std::uint32_t is_due = 0;
        std::uint32_t pause = 0;  // so many versions behind this one are not asked about
    };

    void begin(const CheckpointInterval& interval, std::int64_t now_ns) noexcept;
    // Whether it has to be asked about the version that is going to be made.
    [[nodiscard]] bool asks(Version version) noexcept;
    // PE 0. can_all: nobody is still writing.
    [[nodiscard]] Answer decide(bool can_all, std::int64_t now_ns) const noexcept;
    void hear(const Answer& answer, std::int64_t now_ns) noexcept;
    // All PEs have gone back to the last version, substitutes among them.
    void resume() noexcept;

private:
    CheckpointInterval interval_;
    bool has_stored_ = false;
    std::int64_t stored_ns_ = 0;
    std::int64_t asked_ns_ = 0;
    std::uint32_t pause_ = 0;
    std::uint32_t n_paused_ = 0;
};

}  // namespace sft
