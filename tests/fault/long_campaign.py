#!/usr/bin/env python3
"""The long campaign: thousands of runs of all example programs, added up. docs/campaigns.md shows what came of it.

    long_campaign.py --programs build --jobs 3 --json campaign.json     # 3,000 runs; a summary in Markdown at the end
    long_campaign.py --summary campaign.json                            # the summary alone

Each program gets its part of the runs with seeds of its own; campaign.py says how to repeat one. The exit code is 0
only if no run was wrong or hung.
"""

import argparse
import collections
import json
import os
import statistics
import subprocess
import sys

from verdict import HANG, NAMED_ERROR, RECOVERED, UNTOUCHED, WRONG

# Name, share of the runs, options of campaign.py, program, its arguments.
PARTS = [
    ("jacobi1d", 0.20, [], "jacobi1d", ["--cells", "6000", "--steps", "640", "--halo", "16", "--pace", "5"]),
    ("jacobi1d, 32 MB", 0.04, [], "jacobi1d", ["--cells", "2000000", "--steps", "160", "--halo", "8"]),
    ("linked_list", 0.20, [], "linked_list", ["--steps", "60", "--pace", "3"]),
    ("remote_writes", 0.20, [], "remote_writes", ["--steps", "60", "--pace", "2"]),
    ("two_phase", 0.16, ["--unprotected-after", "31"], "two_phase", ["--steps", "30", "--pace", "3"]),
    ("gups", 0.04, [], "kernels/gups_ft", ["--log2-words", "12", "--batches", "30", "--pace", "3"]),
    ("hash_table", 0.04, [], "kernels/hash_table_ft",
     ["--keys", "2000", "--draws", "20000", "--batches", "60", "--pace", "3"]),
    ("isx", 0.04, [], "kernels/isx_ft", ["--keys", "20000", "--max-key", "20000", "--rounds", "60", "--pace", "3"]),
    ("matmul", 0.04, [], "kernels/matmul_ft", ["--size", "120", "--panel", "2", "--interval", "1", "--pace", "3"]),
    ("stencil2d", 0.04, [], "kernels/stencil2d_ft",
     ["--cells", "96", "--steps", "600", "--interval", "10", "--pace", "3"]),
]
VERDICTS = [RECOVERED, UNTOUCHED, NAMED_ERROR, WRONG, HANG]
PHASES = ["computation", "checkpoint", "recovery"]
KINDS = {"SIGKILL": "killed (SIGKILL)", "SIGSEGV": "killed (SIGSEGV)", "SIGABRT": "killed (SIGABRT)",
         "SIGUSR1": "left by `_exit(3)`", "SIGUSR2": "left by `exit(3)` at its next step",
         "SIGSTOP": "stopped for ever (bound 300 ms)"}


def table(head: list, rows: list) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def spread(times_ms: list) -> list:
    if not times_ms:
        return ["", "", ""]
    ranked = sorted(times_ms)
    return [f"{time_ms:.1f}" for time_ms in
            (statistics.median(ranked), ranked[min(len(ranked) - 1, len(ranked) * 99 // 100)], ranked[-1])]


def outcomes(records: list) -> str:
    def row(name, part, of):
        counts = collections.Counter(record["verdict"] for record in part)
        kills = sum(len(record["kills"]) for record in part)
        stops = sum(record["short_stops"] for record in part)
        return [name, of, len(part), kills, stops, *[counts[verdict] for verdict in VERDICTS]]

    parts = [(name, [record for record in records if record["part"] == name]) for name, *_ in PARTS]
    rows = [row(name, part, "all") for name, part in parts]
    rows += [row("all", [record for record in records if record["mode"] == mode], mode)
             for mode in ("double", "single", "none")]
    rows.append(row("**all**", records, "all"))
    rows = [line for line in rows if line[2]]
    return table(["program", "backup mode", "runs", "kills", "short stops", *VERDICTS], rows)


def kills(records: list) -> str:
    counts = collections.Counter((kill["kind"], kill["phase"]) for record in records for kill in record["kills"])
    times = collections.defaultdict(list)
    for record in records:
        for kind, time_ms in record["detection_ms"]:
            times[kind].append(time_ms)
    rows = [[name, *[counts[kind, phase] for phase in PHASES], *spread(times[kind])] for kind, name in KINDS.items()]
    return table(["how a process failed", *[f"in {phase}" for phase in PHASES], "noticed after, ms: median", "99 %",
                  "longest"], rows)


def recoveries(records: list) -> str:
    rows = []
    for name, *_ in PARTS:
        times = [time_ms for record in records if record["part"] == name and record["verdict"] == RECOVERED
                 for time_ms in record["recovery_ms"]]
        rows.append([name, len(times), *spread(times)])
    return table(["program", "runs with recoveries", "first notice to last resumption, ms: median", "99 %", "longest"],
                 rows)


def reasons(records: list) -> str:
    counts = collections.Counter(record["why"].split(":")[0] for record in records if record["verdict"] == NAMED_ERROR)
    return table(["why a job rightly ended with a named error", "runs"], counts.most_common())


def summary(records: list) -> str:
    starved = sum(record["starved"] for record in records)
    text = "\n".join(part(records) for part in (outcomes, kills, recoveries, reasons))
    return f"{text}\n{starved} processes were ended for standing still because the machine had no time for them.\n"


def run_part(options, number: int, part_file: str) -> bool:
    name, share, more, program, arguments = PARTS[number]
    seed = options.seed + number * 1_000_000
    campaign = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "campaign.py"),
                "--oshrun", os.path.join(options.programs, "bin", "oshrun"), "--timeout", str(options.timeout),
                "--jobs", str(options.jobs), "--runs", str(round(options.runs * share)), "--seed", str(seed),
                "--keep-going", "--json", part_file, *more, os.path.join(options.programs, "apps", program), *arguments]
    print(f"long campaign: {name}, seeds from {seed}", flush=True)
    done = subprocess.run(campaign, check=False).returncode == 0
    with open(part_file, encoding="utf-8") as source, open(options.json, "a", encoding="utf-8") as all_parts:
        all_parts.writelines(json.dumps({"part": name, **json.loads(line)}) + "\n" for line in source)
    os.remove(part_file)
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--programs", help="build directory")
    parser.add_argument("--runs", type=int, default=3000, help="of all programs together")
    parser.add_argument("--seed", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds until a run counts as hung")
    parser.add_argument("--json", metavar="FILE", help="where the records of the runs go")
    parser.add_argument("--only", action="append", default=[], metavar="PART", choices=[part[0] for part in PARTS],
                        help="this part only; may be repeated")
    parser.add_argument("--summary", metavar="FILE", help="run nothing, add up these records")
    options = parser.parse_args()
    ok = True
    if options.summary is None:
        if not options.programs or not options.json:
            parser.error("--programs and --json are needed")
        if os.path.exists(options.json):
            parser.error(f"--json {options.json}: it exists")
        for number in [i for i, part in enumerate(PARTS) if part[0] in (options.only or [part[0]])]:
            ok = run_part(options, number, options.json + ".part") and ok
    with open(options.summary or options.json, encoding="utf-8") as file:
        print("\n" + summary([json.loads(line) for line in file]))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
