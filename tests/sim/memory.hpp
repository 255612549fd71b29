// The memory of a simulated PE and the copies of it. Small, but what it must hold at every version is known beforehand:
// it depends on the seed, the PE and the number of steps only, so the checkers need no record of a run to judge it.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "base/ids.hpp"
#include "tests/sim/random.hpp"

namespace sft::sim {

inline constexpr std::size_t kWords = 4;
// The number of steps done, the sum over them, and two words that others put into.
using Content = std::array<std::uint32_t, kWords>;
inline constexpr std::size_t kStepWord = 0;
inline constexpr std::size_t kSumWord = 1;
inline constexpr std::size_t kInbox = 2;

// What a program does: pure functions of the seed.
struct Program {
    std::uint64_t seed = 0;
    std::int32_t n_pes = 0;
    std::int32_t stride = 1;

    [[nodiscard]] std::uint32_t value(PeId pe, std::uint32_t step, std::uint32_t what) const noexcept {
        const auto who = static_cast<std::uint64_t>(pe.value());
        return static_cast<std::uint32_t>(
            mix(seed ^ mix((who << 32) + (static_cast<std::uint64_t>(step) << 2) + what)));
    }
    // Whom `pe` puts to, per inbox.
    [[nodiscard]] PeId target(PeId pe, std::size_t inbox) const noexcept {
        return PeId((pe.value() + (inbox == 0 ? 1 : stride)) % n_pes);
    }
    // What the inbox of `pe` gets in a step.
    [[nodiscard]] std::uint32_t value_put(PeId pe, std::size_t inbox, std::uint32_t step) const noexcept {
        const std::int32_t distance = inbox == 0 ? 1 : stride;
        const PeId source((pe.value() + n_pes - distance % n_pes) % n_pes);
        return value(source, step, 2 + static_cast<std::uint32_t>(inbox));
    }
    // The number of steps after which version `version` is made.
    [[nodiscard]] std::uint32_t steps_at(std::uint32_t version) const noexcept {
        std::uint32_t steps = 0;
        for (std::uint32_t v = 1; v <= version; ++v) {
            steps += 1 + static_cast<std::uint32_t>(mix(seed ^ (0x57e9ULL + v)) % 4);
        }
        return steps;
    }
    void compute(Content& content, PeId pe) const noexcept {
        ++content[kStepWord];
        content[kSumWord] += value(pe, content[kStepWord], 1);
    }
    [[nodiscard]] Content expected(PeId pe, std::uint32_t version) const noexcept {
        Content content{};
        const std::uint32_t steps = steps_at(version);
        while (content[kStepWord] < steps) {
            compute(content, pe);
        }
        for (std::size_t inbox = 0; inbox < 2 && steps > 0; ++inbox) {
            content[kInbox + inbox] = value_put(pe, inbox, steps);
        }
        return content;
    }
};

// A stored copy. It is written word by word; a death on the way leaves it torn: without a version.
struct Copy {
    Version version = kNoVersion;
    Content content{};
    std::uint64_t checksum = 0;

    [[nodiscard]] static std::uint64_t checksum_of(const Content& content) noexcept {
        std::uint64_t sum = 0;
        for (const std::uint32_t word : content) {
            sum = mix(sum ^ word);
        }
        return sum;
    }
    [[nodiscard]] bool is_intact() const noexcept { return checksum == checksum_of(content); }
    [[nodiscard]] bool is_good(Version wanted) const noexcept { return version == wanted && is_intact(); }
    void seal(Version sealed) noexcept {
        version = sealed;
        checksum = checksum_of(content);
    }
};

struct Shadow {
    std::array<Copy, 2> slots;
};

// What a member of a group keeps for parity (backup/parity_place.hpp), with one unit only. Of each member it has what
// that has added: so what a code computes from several shares is looked up, after a look whether they fit.
struct ParityOfPe {
    struct Front {
        Version version = kNoVersion;
        std::uint64_t checksum = 0;
    };
    struct Slot {
        std::uint64_t stamp = 0;  // round and version of the build; 0: none
        std::map<PeId, Content> added;
    };

    // False: of a build that is over.
    bool fold(std::uint64_t stamp, bool is_anew, PeId from, std::size_t word, std::uint32_t change) {
        if (is_anew && begun != stamp) {
            slots = {};
            begun = stamp;
        }
        Slot* const newer = slots[0].stamp >= slots[1].stamp ? &slots[0] : &slots[1];
        if (newer->stamp > stamp) {
            return false;
        }
        Slot* into = newer;
        if (newer->stamp != stamp) {
            into = newer == &slots[0] ? &slots[1] : &slots[0];
            into->added = newer->stamp == 0 ? std::map<PeId, Content>() : newer->added;
            into->stamp = stamp;
        }
        into->added[from][word] ^= change;
        return true;
    }
    [[nodiscard]] const Slot& slot_of(Version version) const {
        const auto rank = [&](const Slot& slot) {
            return static_cast<std::uint32_t>(slot.stamp) <= version.value() ? slot.stamp : 0;
        };
        return rank(slots[0]) >= rank(slots[1]) ? slots[0] : slots[1];
    }
    void drop_after(Version version) {
        for (Slot& slot : slots) {
            if (static_cast<std::uint32_t>(slot.stamp) > version.value()) {
                slot = {};
            }
        }
    }

    std::array<Front, 2> fronts;
    std::array<Slot, 2> slots;
    std::uint64_t begun = 0;
};

}  // namespace sft::sim
