// Deliberate protocol bugs for the simulator's self-check: with each of them switched in, it has to find a violation.
// In every other build is_mutated() is false at compile time and the bugs do not exist.
#pragma once

namespace sft {

enum class Mutation : int {
    none = 0,
    decide_without_child,       // the leader does not wait for its last child
    answer_before_children,     // an inner node answers collect before its subtree has
    forget_acceptance,          // a new ballot makes a process forget what it has accepted
    ignore_forced_value,        // a new leader chooses freely although all have accepted a value
    accept_old_ballot,          // a proposal of an older ballot is accepted
    keep_lower_ballot,          // collect of a higher ballot is ignored if one is under way
    no_ballot_after_death,      // the leader does not begin a ballot when a participant dies
    drop_deaths_of_others,      // deaths that others tell are dropped
    commit_before_replicated,   // a checkpoint is committed when all have arrived
    skip_updating,              // a process is ready before it has updated
    restore_wrong_version,      // a restart goes back to the version before
    forget_unprotected,         // a PE whose keeper died still counts as protected
    reuse_bound_spare,          // a new attempt gives a substitute's PE to another spare
    same_spare_twice,           // two PEs get one spare
    view_check_missing,         // being ready under an older value is counted for this one
    resume_before_protected,    // a restart is over when all are restored
    minority_decides,           // the smaller side of a partition goes on
    ignore_exclusion,           // a process that was declared dead goes on
    adopt_without_forwarding,   // collect is not passed on when it brings a later value
    keeper_on_own_node,         // shadows are placed without regard to nodes
    leave_misfits,              // a keeper stays on the node of its PE where one has more PEs than a step is long
    forget_protected_layout,    // while PEs move, shadows are looked for where they are to be
    skip_moved_shadow,          // a shadow that belongs elsewhere now is not sent there
    settle_early,               // shadows count as moved when the plan is made
    tie_for_both,               // half of the participants is enough for either half
    ask_one_only,               // a node is lost when its lowest process is silent
    leave_spares_untold,        // sleeping spares do not hear of deaths on other nodes
    census_without_deaths,      // who answers a census goes on listening to the dead
    go_on_without_holder,       // who waits for a spare goes on when all others are ready
    remind_nobody,              // who tells a leader that is dead waits for its answer
    forget_lost_watchers,       // who is taken for lost can have called nobody lost before
    accuse_whoever,             // a node that is missed is lost, whatever it counts for and whoever hears it
    trust_every_port,           // who was cut off takes a refused port for proof that it is alone
    shadow_reads_corrupt,       // whoever reads a shadow finds it bad (in the simulator's memory)
    fetch_from_keeper_to_be,    // a substitute asks for its copy where it is to be (there, too)
    majority_stops,             // whoever leads after an uncertain death takes its side for the smaller one
    failed_omits_one,           // of several deaths the list of a fault names all but the last
    further_not_filled,         // who dies in a restart is in no list
    enter_before_quiet,         // a collective call begins while puts are under way (in the simulator's data plane)
    send_again_what_arrived,    // a connection that is made anew repeats what the other end has (there, too)
    take_puts_of_dead,          // puts of those that are known to be dead are taken (there, too)
    take_closed_for_dead,       // whoever cannot be opened counts as gone (there, too)
    forget_to_record,           // a value is not recorded where it outlives the process
    no_heir,                    // what a dead keeper has left on its node is nobody's
    ignore_words,               // the leader chooses freely although all words of readiness are there
    vote_in_ballot,             // who has joined a ballot goes on with words
    decide_without_word,        // one word is not waited for
    words_before_proposals,     // a leader takes words for final that are of later values
    adopt_stale_copy,           // a substitute takes the local copy of the one before, of whatever version (there, too)
    ready_with_torn_share,      // a checkpoint goes on whose share a dead keeper has left torn on its node (there, too)
    overwrite_in_place,         // a share is sent again to where it is, through another process of the node
    leave_dead_alive,           // who was declared dead may wake up beside who has its memory now (there, too)
    take_lowest_spares,         // a PE goes to another node though a spare sleeps on its own
    count_unread_records,       // a spare goes on from what it knows though nobody has read what some of the dead knew
    lead_by_number,             // leaders follow each other by their numbers, whoever has taken part before
    forget_rounds,              // what was added for a checkpoint that failed counts for the next one (there, too)
    keep_uncommitted_parity,    // parity of a checkpoint that failed is not dropped (there, too)
    leave_torn_copy,            // what a dead neighbour has left torn is not made whole (there, too)
    parity_on_own_node,         // groups are made without regard to nodes
    one_loss_too_many,          // a group counts on bringing back one member more than it can
    copy_before_all_have_come,  // a process copies its memory while others still put to it (there, too)
    go_on_before_all_have_copied,  // a program goes on, and puts, while others copy (there, too)
    copy_live_memory,              // copies are made of memory that the program changes meanwhile (there, too)
    guard_before_all_hold,         // a process looks what is held before all have said so (there, too)
    write_what_is_held,            // a process writes to memory that has not been copied (there, too)
    count_
};

#ifdef SFT_MUTATIONS
extern Mutation g_mutation;
[[nodiscard]] inline bool is_mutated(Mutation mutation) noexcept { return g_mutation == mutation; }
#else
[[nodiscard]] constexpr bool is_mutated(Mutation) noexcept { return false; }
#endif

}  // namespace sft
