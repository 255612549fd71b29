// Strong types for everything that is counted or numbered. A PE number is never an `int` inside the
// library: the PE -> process map changes at a recovery, and a mixed-up pair is a silent wrong answer.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace sft {

template <class Tag, class Rep>
class StrongId {
public:
    constexpr StrongId() noexcept = default;
    constexpr explicit StrongId(Rep value) noexcept : value_(value) {}

    [[nodiscard]] constexpr Rep value() const noexcept { return value_; }
    [[nodiscard]] constexpr std::size_t index() const noexcept { return static_cast<std::size_t>(value_); }
    [[nodiscard]] constexpr StrongId next() const noexcept { return StrongId(static_cast<Rep>(value_ + 1)); }

    friend constexpr auto operator<=>(StrongId, StrongId) noexcept = default;

private:
    Rep value_{};
};

static_assert(sizeof(StrongId<void, std::int32_t>) == sizeof(std::int32_t));

// What the application sees: 0 .. n_pes-1.
using PeId = StrongId<struct PeIdTag, std::int32_t>;
// A launched process of the job: the launcher's rank. Processes 0 .. n_pes-1 start as the PEs, the rest as spares.
using ProcId = StrongId<struct ProcIdTag, std::int32_t>;
// A node of the job: processes that share memory. Counted from 0 in the order of their lowest processes.
using NodeId = StrongId<struct NodeIdTag, std::int32_t>;
// A memory domain of a machine: the number that the system gives its NUMA node.
using DomainId = StrongId<struct DomainIdTag, std::int32_t>;
// Number of a committed global checkpoint; 0 is "none yet".
using Version = StrongId<struct VersionTag, std::uint32_t>;

inline constexpr PeId kNoPe{-1};
inline constexpr ProcId kNoProc{-1};
inline constexpr NodeId kNoNode{-1};
inline constexpr DomainId kNoDomain{-1};
inline constexpr Version kNoVersion{0};
static_assert(sizeof(PeId) == 4 && sizeof(ProcId) == 4 && sizeof(Version) == 4, "they are in messages and in memory");
static_assert(kNoPe < PeId(0) && kNoProc < ProcId(0) && kNoNode < NodeId(0), "not among those that there are");

}  // namespace sft
