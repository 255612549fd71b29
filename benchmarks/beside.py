#!/usr/bin/env python3
"""A checkpoint beside what a program would do without this library: write its state to /dev/shm, exchange it with a partner by
MPI, write it to a file by MPI-IO.

    beside.py BUILD [--mib N...] [--pes P] [--runs R] [--json FILE]

bench_checkpoint and beside.c, which mpicc compiles, in turn, R times; medians. A checkpoint makes two copies, one of them in another
process, of what has changed, with checksums, and all PEs agree on it; the others write everything once and agree on nothing.
Exit code 77: there is no mpicc.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

# Name of the column; program, what it prints.
COLUMNS = [
    ("memcpy", "ours", "memcpy"),
    ("all", "ours", "dirty"),
    ("1 %", "ours", "sparse"),
    ("none", "ours", "clean"),
    ("/dev/shm", "mpi", "dev_shm"),
    ("sendrecv", "mpi", "sendrecv"),
    ("MPI_File", "mpi", "mpi_file"),
]


def rows_of(command, settings):
    """{what: median in ms} as the program prints them."""
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"beside: error: {' '.join(command)}:\n{done.stderr}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row["what"]: row["median_ms"] for row in rows if "median_ms" in row}


def measure(options, mib, program, folder):
    ours = [os.path.join(options.build, "bin", "oshrun"), "-n", str(options.pes), "--spares", "1",
            os.path.join(options.build, "benchmarks", "bench_checkpoint"), str(mib)]
    mpi = ["mpirun", "--oversubscribe", "-n", str(options.pes), program, str(mib), folder]
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    runs = []
    for _ in range(options.runs):
        runs.append({"ours": rows_of(ours, {"SHMEM_SYMMETRIC_SIZE": f"{mib + 64}M"}), "mpi": rows_of(mpi, as_root)})
    return {name: statistics.median(run[of][what] for run in runs) for name, of, what in COLUMNS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--mib", type=int, nargs="+", default=[64, 256, 1024], help="of state in each PE")
    parser.add_argument("--pes", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    if shutil.which("mpicc") is None:
        print("beside: there is no mpicc (libopenmpi-dev)", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory(prefix="beside-") as folder:
        program = os.path.join(folder, "beside")
        source = os.path.join(options.build, "benchmarks", "beside.c")
        subprocess.run(["mpicc", "-O2", "-o", program, source], check=True)
        print(f"{'MiB':>6}" + "".join(f"{name:>10}" for name, _, _ in COLUMNS) + "   ms", flush=True)
        table = []
        for mib in options.mib:
            row = measure(options, mib, program, folder)
            table.append({"mib": mib, "pes": options.pes, "ms": row})
            print(f"{mib:>6}" + "".join(f"{row[name]:>10.1f}" for name, _, _ in COLUMNS), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(table, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
