#!/usr/bin/env python3
"""Runs one conformance program through oshrun at several PE counts. A program exits with 0 if all that it checks holds,
else it prints one line that says what does not."""

import argparse
import subprocess
import sys

LIMIT_S = 90


def run(oshrun, pes, command, status):
    """One line about what went wrong, or nothing."""
    words = [oshrun, "-n", str(pes), *command]
    try:
        result = subprocess.run(words, timeout=LIMIT_S, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired as late:
        return f"{' '.join(words)}: not finished after {LIMIT_S} s\n{late.stdout or ''}{late.stderr or ''}"
    if result.returncode != status:
        output = (result.stdout + result.stderr).strip()
        return f"{' '.join(words)}: exit status {result.returncode} instead of {status}\n{output}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--pes", required=True, help="comma-separated numbers of PEs")
    parser.add_argument("--status", type=int, default=0, help="the exit status that is expected")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    wrong = 0
    for pes in options.pes.split(","):
        line = run(options.oshrun, int(pes), options.command, options.status)
        if line:
            print(line)
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
