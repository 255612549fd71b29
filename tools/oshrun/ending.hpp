// In which order and when the processes of a job are ended that must end now. Pure: times come in, steps come out.
//
// The library ends a process by itself in all cases it knows of, so it gets a moment to do so in order. The launcher
// ends by itself when its last process has, after it has passed on all output: therefore it comes last.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace sft::tools {

class Ending {
public:
    enum class Step { ask_processes, kill_processes, ask_launcher, kill_launcher };

    explicit Ending(std::int64_t now_ns) noexcept : begin_ns_(now_ns) {}

    // The next step that is due, once each.
    [[nodiscard]] std::optional<Step> take_step(std::int64_t now_ns) noexcept {
        if (next_ >= kPlan.size() || now_ns < begin_ns_ + kPlan[next_].after_ns) {
            return std::nullopt;
        }
        return kPlan[next_++].step;
    }
    [[nodiscard]] std::optional<std::int64_t> next_step_ns() const noexcept {
        return next_ < kPlan.size() ? std::optional(begin_ns_ + kPlan[next_].after_ns) : std::nullopt;
    }
    // When the first step was due.
    [[nodiscard]] std::int64_t begin_ns() const noexcept { return begin_ns_ + kPlan[0].after_ns; }
    // Told from outside to end: nobody will end by himself.
    void skip_grace(std::int64_t now_ns) noexcept { begin_ns_ = now_ns - kPlan[0].after_ns; }
    // Told once more: no more asking.
    void hurry(std::int64_t now_ns) noexcept { begin_ns_ = now_ns - kPlan[1].after_ns; }

private:
    struct PlannedStep {
        Step step;
        std::int64_t after_ns;
    };
    static constexpr std::array<PlannedStep, 4> kPlan = {{{Step::ask_processes, 200'000'000},
                                                          {Step::kill_processes, 2'000'000'000},
                                                          {Step::ask_launcher, 4'000'000'000},
                                                          {Step::kill_launcher, 6'000'000'000}}};

    std::int64_t begin_ns_;
    std::size_t next_ = 0;
};

}  // namespace sft::tools
