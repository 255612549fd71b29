// The one word that all processes of a job agree on, and the transitions it may take.
//
// Fault model: any process may die at any instruction; nobody lies. On a node the word lies in shared memory and
// changes only by compare-and-swap, which is wait-free consensus: whatever value the word takes is decided, however
// many processes die, and there is no leader whose death could matter.
//
// This file is pure: no I/O, no time. A transition takes the observed word and gives the next one, or nothing when
// the transition is not allowed from there. docs/protocols.md tells who tries which transition and why.
//
//      running --commit--> running            (version + 1)
//      running --declare_fault--> fault        (a PE is dead; a checkpoint ended without a commit)
//      running | fault --reject--> the same     (the callers of a restart gave different lists)
//      running | fault | plan | restored --plan--> plan     (more deaths each time)
//      plan --restored--> restored --resume--> running
//      running --finish--> finished
//      any but finished --end--> ended
//
// Invariants
//  1. `deaths` never shrinks: it is the length of the prefix of the death log that the stage was decided with.
//  2. `version` grows by one at a commit and by no other transition.
//  3. `epoch` grows by one exactly when the tables (who holds a PE, who keeps its shadow) change.
#pragma once

#include <cstdint>
#include <optional>

#include "shmem_ft/base/ids.hpp"

namespace sft {

enum class Stage : std::uint8_t { none = 0, running = 1, fault = 2, plan = 3, restored = 4, finished = 5, ended = 6 };

using DeathCount = StrongId<struct DeathCountTag, std::uint16_t>;
using Epoch = StrongId<struct EpochTag, std::uint8_t>;

inline constexpr unsigned kStageBits = 3;
inline constexpr unsigned kEpochBits = 5;
inline constexpr unsigned kDeathBits = 12;
inline constexpr unsigned kVersionBits = 28;
inline constexpr unsigned kRoundBits = 16;
static_assert(kStageBits + kEpochBits + kDeathBits + kVersionBits + kRoundBits == 64);
inline constexpr std::uint32_t kDeathsMax = (1U << kDeathBits) - 1;

struct Agreed {
    Stage stage = Stage::none;
    Epoch epoch{};
    DeathCount deaths{};
    Version version{};
    Round round{};

    friend constexpr bool operator==(const Agreed&, const Agreed&) noexcept = default;
};

[[nodiscard]] constexpr std::uint64_t pack(const Agreed& agreed) noexcept {
    std::uint64_t word = static_cast<std::uint64_t>(agreed.stage);
    word = (word << kEpochBits) | (agreed.epoch.value() & ((1U << kEpochBits) - 1));
    word = (word << kDeathBits) | agreed.deaths.value();
    word = (word << kVersionBits) | agreed.version.value();
    word = (word << kRoundBits) | agreed.round.value();
    return word;
}

[[nodiscard]] constexpr Agreed unpack(std::uint64_t word) noexcept {
    Agreed agreed;
    agreed.round = Round(static_cast<std::uint16_t>(word));
    word >>= kRoundBits;
    agreed.version = Version(static_cast<std::uint32_t>(word & ((1U << kVersionBits) - 1)));
    word >>= kVersionBits;
    agreed.deaths = DeathCount(static_cast<std::uint16_t>(word & kDeathsMax));
    word >>= kDeathBits;
    agreed.epoch = Epoch(static_cast<std::uint8_t>(word & ((1U << kEpochBits) - 1)));
    word >>= kEpochBits;
    agreed.stage = static_cast<Stage>(word);
    return agreed;
}

[[nodiscard]] constexpr Epoch next_epoch(Epoch epoch) noexcept {
    return Epoch(static_cast<std::uint8_t>((epoch.value() + 1U) & ((1U << kEpochBits) - 1)));
}

// A checkpoint round ends with version + 1.
[[nodiscard]] constexpr std::optional<Agreed> commit(Agreed seen, Round round) noexcept {
    if (seen.stage != Stage::running || round != seen.round.next()) {
        return std::nullopt;
    }
    seen.version = seen.version.next();
    seen.round = round;
    return seen;
}

// A checkpoint round ends without a commit because a PE is dead.
[[nodiscard]] constexpr std::optional<Agreed> declare_fault(Agreed seen, Round round, DeathCount deaths) noexcept {
    if (seen.stage != Stage::running || round != seen.round.next() || deaths < seen.deaths) {
        return std::nullopt;
    }
    seen.stage = Stage::fault;
    seen.round = round;
    seen.deaths = deaths;
    return seen;
}

// A restart round ends without having begun: the list of failed PEs differs between callers or is wrong.
[[nodiscard]] constexpr std::optional<Agreed> reject(Agreed seen, Round round) noexcept {
    if ((seen.stage != Stage::running && seen.stage != Stage::fault) || round != seen.round.next()) {
        return std::nullopt;
    }
    seen.round = round;
    return seen;
}

// A restart round begins, or begins again because more processes died in it.
[[nodiscard]] constexpr std::optional<Agreed> plan(Agreed seen, Round round, DeathCount deaths) noexcept {
    const bool first = (seen.stage == Stage::running || seen.stage == Stage::fault) && round == seen.round.next() &&
                       deaths >= seen.deaths;
    const bool again =
        (seen.stage == Stage::plan || seen.stage == Stage::restored) && round == seen.round && deaths > seen.deaths;
    if (!first && !again) {
        return std::nullopt;
    }
    seen.stage = Stage::plan;
    seen.round = round;
    seen.deaths = deaths;
    return seen;
}

// Every PE of the plan has its state of the last version; the table of holders changes.
[[nodiscard]] constexpr std::optional<Agreed> restored(Agreed seen) noexcept {
    if (seen.stage != Stage::plan) {
        return std::nullopt;
    }
    seen.stage = Stage::restored;
    seen.epoch = next_epoch(seen.epoch);
    return seen;
}

// Every shadow exists again; the table of keepers changes.
[[nodiscard]] constexpr std::optional<Agreed> resume(Agreed seen) noexcept {
    if (seen.stage != Stage::restored) {
        return std::nullopt;
    }
    seen.stage = Stage::running;
    seen.epoch = next_epoch(seen.epoch);
    return seen;
}

// All PEs have entered the last shmem_finalize.
[[nodiscard]] constexpr std::optional<Agreed> finish(Agreed seen) noexcept {
    if (seen.stage != Stage::running) {
        return std::nullopt;
    }
    seen.stage = Stage::finished;
    return seen;
}

// The job cannot go on, or shmem_global_exit was called.
[[nodiscard]] constexpr std::optional<Agreed> end(Agreed seen) noexcept {
    if (seen.stage == Stage::finished || seen.stage == Stage::ended) {
        return std::nullopt;
    }
    seen.stage = Stage::ended;
    return seen;
}

}  // namespace sft
