// What a recovery leaves on the standard error: one line, said by one process. And what is likely when a substitute
// dies like the one before it.
//
// Fault model: whoever is to say the line may die before it does. Then there is none, or the next recovery's, which is
// about the same PE.

#include <algorithm>
#include <csignal>

#include "base/clock.hpp"
#include "base/report.hpp"
#include "shmem_ft/process/runtime.hpp"

namespace sft {
namespace {

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

}  // namespace

// After a restart, by the substitute of the lowest PE that had failed.
void Runtime::tell_recovery() const {
    const JobState& state = recovered_from_;
    std::vector<PeId> pes;
    for (const auto* list : {&state.failed, &state.further}) {
        std::transform(list->begin(), list->end(), std::back_inserter(pes),
                       [](const FailedPe& item) { return item.pe; });
    }
    std::sort(pes.begin(), pes.end());
    pes.erase(std::unique(pes.begin(), pes.end()), pes.end());
    if (pes.empty() || pes.front() != me_.load()) {
        return;
    }
    constexpr std::size_t kNamedMax = 4;
    const JobShape& shape = coordinator_->shape();
    std::int64_t begin_ns = now_ns();
    std::string who;
    for (std::size_t i = 0; i < pes.size(); ++i) {
        // Whoever held it when all was well. Seen on this node; of another node's process a little later than there.
        const std::int64_t seen_ns = control_.slot(holder_in(state.settled, pes[i])).death_seen_ns.load();
        begin_ns = seen_ns != 0 ? std::min(begin_ns, seen_ns) : begin_ns;
        if (i < kNamedMax) {
            const ProcId process = shape.holder(state, pes[i]);
            who += format("%sprocess %d%s", i == 0 ? "" : ", ", process.value(),
                          shape.is_one_node() ? "" : (" on " + links_.name_of(shape.node_of(state, process))).c_str());
        }
    }
    const Coordinator::Knowledge known = coordinator_->knowledge();
    const std::size_t n_spares = shape.idle_spares(known.state, known.deaths).size();
    const std::int32_t at_once = known.protected_losses;
    say("warning: %s: %s%s took over after %lld ms, and the job goes on from checkpoint %u; it survives %s",
        name_failed(state, pes).c_str(), who.c_str(), pes.size() > kNamedMax ? " and others" : "",
        static_cast<long long>((now_ns() - begin_ns) / 1'000'000), state.version.value(),
        at_once == 0 ? "no further loss of a PE now"
                     : format("%d further loss%s of a PE at one moment, %zu one after another", at_once,
                              at_once == 1 ? "" : "es", n_spares)
                           .c_str());
}

// Whether each of those that nobody can take over has died as a substitute, by its own doing, right after it had taken
// over: the next one would as well. Many programs make a checkpoint between the recovery and the next step.
bool Runtime::are_spares_in_vain(const JobState& state) const {
    const auto reason_of = [&state](PeId pe) {
        FailureReason reason;
        for (const auto* list : {&state.failed, &state.further}) {
            for (const FailedPe& item : *list) {
                reason = item.pe == pe ? item.reason : reason;  // the last one
            }
        }
        return reason;
    };
    const auto is_in_vain = [&](PeId pe) {
        const ProcId last = coordinator_->shape().holder(state, pe);
        const bool is_before_view = last != holder_in(state.settled, pe);
        return last.value() != pe.value() && is_own_doing(reason_of(pe)) &&
               (is_before_view || state.version.value() <= version_of_view_.load().value() + 1);
    };
    return !state.lost.empty() && std::all_of(state.lost.begin(), state.lost.end(), is_in_vain);
}

}  // namespace sft
