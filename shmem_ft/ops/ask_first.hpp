// Every PE tells PE 0 something, and hears what PE 0 makes of what all have told: a decision about the whole job that
// one process takes.
//
// Fault rule: that of collectives. Who does not hear the answer because of a fault gets nothing; others may have heard
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/faults/fault_points.hpp"
#include "shmem_ft/ops/collectives.hpp"
#include "shmem_ft/ops/nodes.hpp"

namespace sft {

struct AskPoints {
    FaultPoint asked;  // told PE 0; PE 0: about to hear of the others
    FaultPoint told;   // has the answer; PE 0: has told one more
};

template <class Answer, class Lane, class Told, class Judge>
std::optional<Answer> ask_first_of(const Lane& lane, const PeGroup& group, const Told& own, AskPoints points,
                                   Judge&& judge) {
    static_assert(sizeof(Told) <= kChannelPayloadBytes && sizeof(Answer) <= kChannelPayloadBytes);
    static_assert(std::is_trivially_copyable_v<Told> && std::is_trivially_copyable_v<Answer>);
    const PeId first = group.pe(0);
    if (group.me != 0) {
        Answer answer;
        if (!lane.send(first, &own, sizeof own)) {
            return std::nullopt;
        }
        fault_point(points.asked);
        if (!lane.recv(first, &answer, sizeof answer)) {
            return std::nullopt;
        }
        fault_point(points.told);
        return answer;
    }
    std::vector<Told> all{own};
    fault_point(points.asked);
    for (std::int32_t member = 1; member < group.size; ++member) {
        Told theirs;
        if (!lane.recv(group.pe(member), &theirs, sizeof theirs)) {
            return std::nullopt;
        }
        all.push_back(theirs);
    }
    const Answer answer = judge(std::span<const Told>(all));
    for (std::int32_t member = 1; member < group.size; ++member) {
        if (!lane.send(group.pe(member), &answer, sizeof answer)) {
            return std::nullopt;
        }
        fault_point(points.told);
    }
    return answer;
}

// Collective, over all PEs; a barrier for those that get an answer. judge: Answer(span of what all have told, by PE),
// on PE 0 only.
template <class Answer, class Told, class Judge>
std::optional<Answer> ask_first(Engine& e, const Told& own, AskPoints points, Judge&& judge) {
    const PeGroup group = world(e);
    if (e.waiter.fault_pending()) {
        return std::nullopt;
    }
    if (group.size == 1) {
        return judge(std::span<const Told>(&own, 1));
    }
    if (e.network != nullptr) {
        return ask_first_of<Answer>(WideLane(e.channels, e.waiter, e.nodes, group.lane), group, own, points,
                                    std::forward<Judge>(judge));
    }
    return ask_first_of<Answer>(e.channels.lane(group.lane), group, own, points, std::forward<Judge>(judge));
}

}  // namespace sft
