"""Faults at points of the protocols, by a schedule (docs/fault-lab.md), and programs that break the rules."""

import re

from bench import check, check_ended, check_error, check_success
from stop_cases import odd_results

JACOBI = ["--cells", "4000", "--steps", "640", "--halo", "16"]


def jacobi(bench, pes, spares, schedule, **env):
    """The outcome under a schedule, and that of a run without faults; which faults happened is in the former."""
    expected = bench.run(pes, 0, "jacobi1d", *JACOBI)
    check(expected.exit_code == 0 and expected.results(), "the run without a fault failed", expected)
    outcome = bench.run(pes, spares, "jacobi1d", *JACOBI, SHMEM_FT_FAULTS=schedule, **env)
    return outcome, expected


def check_happened(outcome, *entries) -> None:
    """By the beginnings of the entries of the schedule."""
    for entry in entries:
        check(re.search(f"^shmem-ft: fault: {entry}", outcome.stderr, re.M), f"'{entry}' has not happened", outcome)


def check_one_line(outcome) -> None:
    """Why the job has ended is said once."""
    lines = [line for line in outcome.errors() if not line.startswith("shmem-ft: fault")]
    check(len(lines) == 1, f"{len(lines)} lines of errors", outcome)


def check_restarts(outcome, least=1) -> None:
    spans = [event for event in outcome.events if event.kind == "span" and event.text == "restart"]
    check(len(spans) >= least, "nothing was recovered", outcome)


# On pretended nodes, each PE on one of its own, PE 3 keeps what PE 2 had; on one node its memory does.
APART = {"SHMEM_FT_PRETEND_NODES": "4"}


# --- stored copies with a flipped bit ---


def bad_local_copy(seed):
    """PE 1 survives with a bad copy in its own memory; its keeper, PE 2, lives. PE 3 dies."""

    def case(bench):
        schedule = f"flip local seed {seed} of pe 1 at checkpoint_leave visit 8; kill pe 3 at checkpoint_enter visit 9"
        outcome, expected = jacobi(bench, 4, 1, schedule)
        check_success(outcome, expected.results())
        check_happened(outcome, "flip local", "kill pe 3")
        check_restarts(outcome)

    return case


def bad_copy_of_the_dead(copy, seed, spares=2, **env):
    """The node where the dead process was has another one, if a spare is there."""

    def case(bench):
        schedule = f"flip {copy} seed {seed} of pe 1 at checkpoint_leave visit 8; kill pe 1 at checkpoint_enter visit 9"
        outcome, expected = jacobi(bench, 4, spares, schedule, **env)
        check_happened(outcome, f"flip {copy}", "kill pe 1")
        if not env or spares == 2 or copy == "local":
            check_success(outcome, expected.results())
            check_restarts(outcome)
            return
        where = r"(block \d+ of|the header or the table of) .*PE 1 is bad .*shadow at process \d+"
        check_error(outcome, where + ".*data is lost$")
        check_one_line(outcome)
        check(set(outcome.results()) <= set(expected.results()), "a wrong result", outcome)

    return case


def both_copies_bad(bench):
    """The control: a survivor does read the bit that was flipped in its own copy, for without a shadow it is lost."""
    flips = "; ".join(f"flip {copy} seed 2 of pe 1 at checkpoint_leave visit 8" for copy in ("local", "shadow"))
    outcome, expected = jacobi(bench, 4, 2, f"{flips}; kill pe 3 at checkpoint_enter visit 9")
    check_happened(outcome, "flip local", "flip shadow", "kill pe 3")
    check_error(outcome, r"block \d+ of .*PE 1 is bad .*data is lost$")
    check_one_line(outcome)
    check(set(outcome.results()) <= set(expected.results()), "a wrong result", outcome)


def bad_shadow_of_a_survivor(bench):
    """A survivor goes back to its own copy, and replicates over the bad one later."""
    schedule = "flip shadow of pe 1 at checkpoint_leave visit 8; kill pe 3 at checkpoint_enter visit 9"
    outcome, expected = jacobi(bench, 4, 1, schedule)
    check_success(outcome, expected.results())
    check_restarts(outcome)


def named_once(bench):
    """PE 2 and then its substitute: the line named PE 2 twice."""
    outcome, _ = jacobi(bench, 4, 1, "kill pe 2 at replicate_begin visit 4; kill process 4 at restored")
    check_error(outcome, r"PE 2 failed .* no spare left to take over")
    check_happened(outcome, "kill pe 2", "kill process 4")
    line = next(line for line in outcome.errors() if "no spare left" in line)
    check(line.count("PE 2 failed") == 1, "PE 2 is named twice", outcome)


# --- programs that break the rules ---


def early_changes(bench):
    """The substitute comes late, when the survivors' memory is that of the version again: what it writes would stay."""
    words = ["--mode", "early", "--steps", "12"]
    expected = odd_results(bench, *words)
    for schedule in ("kill pe 2 at replicate_begin visit 4",
                     "kill pe 2 at arrived visit 3; delay 200 ms spare 0 at spare_woken",
                     "kill pe 2 at replicate_begin visit 7; delay 200 ms spare 0 at substitute_prepared"):
        outcome = bench.run(4, 1, "odd", *words, SHMEM_FT_FAULTS=schedule)
        check_success(outcome, expected)
        check_restarts(outcome)


def mismatched_calls(bench):
    outcome = bench.run(4, 1, "odd", "--mode", "mismatch", "--steps", "5")
    check_error(outcome, r"some PEs are in shmem_checkpoint_all and others in shmem_finalize")
    check_one_line(outcome)
    check(outcome.seconds < 5, f"ended after {outcome.seconds:.1f} s", outcome)


# --- the keeper dies before the substitute has the copy ---


def keeper_dies_in_restore(point, spares=2, **env):
    """Whether the substitute already has the copy is a matter of time, and both ends are right."""

    def case(bench):
        schedule = f"kill pe 2 at replicate_begin visit 11; kill pe 3 at {point}"
        outcome, expected = jacobi(bench, 4, spares, schedule, **env)
        check_ended(outcome)
        if outcome.exit_code == 0 or not env:
            check_success(outcome, expected.results())
            check_restarts(outcome)
        else:
            check_error(outcome, r"PE 2\b.*data is lost")
            check_one_line(outcome)

    return case


def keeper_dies_before_fetch(**env):
    """The substitute is held up until the keeper is dead."""

    def case(bench):
        schedule = "kill pe 2 at replicate_begin visit 11; delay 300 ms spare 0 at spare_woken; kill pe 3 at restored"
        outcome, expected = jacobi(bench, 4, 2, schedule, **env)
        if not env:
            check_success(outcome, expected.results())
            return
        check_error(outcome, r"PE 2\b.*data is lost")
        check_one_line(outcome)
        check(set(outcome.results()) <= set(expected.results()), "a wrong result", outcome)

    return case


def no_copies(bench):
    """Without copies a death ends the job, and the reason is no other death."""
    outcome, _ = jacobi(bench, 3, 1, "kill pe 1 at checkpoint_enter visit 5", SHMEM_FT_BACKUP_MODE="none")
    check_error(outcome, r"PE 1 failed \(killed by signal 9 \(Killed\)\) and no copies are kept")
    check_one_line(outcome)


CASES = {f"bad-local-copy-{seed}": bad_local_copy(seed) for seed in (1, 2, 3)}
CASES |= {f"bad-{copy}-of-the-dead-{seed}": bad_copy_of_the_dead(copy, seed)
          for copy in ("shadow", "local") for seed in (1, 2, 3)}
# The first spare is on node 0, the second one on node 1.
CASES |= {f"bad-shadow-of-the-dead-elsewhere-{seed}": bad_copy_of_the_dead("shadow", seed, spares=1, **APART) for seed in (1, 2, 3)}
CASES |= {f"bad-shadow-of-the-dead-and-a-spare-there-{seed}": bad_copy_of_the_dead("shadow", seed, **APART) for seed in (1, 2, 3)}
CASES |= {
    "both-copies-bad": both_copies_bad,
    "bad-shadow-of-a-survivor": bad_shadow_of_a_survivor,
    "no-copies": no_copies,
    "named-once": named_once,
    "early-changes": early_changes,
    "mismatched-calls": mismatched_calls,
    "keeper-dies-restoring": keeper_dies_in_restore("restored"),
    "keeper-dies-planned": keeper_dies_in_restore("plan_decided"),
    "keeper-dies-protecting": keeper_dies_in_restore("protect_begin"),
    "keeper-dies-before-fetch": keeper_dies_before_fetch(),
    "keeper-dies-elsewhere-restoring": keeper_dies_in_restore("restored", **APART),
    "keeper-dies-elsewhere-before-fetch": keeper_dies_before_fetch(**APART),
}
