#include "tests/sim/mutations.hpp"

#include <algorithm>

#ifdef SFT_MUTATIONS
namespace sft {
Mutation g_mutation = Mutation::none;
}  // namespace sft
#endif

namespace sft::sim {

namespace {

// In the order of the enumeration.
const std::vector<std::string> kNames = {
#ifdef SFT_MUTATIONS
    "decide_without_child",
    "answer_before_children",
    "forget_acceptance",
    "ignore_forced_value",
    "accept_old_ballot",
    "keep_lower_ballot",
    "no_ballot_after_death",
    "drop_deaths_of_others",
    "commit_before_replicated",
    "skip_updating",
    "restore_wrong_version",
    "forget_unprotected",
    "reuse_bound_spare",
    "same_spare_twice",
    "view_check_missing",
    "resume_before_protected",
    "minority_decides",
    "ignore_exclusion",
    "adopt_without_forwarding",
    "keeper_on_own_node",
    "leave_misfits",
    "forget_protected_layout",
    "skip_moved_shadow",
    "settle_early",
    "tie_for_both",
    "ask_one_only",
    "leave_spares_untold",
    "census_without_deaths",
    "go_on_without_holder",
    "remind_nobody",
    "forget_lost_watchers",
    "accuse_whoever",
    "trust_every_port",
    "shadow_reads_corrupt",
    "fetch_from_keeper_to_be",
    "majority_stops",
    "failed_omits_one",
    "further_not_filled",
    "enter_before_quiet",
    "send_again_what_arrived",
    "take_puts_of_dead",
    "take_closed_for_dead",
    "forget_to_record",
    "no_heir",
    "ignore_words",
    "vote_in_ballot",
    "decide_without_word",
    "words_before_proposals",
    "adopt_stale_copy",
    "ready_with_torn_share",
    "overwrite_in_place",
    "leave_dead_alive",
    "take_lowest_spares",
    "count_unread_records",
    "lead_by_number",
    "forget_rounds",
    "keep_uncommitted_parity",
    "leave_torn_copy",
    "parity_on_own_node",
    "one_loss_too_many",
    "copy_before_all_have_come",
    "go_on_before_all_have_copied",
    "copy_live_memory",
    "guard_before_all_hold",
    "write_what_is_held",
#endif
};

}  // namespace

const std::vector<std::string>& mutation_names() { return kNames; }

bool switch_on(const std::string& name) {
    const auto at = std::find(mutation_names().begin(), mutation_names().end(), name);
    if (at == mutation_names().end()) {
        return false;
    }
#ifdef SFT_MUTATIONS
    g_mutation = static_cast<Mutation>(at - mutation_names().begin() + 1);
    static_assert(static_cast<int>(Mutation::count_) == 66, "name the new bug above");
#endif
    return true;
}

void switch_off() {
#ifdef SFT_MUTATIONS
    g_mutation = Mutation::none;
#endif
}

}  // namespace sft::sim
