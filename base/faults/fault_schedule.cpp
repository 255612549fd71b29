#include "base/faults/fault_schedule.hpp"

#include <cerrno>
#include <iterator>
#include <optional>

#include "base/assert.hpp"

namespace sft {
namespace {

constexpr FaultPointInfo kPoints[] = {
#define SFT_FAULT_POINT(number, name, description) {FaultPoint::name, #name, description},
#include "base/faults/fault_points.def"
#undef SFT_FAULT_POINT
};

#define SFT_FAULT_POINT(number, name, description) \
    static_assert((number) > 0 && (number) < kFaultPointNumbers, "the number of a fault point is out of range");
#include "base/faults/fault_points.def"
#undef SFT_FAULT_POINT

constexpr bool are_numbers_unique() noexcept {
    bool is_seen[kFaultPointNumbers] = {};
    for (const FaultPointInfo& info : kPoints) {
        if (is_seen[static_cast<std::size_t>(info.point)]) {
            return false;
        }
        is_seen[static_cast<std::size_t>(info.point)] = true;
    }
    return true;
}
static_assert(are_numbers_unique(), "visits are counted by the number of a point");

constexpr FailureName kFailures[] = {{"EIO", EIO},       {"EMFILE", EMFILE},         {"ENFILE", ENFILE},
                                     {"EACCES", EACCES}, {"ENOMEM", ENOMEM},         {"EINTR", EINTR},
                                     {"ENOSPC", ENOSPC}, {"ECONNRESET", ECONNRESET}, {"ENOBUFS", ENOBUFS}};

std::uint64_t mix(std::uint64_t value) noexcept {
    value += 0x9e3779b97f4a7c15U;
    value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31U);
}

// Appends only: from -O3 on GCC 12 takes what is put in front of a temporary for an overlapping copy (-Wrestrict).
template <class Number>
std::string with_number(const char* words, Number number, const char* unit = "") {
    std::string text(words);
    text += std::to_string(number);
    text += unit;
    return text;
}

std::string duration_text(std::int64_t duration_ms) {
    return duration_ms == kForEver ? "" : with_number(" ", duration_ms, " ms");
}

std::string seed_text(std::uint64_t seed) { return seed == 0 ? "" : with_number(" seed ", seed); }

std::string victim_text(const FaultEntry& entry) {
    std::string text;
    switch (entry.victim) {
        case FaultVictim::pe: text = "pe "; break;
        case FaultVictim::process: text = "process "; break;
        case FaultVictim::spare: text = "spare "; break;
        case FaultVictim::leader: return "leader";
        case FaultVictim::substitute: return "substitute";
        case FaultVictim::partner: return with_number("partner of pe ", entry.number);
    }
    if (entry.is_any) {
        text += "any";
        text += seed_text(entry.victim_seed);
    } else {
        text += std::to_string(entry.number);
    }
    return text;
}

// The number that is meant among `count` ones; none if there are none yet.
std::optional<std::int32_t> chosen(const FaultEntry& entry, std::int32_t count) noexcept {
    if (!entry.is_any) {
        return entry.number;
    }
    if (count <= 0) {
        return std::nullopt;
    }
    return static_cast<std::int32_t>(mix(entry.victim_seed) % static_cast<std::uint64_t>(count));
}

bool is_victim(const FaultEntry& entry, const FaultVisit& visit) noexcept {
    const bool knows_others = visit.n_processes > 0;
    switch (entry.victim) {
        case FaultVictim::pe: {
            const auto pe = chosen(entry, knows_others ? visit.n_pes : 0);
            return pe && visit.pe == PeId(*pe);
        }
        case FaultVictim::process: {
            const auto process = chosen(entry, visit.n_processes);
            return process && visit.process == ProcId(*process);
        }
        case FaultVictim::spare: {
            const auto spare = chosen(entry, visit.n_processes - visit.n_pes);
            return knows_others && spare && visit.process.value() == visit.n_pes + *spare;
        }
        case FaultVictim::substitute: return knows_others && visit.pe != kNoPe && visit.process.value() >= visit.n_pes;
        case FaultVictim::leader:
        case FaultVictim::partner: return true;
    }
    return false;
}

}  // namespace

std::span<const FaultPointInfo> fault_point_infos() noexcept { return kPoints; }

std::span<const FailureName> failure_names() noexcept { return kFailures; }

const char* fault_point_name(FaultPoint point) noexcept {
    for (const FaultPointInfo& info : kPoints) {
        if (info.point == point) {
            return info.name;
        }
    }
    return "?";
}

std::string to_string(const FaultEntry& entry) {
    SFT_ASSERT(static_cast<std::size_t>(entry.kind) < std::size(kFaultKindWords));
    std::string text(kFaultKindWords[static_cast<std::size_t>(entry.kind)]);
    switch (entry.kind) {
        case FaultKind::exit: text += with_number(" ", entry.status); break;
        case FaultKind::stop:
        case FaultKind::delay:
        case FaultKind::cut: text += duration_text(entry.duration_ms); break;
        case FaultKind::flip:
            text += entry.copy == FaultCopy::local ? " local" : " shadow";
            text += seed_text(entry.bit_seed);
            text += " of";
            break;
        case FaultKind::fail:
            for (const FailureName& failure : kFailures) {
                text += failure.error == entry.status ? std::string(" ") + failure.name : "";
            }
            text += entry.times == 1 ? "" : " " + std::to_string(entry.times) + " times";
            break;
        default: break;
    }
    text += ' ';
    text += victim_text(entry);
    text += " at ";
    text += fault_point_name(entry.point);
    if (entry.visit != 1) {
        text += with_number(" visit ", entry.visit);
    }
    if (entry.incarnation >= 0) {
        text += with_number(" incarnation ", entry.incarnation);
    }
    if (entry.after_us != 0) {
        text += entry.after_us < 0 ? with_number(" after ", -entry.after_us, " percent")
                                   : with_number(" after ", entry.after_us, " us");
    }
    return text + (entry.is_every ? " every" : "");
}

std::string to_string(const FaultSchedule& schedule) {
    std::string text;
    for (const FaultEntry& entry : schedule) {
        text += text.empty() ? "" : "; ";
        text += to_string(entry);
    }
    return text;
}

bool is_due(const FaultEntry& entry, const FaultVisit& visit) noexcept {
    if (entry.point != visit.point || !is_victim(entry, visit)) {
        return false;
    }
    if (!entry.is_every) {
        const std::int32_t wanted = entry.incarnation < 0 && entry.victim == FaultVictim::pe ? 0 : entry.incarnation;
        if (wanted >= 0 && visit.incarnation != static_cast<std::uint32_t>(wanted)) {
            return false;
        }
    }
    const std::uint32_t count = entry.victim == FaultVictim::pe ? visit.of_pe : visit.of_process;
    const bool is_last_known = count - entry.visit < entry.times;
    return count >= entry.visit && (entry.is_every || is_last_known);
}

}  // namespace sft
