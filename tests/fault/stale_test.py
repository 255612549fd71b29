#!/usr/bin/env python3
"""A process that wakes after the others have declared it dead changes nothing, and ends itself.

    stale_test.py --oshrun build/bin/oshrun --programs build --transport ucx --runs 12 [--seed 1]

Every process is on a node of its own (pretended ones). One is stopped at a random moment while it writes into the
memory of all others (stale.c), is found silent and replaced, and is not killed (OSHRUN_WITHHOLD_KILL). When the job
watches over its new contents, it goes on where it was.
"""

import argparse
import os
import random
import select
import signal
import sys
import tempfile
import time

from bench import Bench, Wrong, await_commit, check, check_success

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))

from job_watch import Launcher  # noqa: E402

PES, SPARES = 4, 2
BOUND_MS = "1000"
NODE_LOST = 4  # SHMEM_FT_NODE_LOST


def start(bench, until, transport, spares, *arguments):
    return bench.job(PES, spares, "stale", "--until", until, *arguments, SHMEM_TRANSPORT=transport,
                     SHMEM_FT_PRETEND_NODES=str(PES + SPARES), SHMEM_FT_NODE_TIMEOUT=BOUND_MS, SHMEM_SYMMETRIC_SIZE="1M",
                     OSHRUN_WITHHOLD_KILL="1")


def expected_results(bench, folder, transport):
    until = os.path.join(folder, "calm")
    with open(until, "w", encoding="utf-8"):
        outcome = start(bench, until, transport, 0, "--calm").finish()
    check_success(outcome, outcome.results())
    check(len(outcome.results()) == PES, "a PE has printed no result", outcome)
    return outcome.results()


def wake_up(bench, folder, transport, results, rng):
    until = os.path.join(folder, f"until-{rng.random()}")
    victim, delay_s = rng.randrange(PES), rng.uniform(0, 0.2)
    job = start(bench, until, transport, SPARES)
    await_commit(job, 2)
    time.sleep(delay_s)
    holder = job.holder(victim)
    if holder is None:
        raise Wrong("the job has not begun", job.finish())
    rank, pid = holder
    handle = os.pidfd_open(pid)
    was_stopped = job.fail(rank, pid, victim, signal.SIGSTOP)
    has_settled = job.wait_for_text("settled")
    was_there = job.send(pid, signal.SIGCONT)
    woke = time.monotonic()
    has_ended = bool(select.select([handle], [], [], 15)[0])
    took_ms = (time.monotonic() - woke) * 1e3
    os.close(handle)
    time.sleep(0.05)  # what it has sent last may be on its way
    with open(until, "w", encoding="utf-8"):
        outcome = job.finish()
    check(was_stopped and has_settled, "the others have not gone on", outcome)
    check(was_there, "somebody has killed it", outcome)
    check_success(outcome, results)
    check(has_ended, "the woken process lives on", outcome)
    said = f"process {rank} was declared dead by the others and ends"
    check(said in outcome.stderr, f"it does not say: {said}", outcome)
    found = {(event.value, event.code >> 16) for event in outcome.events if event.kind == "failure_seen"}
    # Who has not told of the silence by then may tell of the end.
    check({rank} == {who for who, _ in found} and (rank, NODE_LOST) in found, f"found dead: {found}", outcome)
    return victim, delay_s, took_ms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--programs", required=True, help="build directory")
    parser.add_argument("--transport", default="auto")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=40.0, help="seconds until a job counts as hung")
    options = parser.parse_args()
    bench = Bench(Launcher(options.oshrun), options.programs, options.timeout)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="shmem-ft-stale-") as folder:
        results = expected_results(bench, folder, options.transport)
        for seed in range(options.seed, options.seed + options.runs):
            try:
                victim, delay_s, took_ms = wake_up(bench, folder, options.transport, results, random.Random(seed))
                print(f"seed {seed}: ok, PE {victim} after {delay_s * 1e3:.0f} ms, ended {took_ms:.0f} ms after it woke",
                      flush=True)
            except Wrong as error:
                failed += 1
                print(f"seed {seed}: FAILED: {error}\n{error.outcome.stdout}{error.outcome.stderr}", flush=True)
    print(f"stale: {options.runs - failed} ok, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
