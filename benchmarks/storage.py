#!/usr/bin/env python3
"""What versions in files cost: how fast they are written, beside dd with the same bytes in the same folder, and how much longer
the application runs meanwhile.

    storage.py BUILD [--folder DIR] [--pes N] [--runs R] [--compression HOW] [--json FILE]

jacobi1d of the thesis (64 MiB of cells). Paired runs, in turns: without files, and with SHMEM_FT_STORE_INTERVAL=auto, which writes all the time. dd: N at
once, each with the bytes of one PE, conv=fsync, in between. HOW: SHMEM_FT_STORE_COMPRESSION; rates are of the state, not of what becomes of it.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAM = ["--thesis"]
WRITTEN = re.compile(r"PE \d+: version \d+ is in its file: (\d+) bytes of (\d+) took ([\d.]+) ms")


def run(build, pes, folder, compression="none"):
    """Seconds, and (bytes of the file, of the state, seconds) of each file that was written."""
    settings = {"SHMEM_FT_STORE": folder, "SHMEM_FT_STORE_INTERVAL": "auto", "SHMEM_DEBUG": "1",
                "SHMEM_FT_STORE_COMPRESSION": compression} if folder else {}
    command = [os.path.join(build, "bin", "oshrun"), "-n", str(pes), os.path.join(build, "apps", "jacobi1d"), *PROGRAM]
    begin = time.monotonic()
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begin
    if done.returncode != 0:
        sys.exit(f"storage: error: the job has failed:\n{done.stderr}")
    return seconds, [(int(size), int(state), float(ms) / 1e3) for size, state, ms in WRITTEN.findall(done.stderr)]


def run_dd(folder, pes, size):
    """Bytes per second of as many writers at once, none of whom has anything else to do."""
    os.makedirs(folder)
    begin = time.monotonic()
    writers = [subprocess.Popen(["dd", "if=/dev/zero", f"of={folder}/{number}", "bs=1M", f"count={size >> 20}",
                                 "conv=fsync"], stderr=subprocess.DEVNULL) for number in range(pes)]
    if any(writer.wait() != 0 for writer in writers):
        sys.exit("storage: error: dd has failed")
    seconds = time.monotonic() - begin
    shutil.rmtree(folder)
    return pes * (size >> 20 << 20) / seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--folder", help="on the file system that is measured")
    parser.add_argument("--pes", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--compression", default="none", metavar="HOW")
    parser.add_argument("--json")
    options = parser.parse_args()
    without, with_files, rates, dd_rates, shares, n_files = [], [], [], [], [], 0
    size = 0
    with tempfile.TemporaryDirectory(prefix="storage-", dir=options.folder) as folder:
        for number in range(options.runs):
            without.append(run(options.build, options.pes, None)[0])
            seconds, files = run(options.build, options.pes, os.path.join(folder, f"run{number}"), options.compression)
            shutil.rmtree(os.path.join(folder, f"run{number}"))
            with_files.append(seconds)
            whole = [item for item in files if item[0] > 0]
            if not whole:
                sys.exit("storage: error: no file was written")
            size = max(item[1] for item in whole)
            n_files += len(whole)
            rates += [options.pes * state / seconds for _, state, seconds in whole]
            shares += [written / state for written, state, _ in whole]
            dd_rates.append(run_dd(os.path.join(folder, "dd"), options.pes, size))
    report = {
        "pes": options.pes, "bytes_per_pe": size, "files": n_files,
        "compression": options.compression, "of_state": statistics.median(shares),
        "seconds_without": statistics.median(without), "seconds_with": statistics.median(with_files),
        "slower_by": statistics.median(b / a for a, b in zip(without, with_files)) - 1,
        "written_mb_s": statistics.median(rates) / 1e6, "dd_mb_s": statistics.median(dd_rates) / 1e6,
    }
    report["of_dd"] = report["written_mb_s"] / report["dd_mb_s"]
    print(f"{options.pes} PEs, {size / 2**20:.0f} MiB each, {n_files} files, {options.compression}, {100 * report['of_state']:.0f} % of the state: {report['written_mb_s']:.0f} MB/s, dd {report['dd_mb_s']:.0f} MB/s "
          f"({100 * report['of_dd']:.0f} %); the job takes {report['seconds_without']:.2f} s without files and "
          f"{report['seconds_with']:.2f} s while it writes all the time ({100 * report['slower_by']:+.1f} %)")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
