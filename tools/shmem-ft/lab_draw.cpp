#include "tools/shmem-ft/lab_draw.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <random>
#include <set>

namespace sft::tools {
namespace {

// The engine's numbers are specified; the standard library's distributions are not, so they are not used.
class Dice {
public:
    explicit Dice(std::uint64_t seed) : engine_(seed) {}
    [[nodiscard]] std::uint64_t below(std::uint64_t end) { return end == 0 ? 0 : engine_() % end; }
    [[nodiscard]] bool in_100(unsigned percent) { return below(100) < percent; }
    [[nodiscard]] std::int64_t between(std::int64_t lowest, std::int64_t highest) {
        return lowest + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(highest - lowest + 1)));
    }
    template <class Items>
    [[nodiscard]] const auto& one_of(const Items& items) {
        return items[below(items.size())];
    }

private:
    std::mt19937_64 engine_;
};

enum class Group { start, checkpoint, recovery, end, messages };

Group group_of(FaultPoint point) {
    if (point < FaultPoint::checkpoint_enter) {
        return Group::start;
    }
    if (point < FaultPoint::fault_decided) {
        return Group::checkpoint;
    }
    if (point < FaultPoint::finalize_enter) {
        return Group::recovery;
    }
    return point < FaultPoint::message_send ? Group::end : Group::messages;
}

std::uint32_t visits_at(const ProcessRecord& process, FaultPoint point) {
    const auto found = process.visits.find(point);
    return found == process.visits.end() ? 0 : found->second;
}

const ProcessRecord* process_of(const std::vector<ProcessRecord>& processes, int number) {
    const auto found = std::find_if(processes.begin(), processes.end(),
                                    [number](const ProcessRecord& process) { return process.process == number; });
    return found == processes.end() ? nullptr : &*found;
}

// The most visits that a process for which `applies` holds has paid to the point.
template <class Applies>
std::uint32_t most_visits(const std::vector<ProcessRecord>& processes, FaultPoint point, Applies&& applies) {
    std::uint32_t most = 0;
    for (const ProcessRecord& process : processes) {
        most = applies(process) ? std::max(most, visits_at(process, point)) : most;
    }
    return most;
}

std::uint32_t visits_of_victim(const FaultEntry& entry, const std::vector<ProcessRecord>& processes, int pes) {
    switch (entry.victim) {
        case FaultVictim::pe:
            return most_visits(processes, entry.point, [&](const ProcessRecord& process) {
                return process.process == entry.number || (entry.is_any && process.process < pes);
            });
        case FaultVictim::process:
            return most_visits(processes, entry.point, [&](const ProcessRecord& process) {
                return entry.is_any || process.process == entry.number;
            });
        case FaultVictim::spare:
            return most_visits(processes, entry.point, [&](const ProcessRecord& process) {
                return entry.is_any ? process.process >= pes : process.process == pes + entry.number;
            });
        case FaultVictim::substitute:
            return most_visits(processes, entry.point,
                               [&](const ProcessRecord& process) { return process.process >= pes && process.pe >= 0; });
        case FaultVictim::leader:
        case FaultVictim::partner:
            return most_visits(processes, entry.point,
                               [&](const ProcessRecord& process) { return process.process < pes; });
    }
    return 0;
}

// Points that somebody has come to, of the wanted groups.
std::vector<FaultPoint> visited(const std::vector<ProcessRecord>& processes, const std::set<Group>& groups) {
    std::vector<FaultPoint> points;
    for (const FaultPointInfo& info : fault_point_infos()) {
        // Where calls can be made to fail, a death shows nothing that it does not show beside it.
        if (!is_call(info.point) && groups.contains(group_of(info.point)) &&
            most_visits(processes, info.point, [](const ProcessRecord&) { return true; }) != 0) {
            points.push_back(info.point);
        }
    }
    return points;
}

struct Weighted {
    FaultKind kind;
    unsigned weight;
};
constexpr std::array<Weighted, 7> kKinds = {{{FaultKind::kill, 50},
                                             {FaultKind::segv, 10},
                                             {FaultKind::abort, 5},
                                             {FaultKind::exit, 10},
                                             {FaultKind::stop, 10},
                                             {FaultKind::delay, 10},
                                             {FaultKind::flip, 5}}};

void draw_kind(Dice& dice, bool must_be_deadly, FaultEntry& entry) {
    unsigned left = static_cast<unsigned>(dice.below(must_be_deadly ? 75 : 100));
    for (const Weighted& candidate : kKinds) {
        if (left < candidate.weight) {
            entry.kind = candidate.kind;
            break;
        }
        left -= candidate.weight;
    }
    entry.status = entry.kind == FaultKind::exit ? static_cast<int>(dice.between(0, 3)) : 0;
    if (entry.kind == FaultKind::stop || entry.kind == FaultKind::delay) {
        entry.duration_ms = dice.between(1, entry.kind == FaultKind::stop ? 300 : 100);
    }
    if (entry.kind == FaultKind::flip) {
        entry.copy = dice.in_100(50) ? FaultCopy::local : FaultCopy::shadow;
        entry.bit_seed = dice.below(1U << 20U) + 1;
    }
}

void draw_victim(Dice& dice, const Terrain& terrain, bool in_recovery, FaultEntry& entry) {
    const auto pes = static_cast<std::uint64_t>(terrain.pes);
    const std::uint64_t draw = dice.below(100);
    if (draw < (in_recovery ? 30U : 70U)) {
        entry.victim = FaultVictim::pe;
        entry.number = static_cast<std::int32_t>(dice.below(pes));
    } else if (draw < 75) {
        entry.victim = in_recovery ? FaultVictim::substitute : FaultVictim::leader;
    } else if (draw < 85) {
        entry.victim = FaultVictim::partner;
        entry.number = static_cast<std::int32_t>(dice.below(pes));
    } else if (draw < 92 && terrain.spares > 0) {
        entry.victim = FaultVictim::spare;
        entry.number = static_cast<std::int32_t>(dice.below(static_cast<std::uint64_t>(terrain.spares)));
    } else {
        entry.victim = FaultVictim::pe;
        entry.is_any = true;
        entry.victim_seed = dice.below(1U << 20U) + 1;
    }
}

// One fault at a visit that `processes` have paid. Victims who were never anywhere are drawn again, for a while.
FaultEntry draw_entry(Dice& dice, const Terrain& terrain, const std::vector<ProcessRecord>& processes, bool in_recovery,
                      bool must_be_deadly) {
    constexpr int kAttempts = 50;
    std::set<Group> groups = {Group::checkpoint, Group::messages};
    if (in_recovery) {
        groups = {Group::recovery};
    } else if (dice.in_100(6)) {
        groups = {Group::start, Group::end};
    }
    std::vector<FaultPoint> points = visited(processes, groups);
    if (points.empty()) {
        points = visited(processes, {Group::start, Group::checkpoint, Group::recovery, Group::end, Group::messages});
    }
    FaultEntry entry;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        entry = FaultEntry{};
        draw_kind(dice, must_be_deadly, entry);
        draw_victim(dice, terrain, in_recovery, entry);
        entry.point = dice.one_of(points);
        if (group_of(entry.point) == Group::start) {
            // Who is which PE is not known yet.
            entry.victim = FaultVictim::process;
            entry.is_any = false;
            entry.victim_seed = 0;
            entry.number =
                static_cast<std::int32_t>(dice.below(static_cast<std::uint64_t>(terrain.pes + terrain.spares)));
        }
        const std::uint32_t visits = visits_of_victim(entry, processes, terrain.pes);
        if (visits != 0) {
            entry.visit = static_cast<std::uint32_t>(dice.between(1, visits));
            break;
        }
    }
    return entry;
}

// A kill between two visits of the library: at any time after a checkpoint, a recovery or the start.
FaultEntry draw_moment(Dice& dice, const Terrain& terrain, const std::vector<ProcessRecord>& processes,
                       std::initializer_list<FaultPoint> points) {
    FaultEntry entry;
    draw_kind(dice, true, entry);
    if (entry.kind == FaultKind::exit) {
        entry.kind = FaultKind::kill;  // exit() by a thread of the library would be no end that a program has
        entry.status = 0;
    }
    entry.number = static_cast<std::int32_t>(dice.below(static_cast<std::uint64_t>(terrain.pes)));
    for (const FaultPoint point : points) {
        entry.point = point;
        const std::uint32_t visits = visits_of_victim(entry, processes, terrain.pes);
        if (visits != 0) {
            entry.visit = static_cast<std::uint32_t>(dice.between(1, visits));
            break;
        }
    }
    // A little beyond the next checkpoint: the moments around it are to be had, too.
    entry.after_us = -dice.between(1, 125);  // percent
    return entry;
}

FaultSchedule draw_moments(Dice& dice, const Terrain& terrain) {
    FaultSchedule schedule = {
        draw_moment(dice, terrain, terrain.calm, {FaultPoint::checkpoint_leave, FaultPoint::init_ready})};
    if (terrain.spares > 1 && dice.in_100(40)) {
        // Once more, in what is computed again.
        schedule.push_back(draw_moment(dice, terrain, terrain.probe.empty() ? terrain.calm : terrain.probe,
                                       {FaultPoint::restart_leave, FaultPoint::checkpoint_leave}));
    }
    return schedule;
}

}  // namespace

std::optional<FaultEntry> choose_trigger(const std::vector<ProcessRecord>& calm, int pes) {
    FaultEntry entry;
    // No partner of PE 0, which leads at first, if that can be: what happens to the leader then can be survived.
    entry.number = pes > 3 ? 2 : pes > 1 ? 1 : 0;
    const ProcessRecord* victim = process_of(calm, entry.number);
    for (const FaultPoint point : {FaultPoint::replicate_begin, FaultPoint::arrived, FaultPoint::checkpoint_enter}) {
        const std::uint32_t visits = victim == nullptr ? 0 : visits_at(*victim, point);
        if (visits >= 2) {
            entry.point = point;
            entry.visit = visits / 2 + 1;
            return entry;
        }
    }
    return std::nullopt;
}

FaultSchedule draw_schedule(std::uint64_t seed, const Terrain& terrain) {
    Dice dice(seed);
    FaultSchedule schedule;
    const bool has_recovery = terrain.trigger && !visited(terrain.probe, {Group::recovery}).empty();
    const bool has_moments = most_visits(terrain.calm, FaultPoint::init_ready, [&](const ProcessRecord& process) {
                                 return process.process < terrain.pes;
                             }) != 0;
    if (has_moments && dice.in_100(35)) {
        return draw_moments(dice, terrain);
    }
    const std::uint64_t shape = dice.below(100);
    if (shape < 50 || terrain.spares < 2) {
        schedule.push_back(draw_entry(dice, terrain, terrain.calm, false, false));
    } else if (shape < 75 || !has_recovery) {
        // Two, at once or one after the other.
        schedule.push_back(draw_entry(dice, terrain, terrain.calm, false, true));
        schedule.push_back(draw_entry(dice, terrain, terrain.calm, false, false));
        if (dice.in_100(50)) {
            schedule[1].point = schedule[0].point;
            schedule[1].visit = schedule[0].visit;
        }
    } else {
        // One that makes a recovery necessary, and one or two inside it.
        schedule.push_back(draw_entry(dice, terrain, terrain.calm, false, true));
        const std::uint64_t inside = 1 + dice.below(terrain.spares > 2 ? 2 : 1);
        for (std::uint64_t i = 0; i < inside; ++i) {
            schedule.push_back(draw_entry(dice, terrain, terrain.probe, true, false));
        }
    }
    return schedule;
}

std::vector<FaultSchedule> sweep_schedules(const Terrain& terrain) {
    const std::set<Group> all = {Group::start, Group::checkpoint, Group::recovery, Group::end, Group::messages};
    std::vector<FaultSchedule> schedules;
    const std::vector<FaultPoint> calm_points = visited(terrain.calm, all);
    std::vector<FaultPoint> points = calm_points;
    for (const FaultPoint point : visited(terrain.probe, all)) {
        if (std::find(points.begin(), points.end(), point) == points.end()) {
            points.push_back(point);
        }
    }
    int next_pe = 0;
    for (const FaultPoint point : points) {
        const bool is_calm = std::find(calm_points.begin(), calm_points.end(), point) != calm_points.end();
        for (const FaultVictim victim : {FaultVictim::leader, FaultVictim::partner, FaultVictim::substitute,
                                         FaultVictim::spare, FaultVictim::pe}) {
            FaultEntry entry;
            entry.point = point;
            entry.victim = victim;
            if (group_of(point) == Group::start) {
                // Who is which PE is not known yet: one that will be a PE, one that will be a spare.
                entry.victim = FaultVictim::process;
                entry.number = victim == FaultVictim::spare ? terrain.pes : next_pe++ % terrain.pes;
                if (victim != FaultVictim::pe && (victim != FaultVictim::spare || terrain.spares == 0)) {
                    continue;
                }
            } else if (victim == FaultVictim::pe || victim == FaultVictim::partner) {
                entry.number = next_pe++ % terrain.pes;
            }
            const bool needs_recovery = !is_calm || victim == FaultVictim::substitute;
            if (needs_recovery && !terrain.trigger) {
                continue;
            }
            const std::uint32_t visits =
                visits_of_victim(entry, needs_recovery ? terrain.probe : terrain.calm, terrain.pes);
            for (const std::uint32_t visit : std::set<std::uint32_t>{1, (visits + 1) / 2, visits}) {
                if (visit == 0 || visits == 0) {
                    continue;
                }
                entry.visit = visit;
                schedules.push_back(needs_recovery ? FaultSchedule{*terrain.trigger, entry} : FaultSchedule{entry});
            }
        }
    }
    return schedules;
}

}  // namespace sft::tools
