#!/usr/bin/env python3
"""What deaths cost an application: its run time with 0 to 3 of them, beside what is to be expected.

    faults.py BUILD [--small] [--runs R] [--json FILE]

jacobi1d as in the thesis (64 MiB of cells, 4096 steps, halo 256, 16 checkpoints), 2 PEs; without copies, and with them and
up to three deaths. A PE dies as it enters a checkpoint, so all of an interval is lost. Expected: the run without deaths, and for
each death the median time between two checkpoints of it and the recovery, as the job's events (oshrun --events) tell it.
Medians over the runs, which are made in turns.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PES = 2
THESIS = ["--thesis"]
SMALL = ["--cells", "1000000", "--steps", "1024", "--halo", "64"]
# By visits of that process; spare 0 has replaced PE 1 by then.
DEATHS = ["kill pe 1 at replicate_begin visit 5", "kill pe 0 at replicate_begin visit 9", "kill spare 0 at replicate_begin visit 8"]


def spans_of(events, pe, name):
    """[(begin, end)] in seconds, in order of time."""
    return sorted((event["begin_ns"] / 1e9, event["end_ns"] / 1e9) for event in events
                  if event["event"] == "span" and event["pe"] == pe and event["text"] == name)


def run(build, arguments, mode, deaths):
    settings = {"SHMEM_FT_BACKUP_MODE": mode}
    if deaths:
        settings["SHMEM_FT_FAULTS"] = "; ".join(DEATHS[:deaths])
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as log:
        command = [os.path.join(build, "bin", "oshrun"), "--events", log.name, "-n", str(PES), "--spares", str(len(DEATHS)),
                   os.path.join(build, "apps", "jacobi1d"), *arguments]
        begin = time.monotonic()
        done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - begin
        events = [json.loads(line) for line in log]
    result = [line for line in done.stdout.splitlines() if line.startswith("result")]
    if done.returncode != 0 or not result:
        sys.exit(f"faults: error: the run with {deaths} deaths has failed:\n{done.stderr}")
    died = sum(event["event"] == "ended" and event["signal"] != 0 for event in events)
    if died != deaths:
        sys.exit(f"faults: error: {died} PEs have died, not {deaths}: the schedule does not fit the program")
    return {"seconds": seconds, "events": events, "result": result}


def interval_of(events):
    """What is computed between two checkpoints, of the slower PE."""
    of_pes = []
    for pe in range(PES):
        spans = spans_of(events, pe, "checkpoint")
        of_pes.append(statistics.median(after[0] - before[1] for before, after in zip(spans, spans[1:])))
    return max(of_pes)


def recoveries_of(events):
    """Seconds from the first notice of each death to the end of the recovery, in order."""
    noticed = {}  # by the process that has died
    for event in events:
        if event["event"] == "failure_seen":
            noticed[event["value"]] = min(event["begin_ns"] / 1e9, noticed.get(event["value"], float("inf")))
    ends = [end for pe in range(PES) for _, end in spans_of(events, pe, "restart")]
    begins = sorted(noticed.values())
    return [max(end for end in ends if begin <= end < until) - begin
            for begin, until in zip(begins, [*begins[1:], float("inf")])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--small", action="store_true", help="short runs")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    arguments = SMALL if options.small else THESIS
    cases = [("none", 0)] + [("double", deaths) for deaths in range(len(DEATHS) + 1)]
    samples = {case: [] for case in cases}
    for _ in range(options.runs):
        for case in cases:
            samples[case].append(run(options.build, arguments, *case))
    if len({one["result"][0] for runs in samples.values() for one in runs}) != 1:
        sys.exit("faults: error: the runs do not all come to the same result")
    plain = statistics.median(one["seconds"] for one in samples["none", 0])
    whole = statistics.median(one["seconds"] for one in samples["double", 0])
    interval = statistics.median(interval_of(one["events"]) for one in samples["double", 0])
    table = []
    print(f"without copies {plain:.2f} s; {interval * 1e3:.0f} ms between two checkpoints", flush=True)
    print(f"{'deaths':>6}{'seconds':>10}{'more':>9}{'recovery ms':>13}{'expected':>10}{'ratio':>8}")
    for deaths in range(len(DEATHS) + 1):
        runs = samples["double", deaths]
        seconds = statistics.median(one["seconds"] for one in runs)
        recovery = statistics.median([each for one in runs for each in recoveries_of(one["events"])] or [0.0])
        expected = whole + deaths * (interval + recovery)
        table.append({"deaths": deaths, "seconds": seconds, "seconds_without_copies": plain, "overhead": seconds / plain - 1,
                      "interval_s": interval, "recovery_s": recovery, "expected_s": expected})
        print(f"{deaths:>6}{seconds:>10.2f}{100 * (seconds / plain - 1):>8.1f}%{recovery * 1e3:>13.1f}{expected:>10.2f}"
              f"{seconds / expected:>8.3f}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(table, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
