#!/usr/bin/env python3
"""Kills processes of real jobs at random moments and compares every result, bit for bit, with a run without kills.

    campaign.py --oshrun build/bin/oshrun --runs 70 --seed 1 build/apps/jacobi1d --steps 1024 --pace 5
    campaign.py ... --replay 12345        # the one run with this seed, with everything it printed

Every run prints its seed first. The exit code is 0 only if no run was wrong or hung and enough of them recovered.
Files: scenario.py draws what goes wrong, tools/job_watch.py runs it, verdict.py judges it.
"""

import argparse
import collections
import collections.abc
import concurrent.futures
import dataclasses
import json
import os
import signal
import statistics
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))

from job_watch import Job, Launcher, Outcome, Shape  # noqa: E402
from scenario import Scenario, draw, draw_burst  # noqa: E402
from verdict import HANG, NAMED_ERROR, RECOVERED, UNTOUCHED, WRONG  # noqa: E402
from verdict import Reference, Rules, Verdict, judge, starved  # noqa: E402

MANY_RUNS = 20


@dataclasses.dataclass(frozen=True)
class Setting:
    launcher: Launcher
    program: list
    timeout_s: float
    rules: Rules
    draw: collections.abc.Callable = draw  # of scenario.py


class References:
    """Fault-free runs, one per number of PEs, made when first needed. Thread-safe."""

    def __init__(self, setting: Setting):
        self._setting = setting
        self._lock = threading.Lock()
        self._by_pes: dict = {}

    def get(self, pes: int) -> Reference:
        with self._lock:
            if pes not in self._by_pes:
                self._by_pes[pes] = self._measure(pes)
            return self._by_pes[pes]

    def _measure(self, pes: int) -> Reference:
        job = Job(self._setting.launcher, Shape(pes, 0), self._setting.program, {}, self._setting.timeout_s)
        job.start()
        outcome = job.finish()
        commits = [event for event in outcome.events if event.is_commit()]
        if outcome.exit_code != 0 or outcome.hung or not outcome.results() or not commits:
            sys.exit(
                f"campaign: error: the run without kills on {pes} PEs failed (exit code {outcome.exit_code}, "
                f"{len(commits)} commits):\n{outcome.stdout}{outcome.stderr}"
            )
        first, last = min(e.end_ns for e in commits), max(e.end_ns for e in commits)
        return Reference(outcome.results(), max(e.value for e in commits), (last - first) / 1e6)


def _is_restart(event, since_ns: int = 0) -> bool:
    return event.kind == "span" and event.text == "restart" and event.begin_ns >= since_ns


class Killer:
    """Carries out the kills of a scenario on a running job."""

    def __init__(self, job: Job, scenario: Scenario, reference: Reference):
        self._job = job
        self._scenario = scenario
        self._run_ms = reference.run_ms
        self._period_ms = reference.run_ms / max(1, reference.last_version - 1)
        self._at = 0  # events before this one belong to earlier kills
        self._continues: list = []  # timers that end short stops
        self.short_stops = 0

    def run(self) -> None:
        self._carry_out()
        for timer in self._continues:
            timer.join()

    def _carry_out(self) -> None:
        at = self._job.wait_for(lambda event: event.is_commit())
        if at is None:
            return
        for kill in self._scenario.kills:
            if not self._await_moment(kill):
                return
            target = self._target(kill)
            if target is not None and not kill.is_failure:
                self._stop_shortly(target[1], kill.stop_ms)
            elif target is not None:
                with_events = len(self._job.events)
                if self._job.fail(*target, kill.signal):
                    self._at = with_events

    def _stop_shortly(self, pid: int, stop_ms: float) -> None:
        if self._job.send(pid, signal.SIGSTOP):
            self.short_stops += 1
            self._continues.append(threading.Timer(stop_ms / 1e3, self._job.send, (pid, signal.SIGCONT)))
            self._continues[-1].start()

    def _await_moment(self, kill) -> bool:
        since_ns = self._job.deaths[-1].time_ns if self._job.deaths else 0
        wanted = {
            "commit": None,
            "now": None,
            "checkpoint": None,
            "failure_seen": lambda event: event.kind == "failure_seen",
            "pe_taken": lambda event: event.kind == "pe_taken",
            "restarted": lambda event: _is_restart(event, since_ns),
        }[kill.trigger]
        delay_ms = kill.part * self._run_ms + kill.delay_ms
        if kill.trigger == "checkpoint":
            version = 1 + kill.nth
            if self._job.wait_for(lambda event: event.is_commit() and event.value >= version) is None:
                return False
            delay_ms += self._period_ms
        elif wanted is not None and self._job.wait_for(wanted, self._at) is None:
            return False
        time.sleep(max(0.0, delay_ms) / 1e3)
        return self._job.running

    def _target(self, kill):
        if kill.victim == "pe":
            holder = self._job.holder(kill.number)
            return (*holder, kill.number) if holder else None
        sleepers = self._job.sleepers()
        if not sleepers:
            return None
        rank, pid = sleepers[kill.number % len(sleepers)]
        return rank, pid, -1


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of the campaign and what came of it."""

    seed: int
    scenario: Scenario
    outcome: Outcome
    verdict: Verdict
    short_stops: int


def run_once(setting: Setting, references: References, seed: int) -> Run:
    scenario = setting.draw(seed)
    reference = references.get(scenario.pes)
    env = {"SHMEM_FT_BACKUP_MODE": scenario.mode}
    if scenario.hang_timeout_ms:
        env["SHMEM_FT_HANG_TIMEOUT"] = str(scenario.hang_timeout_ms)
    job = Job(setting.launcher, Shape(scenario.pes, scenario.spares), setting.program, env, setting.timeout_s)
    job.start()
    killer = Killer(job, scenario, reference)
    killer.run()
    outcome = job.finish()
    verdict = judge(scenario, outcome, reference, setting.rules)
    return Run(seed, scenario, outcome, verdict, killer.short_stops)


def _print_run(run: Run) -> None:
    scenario, outcome, verdict, seed = run.scenario, run.outcome, run.verdict, run.seed
    kills = f"{len(outcome.deaths) + run.short_stops} of {len(scenario.kills)} kills"
    print(f"seed {seed}: {verdict.kind} ({kills}, {outcome.seconds:.2f} s) {scenario}", flush=True)
    if verdict.kind == NAMED_ERROR:
        print(f"    {verdict.why}", flush=True)


def _print_details(run: Run) -> None:
    outcome = run.outcome
    print(f"  {run.verdict.why}")
    for death in outcome.deaths:
        print(f"  killed: rank {death.rank} pid {death.pid} PE {death.pe} signal {death.signal} at {death.time_ns}")
    for event in outcome.events[-60:]:
        print(f"  event: {dataclasses.asdict(event)}")
    print("  stdout:\n" + outcome.stdout + "  stderr:\n" + outcome.stderr, flush=True)


def _detection_times_ms(outcome) -> list:
    """(signal, time) from the signal to the first notice of the death. A victim of SIGUSR2 lives to its next step."""
    seen: dict = {}
    for event in outcome.events:
        if event.kind == "failure_seen":
            seen.setdefault(event.value, event.begin_ns)
    sent: dict = {}
    for death in outcome.deaths:
        sent.setdefault(death.rank, death)
    return [(signal.Signals(death.signal).name, (seen[rank] - death.time_ns) / 1e6)
            for rank, death in sent.items() if rank in seen]


def _recovery_times_ms(outcome) -> list:
    """From the first notice of a death to the end of the restart that repaired it."""
    seen = [event.begin_ns for event in outcome.events if event.kind == "failure_seen"]
    ends = [event.end_ns for event in outcome.events if _is_restart(event)]
    return [(max(ends) - min(seen)) / 1e6] if seen and ends else []


def _phase_of(death, outcome) -> str:
    """What was going on when a process died."""
    spans = [event for event in outcome.events if event.kind == "span"]
    for begin, end in [(event.begin_ns, event.end_ns) for event in spans if event.text == "restart"]:
        if begin <= death.time_ns <= end:
            return "recovery"
    # A checkpoint that a death interrupts ends as "agree".
    for event in spans:
        if event.text in ("checkpoint", "agree") and event.begin_ns <= death.time_ns <= event.end_ns:
            return "checkpoint"
    return "computation"


class Tally:
    """What all runs together have shown. The records are the same, run by run, for programs."""

    def __init__(self):
        self.records: list = []
        self.counts: collections.Counter = collections.Counter()

    def add(self, run: Run) -> None:
        self.counts[run.verdict.kind] += 1
        deaths = run.outcome.deaths
        self.records.append({
            "seed": run.seed,
            "scenario": str(run.scenario),
            "mode": run.scenario.mode,
            "verdict": run.verdict.kind,
            "why": run.verdict.why,
            "seconds": round(run.outcome.seconds, 3),
            "kills": [{"kind": signal.Signals(death.signal).name, "phase": _phase_of(death, run.outcome)}
                      for death in deaths],
            "short_stops": run.short_stops,
            "starved": len(starved(run.scenario, run.outcome)),
            "detection_ms": _detection_times_ms(run.outcome),
            "recovery_ms": _recovery_times_ms(run.outcome),
        })

    def print(self) -> None:
        phases = collections.Counter(kill["phase"] for record in self.records for kill in record["kills"])
        where = ", ".join(f"{n} in {phase}" for phase, n in phases.most_common())
        stops = sum(record["short_stops"] for record in self.records)
        order = [RECOVERED, UNTOUCHED, NAMED_ERROR, WRONG, HANG]
        print(f"campaign: {sum(phases.values())} kills ({where}) and {stops} short stops in {len(self.records)} runs: "
              + ", ".join(f"{self.counts[kind]} {kind}" for kind in order))
        recovery_ms = [time_ms for record in self.records for time_ms in record["recovery_ms"]]
        if recovery_ms:
            print(f"campaign: notice to resumption: median {statistics.median(recovery_ms):.1f} ms, "
                  f"longest {max(recovery_ms):.1f} ms")


def _parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--runs", type=int, default=70)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    parser.add_argument("--replay", type=int, help="seed of one run")
    parser.add_argument("--bursts", action="store_true", help="any number of PEs die at one moment")
    parser.add_argument("--backup", metavar="MODE", help="SHMEM_FT_BACKUP_MODE of all runs, instead of a random one")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds until a run counts as hung")
    parser.add_argument("--unprotected-after", type=int, action="append", default=[], metavar="VERSION",
                        help="an initialisation block follows this version: a death there rightly ends the job")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the tenth failure")
    parser.add_argument("--json", metavar="FILE", help="append a record of each run (long_campaign.py adds them up)")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    if not options.program:
        parser.error("which program?")
    return options


def main() -> int:
    options = _parse(sys.argv[1:])
    drawn = draw_burst if options.bursts else draw
    setting = Setting(Launcher(options.oshrun), options.program, options.timeout,
                      Rules(tuple(options.unprotected_after), int(os.environ.get("SHMEM_FT_PRETEND_NODES", "0")),
                            not os.environ.get("SHMEM_FT_INTERVAL", "1").isdigit()),
                      drawn if options.backup is None else
                      lambda seed: dataclasses.replace(drawn(seed), mode=options.backup))
    references = References(setting)
    if options.replay is not None:
        run = run_once(setting, references, options.replay)
        _print_run(run)
        _print_details(run)
        return 1 if run.verdict.failed else 0

    seeds = [options.seed + i for i in range(options.runs)]
    print(f"campaign: seeds {seeds[0]}..{seeds[-1]}: {' '.join(options.program)}", flush=True)
    tally, failed = Tally(), []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(run_once, setting, references, seed) for seed in seeds]
        for future in concurrent.futures.as_completed(futures):
            if future.cancelled():
                continue
            run = future.result()
            _print_run(run)
            tally.add(run)
            if run.verdict.failed:
                failed.append(run.seed)
                _print_details(run)
                if len(failed) >= 10 and not options.keep_going:
                    for other in futures:
                        other.cancel()
    tally.print()
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            file.writelines(json.dumps({"program": os.path.basename(options.program[0]), **record}) + "\n"
                            for record in tally.records)
    if failed:
        print(f"campaign: error: failed seeds {failed}: repeat one with --replay SEED", file=sys.stderr)
        return 1
    # Moments are drawn by the length of a run without faults, on a machine that may have been busier then: of a few runs
    # several may be over before theirs.
    least = options.runs / (2 if options.runs >= MANY_RUNS else 4)
    if tally.counts[RECOVERED] < least:
        print(f"campaign: error: fewer than {least:.0f} of the runs recovered from anything", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
