#include "shmem_ft/membership/job_state.hpp"

#include <algorithm>

#include "shmem_ft/base/report.hpp"

namespace sft {
namespace {

auto by_pe = [](const Replacement& replacement, PeId pe) { return replacement.pe < pe; };
auto by_process = [](const Death& death, ProcId process) { return death.process < process; };

template <class List, class Less>
bool is_strictly_sorted(const List& list, Less less) {
    return std::adjacent_find(list.begin(), list.end(), [&](const auto& a, const auto& b) { return !less(a, b); }) ==
           list.end();
}

}  // namespace

const char* name_of(Stage stage) noexcept {
    switch (stage) {
        case Stage::running: return "running";
        case Stage::shipping: return "shipping";
        case Stage::folding: return "folding";
        case Stage::faulted: return "faulted";
        case Stage::planned: return "planned";
        case Stage::restored: return "restored";
        case Stage::finished: return "finished";
        case Stage::ended: return "ended";
    }
    return "?";
}

const char* name_of(Goal goal) noexcept {
    switch (goal) {
        case Goal::none: return "none";
        case Goal::arrive: return "arrive";
        case Goal::ship: return "ship";
        case Goal::fold: return "fold";
        case Goal::restart: return "restart";
        case Goal::restore: return "restore";
        case Goal::protect: return "protect";
        case Goal::finish: return "finish";
        case Goal::any: return "any";
    }
    return "?";
}

bool contains(std::span<const Death> sorted_by_process, ProcId process) noexcept {
    const auto at = std::lower_bound(sorted_by_process.begin(), sorted_by_process.end(), process, by_process);
    return at != sorted_by_process.end() && at->process == process;
}

bool insert_sorted(std::vector<Death>& deaths, const Death& death) {
    const auto at = std::lower_bound(deaths.begin(), deaths.end(), death.process, by_process);
    if (at != deaths.end() && at->process == death.process) {
        return false;
    }
    deaths.insert(at, death);
    return true;
}

ProcId JobShape::holder(const JobState& state, PeId pe) const noexcept {
    const auto at = std::lower_bound(state.replacements.begin(), state.replacements.end(), pe, by_pe);
    return at != state.replacements.end() && at->pe == pe ? at->process : ProcId(pe.value());
}

PeId JobShape::held_by(const JobState& state, ProcId process) const noexcept {
    for (const Replacement& replacement : state.replacements) {
        if (replacement.process == process) {
            return replacement.pe;
        }
    }
    if (process.value() < 0 || process.value() >= n_pes) {
        return kNoPe;
    }
    const PeId original(process.value());
    return holder(state, original) == process ? original : kNoPe;
}

ProcId JobShape::keeper_to_be(const JobState& state, PeId pe) const noexcept {
    return n_pes == 1 ? state.witness : holder(state, PeId((pe.value() + 1) % n_pes));
}

ProcId JobShape::keeper(const JobState& state, PeId pe) const noexcept {
    return std::binary_search(state.exposed.begin(), state.exposed.end(), pe) ? kNoProc : keeper_to_be(state, pe);
}

std::vector<ProcId> JobShape::idle_spares(const JobState& state, std::span<const Death> dead) const {
    std::vector<ProcId> idle;
    for (std::int32_t process = n_pes; process < n_processes; ++process) {
        if (held_by(state, ProcId(process)) == kNoPe && !contains(dead, ProcId(process))) {
            idle.push_back(ProcId(process));
        }
    }
    for (const ProcId process : state.joined) {
        if (held_by(state, process) == kNoPe && !contains(dead, process)) {
            idle.push_back(process);
        }
    }
    return idle;
}

std::string check_invariants(const JobShape& shape, const JobState& state, const JobState* before) {
    std::vector<Death> seen;
    for (const Death& death : state.deaths) {
        if (!insert_sorted(seen, death)) {
            return format("1: process %d died twice", death.process.value());
        }
    }
    if (!is_strictly_sorted(state.replacements, [](auto a, auto b) { return a.pe < b.pe; }) ||
        !is_strictly_sorted(state.exposed, [](auto a, auto b) { return a < b; })) {
        return "2: a list is not sorted by PE";
    }
    for (const Replacement& replacement : state.replacements) {
        const PeId own(replacement.process.value());  // of a process that has started as a PE
        const bool has_own = own.value() < shape.n_pes && shape.holder(state, own) == replacement.process;
        if (shape.held_by(state, replacement.process) != replacement.pe || has_own) {
            return format("2: process %d holds two PEs", replacement.process.value());
        }
    }
    if (!is_strictly_sorted(state.joined, [](auto a, auto b) { return a < b; }) ||
        (!state.joined.empty() && state.joined.front().value() < shape.n_processes)) {
        return "5: who has joined is not in order";
    }
    if (before == nullptr) {
        return {};
    }
    if (state.joined.size() < before->joined.size() ||
        !std::equal(before->joined.begin(), before->joined.end(), state.joined.begin())) {
        return "5: a process that has joined is gone";
    }
    if (state.index != before->index + 1) {
        return "the index does not follow";
    }
    if (state.deaths.size() < before->deaths.size() ||
        !std::equal(before->deaths.begin(), before->deaths.end(), state.deaths.begin())) {
        return "1: an agreed death has changed";
    }
    const bool commits = before->stage == Stage::folding && state.stage == Stage::running;
    if (state.version.value() != before->version.value() + (commits ? 1U : 0U)) {
        return "3: the version jumps";
    }
    const bool resumes = before->stage == Stage::restored && state.stage == Stage::running;
    if (state.view != before->view + (resumes ? 1U : 0U)) {
        return "4: the view jumps";
    }
    return {};
}

std::string to_string(const JobState& state) {
    std::string text = format("%llu:%s v%u view %u", static_cast<unsigned long long>(state.index), name_of(state.stage),
                              state.version.value(), state.view);
    if (state.attempt != 0) {
        text += format(" attempt %u", state.attempt);
    }
    for (const Death& death : state.deaths) {
        text += format(" -p%d", death.process.value());
    }
    for (const ProcId process : state.joined) {
        text += format(" +p%d", process.value());
    }
    for (const Replacement& replacement : state.replacements) {
        text += format(" pe%d=p%d", replacement.pe.value(), replacement.process.value());
    }
    for (const PeId pe : state.exposed) {
        text += format(" exposed:%d", pe.value());
    }
    return text;
}

}  // namespace sft
