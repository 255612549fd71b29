"""SHMEM_FT_INTERVAL: which calls make a version, the same ones on all PEs, whoever dies while they find out."""

from bench import JACOBI, check, check_success, jacobi_results

CALLS = 41  # of jacobi1d: 640 steps, a call every 16, and one behind the last


def versions(outcome, pe=0):
    return [event.value for event in outcome.events if event.is_commit() and event.pe == pe]


def counted(bench):
    expected = jacobi_results(bench, 3)
    for interval, count in (("1", CALLS), ("4", 11), ("40", 2), ("41", 1), ("1000", 1)):
        outcome = bench.run(3, 0, "jacobi1d", *JACOBI[:-2], SHMEM_FT_INTERVAL=interval)
        check_success(outcome, expected)
        for pe in range(3):
            check(len(versions(outcome, pe)) == count, f"every {interval}: {versions(outcome, pe)} of PE {pe}", outcome)


def timed(interval, least, most, **env):
    """40 steps of 10 ms, more or less, and all PEs make the same versions; the upper bound holds on a busy machine too."""
    def case(bench):
        expected = jacobi_results(bench, 3)
        outcome = bench.run(3, 0, "jacobi1d", *JACOBI, SHMEM_FT_INTERVAL=interval, **env)
        check_success(outcome, expected)
        check(least <= len(versions(outcome)) <= most, f"{interval}: {versions(outcome)}", outcome)
        check(versions(outcome, 1) == versions(outcome) == versions(outcome, 2), "PEs make different versions", outcome)

    return case


def killed(interval, *places, **env):
    def case(bench):
        expected = jacobi_results(bench, 4)
        for place in places:
            outcome = bench.run(4, 1, "jacobi1d", *JACOBI, SHMEM_FT_INTERVAL=interval, SHMEM_FT_FAULTS=f"kill {place}", **env)
            check_success(outcome, expected)
            check(any(event.kind == "pe_taken" for event in outcome.events), f"nobody has died: {place}", outcome)

    return case


IN_COUNTED = ["pe 2 at checkpoint_leave visit 2 after 35 ms", "pe 0 at checkpoint_leave visit 3 after 15 ms",
              "pe 1 at replicate_middle visit 3", "pe 3 at checkpoint_leave visit 2"]
IN_TIMED = ["pe 2 at due_asked visit 3", "pe 2 at due_told visit 3", "pe 0 at due_asked visit 3", "pe 0 at due_told visit 4",
            "pe 0 at due_told visit 5", "pe 0 at update_middle visit 2", "pe 1 at checkpoint_leave visit 2 after 20 ms"]

CASES = {
    "interval-counted": counted,
    "interval-timed": timed("100ms", 2, 8),
    "interval-long": timed("1h", 1, 1),
    "interval-auto": timed("auto", 2, CALLS - 1, SHMEM_FT_MTBF="1s"),
    "interval-counted-killed": killed("6", *IN_COUNTED),
    "interval-timed-killed": killed("50ms", *IN_TIMED),
    "interval-auto-killed": killed("auto", *IN_TIMED[:5], SHMEM_FT_MTBF="1s"),
    "interval-timed-killed-two-nodes": killed("50ms", *IN_TIMED[:5], SHMEM_FT_PRETEND_NODES="2"),
}
