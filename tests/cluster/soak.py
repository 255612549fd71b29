#!/usr/bin/env python3
"""Nothing is lost by itself: jobs with many more processes than processors, over several hosts, for a time.

    soak.py --oshrun build/bin/oshrun --transport ucx --seconds 60 PROGRAM [ARGUMENT...]

The program runs again and again, with the default bounds, until its runs have taken that long together. Every run has
to end well without a word of a failure. Prints one line of figures. Exit code 77: hosts cannot be made here.
"""

import argparse
import os
import re
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "cluster"))

from cluster import Cluster, ClusterError, Unavailable  # noqa: E402

SKIPPED = 77
RUN_LIMIT_S = 300
NEWS_OF_A_FAILURE = re.compile(r"\b(lost|failed|dead|cut off|stood still|recover\w*)\b")


def run_for(cluster, options):
    """The seconds each run took. Raises ClusterError for the first one that is not right."""
    words = [os.path.abspath(options.oshrun), "-n", str(options.pes), "--spares", str(options.spares),
             os.path.abspath(options.program), *options.arguments]
    took_s = []
    while sum(took_s) < options.seconds:
        began = time.monotonic()
        result = cluster.run(words, timeout_s=RUN_LIMIT_S, environment={"SHMEM_TRANSPORT": options.transport})
        took_s.append(time.monotonic() - began)
        said = (result.stdout + result.stderr).strip()
        if result.returncode != 0:
            raise ClusterError(f"run {len(took_s)}: exit status {result.returncode}\n{said}")
        if NEWS_OF_A_FAILURE.search(result.stderr):
            raise ClusterError(f"run {len(took_s)}: a failure without a cause\n{said}")
    return took_s


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--transport", default="auto")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--pes", type=int, default=28)
    parser.add_argument("--spares", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    processes = options.pes + options.spares
    try:
        with Cluster(hosts=options.hosts, slots=-(-processes // options.hosts)) as cluster:
            took_s = run_for(cluster, options)
    except Unavailable as error:
        print(f"soak: skipped: {error}")
        return SKIPPED
    except ClusterError as error:
        print(f"soak: {error}")
        return 1
    print(f"soak: {options.transport}: {processes} processes, {processes / os.cpu_count():.0f} per processor, "
          f"on {options.hosts} hosts: {len(took_s)} runs, {sum(took_s):.0f} s (each {statistics.median(took_s):.1f} s), "
          "nothing lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
