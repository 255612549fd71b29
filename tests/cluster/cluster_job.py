"""One job under oshrun on the hosts of a cluster in this machine, with processes, hosts and links that can be made to fail.

oshrun runs on node0. Events are the lines that `oshrun --events FILE` writes. Processes are found by what they are on
their host (program and rank), and named by pidfds, so nothing else can be hit.

A ClusterJob always ends: after `timeout_s` everything it started is killed and the outcome says `hung`.
"""

import dataclasses
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "cluster"))

from cluster import Cluster, ClusterError  # noqa: E402
from job_watch import Event, EventLog, describe_waits, has_ended  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Process:
    rank: int
    host: int
    pid: int  # as this machine numbers it
    handle: int  # pidfd


@dataclasses.dataclass
class Blow:
    """Something that we did to the job."""

    time_ns: int
    what: str
    ranks: list  # the processes that it hit


@dataclasses.dataclass
class Outcome:
    exit_code: int
    stdout: str
    stderr: str
    events: list
    blows: list
    hung: bool
    seconds: float
    leftovers: list
    states: list  # of the processes, if it hung

    def results(self) -> list:
        return sorted(line for line in self.stdout.splitlines() if line.startswith("result "))

    def errors(self) -> list:
        return [line for line in self.stderr.splitlines()
                if line.startswith(("oshrun: ", "shmem-ft: ")) and ": warning: " not in line]


def _environment_of(pid: int) -> dict:
    with open(f"/proc/{pid}/environ", "rb") as file:
        pairs = (entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
        return {name.decode(errors="replace"): value.decode(errors="replace") for name, value in pairs}


class ClusterJob:
    """REQUIRES: start() once, then anything else from one thread, then finish() once. The cluster is the caller's."""

    def __init__(self, cluster: Cluster, command: list, program: list, env: dict, timeout_s: float):
        self.cluster = cluster
        self.events: list = []
        self.blows: list = []
        self._command = command
        self._program = program
        self._env = env
        self._timeout_s = timeout_s
        self._processes: dict = {}  # rank -> Process
        self._holders: dict = {}  # PE -> rank

    def start(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="shmem-ft-cluster-job-")
        self._events_path = os.path.join(self._directory, "events")
        open(self._events_path, "w", encoding="utf-8").close()
        self._out = open(os.path.join(self._directory, "stdout"), "w+", encoding="utf-8", errors="replace")
        self._err = open(os.path.join(self._directory, "stderr"), "w+", encoding="utf-8", errors="replace")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self._started = time.monotonic()
        with open(os.devnull, "rb") as null:
            self._job = self.cluster.start(
                [*self._command, "--events", self._events_path, *self._program],
                stdin=null, stdout=self._out, stderr=self._err, environment=self._env,
            )
        self._log = EventLog(self._events_path, self._note)
        self.events = self._log.events

    def _note(self, event: Event) -> None:
        if event.pe >= 0 and event.kind in ("initialized", "pe_taken"):
            self._holders[event.pe] = event.rank

    def wait_for(self, wanted, since: int = 0):
        """Index after the first event from index `since` on that is wanted; None: the job ended before."""
        return self._log.wait_for(wanted, since, lambda: self.running and not self._expired())

    def await_start(self, processes: int) -> bool:
        """Until all processes have come through shmem_init; then they are known."""
        ready: set = set()

        def is_last(event):
            if event.kind == "initialized":
                ready.add(event.rank)
            return len(ready) >= processes

        if self.wait_for(is_last) is None:
            return False
        self.find_processes()
        return len(self._processes) >= processes

    def find_processes(self) -> None:
        program = os.path.realpath(shutil.which(self._program[0]) or self._program[0])
        for host in range(len(self.cluster.hosts)):
            for pid in self.cluster.pids(host):
                try:
                    if os.readlink(f"/proc/{pid}/exe") != program:
                        continue
                    rank = int(_environment_of(pid).get("PMIX_RANK", "-1"))
                    if rank >= 0 and rank not in self._processes:
                        self._processes[rank] = Process(rank, host, pid, os.pidfd_open(pid))
                except (OSError, ValueError):
                    continue

    def processes_on(self, host: int) -> list:
        return [process for process in self._processes.values() if process.host == host]

    def process(self, rank: int):
        return self._processes.get(rank)

    def is_alive(self, rank: int) -> bool:
        return not has_ended(self._processes[rank].handle)

    def holder(self, pe: int):
        with self._log.news:
            return self._processes.get(self._holders.get(pe, -1))

    def holders(self) -> dict:
        """PE -> Process, as far as events tell."""
        with self._log.news:
            return {pe: self._processes[rank] for pe, rank in self._holders.items() if rank in self._processes}

    # ---- what is done to it ----

    def _strike(self, what: str, processes: list) -> None:
        self.blows.append(Blow(time.monotonic_ns(), what, sorted(p.rank for p in processes if not has_ended(p.handle))))

    def kill(self, process: Process, number: int = signal.SIGKILL) -> bool:
        if has_ended(process.handle):
            return False
        self._strike(f"{signal.Signals(number).name} to rank {process.rank}", [process])
        try:
            signal.pidfd_send_signal(process.handle, number)
        except ProcessLookupError:
            return False
        return True

    def quietly(self, process: Process, number: int) -> None:
        """A signal that is no blow of its own."""
        if not has_ended(process.handle):
            signal.pidfd_send_signal(process.handle, number)

    def lose_host(self, host: int, is_silent: bool = True) -> None:
        self._strike(f"loss of node{host}{'' if is_silent else ', connections closed'}", self.processes_on(host))
        self.cluster.kill_host(host, is_silent=is_silent)

    def kill_daemon(self, host: int) -> bool:
        """The launcher's daemon of a host; not on node0, where the launcher itself is."""
        for pid in self.cluster.pids(host):
            try:
                with open(f"/proc/{pid}/comm", encoding="ascii") as comm:
                    if comm.read().strip() in ("orted", "prted"):
                        self._strike(f"SIGKILL to the launcher's daemon of node{host}", self.processes_on(host))
                        os.kill(pid, signal.SIGKILL)
                        return True
            except OSError:
                continue
        return False

    def cut(self, host: int, how: str = "drop", is_failure: bool = True) -> None:
        self._strike(f"cut of node{host} ({how})", self.processes_on(host) if is_failure else [])
        self.cluster.cut(host, how)

    def heal(self, host: int) -> None:
        self.cluster.heal(host)

    # ---- the end ----

    def read_output(self) -> str:
        with open(self._out.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    def read_errors(self) -> str:
        with open(self._err.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    def end(self) -> Outcome:
        """Ends a job that would go on."""
        self._job.signal(signal.SIGTERM)
        return self.finish()

    @property
    def running(self) -> bool:
        return self._job.poll() is None

    def _expired(self) -> bool:
        return time.monotonic() - self._started > self._timeout_s

    def finish(self) -> Outcome:
        hung, states = False, []
        try:
            exit_code = self._job.wait(max(0.1, self._timeout_s - (time.monotonic() - self._started)))
        except ClusterError:
            hung, exit_code = True, -1
            self.find_processes()
            states = self._states()
        seconds = time.monotonic() - self._started
        leftovers = [] if hung else self._leftovers()
        if hung:
            self._job.signal(signal.SIGTERM)
            try:
                self._job.wait(5)
            except ClusterError:
                self._job.signal(signal.SIGKILL)
        for process in self._processes.values():
            if not has_ended(process.handle):
                signal.pidfd_send_signal(process.handle, signal.SIGKILL)
            os.close(process.handle)
        self._log.close()
        texts = []
        for file in (self._out, self._err):
            file.close()
            with open(file.name, encoding="utf-8", errors="replace") as again:
                texts.append(again.read())
        shutil.rmtree(self._directory)
        return Outcome(exit_code, *texts, self.events, self.blows, hung, seconds, leftovers, states)

    def _states(self) -> list:
        alive = (process for process in self._processes.values() if not has_ended(process.handle))
        return describe_waits((f"rank {process.rank} on node{process.host}", process.pid) for process in alive)

    def _leftovers(self) -> list:
        """What of the job still runs a second after oshrun has ended, on hosts that can be reached."""
        deadline = time.monotonic() + 1.0
        alive = list(self._processes.values())
        while alive and time.monotonic() < deadline:
            alive = [process for process in alive if not has_ended(process.handle)]
            if alive:
                select.select([process.handle for process in alive], [], [], 0.05)
        return [f"rank {process.rank} still runs on node{process.host}" for process in alive] + [
            text for host in range(len(self.cluster.hosts)) for text in self._strangers(host, deadline)
        ]

    def _strangers(self, host: int, deadline: float) -> list:
        """Agents and daemons that have not ended."""
        while True:
            names = []
            for pid in self.cluster.pids(host):
                try:
                    with open(f"/proc/{pid}/comm", encoding="ascii") as comm:
                        name = comm.read().strip()
                except OSError:
                    continue
                if name in ("oshrun", "orted", "prted", "mpirun"):
                    names.append(name)
            if not names or time.monotonic() >= deadline:
                return [f"{name} still runs on node{host}" for name in names]
            time.sleep(0.02)
