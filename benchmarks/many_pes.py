"""What do many PEs on one node cost: their start, and a death among them?

For each number of PEs, in turn: a job of this library in which each PE writes one page of its heap, and, where there is
an mpirun, a program that only calls PMIx_Init and PMIx_Fence under it. Then PE 1 of the largest job kills itself, and the
time from the failed checkpoint of PE 0 to its return from the recovery is printed. Times are medians.

    many_pes.py BUILD [--pes 64,256,512] [--runs N] [--json FILE]
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import time

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]


def seconds(words):
    begin = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise SystemExit(f"many_pes.py: {' '.join(map(str, words))}: exit code {done.returncode}\n{done.stderr}")
    return time.monotonic() - begin, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--pes", default="64,256,512")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    has_mpirun = shutil.which("mpirun") is not None
    folder = options.build / "benchmarks"
    counts = [int(count) for count in options.pes.split(",")]
    rows = []
    for count in counts:
        own = []
        plain = []
        for _ in range(options.runs):
            own.append(seconds([options.build / "bin/oshrun", "-n", str(count), folder / "bench_many_pes"])[0])
            if has_mpirun:
                plain.append(seconds([*MPIRUN, "-n", str(count), folder / "bench_many_pes_pmix"])[0])
        row = {"pes": count, "start_and_end_s": statistics.median(own),
               "pmix_only_s": statistics.median(plain) if plain else None}
        rows.append(row)
        print(json.dumps(row), flush=True)
    kills = [float(seconds([options.build / "bin/oshrun", "-n", str(counts[-1]), "--spares", "1", "--quiet",
                            folder / "bench_many_pes", "1"])[1]) for _ in range(options.runs)]
    row = {"pes": counts[-1], "recovery_ms": statistics.median(kills), "most_ms": max(kills)}
    rows.append(row)
    print(json.dumps(row))
    if options.json:
        options.json.write_text(json.dumps(rows), encoding="ascii")


if __name__ == "__main__":
    main()
