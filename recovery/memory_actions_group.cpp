// The part of MemoryActions for jobs whose PEs keep parity in groups (membership/parity_scheme.hpp).
#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/report.hpp"
#include "recovery/explanations.hpp"
#include "recovery/membership/parity_scheme.hpp"
#include "recovery/membership/scheme.hpp"
#include "recovery/memory_actions.hpp"

namespace sft {
namespace {

// Between two looks at what another one repairs.
constexpr std::int64_t kPauseNs = 1'000'000;

}  // namespace

bool MemoryActions::is_in_group() const noexcept { return has_parity(o_.coordinator->shape()); }

std::uint32_t MemoryActions::round_of(const JobState& state, std::uint32_t attempt) noexcept {
    constexpr std::uint32_t kAttempts = 1 << 12;
    SFT_ASSERT(attempt < kAttempts && state.view < UINT32_MAX / kAttempts);
    return state.view * kAttempts + attempt;
}

// shares: of this PE, where they are; its own local copy may be on another node as well.
Result<> MemoryActions::use_group(std::span<const Share> shares, ProcId copy) {
    Protector::KeeperLocation own_copy;
    if (copy != kNoProc && o_.is_remote(copy)) {
        own_copy = location_of(copy);
    }
    const ParityGroup group = o_.coordinator->shape().groups->of(me());
    std::vector<Protector::GroupMember> members;
    for (const PeId pe : group.members) {
        Protector::GroupMember& member = members.emplace_back();
        member.pe = pe;
        const auto share =
            std::find_if(shares.begin(), shares.end(), [&](const Share& each) { return each.part == pe.value(); });
        if (pe == me()) {
            member.location = own_copy;
        } else if (share != shares.end()) {
            member.location = location_of(share->holder);
        } else {
            member.is_lost = true;
        }
    }
    return o_.protector->use_group(members, group.position, group.n_parity, [this](ProcId process) {
        return o_.coordinator->await_death(process, now_ns() + kPauseNs);
    });
}

// Of the group, or its own lack of something.
CheckpointActions::Outcome MemoryActions::group_failed(const Error& error) {
    const ProcId failed = o_.protector->failed_keeper();
    if (failed == kNoProc || error.failure == Failure::cannot_be_opened) {
        o_.end_job(format("PE %d cannot reach its group: %s", me().value(), error.line.c_str()));
    }
    return must_be_gone(failed, error);
}

// What others compute with comes first, and waits for nobody.
Result<> MemoryActions::use_group_to_restore(const JobState& state, std::span<const Share> sources) {
    const JobShape& shape = o_.coordinator->shape();
    Result<> used = use_group(sources, holder_of_copy(shape, state, me()));
    if (used && !o_.me->has_joined()) {
        used = o_.take_heap_over(me());
    }
    if (used) {
        for (const PeId pe : left_beside(shape, state, shape.holder(state, me()))) {
            o_.protector->store().mend_left_copy(pe, state.version, o_.protector->live());
        }
    }
    return used;
}

CheckpointActions::Outcome MemoryActions::restore_from_group(const JobState& state) {
    why_lost_ = lost_copy(o_.coordinator->shape(), state, me());
    const std::vector<Share> sources = sources_of(o_.coordinator->shape(), state, me());
    Result<> restored = use_group_to_restore(state, sources);
    if (!restored) {
        return group_failed(restored.error());
    }
    restored = o_.protector->bring_back(state.version);
    if (restored) {
        return Outcome::ok;
    }
    if (restored.error().failure != Failure::failed) {
        return group_failed(restored.error());
    }
    why_lost_ = restored.error().line;
    return is_any_source_gone(state) ? Outcome::source_gone : Outcome::corrupt;
}

// What the process before had in its heap may be needed, and the program is going to write there; so may others need
// the local copy.
Result<> MemoryActions::fetch_front_from_group(std::span<const Share> sources, const JobState& state,
                                               std::size_t heap_bytes) {
    end_the_dead_here(state);
    const Result<> fetched = use_group_to_restore(state, sources).then([&] {
        return o_.protector->bring_front_back(state.version, heap_bytes);
    });
    if (!fetched && fetched.error().failure != Failure::failed) {
        static_cast<void>(group_failed(fetched.error()));
    }
    return fetched;
}

CheckpointActions::Outcome MemoryActions::protect_in_group(const JobState& state) {
    const JobShape& shape = o_.coordinator->shape();
    const ParityGroup group = shape.groups->of(me());
    std::vector<std::int32_t> positions;
    for (const Share& share : missing_shares(shape, state, me())) {
        const auto member = std::find(group.members.begin(), group.members.end(), PeId(share.part));
        SFT_ASSERT(member != group.members.end());
        positions.push_back(static_cast<std::int32_t>(member - group.members.begin()));
    }
    Result<> done = use_group(targets_of(shape, state, me()), kNoProc);
    if (done) {
        done = o_.protector->protect_in_group(state.version, positions, round_of(state, state.attempt));
    }
    return done ? Outcome::ok : group_failed(done.error());
}

}  // namespace sft
