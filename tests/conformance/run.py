#!/usr/bin/env python3
"""Runs one conformance program through oshrun at several PE counts. A program exits with 0 if all that it checks holds,
else it prints one line that says what does not."""

import argparse
import os
import pathlib
import re
import subprocess
import sys

SKIPPED = 77  # what Meson takes for "not run"


def available_gib():
    text = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
    return int(re.search(r"^MemAvailable: +(\d+) kB", text, re.M).group(1)) / 2**20


def run(options, pes, environment):
    """One line about what went wrong, or nothing."""
    words = [options.oshrun, "-n", str(pes), *options.command]
    try:
        result = subprocess.run(
            words, timeout=options.limit_s, capture_output=True, text=True, check=False, env=environment
        )
    except subprocess.TimeoutExpired as late:
        return f"{' '.join(words)}: not finished after {options.limit_s} s\n{late.stdout or ''}{late.stderr or ''}"
    if result.returncode != options.status:
        output = (result.stdout + result.stderr).strip()
        return f"{' '.join(words)}: exit status {result.returncode} instead of {options.status}\n{output}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--pes", required=True, help="comma-separated numbers of PEs")
    parser.add_argument("--status", type=int, default=0, help="the exit status that is expected")
    parser.add_argument("--limit-s", type=float, default=90, help="how long a job may take")
    parser.add_argument("--memory-gib", type=float, default=0, help="skip the program if less memory is available")
    parser.add_argument("--heap", help="SHMEM_SYMMETRIC_SIZE")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    if available_gib() < options.memory_gib:
        print(f"{options.memory_gib} GiB of memory are needed, {available_gib():.1f} are available")
        return SKIPPED
    environment = {**os.environ, **({"SHMEM_SYMMETRIC_SIZE": options.heap} if options.heap else {})}
    wrong = 0
    for pes in options.pes.split(","):
        line = run(options, int(pes), environment)
        if line:
            print(line)
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
