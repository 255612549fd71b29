#!/usr/bin/env python3
"""Every fault point of the library, with a kill of every kind of process there: `shmem-ft lab --sweep`, and that the
sweep has really come everywhere.

    sweep.py --lab build/bin/shmem-ft build/apps/jacobi1d --cells 3000 --steps 320 --halo 16
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

# Points that no process comes to in such a job, each with the setting that it needs. A point that the sweep does come to
# must not be here. interval_cases.py goes to these, and jobs_test.py of storage/.
NEEDS_OTHER_SETTING = {
    **{point: "SHMEM_FT_INTERVAL" for point in ("due_asked", "due_told")},
    **{point: "SHMEM_FT_STORE" for point in ("store_asked", "store_told", "store_begin", "store_block", "store_written",
                                             "store_complete", "store_committed")},
    "stored_load": "SHMEM_FT_RESTART",
    # With parity the steps of a checkpoint are agreed on by messages, as always on several nodes.
    **({"word_written": "one node"} if os.environ.get("SHMEM_FT_BACKUP_MODE", "").startswith(("xor", "rs"))
       else {point: "SHMEM_FT_BACKUP_MODE" for point in ("parity_fold", "parity_anew")}),
}
# In programs that call shmem_ft_checkpoint_nb, and not with parity.
IN_BACKGROUND = {point: "shmem_ft_checkpoint_nb"
                 for point in ("still_begin", "still_middle", "still_end", "background_begin", "background_end")}
RUNS_LEAST = 200


def complaints(report: dict, points: list, program: list) -> list:
    """What is wrong with the sweep of that program, one text each."""
    elsewhere = NEEDS_OTHER_SETTING | ({} if "background" in os.path.basename(program[0]) else IN_BACKGROUND)
    found = [f"run {run['run']}: {run['class']}: {run['why']}: {run['command']}"
             for run in report["runs"] if run["failure"]]
    never = [point for point in report["points_never_visited"] if point in points]
    found += [f"the sweep has not come to {point}" for point in never if point not in elsewhere]
    found += [f"the sweep has come to {point}, which is listed as one that needs {setting}"
              for point, setting in elsewhere.items() if point not in never]
    happened = {fault["entry"].split(" at ")[1].split()[0] for run in report["runs"] for fault in run["faults"]}
    found += [f"nobody was killed at {point}" for point in points if point not in happened and point not in never]
    if len(report["runs"]) < RUNS_LEAST:
        found.append(f"{len(report['runs'])} runs only")
    return found


def all_points(lab: str) -> list:
    """The names in the table that `shmem-ft points` prints."""
    table = subprocess.run([lab, "points"], capture_output=True, text=True, check=True).stdout
    names = [line.split()[1] for line in table.splitlines() if line.strip()[:1].isdigit()]
    return [name for name in names if not name.startswith("call_")]  # calls_sweep.py


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--lab", required=True, help="the program shmem-ft")
    parser.add_argument("--timeout", type=int, default=30, help="seconds until a run counts as hung")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "sweep.json")
        lab = subprocess.run([options.lab, "lab", "-n", "4", "--spares", "2", "--sweep", "--jobs", "2", "--timeout",
                              f"{options.timeout:.0f}", "--ignore", "^recomputed", "--json", path, *options.program],
                             check=False)
        if not os.path.exists(path):
            sys.exit(f"sweep: error: the laboratory wrote no report (exit code {lab.returncode})")
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
    points = all_points(options.lab)
    found = complaints(report, points, options.program)
    for text in found:
        print(f"sweep: error: {text}", file=sys.stderr)
    if not points:
        found.append("no table of points")
    if not found and lab.returncode == 0:
        print(f"sweep: {len(points)} points, {len(report['runs'])} runs, all right")
    return 1 if found or lab.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
