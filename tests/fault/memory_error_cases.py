"""A PE that an error of the machine's memory ends (SIGBUS), and pages of it that cannot be read any more. Such pages are made by
a schedule: reading what was left fails with EIO, twice for a piece and its first page, or always."""

import signal

from bench import JACOBI, await_commit, check, check_error, check_success, jacobi_results, kill_pes

SAID = "cannot be read any more"


def ended_by_memory(bench, schedule):
    job = bench.job(4, 1, "jacobi1d", *JACOBI, **({"SHMEM_FT_FAULTS": schedule} if schedule else {}))
    await_commit(job, 3)
    kill_pes(job, [1], signal.SIGBUS)
    return job.finish()


def all_can_be_read(bench):
    outcome = ended_by_memory(bench, "")
    check_success(outcome, jacobi_results(bench))
    check(SAID not in outcome.stderr, "pages were given up", outcome)


def one_page(bench):
    """Each piece in turn: of both slots of the shadow with their headers, of the heap, of the PE's own copy."""
    expected = jacobi_results(bench)
    n_told = 0
    for visit in range(1, 40):
        outcome = ended_by_memory(bench, f"fail EIO 2 times spare 0 at call_read_left visit {visit}")
        check_success(outcome, expected)
        if "shmem-ft: fault: fail EIO" not in outcome.stderr:
            break
        check(outcome.stderr.count(SAID) == 1, "no page was given up", outcome)
        n_told += 1
    check(n_told >= 4, f"only {n_told} pieces were read", outcome)


def nothing_can_be_read(bench):
    check_error(ended_by_memory(bench, "fail EIO spare 0 at call_read_left every"), r"PE 1\b.*the data is lost")


CASES = {
    "memory-error-and-all-can-be-read": all_can_be_read,
    "memory-error-in-one-page": one_page,
    "memory-error-in-everything": nothing_can_be_read,
}
