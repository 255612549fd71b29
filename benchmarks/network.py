#!/usr/bin/env python3
"""Operations between two hosts of a cluster in this machine beside what the transports' own tools get for the same, in one
run: ucx_perftest, and fi_pingpong. Then a checkpoint between the hosts beside the bandwidth of put.

    network.py build [--runs 3] [--json FILE] [--transport ucx] [--urgent]

Medians over the runs, which take turns. Needs root, ucx-utils and libfabric-bin. Exit code 77 if hosts cannot be made.
--urgent: what is measured goes before everything else on this machine, for one that is not idle. Not by real-time
priority: that starves the kernel's own network threads, and the figures are wrong by a thousand times.

The tool's figure for the three small operations is that of ucp_fadd, one request and one answer of a few bytes as
they all are: ucx_perftest has no put with a flush, and in its ucp_get the side whose memory is read looks at the
network once in a millisecond. For the same reason its ucp_get does not bound the bandwidth of get; ucp_put_bw stands
beside both. fi_pingpong's are a whole round trip of 64 bytes, and one message on its way at a time.
"""

import argparse
import json
import os
import statistics
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tools", "cluster"))

from cluster import Cluster, Unavailable  # noqa: E402

SKIPPED = 77
LARGE = (1 << 20, 4 << 20)
SMALL = ("put+quiet", "get", "fetch_add")

# The nice value of a session counts before that of its processes where the kernel groups by sessions.
URGENT = ["sh", "-c", 'echo -20 2>/dev/null >/proc/self/autogroup; exec nice -n -20 "$@"', "sh"]
prefix: list = []


def ours(cluster, build, transport, arguments=()):
    result = cluster.run(
        [f"{build}/bin/oshrun", "-n", "2", *prefix, f"{build}/benchmarks/bench_network_operations", *arguments],
        timeout_s=300, environment={"SHMEM_TRANSPORT": transport})
    if result.returncode != 0:
        sys.exit(f"network: error: exit code {result.returncode}\n{result.stdout}{result.stderr}")
    rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    return {(row["operation"], row["bytes"]): row.get("us", row.get("mb_per_s")) for row in rows}


def serve(cluster, argv, environment):
    """Starts a tool's server on the second host."""
    with open(os.devnull, "r+b") as null:
        return cluster.start([*prefix, *argv], 1, stdin=null, stdout=null, stderr=null, environment=environment)


def ucx_perftest(cluster, test, size, count, window):
    environment = {"UCX_TLS": "tcp,self", "UCX_WARN_UNUSED_ENV_VARS": "n"}
    words = ["ucx_perftest", "-t", test, "-s", str(size), "-n", str(count), "-w", str(count // 4), "-f"]
    if window:
        words += ["-O", str(window)]
    with serve(cluster, ["ucx_perftest"], environment):
        time.sleep(0.3)
        result = cluster.run([*prefix, words[0], cluster.addresses[1], *words[1:]], timeout_s=120, environment=environment)
    numbers = []
    # A test that ends before the first report has no line of its own for the sum.
    for line in result.stdout.splitlines():
        words_of_line = line.replace("Final:", "").split()
        if len(words_of_line) >= 7 and words_of_line[0].isdigit():
            numbers = [float(number) for number in words_of_line]
    if len(numbers) < 6:
        sys.exit(f"network: error: ucx_perftest {test}:\n{result.stdout}{result.stderr}")
    return {"us": numbers[1], "average_us": numbers[2], "mb_per_s": numbers[4] * 1.048576}


def with_ucx(cluster):
    round_trip_us = ucx_perftest(cluster, "ucp_fadd", 8, 5000, 1)["us"]
    rows = {(operation, 8): round_trip_us for operation in SMALL}
    for size in LARGE:
        rate = ucx_perftest(cluster, "ucp_put_bw", size, (256 << 20) // size, 8)["mb_per_s"]
        rows[("put_bandwidth", size)] = rows[("get_bandwidth", size)] = rate
    return rows


def with_libfabric(cluster):
    """fi_pingpong: half of a round trip in us, and the bandwidth of one direction at a time."""
    rows = {}
    for size in (64, 1 << 20, 4 << 20):
        words = ["fi_pingpong", "-e", "rdm", "-p", "tcp;ofi_rxm", "-m", "tagged", "-S", str(size), "-I",
                 "4000" if size == 64 else "100"]
        with serve(cluster, words, {}):
            time.sleep(0.5)
            result = cluster.run([*prefix, *words, cluster.addresses[1]], timeout_s=120)
        # Bytes and seven columns; the numbers of bytes and messages may end with a letter.
        lines = [line.split() for line in result.stdout.splitlines()]
        numbers = next((line for line in lines if len(line) == 8 and line[0][0].isdigit()), None)
        if numbers is None:
            sys.exit(f"network: error: fi_pingpong:\n{result.stdout}{result.stderr}")
        if size == 64:
            rows.update({(operation, 8): 2 * float(numbers[6]) for operation in SMALL})
        else:
            rows[("put_bandwidth", size)] = rows[("get_bandwidth", size)] = float(numbers[5])
    return rows


def medians(runs):
    return {key: statistics.median(run[key] for run in runs if key in run) for key in runs[0]}


def checkpoint(cluster, build, transport, mib):
    result = cluster.run(
        [f"{build}/bin/oshrun", "-n", "2", "--spares", "1", *prefix, f"{build}/benchmarks/bench_checkpoint", str(mib)],
        timeout_s=300, environment={"SHMEM_TRANSPORT": transport, "SHMEM_SYMMETRIC_SIZE": f"{mib + 64}M"})
    if result.returncode != 0:
        sys.exit(f"network: error: checkpoint: exit code {result.returncode}\n{result.stdout}{result.stderr}")
    return {row["what"]: row["median_ms"] for row in map(json.loads, result.stdout.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--transport", action="append", choices=["ucx", "ofi"])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--mib", type=int, default=128, help="size of the checkpointed heap")
    parser.add_argument("--urgent", action="store_true", help="go before everything else on this machine")
    options = parser.parse_args()
    if options.urgent:
        prefix.extend(URGENT)
    build = os.path.abspath(options.build)
    transports = options.transport or ["ucx", "ofi"]
    own: dict = {transport: [] for transport in transports}
    tools: dict = {"ucx": [], "ofi": []}
    try:
        with Cluster(hosts=2, slots=1) as cluster:
            for _ in range(options.runs):
                for transport in transports:
                    own[transport].append(ours(cluster, build, transport))
                    tools[transport].append(with_ucx(cluster) if transport == "ucx" else with_libfabric(cluster))
            busy = {transport: ours(cluster, build, transport, ["busy"]) for transport in transports}
        with Cluster(hosts=3, slots=1) as cluster:
            saved = {transport: checkpoint(cluster, build, transport, options.mib) for transport in transports}
    except Unavailable as error:
        print(f"skipped: {error}")
        return SKIPPED
    record = {}
    for transport in transports:
        mine, theirs = medians(own[transport]), medians(tools[transport])
        print(f"{transport:<32} {'shmem-ft':>10} {'tool':>10} {'ratio':>7} {'target computes':>16}")
        for key, value in mine.items():
            name = f"{key[0]}, {key[1]} bytes"
            tool = theirs.get(key)
            ratio = "" if not tool else f"{value / tool:7.2f}"
            print(f"{name:<32} {value:10.1f} {tool or 0:10.1f} {ratio:>7} {busy[transport].get(key, 0):16.1f}")
        put = mine.get(("put_bandwidth_both_ways", 1 << 20), 0)
        # Both PEs ship at the same time, through the same two processors.
        rate = 2 * options.mib * 1.048576 / saved[transport]["dirty"] * 1e3
        print(f"checkpoint of {options.mib} MiB per PE, both ways: {saved[transport]['dirty']:.1f} ms, {rate:.0f} MB/s, "
              f"{100 * rate / put if put else 0:.0f} % of what puts both ways get")
        record[transport] = {"operations": {f"{k[0]}/{k[1]}": v for k, v in mine.items()},
                             "tool": {f"{k[0]}/{k[1]}": v for k, v in theirs.items()}, "checkpoint_ms": saved[transport]}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
