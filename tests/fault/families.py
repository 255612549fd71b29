#!/usr/bin/env python3
"""A PE dies while the others are in a call, for every family of calls (families.c).

    families.py --oshrun build/bin/oshrun --programs build [--all] [MODE...]     # no MODE: all of them
    families.py ... --list

One job runs several modes, in each of which another PE dies, so a mode costs a fraction of a second. Without --all
every mode meets a death in front of the call, with the calls returning, and some meet one in the middle of a call, a
handler or a jump. With --all every mode meets all of them, with every PE of the job as the first victim.
"""

import argparse
import os
import re
import sys
import time

from bench import Bench, Wrong, check, check_success

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))

from job_watch import Launcher  # noqa: E402

PES = 4
BATCH = 8  # deaths of a job
RETURN_MS_MAX = 1000  # from the end of the victim to the last return; a heartbeat that stands still is seen after 2500
# One of each way to wait, for what is not done with all: blocked in a message, in another team, in a poll, in a loop of
# tests, in the agreement on an index, in the middle of an allocation.
SAMPLE = ["team_sync_rows", "sum_reduce", "alltoall_large", "split_strided", "wait_some", "test_any", "signal_wait",
          "set_lock", "wait_for_lock", "pe_quiet", "allocate", "nested"]


class Runner:
    """Runs batches of modes, and compares their results with those of a run without a death."""

    def __init__(self, bench, modes):
        self.bench = bench
        self.modes = modes  # name: it needs a handler or a jump
        self.longest_ms = {}
        self.returns = 0

    def run(self, names, first=1, inside=False, action="return"):
        if action == "return":
            names = [name for name in names if not self.modes[name]]
        calm = self.bench.run(PES, 0, "families", "--modes", ",".join(names), "--how", "none", "--first", str(first))
        check(calm.exit_code == 0 and len(calm.results()) == PES * len(names), "the run without a death failed", calm)
        for at in range(0, len(names), BATCH):
            batch = names[at:at + BATCH]
            self.run_batch(batch, ["--first", str(first), "--action", action, *(["--inside"] if inside else [])],
                           [line for line in calm.results() if line.split()[1] in batch])

    def run_batch(self, names, words, expected):
        outcome = self.bench.run(PES, len(names), "families", "--modes", ",".join(names), *words)
        differ = ", ".join(sorted({line.split()[1] for line in set(outcome.results()) ^ set(expected)}))
        check(outcome.exit_code != 0 or not differ, f"other results than without a death: {differ}", outcome)
        check_success(outcome, expected)
        told = re.findall(r"^returned (\w+) (\d+) (\d+) ", outcome.stderr, re.M)
        # As the launcher has seen them, which does not wait for what the processes find out. From the signal to the end
        # of a process pass hundreds of milliseconds where the others keep all processors busy.
        ends = [event.t_ns for event in outcome.events if event.kind == "ended" and "killed" in event.text]
        check(len(ends) == len(names), f"{len(ends)} processes have been killed instead of {len(names)}", outcome)
        for name, end_ns in zip(names, ends):
            times = {pe: max(0, (int(at_ns) - end_ns) // 1_000_000) for mode, pe, at_ns in told if mode == name}
            check(len(times) == PES - 1, f"{name}: {len(times)} PEs have come back from the call", outcome)
            check(max(times.values()) <= RETURN_MS_MAX, f"{name}: back {max(times.values())} ms after the death", outcome)
            self.longest_ms[name] = max(self.longest_ms.get(name, 0), *times.values())
            self.returns += len(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--programs", required=True, help="build directory")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds until a job counts as hung")
    parser.add_argument("--all", action="store_true", help="every mode in every way, some minutes")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("modes", nargs="*", metavar="MODE")
    options = parser.parse_args()
    bench = Bench(Launcher(options.oshrun), options.programs, options.timeout)
    listed = bench.run(1, 0, "families", "--list").stdout
    modes = {line.split()[0]: line.endswith(" leave") for line in listed.splitlines() if line}
    if options.list:
        print("\n".join(modes))
        return 0
    unknown = [name for name in options.modes if name not in modes]
    if unknown:
        parser.error(f"no mode {unknown[0]}: --list shows them")
    names = options.modes or list(modes)
    sample = names if options.modes or options.all else SAMPLE
    leaving = [name for name in names if modes[name] and name not in sample]
    runner = Runner(bench, modes)
    runs = [(names, 1, False, "return"), (sample, 2, True, "return"), (sample + leaving, 3, False, "call"),
            (sample + leaving, 0, False, "jump")]
    if options.all:
        runs = [(names, first, inside, action) for first in range(PES) for inside in (False, True)
                for action in ("return", "call", "jump")]
    failed = 0
    for which, first, inside, action in runs:
        began = time.monotonic()
        title = f"{len(which)} modes, first victim {first}, {'inside' if inside else 'before'}, {action}"
        try:
            runner.run(which, first, inside, action)
            print(f"{title}: ok ({time.monotonic() - began:.1f} s)", flush=True)
        except Wrong as error:
            failed += 1
            print(f"{title}: FAILED: {error}\n{error.outcome.stdout}{error.outcome.stderr}", flush=True)
    slowest = sorted(runner.longest_ms, key=runner.longest_ms.get)[-3:]
    print(f"families: {runner.returns} returns from calls, the slowest after the death: "
          + ", ".join(f"{name} {runner.longest_ms[name]} ms" for name in reversed(slowest)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
