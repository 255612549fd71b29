#include "tests/sim/coverage.hpp"

#include <cstddef>

#include "base/report.hpp"

namespace sft::sim {
namespace {

struct Floor {
    const char* name;
    double per_job;  // about a third of what there is
};

// In the order of the enumeration.
constexpr std::array<Floor, static_cast<std::size_t>(Feat::count_)> kFloors = {{
    {"commits", 0.6},
    {"faults", 0.15},
    {"plans", 0.1},
    {"plans after a further death", 0.012},
    {"recoveries", 0.08},
    {"substitutes", 0.1},
    {"late spares", 0.03},
    {"takeovers by late spares", 0.002},
    {"folds", 5},
    {"restores from local copies", 0.6},
    {"restores from shadows", 0.1},
    {"mended copies", 0.0002},
    {"new shadows", 0.2},
    {"new witnesses", 0.01},
    {"memory that could not be opened", 0.0005},
    {"refused restarts", 0.008},
    {"given up", 0.002},
    {"stopped in a minority", 0.2},
    {"stopped as excluded", 0.06},
    {"finished", 0.17},
    {"ended: no spare", 0.015},
    {"ended: copies lost", 0.02},
    {"ended: all died", 0.0005},
    {"ended: nothing committed", 0.03},
    {"ended: past the end", 0.02},
    {"ended: requested", 0.01},
    {"copies of the dead taken over", 0},
    {"plans without a survivor", 0},
    {"words of readiness of all", 0},
    {"stills", 0},
    {"committed in the background", 0},
    {"failed in the background", 0},
}};

}  // namespace

void Coverage::decided(ProcId /*process*/, const JobState& before, const JobState& after) {
    if (after.index <= seen_index_) {
        return;
    }
    seen_index_ = after.index;
    for (std::size_t i = before.joined.size(); i < after.joined.size(); ++i) {
        count(Feat::late_spares);
    }
    if (after.joined.size() != before.joined.size()) {
        return;
    }
    for (const Replacement& replacement : after.replacements) {
        const bool is_new = holder_in(before.replacements, replacement.pe) != replacement.process;
        if (is_new && has_joined(after, replacement.process)) {
            count(Feat::late_takeovers);
        }
    }
    if (after.rejections != before.rejections) {
        count(Feat::rejections);
    }
    if (after.witness != before.witness && after.witness != kNoProc) {
        count(Feat::new_witnesses);
    }
    switch (after.stage) {
        case Stage::running:
            if (before.stage == Stage::updating) {
                count(Feat::commits);
            } else if (before.stage == Stage::restored) {
                count(Feat::recoveries);
            }
            break;
        case Stage::faulted: count(Feat::faults); break;
        case Stage::planned:
            count(after.attempt > 1 ? Feat::later_plans : Feat::plans);
            if (after.attempt == 1 && after.failed.size() == after.replacements.size() &&
                n_pes_ == after.failed.size()) {
                count(Feat::revivals);
            }
            break;
        case Stage::finished: count(Feat::finished); break;
        case Stage::ended:
            switch (after.end_reason) {
                case EndReason::no_spare: count(Feat::no_spare); break;
                case EndReason::copies_lost: count(Feat::copies_lost); break;
                case EndReason::all_died: count(Feat::all_died); break;
                case EndReason::nothing_committed: count(Feat::nothing_committed); break;
                case EndReason::past_the_end: count(Feat::past_the_end); break;
                case EndReason::requested: count(Feat::requested); break;
                case EndReason::none:
                case EndReason::mismatched_calls: break;
            }
            break;
        case Stage::replicating:
        case Stage::updating:
        case Stage::restored: break;
    }
}

void Coverage::returned(ProcId process, PeId pe, Call /*call*/, Participant::Do result, std::uint32_t /*view*/,
                        Version /*version*/) {
    if (result == Participant::Do::resumed && process.value() != pe.value()) {
        count(Feat::substitutes);
    }
}

void Coverage::copy_done(const Place& place, Version /*version*/, const Content& /*content*/) {
    if (place.slot < 0) {
        count(Feat::folds);
    }
}

void Coverage::gave_up(ProcId /*process*/, PeId /*pe*/, const JobState& /*state*/) { count(Feat::give_ups); }

void Coverage::must_stop(ProcId /*process*/, const JobState& /*state*/, const Stop& why) {
    count(why.reason == Stop::Reason::no_quorum ? Feat::minorities : Feat::exclusions);
}

void Coverage::could_not_open(ProcId /*process*/) { count(Feat::closed); }

void Coverage::restored(ProcId /*process*/, std::uint32_t /*view*/, RestoredFrom where) {
    count(where == RestoredFrom::own_copy           ? Feat::own_restores
          : where == RestoredFrom::shadow           ? Feat::shadow_restores
          : where == RestoredFrom::copy_of_the_dead ? Feat::adoptions
                                                    : Feat::mends);
}

void Coverage::shadow_sent_anew(ProcId /*process*/) { count(Feat::new_shadows); }

void Coverage::found_all_words(ProcId /*process*/) { count(Feat::full_words); }

void Coverage::still_taken(ProcId /*process*/, PeId /*pe*/, Version /*version*/, const Content& /*content*/) {
    count(Feat::stills);
}

void Coverage::settled(ProcId /*process*/, Participant::Do result) {
    count(result == Participant::Do::committed ? Feat::settled : Feat::failed_meanwhile);
}

void Coverage::add(const Coverage& other) noexcept {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
        counts_[i] += other.counts_[i];
    }
}

bool Coverage::has_used_node_memory(std::uint64_t n_jobs) const noexcept {
    return n_jobs < kJobsMin || ((*this)[Feat::adoptions] * 50 >= n_jobs && (*this)[Feat::revivals] * 1000 >= n_jobs);
}

bool Coverage::has_used_words(std::uint64_t n_jobs) const noexcept {
    return n_jobs < kJobsMin || ((*this)[Feat::full_words] * 4 >= n_jobs && (*this)[Feat::recoveries] * 80 >= n_jobs);
}

// About a third of what there is.
bool Coverage::has_used_background(std::uint64_t n_jobs) const noexcept {
    return n_jobs < kJobsMin ||
           ((*this)[Feat::settled] * 2 >= n_jobs && (*this)[Feat::failed_meanwhile] * 40 >= n_jobs);
}

std::string Coverage::what_is_missing(std::uint64_t n_jobs) const {
    std::string text;
    for (std::size_t i = 0; i < counts_.size() && n_jobs >= kJobsMin; ++i) {
        const auto floor = static_cast<std::uint64_t>(kFloors[i].per_job * static_cast<double>(n_jobs));
        if (counts_[i] < floor) {
            text += format("%s%s: %llu, at least %llu", text.empty() ? "" : "; ", kFloors[i].name,
                           static_cast<unsigned long long>(counts_[i]), static_cast<unsigned long long>(floor));
        }
    }
    return text;
}

std::string Coverage::to_string() const {
    std::string text;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
        text += format("%s%s %llu", i == 0 ? "" : ", ", kFloors[i].name, static_cast<unsigned long long>(counts_[i]));
    }
    return text;
}

}  // namespace sft::sim
