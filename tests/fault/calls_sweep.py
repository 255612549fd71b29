#!/usr/bin/env python3
"""Makes system calls of the library fail while everybody lives, and beside a death: every point call_..., every error
that such a call may have, once, some times and for ever, in every role. The job gives the right result, or it ends in
time with one line.

    calls_sweep.py --oshrun build/bin/oshrun --programs build             # all of it: about an hour
    calls_sweep.py ... --sample 24 --seed 1                               # some, drawn by the seed
    calls_sweep.py ... --nodes 3                                          # between pretended nodes
"""

import argparse
import concurrent.futures
import itertools
import random
import re
import sys

from bench import Bench, Wrong, check, check_ended, check_success
from job_watch import Launcher

LACK = ["EMFILE", "ENFILE", "ENOMEM"]
TRAFFIC = ["ECONNRESET", "ENOBUFS", "ENOMEM"]
ERRORS = {
    "call_open_process": LACK,
    "call_open_memory": [*LACK, "EACCES"],
    "call_map_memory": ["ENOMEM"],
    "call_make_memory": [*LACK, "ENOSPC"],
    "call_socket": [*LACK, "ENOBUFS"],
    "call_connect": ["ENOMEM", "EACCES", "ECONNRESET"],
    "call_accept": [*LACK, "ECONNRESET"],
    "call_send": TRAFFIC,
    "call_receive": TRAFFIC,
    "call_watch": ["ENOMEM", "ENOSPC"],
}
INTERRUPTED = ["call_accept", "call_send", "call_receive"]
# Process 0 leads, 2 dies, 3 keeps its copy, 4 takes over, 5 sleeps.
VICTIMS = [0, 1, 3, 4, 5]
DEATH = "kill pe 2 at replicate_begin visit 11"
PROGRAM = ["jacobi1d", "--cells", "4000", "--steps", "320", "--halo", "16"]


def schedules() -> list:
    """Of the calls that a recovery makes some are late visits; `every` from the second on meets them as well."""
    found = []
    for point, errors in ERRORS.items():
        for error, victim in itertools.product(errors, VICTIMS):
            for how, clause in (("", ""), ("", " visit 5"), ("", " visit 2 every"), ("5 times ", " visit 3")):
                found.append(f"fail {error} {how}process {victim} at {point}{clause}")
    for point, victim in itertools.product(INTERRUPTED, VICTIMS):
        found.append(f"fail EINTR 200 times process {victim} at {point} visit 2")
    return [text for entry in found for text in (entry, f"{DEATH}; {entry}")]


def is_harmless(line: str) -> bool:
    return line.startswith("shmem-ft: fault")


def run(bench, expected, schedule, settings) -> tuple:
    """(schedule, whether something failed, what is wrong with the end or None)"""
    outcome = bench.run(4, 2, *PROGRAM, SHMEM_FT_FAULTS=schedule, **settings)
    has_failed = re.search(r"^shmem-ft: fault: fail ", outcome.stderr, re.M) is not None
    try:
        if outcome.exit_code == 0:
            check_success(outcome, expected)
        else:
            check_ended(outcome)
            lines = [line for line in outcome.errors() if not is_harmless(line)]
            check(lines, f"ended with {outcome.exit_code} and no line that says why", outcome)
            check(has_failed, "an error although nothing failed", outcome)
            check(set(outcome.results()) <= set(expected), "a wrong result", outcome)
    except Wrong as error:
        return schedule, has_failed, f"{error}\n{outcome.stdout}{outcome.stderr}"
    return schedule, has_failed, None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--programs", required=True, help="build directory")
    parser.add_argument("--timeout", type=float, default=40.0, help="seconds until a job counts as hung")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    parser.add_argument("--sample", type=int, help="only that many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=1, help="pretend so many, which talk over TCP")
    options = parser.parse_args()
    bench = Bench(Launcher(options.oshrun), options.programs, options.timeout)
    calm = bench.run(4, 2, *PROGRAM)
    if calm.exit_code != 0 or not calm.results():
        sys.exit(f"calls_sweep: error: the run without faults failed:\n{calm.stderr}")
    chosen = schedules()
    if options.sample:
        chosen = random.Random(options.seed).sample(chosen, options.sample)
    ends = []
    settings = {"SHMEM_FT_PRETEND_NODES": str(options.nodes)} if options.nodes > 1 else {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for schedule, has_failed, what in pool.map(lambda schedule: run(bench, calm.results(), schedule, settings), chosen):
            ends.append((schedule, has_failed, what))
            if what:
                print(f"calls_sweep: error: {schedule}: {what}", file=sys.stderr, flush=True)
            if options.sample is None and len(ends) % 50 == 0:
                print(f"calls_sweep: {len(ends)} of {len(chosen)}", flush=True)
    wrong = [schedule for schedule, _, what in ends if what]
    n_failed = sum(has_failed for _, has_failed, _ in ends)
    print(f"calls_sweep: {len(ends)} runs, in {n_failed} of them a call failed, {len(wrong)} wrong")
    if n_failed * 3 < len(ends):
        sys.exit("calls_sweep: error: in too few of the runs a call failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
