#include "recovery/explanations.hpp"

#include <algorithm>
#include <csignal>
#include <iterator>

#include "base/assert.hpp"
#include "base/report.hpp"
#include "recovery/lost_spares.hpp"
#include "recovery/membership/parity_scheme.hpp"
#include "recovery/membership/scheme.hpp"

namespace sft {
namespace {

// What follows the names is the reason, which must not be cut off: so only the first ones are named.
constexpr std::size_t kNamedMax = 4;

// By these a program ends because of what it does itself.
bool is_own_doing(FailureReason reason) noexcept {
    switch (reason.kind) {
        case FailureKind::exited: return true;
        case FailureKind::signal:
            return reason.code == SIGSEGV || reason.code == SIGBUS || reason.code == SIGFPE || reason.code == SIGILL ||
                   reason.code == SIGABRT || reason.code == SIGSYS || reason.code == SIGTRAP;
        default: return false;
    }
}

// Of its last failure.
FailureReason reason_of(const JobState& state, PeId pe) noexcept {
    FailureReason reason;
    for (const auto* list : {&state.failed, &state.further}) {
        for (const FailedPe& item : *list) {
            reason = item.pe == pe ? item.reason : reason;
        }
    }
    return reason;
}

bool contains_pe(std::span<const PeId> pes, PeId pe) noexcept {
    return std::find(pes.begin(), pes.end(), pe) != pes.end();
}

std::string plural_were(std::int32_t count) { return format("%d %s", count, count == 1 ? "was" : "were"); }

}  // namespace

std::string name_failed(const JobState& state, std::span<const PeId> pes) {
    std::vector<std::string> names;
    std::vector<PeId> listed;
    for (const auto* list : {&state.failed, &state.further}) {
        for (const FailedPe& item : *list) {
            // A PE whose substitute has died as well is in both lists.
            if (contains_pe(pes, item.pe) && !contains_pe(listed, item.pe)) {
                names.push_back(format("PE %d failed (%s)", item.pe.value(), describe(item.reason).c_str()));
                listed.push_back(item.pe);
            }
        }
    }
    for (const PeId pe : pes) {
        if (!contains_pe(listed, pe)) {
            names.push_back(format("PE %d failed", pe.value()));  // too late for any list
        }
    }
    std::string who;
    for (std::size_t i = 0; i < std::min(names.size(), kNamedMax); ++i) {
        who += (i == 0 ? "" : ", ") + names[i];
    }
    return names.size() <= kNamedMax ? who : who + format(", and %zu more failed", names.size() - kNamedMax);
}

std::vector<PeId> failed_pes(const JobState& state) {
    std::vector<PeId> pes;
    for (const auto* list : {&state.failed, &state.further}) {
        std::transform(list->begin(), list->end(), std::back_inserter(pes),
                       [](const FailedPe& item) { return item.pe; });
    }
    std::sort(pes.begin(), pes.end());
    pes.erase(std::unique(pes.begin(), pes.end()), pes.end());
    return pes;
}

namespace {

// Whoever kept for that PE when everybody was protected last.
std::string and_so_have_keepers(const JobShape& shape, const JobState& state, PeId pe) {
    if (has_parity(shape)) {
        const ParityGroup group = shape.groups->of(pe);
        return format(", and so have more of the %zu PEs that keep parity of each other than the %d that may",
                      group.members.size(), group.n_parity);
    }
    const std::size_t n_copies = shape.scheme->place(shape, state, state.protected_layout)->of(pe).size();
    return n_copies < 2 ? std::string(", and so has the process that kept the copy of the last checkpoint")
                        : format(", and so have the %zu processes that kept copies of the last checkpoint", n_copies);
}

}  // namespace

std::string lost_copy(const JobShape& shape, const JobState& state, PeId pe) {
    return name_failed(state, std::span(&pe, 1)) + and_so_have_keepers(shape, state, pe);
}

// Many programs make a checkpoint between the recovery and the next step.
bool are_spares_in_vain(const JobFacts& facts) {
    const JobState& state = facts.state;
    const auto is_in_vain = [&](PeId pe) {
        const ProcId last = facts.shape.holder(state, pe);
        const bool is_before_view = last != holder_in(state.protected_layout, pe);
        return last.value() != pe.value() && is_own_doing(reason_of(state, pe)) &&
               (is_before_view || state.version.value() <= facts.version_of_view.value() + 1);
    };
    return !state.lost.empty() && std::all_of(state.lost.begin(), state.lost.end(), is_in_vain);
}

// Who has had spares, and lost them with a node, is not helped by more of them in the same place.
std::string lack_of_spares(const JobFacts& facts) {
    if (are_spares_in_vain(facts)) {
        return " as its own substitute, right after it had taken over, and there is no spare left to take over; more "
               "of them would hardly help: most likely it needs what a substitute does not find, as private arrays, "
               "pointers to memory of malloc, open files or a loop that is left early (docs/faults.md, shmem-ft "
               "globals)";
    }
    const LostSpares lost = lost_spares(facts.shape, facts.state, facts.dead);
    std::string text = " and there is no spare left to take over: ";
    if (lost.n_alone == 0 && lost.with_node.empty()) {
        return text + "start the job with more spares (oshrun --spares)";
    }
    text += format("of %d spare%s ", lost.n_spares, lost.n_spares == 1 ? "" : "s");
    for (const auto& [node, count] : lost.with_node) {
        text += plural_were(count) + " lost with " + facts.node_name(node) + ", ";
    }
    if (lost.n_alone != 0) {
        text += format("%d %s died, ", lost.n_alone, lost.n_alone == 1 ? "has" : "have");
    }
    text.replace(text.size() - 2, 2, ": ");
    return text + (lost.with_node.empty()
                       ? "start the job with more spares (oshrun --spares)"
                       : "start more of them, or on hosts of their own (oshrun --spares, --spare-nodes)");
}

std::string explain_end(const JobFacts& facts) {
    const std::string who = name_failed(facts.state, facts.state.lost);
    const PeId lost = facts.state.lost.empty() ? PeId(0) : facts.state.lost.front();
    switch (facts.state.end_reason) {
        case EndReason::nothing_committed:
            return (who.empty() ? std::string("shmem_restart_pes was called") : who) +
                   " before the first checkpoint was committed: there is nothing to go back to";
        case EndReason::no_spare: return who + lack_of_spares(facts);
        case EndReason::copies_lost:
            if (!facts.keeps_copies) {
                return who + " and no copies are kept to go back to: set SHMEM_FT_BACKUP_MODE to single or double";
            }
            return who + and_so_have_keepers(facts.shape, facts.state, lost) + ": the data is lost";
        case EndReason::all_died: return who + ": no process is left that holds a PE, and the data is lost";
        case EndReason::mismatched_calls:
            return "some PEs are in shmem_checkpoint_all and others in shmem_finalize: every PE must make the same "
                   "collective calls in the same order";
        default: return {};
    }
}

std::string recovery_line(const JobFacts& facts, const Recovery& recovery) {
    const std::vector<PeId> pes = failed_pes(facts.state);
    SFT_ASSERT(!pes.empty());
    std::string who;
    for (std::size_t i = 0; i < std::min(pes.size(), kNamedMax); ++i) {
        const ProcId process = facts.shape.holder(facts.state, pes[i]);
        who += format("%sprocess %d", i == 0 ? "" : ", ", process.value());
        if (!facts.shape.is_one_node()) {
            who += " on " + facts.node_name(facts.shape.node_of(facts.state, process));
        }
    }
    const std::int32_t at_once = recovery.losses_at_once;
    const std::string survives = at_once == 0 ? "no further loss of a PE now"
                                              : format("%d further loss%s of a PE at one moment, %zu one after another",
                                                       at_once, at_once == 1 ? "" : "es", recovery.n_spares);
    return format("%s: %s%s took over after %lld ms, and the job goes on from checkpoint %u; it survives %s",
                  name_failed(facts.state, pes).c_str(), who.c_str(), pes.size() > kNamedMax ? " and others" : "",
                  static_cast<long long>(recovery.lasted_ms), facts.state.version.value(), survives.c_str());
}

}  // namespace sft
