#!/usr/bin/env python3
"""Runs the conformance programs as jobs over several hosts, one host after the other getting a PE.

    conformance_nodes.py --oshrun build/bin/oshrun --transport ucx --shape 2x4 --shape 3x3 PROGRAM...

A shape is HOSTSxPES. With --pretend no hosts are made: the processes of this machine act as if on that many nodes
(SHMEM_FT_PRETEND_NODES), which needs no root. Exit code 77: hosts cannot be made here.
"""

import argparse
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "cluster"))

from cluster import Cluster, ClusterError, Unavailable  # noqa: E402

SKIPPED = 77


def run_pretending(words, hosts, environment, limit_s):
    env = {**os.environ, **environment, "SHMEM_FT_PRETEND_NODES": str(hosts)}
    try:
        return subprocess.run(words, timeout=limit_s, capture_output=True, text=True, check=False, env=env)
    except subprocess.TimeoutExpired as late:
        raise ClusterError(f"not finished after {limit_s} s\n{late.stdout or ''}{late.stderr or ''}") from None


def run_all(options, hosts, pes, run):
    """The programs that went wrong, each with what it said."""
    wrong = []
    for program in options.programs:
        words = [os.path.abspath(options.oshrun), "-n", str(pes), "-x", f"CONFORMANCE_NODES={hosts}",
                 *options.options.split(), os.path.abspath(program)]
        environment = {"SHMEM_TRANSPORT": options.transport}
        what = f"{os.path.basename(program)} on {hosts} hosts, {pes} PEs, {options.transport}"
        try:
            result = run(words, hosts, environment)
        except Unavailable:
            raise
        except ClusterError as error:
            wrong.append(f"{what}: {error}")
            print(wrong[-1], flush=True)
            continue
        if result.returncode != 0:
            wrong.append(f"{what}: exit status {result.returncode}\n{(result.stdout + result.stderr).strip()}")
            print(wrong[-1], flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--options", default="", help="more options of oshrun, separated by blanks")
    parser.add_argument("--transport", default="auto")
    parser.add_argument("--shape", action="append", required=True, help="HOSTSxPES")
    parser.add_argument("--pretend", action="store_true")
    parser.add_argument("--limit-s", type=float, default=90)
    parser.add_argument("programs", nargs="+")
    options = parser.parse_args()
    wrong, jobs = [], 0
    for shape in options.shape:
        hosts, pes = map(int, shape.split("x"))
        jobs += len(options.programs)
        if options.pretend:
            wrong += run_all(options, hosts, pes,
                             lambda words, n, env: run_pretending(words, n, env, options.limit_s))
            continue
        try:
            with Cluster(hosts=hosts, slots=-(-pes // hosts)) as cluster:
                wrong += run_all(options, hosts, pes, lambda words, _, env: cluster.run(
                    words, timeout_s=options.limit_s, environment=env))
        except Unavailable as error:
            print(f"skipped: {error}")
            return SKIPPED
    print(f"{jobs} jobs, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
