"""Processes that stand still: stopped by a signal, or stuck on their way out. Only too long is a failure."""

import re
import signal
import time

from bench import JACOBI, await_commit, await_repair, check, check_error, check_success, jacobi_results, kill_pes

HUNG = 3  # SHMEM_FT_HUNG of shmem_ft.h; a status has the kind above 16 bits of detail
STEPS = 60
ODD = ["--steps", str(STEPS), "--pace", "20"]


def bound_ms(bench) -> int:
    """Of standing still: a second, and more where everything is slower. A busy machine must not come near it."""
    return int(bench.timeout_s * 1000 / 60)


def bounded(bench) -> dict:
    return {"SHMEM_FT_HANG_TIMEOUT": str(bound_ms(bench))}


def failures(outcome) -> list:
    """(rank, kind of failure) of every process that was found dead."""
    return [(event.value, event.code >> 16) for event in outcome.events if event.kind == "failure_seen"]


def lists_given(outcome) -> set:
    return set(re.findall(r"list of PE (\d+): PE (\d+) kind (\d+)", outcome.stderr))


def odd_results(bench, *arguments):
    expected = bench.run(4, 0, "odd", *arguments)
    check(expected.exit_code == 0 and expected.results(), "the run without a fault failed", expected)
    return expected.results()


def check_hung(outcome, pe, results) -> None:
    """The PE, and nobody else, was killed for standing still, and all that live were told so."""
    check_success(outcome, results)
    check(failures(outcome) == [(pe, HUNG)], f"failures {failures(outcome)}", outcome)
    told = {(str(of), str(pe), str(HUNG)) for of in range(4)}  # the substitute is PE `pe`, and is told as well
    check(lists_given(outcome) == told, f"lists {sorted(lists_given(outcome))}", outcome)


def stopped_too_long(pe):
    """PE 0 leads: the next one has to notice."""

    def case(bench):
        expected = odd_results(bench, *ODD[:2])
        job = bench.job(4, 1, "odd", *ODD, **bounded(bench))
        await_commit(job, 3)
        kill_pes(job, [pe], signal.SIGSTOP)
        await_repair(job)
        took_ms = (time.monotonic_ns() - job.deaths[-1].time_ns) / 1e6
        outcome = job.finish()
        check_hung(outcome, pe, expected)
        check(took_ms >= bound_ms(bench) / 2, f"killed and repaired after {took_ms:.0f} ms", outcome)

    return case


def stopped_shortly(bench):
    expected = jacobi_results(bench)
    job = bench.job(4, 1, "jacobi1d", *JACOBI, SHMEM_FT_HANG_TIMEOUT=str(3 * bound_ms(bench)))
    await_commit(job, 3)
    holders = [job.holder(pe) for pe in (0, 2, 3)]
    for _, pid in filter(None, holders):
        job.send(pid, signal.SIGSTOP)
        time.sleep(0.1)
        job.send(pid, signal.SIGCONT)
    outcome = job.finish()
    check_success(outcome, expected)
    check(not failures(outcome), f"failures {failures(outcome)}", outcome)


def all_suspended(bench):
    """As a shell does with Ctrl-Z: nobody could have heard anybody."""
    expected = jacobi_results(bench)
    job = bench.job(4, 2, "jacobi1d", *JACOBI, **bounded(bench))
    await_commit(job, 3)
    everybody = [event.pid for event in job.events if event.kind == "initialized"]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in everybody:
            job.send(pid, number)
        time.sleep(2 * bound_ms(bench) / 1e3 if number == signal.SIGSTOP else 0)
    outcome = job.finish()
    check(len(everybody) == 6, "not all were there to be stopped", outcome)
    check_success(outcome, expected)
    check(not failures(outcome), f"failures {failures(outcome)}", outcome)


def spare_stopped(bench):
    """It is killed, the job does not care, and the next spare is taken when a PE dies."""
    expected = odd_results(bench, *ODD[:2])
    # The steps do not stand still with a spare, so they have to take longer than the bound.
    pace_ms = 3 * bound_ms(bench) // STEPS
    job = bench.job(4, 2, "odd", *ODD[:2], "--pace", str(pace_ms), **bounded(bench))
    await_commit(job, 3)
    rank, pid = job.sleepers()[0]
    job.fail(rank, pid, -1, signal.SIGSTOP)
    job.wait_for(lambda event: event.kind == "failure_seen" and event.value == rank)
    kill_pes(job, [2])
    outcome = job.finish()
    check_success(outcome, expected)
    check(sorted(failures(outcome)) == [(2, 1), (rank, HUNG)], f"failures {failures(outcome)}", outcome)
    takers = [event.rank for event in outcome.events if event.kind == "pe_taken"]
    check(takers == [rank + 1], f"PE 2 was taken by {takers}", outcome)


def stuck_at_exit(bench):
    expected = odd_results(bench, *ODD[:2])
    outcome = bench.run(4, 1, "odd", "--mode", "exit", *ODD[:2], **bounded(bench))
    check_hung(outcome, 1, expected)


def stopped_behind_the_end(bench):
    """All others have left the finished job, so oshrun has to notice."""
    expected = odd_results(bench, *ODD[:2])
    begin = time.monotonic()
    outcome = bench.run(4, 1, "odd", "--mode", "stop", *ODD[:2], **bounded(bench))
    check_error(outcome, r"PE 1 .*killed by signal 9.*after shmem_finalize")
    check(outcome.results() == expected, f"results {outcome.results()}", outcome)
    check("has been stopped for" in outcome.stderr, "no word of why", outcome)
    check(time.monotonic() - begin >= bound_ms(bench) / 1e3, "ended too early", outcome)


def working_behind_the_end(bench):
    """Who computes on after shmem_finalize may do so for as long as it likes."""
    arguments = ["--steps", "1", "--pace", str(bound_ms(bench))]
    expected = odd_results(bench, *arguments[:2])
    check_success(bench.run(4, 1, "odd", "--mode", "linger", *arguments, **bounded(bench)), expected)


CASES = {
    "stopped-behind-the-end": stopped_behind_the_end,
    "working-behind-the-end": working_behind_the_end,
    "stopped-pe": stopped_too_long(2),
    "stopped-leader": stopped_too_long(0),
    "stopped-shortly": stopped_shortly,
    "all-suspended": all_suspended,
    "stopped-spare": spare_stopped,
    "stuck-at-exit": stuck_at_exit,
}
