#!/usr/bin/env python3
"""How long it takes until a failure is known: real processes and hosts of a cluster in this machine are killed, cut off
and stopped, at least 50 times a kind.

    detection.py --oshrun build/bin/oshrun --program build/benchmarks/bench_detect [--count 50] [--kind process ...]

For each kind: from the blow to the first notice of any process, and to the moment when the last surviving PE has the
agreed list from shmem_query_fault (it looks every millisecond). Needs root. Exit code 77 if hosts cannot be made.
"""

import argparse
import json
import os
import random
import signal
import statistics
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "cluster"))

from cluster_job import Cluster, ClusterJob  # noqa: E402
from cluster import Unavailable  # noqa: E402

SKIPPED = 77
HOSTS = 4
# Kind: what it is, how many of them a job takes, and the bounds that are set for it in ms (nothing: the default).
KINDS = {
    "process": ("a process whose node goes on is killed", 3, None),
    "alone": ("the only process of a node is killed", 2, None),
    "host": ("a host falls silent", 2, None),
    "host-300": ("a host falls silent, SHMEM_FT_NODE_TIMEOUT=300", 2, 300),
    "hang": ("a process is stopped", 3, None),
    "hang-300": ("a process is stopped, SHMEM_FT_HANG_TIMEOUT=300", 3, 300),
}


def heard(job, blow_ns, survivors):
    """When the last of the surviving PEs had the list, or None."""
    times: dict = {}
    for line in job.read_output().splitlines():
        words = line.split()
        if len(words) == 5 and words[0] == "heard" and int(words[1]) >= blow_ns:
            times.setdefault(int(words[2]), int(words[1]))
    return max(times[pe] for pe in survivors) if survivors <= set(times) else None


def strike(job, kind, rng):
    """Does it, and gives the PEs that live on; None: there is nothing left to hit."""
    holders = job.holders()
    by_host: dict = {}
    for pe, process in holders.items():
        by_host.setdefault(process.host, []).append(pe)
    if kind.startswith("host"):
        hosts = [host for host in by_host if host != 0 and len(by_host[host]) == 1]
        if not hosts:
            return None
        victim = rng.choice(hosts)
        job.lose_host(victim)
        return set(holders) - set(by_host[victim])
    candidates = [pe for pe, process in holders.items() if process.host != 0]
    if not candidates:
        return None
    pe = rng.choice(candidates)
    if not job.kill(holders[pe], signal.SIGSTOP if kind.startswith("hang") else signal.SIGKILL):
        return None
    return set(holders) - {pe}


def one_job(options, kind, wanted, rng):
    """Pairs (first notice, list on all), in ms."""
    _, per_job, bound_ms = KINDS[kind]
    pes, spares, slots = (3, 3, 2) if kind != "alone" else (3, 1, 1)
    env = {}
    if bound_ms:
        env = {"SHMEM_FT_NODE_TIMEOUT": str(bound_ms), "SHMEM_FT_HANG_TIMEOUT": str(bound_ms)}
    times = []
    with Cluster(hosts=HOSTS if kind == "alone" else 3, slots=slots) as cluster:
        hosts = ",".join(f"{host}:{slots}" for host in cluster.hosts)
        command = [os.path.abspath(options.oshrun), "-n", str(pes), "--spares", str(spares), "--host", hosts,
                   "--map-by", "node", "--on-demand", "never", *options.options.split()]
        job = ClusterJob(cluster, command, [os.path.abspath(options.program)], env, 60)
        job.start()
        if not job.await_start(pes + spares) or job.wait_for(lambda event: event.is_commit()) is None:
            outcome = job.end()
            sys.exit(f"detection: error: a job has not come up:\n{outcome.stdout}{outcome.stderr}")
        for _ in range(min(per_job if kind != "alone" else 1, wanted)):
            time.sleep(rng.uniform(0.2, 0.4))
            at = len(job.events)
            survivors = strike(job, kind, rng)
            if survivors is None:
                break
            blow_ns = job.blows[-1].time_ns
            if job.wait_for(lambda event: event.kind == "span" and event.text == "restart"
                            and event.begin_ns > blow_ns, at) is None:
                break
            time.sleep(0.2)
            seen = [e.begin_ns for e in job.events if e.kind == "failure_seen" and e.begin_ns >= blow_ns]
            on_all = heard(job, blow_ns, survivors)
            if seen and on_all:
                times.append(((min(seen) - blow_ns) / 1e6, (on_all - blow_ns) / 1e6))
            if kind.startswith("host"):
                break  # of three hosts only one may be lost
        job.end()
    return times


def percentile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--options", default="")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    rng = random.Random(1)
    rows = []
    try:
        for kind in options.kind or KINDS:
            times = []
            tries = 0
            while len(times) < options.count and tries < 3 * options.count:
                times += one_job(options, kind, options.count - len(times), rng)
                tries += 1
            if not times:
                sys.exit(f"detection: error: no failure of kind '{kind}' was noticed")
            row = {"kind": kind, "what": KINDS[kind][0], "count": len(times)}
            for name, values in (("notice_ms", [a for a, _ in times]), ("all_ms", [b for _, b in times])):
                row[name] = {"min": min(values), "median": statistics.median(values), "p99": percentile(values, 0.99)}
            rows.append(row)
            texts = [f"{row[name]['min']:8.1f} {row[name]['median']:8.1f} {row[name]['p99']:8.1f}"
                     for name in ("notice_ms", "all_ms")]
            print(f"{row['what']:<52} {row['count']:>4}  {texts[0]}   {texts[1]}", flush=True)
    except Unavailable as error:
        print(f"skipped: {error}")
        return SKIPPED
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
