// How long something that the kernel refuses, and that is tried again and again, has been refused without a break.
// Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "base/assert.hpp"
#include "base/process_watch.hpp"

namespace sft {

class LastingTrouble {
public:
    // It has failed at that time. `what` completes "cannot ...".
    void note(const char* what, int error, std::int64_t now_ns) {
        SFT_ASSERT(what != nullptr && error != 0);
        SFT_ASSERT(error_ == 0 || now_ns >= last_ns_);
        if (error_ == 0 || now_ns - last_ns_ > kBreakNs) {
            first_ns_ = now_ns;
        }
        last_ns_ = now_ns;
        what_ = what;
        error_ = error;
        SFT_ASSERT(first_ns_ <= last_ns_);
    }
    [[nodiscard]] bool goes_on(std::int64_t now_ns) const noexcept {
        return error_ != 0 && now_ns - last_ns_ <= kBreakNs;
    }
    // If it has begun before that time and goes on.
    [[nodiscard]] std::optional<Trouble> since(std::int64_t begin_ns, std::int64_t now_ns) const {
        if (!goes_on(now_ns) || first_ns_ > begin_ns) {
            return std::nullopt;
        }
        return Trouble{what_, error_};
    }

private:
    // Longer than any pause between two attempts, also on a busy machine.
    static constexpr std::int64_t kBreakNs = 2'000'000'000;

    const char* what_ = "";
    int error_ = 0;
    std::int64_t first_ns_ = 0;
    std::int64_t last_ns_ = 0;
};

}  // namespace sft
