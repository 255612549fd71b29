#!/usr/bin/env python3
"""Kills hosts, launcher daemons and processes of real jobs on a cluster of four hosts, cuts and freezes hosts, at random
moments, and compares every result, bit for bit, with a run without.

    node_campaign.py --oshrun build/bin/oshrun --runs 20 --seed 1 build/apps/jacobi1d --steps 1024 --pace 5
    node_campaign.py ... --replay 12345       # the one run with this seed, with everything it printed

Exactly two ends of a job are right: the result of the run without, with exit code 0, or, where the library promises
nothing, one named error. Nothing may be left on any host. Needs root (exit code 77 without). Files: node_scenario.py
draws what goes wrong, cluster_job.py runs it.
"""

import argparse
import collections
from collections.abc import Callable
import dataclasses
import json
import os
import re
import signal
import statistics
import sys
import threading
import time

from cluster_job import Cluster, ClusterJob, Outcome
from cluster import Unavailable
from node_scenario import BOUND_MS, HOSTS, PROCESSES, Scenario, draw, draw_at_once

SKIPPED = 77
RECOVERED, UNTOUCHED, NAMED_ERROR, WRONG, HANG = "recovered", "nothing to repair", "named error", "WRONG", "HANG"

# Reasons for which a job may end, and how the line says so. oshrun says "lost with its host" of a PE whose end it does not
# know when the others have ended well.
TEXTS = {
    "before the first commit": ("before the first checkpoint was committed",),
    "after the last commit": ("after the last shmem_checkpoint_all", "was lost with its host"),
    "copies lost": ("the data is lost",),
    "no spare": ("no spare left to take over",),
    "no majority": ("majority",),
}


@dataclasses.dataclass(frozen=True)
class Setting:
    command: list
    program: list
    env: dict
    timeout_s: float
    draw: Callable[[int], Scenario]


@dataclasses.dataclass(frozen=True)
class Reference:
    results: list
    last_version: int
    run_ms: float


def _start(setting: Setting, cluster: Cluster, pes: int, mode: str) -> ClusterJob:
    hosts = ",".join(f"{host}:{PROCESSES // HOSTS}" for host in cluster.hosts)
    command = [setting.command[0], "-n", str(pes), "--spares", str(PROCESSES - pes), "--host", hosts, "--map-by", "node",
               "--on-demand", "never", *setting.command[1:]]
    env = {"SHMEM_FT_BACKUP_MODE": mode, "SHMEM_FT_NODE_TIMEOUT": str(BOUND_MS),
           "SHMEM_FT_HANG_TIMEOUT": str(BOUND_MS), **setting.env}
    job = ClusterJob(cluster, command, setting.program, env, setting.timeout_s)
    job.start()
    return job


def run_without_kills(setting: Setting, pes: int) -> Reference:
    with Cluster(hosts=HOSTS, slots=PROCESSES // HOSTS) as cluster:
        outcome = _start(setting, cluster, pes, "double").finish()
    commits = [event for event in outcome.events if event.is_commit()]
    if outcome.exit_code != 0 or not outcome.results() or not commits:
        sys.exit(f"node_campaign: error: the run without kills on {pes} PEs failed (exit code {outcome.exit_code}, "
                 f"{len(commits)} commits, hung: {outcome.hung}):\n{outcome.stdout}{outcome.stderr}"
                 + "\n".join(outcome.states))
    first, last = min(e.end_ns for e in commits), max(e.end_ns for e in commits)
    return Reference(outcome.results(), max(e.value for e in commits), (last - first) / 1e6)


def measure(setting: Setting, pes: int) -> Reference:
    """The shorter of two runs: the blows come at parts of it, and one that some other work has made longer would put them
    behind the end of the others."""
    return min((run_without_kills(setting, pes) for _ in range(2)), key=lambda reference: reference.run_ms)


class Hand:
    """Carries out the steps of a scenario."""

    def __init__(self, job: ClusterJob, scenario: Scenario, reference: Reference):
        self._job = job
        self._scenario = scenario
        self._reference = reference
        self._at = 0
        self._undoing: list = []

    def run(self) -> None:
        if self._job.await_start(PROCESSES) and self._job.wait_for(lambda event: event.is_commit()) is not None:
            for step in self._scenario.steps:
                if not self._await_moment(step):
                    break
                self._at = len(self._job.events)
                self._carry_out(step)
        for timer in self._undoing:
            timer.join()

    def _await_moment(self, step) -> bool:
        since_ns = self._job.blows[-1].time_ns if self._job.blows else 0
        wanted = {
            "commit": None,
            "now": None,
            "seen": lambda event: event.kind == "failure_seen",
            "restarted": lambda event: event.kind == "span" and event.text == "restart" and event.end_ns >= since_ns,
        }[step.trigger]
        if wanted is not None and self._job.wait_for(wanted, self._at) is None:
            return False
        time.sleep((step.part * self._reference.run_ms + step.delay_ms) / 1e3)
        return self._job.running

    def _carry_out(self, step) -> None:
        job = self._job
        if step.what in ("lose", "close"):
            job.lose_host(step.target, is_silent=step.what == "lose")
        elif step.what in ("process", "stop"):
            process = job.holder(step.target)
            if process is not None:
                job.kill(process, signal.SIGKILL if step.what == "process" else signal.SIGSTOP)
        elif step.what == "daemon":
            job.kill_daemon(step.target)
        elif step.what in ("cut", "down"):
            job.cut(step.target, "drop" if step.what == "cut" else "down")
        elif step.what == "blink":
            job.cut(step.target, is_failure=False)
            self._later(step.hold_ms, lambda: job.heal(step.target))
        elif step.what == "freeze":
            victims = job.processes_on(step.target)
            for process in victims:
                job.kill(process, signal.SIGSTOP)
            self._later(step.hold_ms, lambda: [job.quietly(process, signal.SIGCONT) for process in victims])

    def _later(self, delay_ms: float, what) -> None:
        self._undoing.append(threading.Timer(delay_ms / 1e3, what))
        self._undoing[-1].start()


def excuses(scenario: Scenario, outcome: Outcome, reference: Reference) -> list:
    """The reasons why this job may rightly have ended with an error."""
    found = []
    commits: dict = {}
    for event in outcome.events:
        if event.is_commit():
            commits[event.value] = min(commits.get(event.value, event.end_ns), event.end_ns)
    struck = [blow for blow in outcome.blows if blow.ranks]
    if not struck:
        return found
    last_ns = max(blow.time_ns for blow in struck)
    if not commits or min(blow.time_ns for blow in struck) <= min(commits.values()):
        found.append("before the first commit")
    # What the death of a host does to the others takes effect up to the bound later.
    if commits.get(reference.last_version, last_ns) <= last_ns + 5 * BOUND_MS * 1_000_000:
        found.append("after the last commit")
    lost_ranks = {rank for blow in struck for rank in blow.ranks}
    lost_spares = sum(1 for rank in lost_ranks if rank >= scenario.pes)
    if len(lost_ranks) - lost_spares > scenario.spares - lost_spares:
        found.append("no spare")
    n_copies = int(re.search(r"\d+$", scenario.mode).group()) if scenario.mode.startswith(("replica", "rs")) else 1
    repairs = [event.end_ns for event in outcome.events if event.kind == "span" and event.text == "restart"]
    for first, second in zip(struck, struck[1:]):
        if not any(first.time_ns < end <= second.time_ns for end in repairs) and len(struck) > n_copies:
            found.append("copies lost")  # of two blows without a repair in between
            found.append("no majority")
    if len({rank for rank in struck[-1].ranks if rank < scenario.pes}) * 2 > scenario.pes:
        found.append("no majority")
    if scenario.mode == "single" and any(len(blow.ranks) > 1 for blow in struck):
        found.append("copies lost")  # kept on the node itself
    if scenario.mode == "single" and any(far_copy_died(line, struck) for line in outcome.errors()):
        found.append("copies lost")
    return found


def far_copy_died(line: str, struck: list) -> bool:
    """A PE without another one on its host has to keep its only copy on another host, with a process that was hit."""
    words = re.search(r"PE (\d+) has no copy .* with process (\d+) on another node, which has died", line)
    if words is None:
        return False
    pe, keeper = map(int, words.groups())
    return pe % HOSTS != keeper % HOSTS and any(keeper in blow.ranks for blow in struck)


def judge(scenario: Scenario, outcome: Outcome, reference: Reference) -> tuple:
    if outcome.hung:
        return HANG, "; ".join(outcome.states)
    if outcome.leftovers:
        return WRONG, "; ".join(outcome.leftovers)
    if outcome.exit_code == 0:
        if outcome.results() != reference.results:
            return WRONG, f"results {outcome.results()} instead of {reference.results}"
        restarted = any(event.kind == "span" and event.text == "restart" for event in outcome.events)
        blinked = all(not blow.ranks for blow in outcome.blows)
        if restarted and blinked and outcome.blows:
            return WRONG, "something was declared dead, and nothing had happened but a short cut"
        return (RECOVERED if restarted else UNTOUCHED), ""
    wrong = [line for line in outcome.results() if line not in reference.results]
    if wrong:
        return WRONG, f"exit code {outcome.exit_code} and a wrong result: {wrong[0]}"
    reasons = excuses(scenario, outcome, reference)
    errors = outcome.errors()
    if not errors:
        return WRONG, f"exit code {outcome.exit_code} without an error message"
    for reason in reasons:
        if any(text in line for text in TEXTS[reason] for line in errors):
            return NAMED_ERROR, f"{reason}: {errors[0]}"
    return WRONG, f"exit code {outcome.exit_code} without need ({', '.join(reasons) or 'no reason'}): {errors[0]}"


def run_once(setting: Setting, references: dict, seed: int) -> dict:
    scenario = setting.draw(seed)
    if scenario.pes not in references:
        references[scenario.pes] = measure(setting, scenario.pes)
    reference = references[scenario.pes]
    with Cluster(hosts=HOSTS, slots=PROCESSES // HOSTS) as cluster:
        job = _start(setting, cluster, scenario.pes, scenario.mode)
        Hand(job, scenario, reference).run()
        outcome = job.finish()
    verdict, why = judge(scenario, outcome, reference)
    seen = [event.begin_ns for event in outcome.events if event.kind == "failure_seen"]
    ends = [event.end_ns for event in outcome.events if event.kind == "span" and event.text == "restart"]
    struck = [blow for blow in outcome.blows if blow.ranks]
    print(f"seed {seed}: {verdict} ({outcome.seconds:.2f} s) {scenario}", flush=True)
    if why:
        print(f"    {why}", flush=True)
    return {
        "seed": seed, "scenario": str(scenario), "verdict": verdict, "why": why, "outcome": outcome,
        "losses": sum(1 for blow in struck if "loss of" in blow.what),
        "blows": [blow.what.split(" to ")[0].split(" of ")[0] for blow in struck],
        "detection_ms": [(min(seen) - struck[0].time_ns) / 1e6] if seen and struck else [],
        "recovery_ms": [(max(ends) - min(seen)) / 1e6] if seen and ends else [],
    }


def _print_details(record: dict) -> None:
    outcome = record["outcome"]
    for blow in outcome.blows:
        print(f"  blow: {blow}")
    for event in outcome.events[-60:]:
        print(f"  event: {dataclasses.asdict(event)}")
    print("  stdout:\n" + outcome.stdout + "  stderr:\n" + outcome.stderr, flush=True)


def _sum_up(records: list) -> collections.Counter:
    counts = collections.Counter(record["verdict"] for record in records)
    blows = collections.Counter(blow for record in records for blow in record["blows"])
    print(f"node_campaign: {sum(record['losses'] for record in records)} hosts lost; "
          + ", ".join(f"{n} {what}" for what, n in blows.most_common()) + f"; in {len(records)} runs: "
          + ", ".join(f"{counts[kind]} {kind}" for kind in (RECOVERED, UNTOUCHED, NAMED_ERROR, WRONG, HANG)))
    for name, key in (("blow to notice", "detection_ms"), ("notice to resumption", "recovery_ms")):
        times = [time_ms for record in records for time_ms in record[key]]
        if times:
            print(f"node_campaign: {name}: median {statistics.median(times):.1f} ms, longest {max(times):.1f} ms")
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--options", default="", help="more options of oshrun, separated by blanks")
    parser.add_argument("--transport", default="auto", help="SHMEM_TRANSPORT of the jobs")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    parser.add_argument("--replay", type=int, help="seed of one run")
    parser.add_argument("--at-once", type=int, choices=range(1, HOSTS - 1), metavar="N",
                        help="in all runs N hosts are lost at one moment, with SHMEM_FT_BACKUP_MODE=replica:N")
    parser.add_argument("--backup", metavar="MODE", default="", help="with --at-once: another SHMEM_FT_BACKUP_MODE")
    parser.add_argument("--timeout", type=float, default=40.0, help="seconds until a run counts as hung")
    parser.add_argument("--json", metavar="FILE", help="append a record of each run")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if not options.program:
        parser.error("which program?")
    setting = Setting([os.path.abspath(options.oshrun), *options.options.split()], options.program,
                      {"SHMEM_TRANSPORT": options.transport}, options.timeout,
                      draw if options.at_once is None else lambda seed: draw_at_once(seed, options.at_once, options.backup))
    references: dict = {}
    seeds = [options.replay] if options.replay is not None else [options.seed + i for i in range(options.runs)]
    print(f"node_campaign: seeds {seeds[0]}..{seeds[-1]}: {' '.join(options.program)}", flush=True)
    records = []
    try:
        for seed in seeds:
            record = run_once(setting, references, seed)
            records.append(record)
            if record["verdict"] in (WRONG, HANG) or options.replay is not None:
                _print_details(record)
            if sum(1 for each in records if each["verdict"] in (WRONG, HANG)) >= 10:
                break
    except Unavailable as error:
        print(f"skipped: {error}")
        return SKIPPED
    counts = _sum_up(records)
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            for record in records:
                del record["outcome"]
                file.write(json.dumps(record) + "\n")
    failed = [record["seed"] for record in records if record["verdict"] in (WRONG, HANG)]
    if failed:
        print(f"node_campaign: error: failed seeds {failed}: repeat one with --replay SEED", file=sys.stderr)
        return 1
    if options.replay is None and counts[RECOVERED] * 2 < len(seeds):
        print("node_campaign: error: fewer than half of the runs recovered from anything", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
