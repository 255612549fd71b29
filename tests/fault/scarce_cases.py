"""System calls that fail while everybody lives. The job recovers, or it ends in time with one line that says why."""

import re

from bench import check, check_ended, check_error, check_success


def right_results(bench):
    expected = bench.run(4, 0, "scarce")
    check(expected.exit_code == 0 and len(expected.results()) == 4, "the run without trouble failed", expected)
    return expected.results()


def ends(mode, pattern, *arguments, spares=1, is_late=False):
    """With a line, and nobody waits for ever: the bench counts a job that does not end as hung. is_late: the program is done by then."""

    def case(bench):
        outcome = bench.run(4, spares, "scarce", "--mode", mode, *arguments)
        check_error(outcome, pattern)
        of_recovery = ("shmem-ft: fault", "shmem-ft: warning: PE")
        lines = [line for line in outcome.errors() if not line.startswith(of_recovery)]
        check(len(set(lines)) == 1, f"{len(lines)} lines of errors", outcome)
        check(is_late or not outcome.results(), "results of a job that failed", outcome)

    return case


def full(left):
    """What the dead PE's connections give back may just be enough; if not, the line names the limit."""

    def case(bench):
        expected = right_results(bench)
        outcome = bench.run(4, 1, "scarce", "--mode", "full", "--left", str(left))
        if outcome.exit_code == 0:
            check_success(outcome, expected)
        else:
            check_error(outcome, r"Too many open files: .*200 descriptors.*ulimit -n")

    return case


def ended_by_the_library(bench):
    """shmem_finalize in an exit handler waited for the others, who waited for this PE."""
    expected = right_results(bench)
    outcome = bench.run(4, 1, "scarce", "--mode", "leave")
    check_ended(outcome)
    check(re.search(r"there is no PE 4", outcome.stderr), "the error is not named", outcome)
    if outcome.exit_code == 0:
        check_success(outcome, expected)


def ends_itself(mode):
    """The same of a program that calls exit() with an error: the others replace it."""

    def case(bench):
        expected = right_results(bench)
        outcome = bench.run(4, 1, "scarce", "--mode", mode)
        check_success(outcome, expected)
        check(any(event.kind == "pe_taken" for event in outcome.events), "nobody was replaced", outcome)

    return case


CASES = {f"scarce-descriptors-{left}": full(left) for left in (0, 2)}
CASES |= {
    "scarce-memory-shut": ends("shut", r"cannot reach the memory of process 4.*Permission denied"),
    "scarce-connections-shut": ends("deaf", r"lost its connection to process \d", is_late=True),
    "ended-by-the-library": ended_by_the_library,
    "ends-itself": ends_itself("exit"),
    "ends-itself-early-handler": ends_itself("exit-early"),
}
