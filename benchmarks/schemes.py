#!/usr/bin/env python3
"""The schemes of redundancy in one run: what each takes of memory and of the wire, what it survives, and what a checkpoint and a
recovery cost with it, beside a plain copy of the same bytes.

    schemes.py BUILD [--mib N] [--runs R] [--json FILE]

bench_checkpoint with N MiB per PE: two PEs on one node, and four on four pretended nodes, which talk over the loopback interface
as real ones do over a network. Medians over the runs. The machine has to be idle: memory and bytes sent are those of all of it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

# Mode, pretended nodes, PEs, and what may be lost at one moment.
ROWS = [
    ("single", 1, 2, "any PEs"),
    ("double", 1, 2, "any PEs"),
    ("double", 4, 4, "1 node"),
    ("replica:2", 4, 4, "2 nodes"),
    ("replica:3", 4, 4, "3 nodes"),
    ("xor:4", 4, 4, "1 node"),
    ("rs:2+2", 4, 4, "2 nodes"),
]


def run(build, mode, nodes, pes, mib):
    """{what: row} as bench_checkpoint prints them."""
    settings = {"SHMEM_FT_BACKUP_MODE": mode, "SHMEM_SYMMETRIC_SIZE": f"{mib + 64}M"}
    if nodes > 1:
        settings["SHMEM_FT_PRETEND_NODES"] = str(nodes)
    command = [os.path.join(build, "bin", "oshrun"), "-n", str(pes), "--spares", "1",
               os.path.join(build, "benchmarks", "bench_checkpoint"), str(mib)]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or "recovery" not in [row["what"] for row in rows]:
        sys.exit(f"schemes: error: {mode} on {nodes} nodes has failed:\n{done.stderr}")
    # Each survivor tells of its recovery: the slowest counts.
    of = {row["what"]: row for row in rows}
    of["recovery"]["median_ms"] = max(row["median_ms"] for row in rows if row["what"] == "recovery")
    return of


def measure(build, mode, nodes, pes, survives, options):
    runs = [run(build, mode, nodes, pes, options.mib) for _ in range(options.runs)]

    def median(what, key):
        return statistics.median(one[what][key] for one in runs)

    return {"mode": mode, "nodes": nodes, "pes": pes, "mib": options.mib, "survives": survives,
            "memory_states": median("room", "memory_states"), "sent_states": median("room", "sent_states"),
            "memcpy_ms": median("memcpy", "median_ms"), "checkpoint_ms": median("dirty", "median_ms"),
            "sparse_ms": median("sparse", "median_ms"), "clean_ms": median("clean", "median_ms"),
            "recovery_ms": median("recovery", "median_ms")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--mib", type=int, default=256, help="of symmetric heap in each PE")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    print(f"{'copies':<11}{'nodes':>6}{'PEs':>5}  {'survives':<9}{'memory':>8}{'sent':>7}{'memcpy ms':>11}{'all ms':>9}{'1 % ms':>9}"
          f"{'none ms':>9}{'recovery ms':>13}", flush=True)
    table = []
    for mode, nodes, pes, survives in ROWS:
        row = measure(options.build, mode, nodes, pes, survives, options)
        table.append(row)
        print(f"{mode:<11}{nodes:>6}{pes:>5}  {survives:<9}{row['memory_states']:>8.2f}{row['sent_states']:>7.2f}"
              f"{row['memcpy_ms']:>11.1f}{row['checkpoint_ms']:>9.1f}{row['sparse_ms']:>9.2f}{row['clean_ms']:>9.2f}"
              f"{row['recovery_ms']:>13.1f}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(table, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
