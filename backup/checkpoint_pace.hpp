// Which calls of shmem_checkpoint_all make a version (SHMEM_FT_INTERVAL), and what the versions have cost.
//
// All PEs answer alike. They count the same calls from the same places: the last version, or the end of the last
// recovery, in substitutes too. What depends on time PE 0 decides, about eight times per interval, in calls in which
// the others ask it: where steps become ten times as long, it is asked ten times as late, so the interval becomes
// little more than twice as long.
//
// Sources: J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17 (1974); J. T. Daly, A
// higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22 (2006).
//
// Thread safety: none; the thread that makes the collective calls.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/config.hpp"

namespace sft {

// The time between two checkpoints of so many ns at which least is lost, if the job fails every mtbf_ns.
[[nodiscard]] std::int64_t best_interval_ns(std::int64_t checkpoint_ns, std::int64_t mtbf_ns) noexcept;

class CheckpointPace {
public:
    enum class Call {
        passes,  // a barrier
        asks,    // PE 0, which answers
        is_due,
    };
    // Fixed layout: it is sent.
    struct Answer {
        std::uint32_t is_due = 1;
        std::uint32_t pause = 0;  // so many calls behind this one pass without asking
    };
    struct Costs {
        std::uint64_t n_calls = 0;
        std::uint64_t n_versions = 0;
        std::int64_t total_ns = 0;
        std::int64_t typical_ns = 0;  // of the last ones; 0: there is none
        std::int64_t begin_ns = 0;
    };

    void begin(const CheckpointInterval& interval, std::int64_t mtbf_ns, std::int64_t now_ns) noexcept;

    // The program calls.
    [[nodiscard]] Call next() noexcept;
    // PE 0, in a call that asks. n_failures: that the job has recovered from.
    [[nodiscard]] Answer decide(std::int64_t now_ns, std::uint32_t n_failures) const noexcept;
    void hear(const Answer& answer) noexcept { pause_ = {answer.pause, 0}; }
    // The call has committed a version.
    void committed(std::int64_t begin_ns, std::int64_t end_ns) noexcept;
    // All PEs have gone back to the last version.
    void resume(std::int64_t now_ns) noexcept;

    [[nodiscard]] Costs costs() const noexcept;
    [[nodiscard]] std::int64_t mtbf_ns(std::int64_t now_ns, std::uint32_t n_failures) const noexcept;
    // At the end of the job, if another interval would have cost far less: a line that says so.
    [[nodiscard]] std::optional<std::string> advice(std::int64_t now_ns, std::uint32_t n_failures) const;

private:
    static constexpr std::size_t kLast = 8;
    struct Pause {
        std::uint32_t calls = 0;
        std::uint32_t passed = 0;
    };

    [[nodiscard]] std::int64_t typical_ns() const noexcept;
    [[nodiscard]] double wanted_ns(std::int64_t now_ns, std::uint32_t n_failures) const noexcept;

    CheckpointInterval interval_;
    std::int64_t given_mtbf_ns_ = 0;
    std::int64_t begin_ns_ = 0;
    bool has_version_ = false;   // to go back to
    std::int64_t since_ns_ = 0;  // the last version, recovery or begin
    std::uint64_t n_since_ = 0;  // calls
    Pause pause_;
    std::uint64_t n_calls_ = 0;
    std::uint64_t n_versions_ = 0;
    std::int64_t total_ns_ = 0;
    std::array<std::int64_t, kLast> last_ns_{};  // round robin
};

}  // namespace sft
