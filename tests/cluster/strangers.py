#!/usr/bin/env python3
"""Troubles every door of a job on two hosts, from a third host and as another user of its own hosts, from its start to its end,
with a recovery in between, and compares the result, bit for bit, with that of a run that nobody troubles.

    strangers.py --oshrun build/bin/oshrun --transport ofi --runs 30 --seed 1 build/apps/jacobi1d --cells 6000 --steps 900 ...
    strangers.py ... --from user --kinds replay,spread     # only these
    strangers.py ... --env SHMEM_FT_GUARD_PORTS=sign       # with another setting

Listeners are found by what the processes of the job listen on (TCP, UDP, abstract sockets), so a new one is attacked as soon as there
is one. Each run draws, by its seed, who attacks (`--from`: stranger, neighbour, user) and how (attacker.py). What is recorded of the job's
own traffic (by root, on one of its hosts) is played to it again when some checkpoints are committed, and through a recovery.

A run is good if its result is that of the run without, its exit code 0, and if no process of it has needed more than MEMORY_MIB
or DESCRIPTORS beyond what it needs in peace, within the time. Needs root (exit code 77 without).
"""

import argparse
import dataclasses
import glob
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time

from cluster_job import Cluster, ClusterJob
from cluster import ClusterError, Unavailable
from attacker import KINDS

ATTACKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attacker.py")
SKIPPED = 77
OTHER_USER = 65534
MEMORY_MIB = 64
DESCRIPTORS = 400
PES, SPARES, PER_HOST = 3, 3, 3
STRANGER = 2  # a host that is no part of the job
LISTENS = {"tcp": "0A", "udp": "07"}  # in /proc/PID/net/...
ATTACK_S = 4
WHO = ("stranger", "neighbour", "user")  # of no host, of the other host, of the own host of the process


def _sockets_of(pid: int) -> set:
    inodes = set()
    for link in glob.glob(f"/proc/{pid}/fd/*"):
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link))
        except OSError:
            continue
        if found:
            inodes.add(found[1])
    return inodes


def doors_of(pid: int) -> set:
    """Whatever the process can be reached by: tcp:PORT, udp:PORT, unix:NAME in hexadecimal."""
    doors, own = set(), _sockets_of(pid)
    try:
        for sort, state in LISTENS.items():
            for version in ("", "6"):
                with open(f"/proc/{pid}/net/{sort}{version}", encoding="ascii") as file:
                    rows = [line.split() for line in file.readlines()[1:]]
                doors |= {f"{sort}:{int(row[1].split(':')[1], 16)}" for row in rows if row[3] == state and row[9] in own}
        with open(f"/proc/{pid}/net/unix", "rb") as file:
            for line in file.read().splitlines()[1:]:
                row = line.split(None, 7)
                if len(row) == 8 and row[6].decode() in own and int(row[3], 16) & 0x10000 and row[7].startswith(b"@"):
                    doors.add("unix:" + row[7][1:].hex())
    except OSError:
        pass  # it has ended
    return doors


@dataclasses.dataclass
class Needs:
    """The most that one process of the job has needed."""

    memory_mib: float = 0.0
    descriptors: int = 0

    def note(self, pid: int) -> None:
        try:
            with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
                text = file.read()
            self.memory_mib = max(self.memory_mib, int(re.search(r"RssAnon:\s+(\d+)", text)[1]) / 1024)
            self.descriptors = max(self.descriptors, len(os.listdir(f"/proc/{pid}/fd")))
        except (OSError, TypeError):
            pass


@dataclasses.dataclass(frozen=True)
class Plan:
    seed: int
    who: tuple
    kinds: tuple
    kills: bool = True


class Siege:
    """One run. REQUIRES: run() once."""

    def __init__(self, options, plan):
        self._options, self._plan = options, plan
        self._chance = random.Random(plan.seed if plan else 0)
        self._folder = tempfile.mkdtemp(prefix="shmem-ft-strangers-")
        os.chmod(self._folder, 0o755)
        self._recording = os.path.join(self._folder, "recording")
        self._attacks = []
        self.needs = Needs()
        self.told = []
        self.doors = set()
        self._lock = threading.Lock()
        self._is_over = threading.Event()

    def run(self):
        try:
            with Cluster(hosts=3, slots=PER_HOST) as cluster:
                return self._run(cluster)
        finally:
            shutil.rmtree(self._folder)

    def _run(self, cluster):
        self._cluster = cluster
        command = [self._options.oshrun, "-n", str(PES), "--spares", str(SPARES), "--host",
                   ",".join(f"{host}:{PER_HOST}" for host in cluster.hosts[:STRANGER]), "--map-by", "node"]
        env = {"SHMEM_TRANSPORT": self._options.transport, **dict(pair.split("=", 1) for pair in self._options.env)}
        recorder = self._start_recorder() if self._plan else None
        program = self._options.program + ([] if self._plan else self._options.in_peace.split())
        self._job = ClusterJob(cluster, command, program, env, self._options.timeout)
        self._job.start()
        watch = threading.Thread(target=self._watch)
        watch.start()
        try:
            if self._plan:
                self._lay_siege(recorder)
            outcome = self._job.finish()
        finally:
            self._is_over.set()
            watch.join()
            for program in [attack for attack, *_ in self._attacks] + ([recorder] if recorder else []):
                program.signal(signal.SIGTERM)
                program.close()
        return outcome

    def _start_recorder(self):
        reading, writing = os.pipe()
        with os.fdopen(reading, encoding="ascii") as said:
            recorder = self._cluster.start([sys.executable, "-B", ATTACKER, "record", self._recording], 1, stdout=writing)
            os.close(writing)
            if said.readline() != "recording\n":
                raise ClusterError("nothing can be recorded here")
        return recorder

    # ---- what the job's processes are, and need ----

    def _members(self, host):
        program = os.path.realpath(shutil.which(self._options.program[0]) or self._options.program[0])
        found = []
        for pid in self._cluster.pids(host):
            try:
                if os.readlink(f"/proc/{pid}/exe") == program:
                    found.append(pid)
            except OSError:
                pass
        return found

    def _watch(self):
        known = set()
        while not self._is_over.wait(0.1):
            for host in range(STRANGER):
                members = self._members(host)
                doors = set().union(*(doors_of(pid) for pid in members)) if members else set()
                with self._lock:
                    self.doors |= {(host, door) for door in doors}
                for pid in members:
                    self.needs.note(pid)
                fresh = {(host, door) for door in doors} - known
                known |= fresh
                if self._plan and fresh:  # during the start: what needs no recording
                    kinds = [kind for kind in self._plan.kinds if kind not in ("replay", "spread")]
                    if kinds:
                        self._attack(host, {door for _, door in fresh}, self._chance.choice(kinds), 2)

    # ---- the attack ----

    def _attack(self, host, doors, kind, seconds):
        for who in self._plan.who:
            at = {"user": host, "neighbour": 1 - host, "stranger": STRANGER}[who]
            reached = sorted(door for door in doors if who == "user" or not door.startswith("unix:"))
            if not reached:
                continue
            out = os.memfd_create("attack")
            command = [sys.executable, "-B", ATTACKER, "attack", kind, self._cluster.addresses[host], ",".join(reached),
                       "--seconds", str(seconds)]
            command += ["--uid", str(OTHER_USER)] if who != "stranger" else []
            command += ["--recording", self._recording] if os.path.exists(self._recording) else []
            with self._lock:
                self._attacks.append((self._cluster.start(command, at, stdout=out, stderr=out), out, f"{who} {kind}"))

    def _save_recording(self, recorder):
        before = os.stat(self._recording).st_mtime_ns if os.path.exists(self._recording) else 0
        recorder.signal(signal.SIGUSR1)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if os.path.exists(self._recording) and os.stat(self._recording).st_mtime_ns != before:
                os.chmod(self._recording, 0o644)
                return
            time.sleep(0.02)
        raise ClusterError("the recorder does not answer")

    def _await_commits(self, n):
        seen = []
        return self._job.wait_for(lambda event: event.is_commit() and (seen.append(1) or len(seen) >= n)) is not None

    def _lay_siege(self, recorder):
        if not self._job.await_start(PES + SPARES) or not self._await_commits(PES * 3):
            return
        self._save_recording(recorder)
        for kind in self._plan.kinds:
            if not self._job.running:
                self.told.append(f"the job has ended before '{kind}'")
                return
            for host in range(STRANGER):
                self._attack(host, {door for at, door in self.doors if at == host}, kind, self._options.seconds)
            time.sleep(self._options.seconds / 2)
            if self._plan.kills and kind == self._plan.kinds[0] and (holder := self._job.holder(1)):
                self._job.kill(holder)
            time.sleep(self._options.seconds / 2)

    def connections(self):
        """By attack: how many it was given."""
        given = {}
        for program, out, what in self._attacks:
            text = os.pread(out, 1 << 16, 0).decode(errors="replace")
            try:
                said = json.loads(text)
                given[what] = [given.get(what, [0, 0])[0] + said["connections"], given.get(what, [0, 0])[1] + said["bytes"] // 1000000]
            except (ValueError, KeyError):
                if text.strip():
                    given[what + " failed: " + text.strip().splitlines()[-1]] = 1
            os.close(out)
        return given


def judge(outcome, siege, reference, peace):
    """What is wrong, as text; empty: nothing."""
    wrong = []
    if outcome.hung:
        wrong.append("HANG: " + "; ".join(outcome.states))
    elif outcome.exit_code != 0 or outcome.results() != reference.results():
        wrong.append(f"exit code {outcome.exit_code}, {len(outcome.results())} results: {outcome.stderr[-2000:]}")
    if siege.needs.memory_mib > peace.needs.memory_mib + MEMORY_MIB:
        wrong.append(f"a process needed {siege.needs.memory_mib:.0f} MiB, {peace.needs.memory_mib:.0f} in peace")
    if siege.needs.descriptors > peace.needs.descriptors + DESCRIPTORS:
        wrong.append(f"a process had {siege.needs.descriptors} descriptors, {peace.needs.descriptors} in peace")
    if outcome.leftovers:
        wrong.append("; ".join(outcome.leftovers))
    return wrong + siege.told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--transport", default="auto")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a setting of the job")
    parser.add_argument("--from", dest="who", default=",".join(WHO))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--in-turn", type=int, default=2, help="attacks of one run, one after another")
    parser.add_argument("--in-peace", default="", help="arguments that the program is given besides in the run without "
                        "strangers, if it ends sooner with them and with the same result")
    parser.add_argument("--seconds", type=float, default=ATTACK_S, help="of each attack")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        peace = Siege(options, None)
        reference = peace.run()
    except Unavailable as error:
        print(f"skipped: {error}", file=sys.stderr)
        return SKIPPED
    if reference.exit_code != 0 or not reference.results():
        sys.exit(f"strangers: error: the run without strangers failed: {reference.stdout}{reference.stderr}")
    print(f"in peace: {reference.seconds:.1f} s, {peace.needs.memory_mib:.0f} MiB, {peace.needs.descriptors} descriptors, "
          f"{len(peace.doors)} doors", flush=True)
    n_wrong = 0
    for seed in range(options.seed, options.seed + options.runs):
        chance = random.Random(seed)
        kinds = options.kinds.split(",")
        plan = Plan(seed, tuple(options.who.split(",")), tuple(chance.sample(kinds, min(len(kinds), options.in_turn))))
        siege = Siege(options, plan)
        outcome = siege.run()
        wrong = judge(outcome, siege, reference, peace)
        n_wrong += bool(wrong)
        print(f"seed {seed}: {'WRONG' if wrong else 'right'}, {outcome.seconds:.1f} s, {siege.needs.memory_mib:.0f} MiB, "
              f"{siege.needs.descriptors} descriptors, connections given: {siege.connections()}", flush=True)
        for line in wrong:
            print(f"    {line}", flush=True)
    print(f"{options.runs - n_wrong} of {options.runs} right")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
