// The lines about the job that this process says: explanations.hpp makes them of facts, here are the facts as they are
// known now.
//
// Thread safety: every function by any thread; open() before there is a second one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "recovery/coordinator.hpp"
#include "recovery/explanations.hpp"
#include "recovery/spare_wait.hpp"
#include "transport/shm/control.hpp"

namespace sft {

class JobLines {
public:
    struct Options {
        const Coordinator* coordinator = nullptr;
        const ControlSegment* control = nullptr;
        std::function<std::string(NodeId)> node_name = {};
        bool keeps_copies = true;
        std::uint32_t wait_timeout_seconds = 0;
    };
    void open(Options options);
    // A recovery has gone back to that version.
    void set_version_of_view(Version version) noexcept { version_of_view_.store(version); }

    // Of a job that has ended. Empty: whoever has ended it says why.
    [[nodiscard]] std::string end(const JobState& state) const;
    // Why nobody waits for spares any more.
    [[nodiscard]] std::string unreplaced(const SpareWait::End& end) const;
    // How a job that all others have left ends, because some PE has failed too late.
    [[nodiscard]] std::string past_the_end() const;
    // After a restart of `recovered_from`, the value that everybody was protected with. By one PE of the job: the
    // substitute of the lowest one that had failed. None: by another one, or there was nothing to recover. If that dies
    // before, there is none, or the next recovery's, which is about the same PE.
    [[nodiscard]] std::optional<std::string> recovery(const JobState& recovered_from, PeId me) const;

private:
    [[nodiscard]] JobFacts facts(const JobState& state, std::span<const Death> dead) const;

    Options o_;
    std::atomic<Version> version_of_view_{kNoVersion};
};

}  // namespace sft
