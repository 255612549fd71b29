#!/usr/bin/env python3
"""Operations between two hosts of a cluster in this machine beside what the transports' own tools get for the same, in one
run: ucx_perftest, and fi_pingpong. Then a checkpoint between the hosts beside what the link carries: iperf3.

    network.py build [--runs 3] [--json FILE] [--transport ucx] [--urgent]

Medians over the runs, which take turns. Needs root, ucx-utils, libfabric-bin and iperf3. Exit code 77 if hosts cannot be
made. --urgent: what is measured goes before everything else on this machine, for one that is not idle. Not by real-time
priority: that starves the kernel's own network threads, and the figures are wrong by a thousand times.

The tool's figure for the three small operations is that of ucp_fadd, one request and one answer of a few bytes as
they all are: ucx_perftest has no put with a flush, and in its ucp_get the side whose memory is read looks at the
network once in a millisecond. fi_pingpong's are a whole round trip of 64 bytes; it prints a mean only. The tool's
bandwidth is the best of ucp_put_bw, ucp_am_bw and tag_bw, for get as well; fi_pingpong has one message on its way at a
time. What the link carries both ways at once: both directions of iperf3 --bidir together.
"""

import argparse
import contextlib
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
MEAN = ", mean"
# Mbit/s each way of a host; 0: as fast as the processors can. There everything else that a checkpoint does takes away from
# the link, since nothing but processors makes it.
RATES = (0, 4000)
BANDWIDTH_TESTS = ("ucp_put_bw", "ucp_am_bw", "tag_bw")

# The nice value of a session counts before that of its processes where the kernel groups by sessions.
URGENT = ["sh", "-c", 'echo -20 2>/dev/null >/proc/self/autogroup; exec nice -n -20 "$@"', "sh"]
prefix: list = []
AUTOGROUP = "/proc/sys/kernel/sched_autogroup_enabled"


@contextlib.contextmanager
def no_autogroup():
    """The processors are shared among processes, not among sessions (docs/cluster.md), as long as this lasts."""
    with open(AUTOGROUP, encoding="utf-8") as file:
        before = file.read()
    with open(AUTOGROUP, "w", encoding="utf-8") as file:
        file.write("0")
    try:
        yield
    finally:
        with open(AUTOGROUP, "w", encoding="utf-8") as file:
            file.write(before)


def ours(cluster, build, transport, arguments=()):
    result = cluster.run(
        [f"{build}/bin/oshrun", "-n", "2", *prefix, f"{build}/benchmarks/bench_network_operations", *arguments],
        timeout_s=300, environment={"SHMEM_TRANSPORT": transport})
    if result.returncode != 0:
        sys.exit(f"network: error: exit code {result.returncode}\n{result.stdout}{result.stderr}")
    rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    values = {}
    for row in rows:
        values[(row["operation"], row["bytes"])] = row.get("us", row.get("mb_per_s"))
        if "mean_us" in row:
            values[(row["operation"] + MEAN, row["bytes"])] = row["mean_us"]
    return values


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
    round_trip = ucx_perftest(cluster, "ucp_fadd", 8, 20000, 1)
    rows = {}
    for operation in SMALL:
        rows[(operation, 8)] = round_trip["us"]
        rows[(operation + MEAN, 8)] = round_trip["average_us"]
    for size in LARGE:
        rate = max(ucx_perftest(cluster, test, size, (512 << 20) // size, 8)["mb_per_s"] for test in BANDWIDTH_TESTS)
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
            rows.update({(operation + MEAN, 8): 2 * float(numbers[6]) for operation in SMALL})
        else:
            rows[("put_bandwidth", size)] = rows[("get_bandwidth", size)] = float(numbers[5])
    return rows


def link_both_ways(cluster):
    """MB/s of a TCP connection each way at the same time, together."""
    with serve(cluster, ["iperf3", "--server", "--one-off"], {}):
        time.sleep(0.5)
        result = cluster.run([*prefix, "iperf3", "--client", cluster.addresses[1], "--json", "--time", "2", "--length", "1M",
                              "--bidir"], timeout_s=60)
    try:
        end = json.loads(result.stdout)["end"]
        return (end["sum_received"]["bits_per_second"] + end["sum_received_bidir_reverse"]["bits_per_second"]) / 8e6
    except (ValueError, KeyError):
        return sys.exit(f"network: error: iperf3:\n{result.stdout}{result.stderr}")


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
    parser.add_argument("--no-autogroup", action="store_true",
                        help="meanwhile kernel.sched_autogroup_enabled=0, for the whole machine: hosts do not starve each "
                             "other (docs/cluster.md)")
    options = parser.parse_args()
    if options.urgent:
        prefix.extend(URGENT)
    with no_autogroup() if options.no_autogroup else contextlib.nullcontext():
        return measure(options)


def measure(options):
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
        saves: dict = {(rate, transport): [] for rate in RATES for transport in transports}
        links: dict = {rate: [] for rate in RATES}
        with Cluster(hosts=3, slots=1) as cluster:
            for rate in RATES:
                for host in range(3):
                    cluster.rate(host, rate)
                for _ in range(options.runs):
                    links[rate].append(link_both_ways(cluster))
                    for transport in transports:
                        saves[rate, transport].append(checkpoint(cluster, build, transport, options.mib))
    except Unavailable as error:
        print(f"skipped: {error}")
        return SKIPPED
    record = {}
    for transport in transports:
        mine, theirs = medians(own[transport]), medians(tools[transport])
        print(f"{transport:<32} {'shmem-ft':>10} {'tool':>10} {'ratio':>7} {'target computes':>16}")
        for key, value in mine.items():
            name = f"{key[0]}, {key[1]} B"
            tool = theirs.get(key)
            ratio = "" if not tool else f"{value / tool:7.2f}"
            print(f"{name:<32} {value:10.1f} {tool or 0:10.1f} {ratio:>7} {busy[transport].get(key, 0):16.1f}")
        record[transport] = {"operations": {f"{k[0]}/{k[1]}": v for k, v in mine.items()},
                             "tool": {f"{k[0]}/{k[1]}": v for k, v in theirs.items()}, "checkpoints": []}
        for rate in RATES:
            # Both PEs ship at the same time.
            saved = medians(saves[rate, transport])
            carried = statistics.median(links[rate])
            got = 2 * options.mib * 1.048576 / saved["dirty"] * 1e3
            print(f"checkpoint of {options.mib} MiB per PE, {f'{rate} Mbit/s each way' if rate else 'no limit'}: "
                  f"{saved['dirty']:.1f} ms, {got:.0f} MB/s both ways, {100 * got / carried:.0f} % of what iperf3 gets "
                  f"({carried:.0f})")
            record[transport]["checkpoints"].append({"rate_mbit": rate, "link_mb_per_s": carried, "ms": saved})
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
