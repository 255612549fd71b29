"""One job under oshrun, watched through its event file, with processes that can be made to fail.

Fault model: any process of the job may die at any moment, by our hand or by itself; oshrun may hang. A Job always
ends: after `timeout_s` everything it started is killed and the outcome says `hung`.

Events are the lines which `oshrun --events FILE` writes, one JSON object each; times are CLOCK_MONOTONIC in ns.
"""

import dataclasses
import json
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from typing import Callable, Optional


@dataclasses.dataclass(frozen=True)
class Shape:
    """How many processes a job has."""

    pes: int
    spares: int


@dataclasses.dataclass(frozen=True)
class Event:
    kind: str
    rank: int
    pid: int
    pe: int
    code: int
    begin_ns: int
    end_ns: int
    value: int
    text: str
    seen_ns: int  # when this program read it
    t_ns: int = 0  # when oshrun wrote it

    @staticmethod
    def parse(line: str) -> "Event":
        raw = json.loads(line)
        return Event(
            kind=raw["event"],
            rank=raw.get("rank", -1),
            pid=raw.get("pid", -1),
            pe=raw.get("pe", -1),
            code=raw.get("code", 0),
            begin_ns=raw.get("begin_ns", 0),
            end_ns=raw.get("end_ns", 0),
            value=raw.get("value", 0),
            text=raw.get("text", "") or raw.get("reason", ""),
            seen_ns=time.monotonic_ns(),
            t_ns=raw.get("t_ns", 0),
        )

    def is_commit(self) -> bool:
        """The end of a successful checkpoint on one PE: its version is decided everywhere."""
        return self.kind == "span" and self.text == "checkpoint" and self.value > 0


@dataclasses.dataclass
class Death:
    """A process that we made fail."""

    time_ns: int  # before the signal was sent
    rank: int
    pid: int
    pe: int  # -1: a sleeping spare
    signal: int
    sent_ns: int = 0  # and behind that: on a busy machine much later


@dataclasses.dataclass
class Outcome:
    exit_code: int
    stdout: str
    stderr: str
    events: list
    deaths: list
    hung: bool
    seconds: float
    leftovers: list  # one text each
    ended_ns: int
    events_file: str  # the text that oshrun wrote

    def results(self) -> list:
        return sorted(line for line in self.stdout.splitlines() if line.startswith("result "))

    def errors(self) -> list:
        """What oshrun or the library says on stderr. The first one tells why the job has ended; warnings do not."""
        return [line for line in self.stderr.splitlines()
                if line.startswith(("oshrun: ", "shmem-ft: ")) and ": warning: " not in line]

    def sanitizer_reports(self) -> list:
        """What a sanitizer found in a process. It ends the process, which the job may survive like any other death."""
        return [line for line in self.stderr.splitlines()
                if re.search(r"(ERROR|WARNING): \w+Sanitizer|: runtime error: ", line)]


# In the words of a program: a folder of the run's own, gone with it.
FOLDER = "{folder}"


class EventLog:
    """The events of one file while it is written. `note(event)` is called for each, in order, by a thread of this."""

    def __init__(self, path: str, note: Callable[[Event], None]):
        self.events: list = []
        self.news = threading.Condition()  # held while an event is noted
        self._path = path
        self._note = note
        self._over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        pending = ""
        with open(self._path, encoding="utf-8") as file:
            while True:
                ended = self._over  # read before the last read, so that nothing is missed
                chunk = file.read()
                if chunk:
                    *lines, pending = (pending + chunk).split("\n")
                    with self.news:
                        for line in lines:
                            self.events.append(Event.parse(line))
                            self._note(self.events[-1])
                        self.news.notify_all()
                elif ended:
                    return
                else:
                    time.sleep(0.0005)

    def wait_for(self, wanted: Callable[[Event], bool], since: int, goes_on: Callable[[], bool]) -> Optional[int]:
        """Index after the first event from index `since` on that is wanted; None: it has not come, and goes_on() no more."""
        at = since
        with self.news:
            while True:
                while at < len(self.events):
                    at += 1
                    if wanted(self.events[at - 1]):
                        return at
                if not goes_on():
                    return None
                self.news.wait(0.02)

    def close(self) -> None:
        """Nobody writes any more: returns when all has been noted."""
        self._over = True
        self._reader.join()


class Launcher:
    """Builds the command of a job. A launcher for several nodes overrides this and `send`."""

    def __init__(self, oshrun: str, options: tuple = ()):
        self.oshrun = oshrun
        self.options = options

    def command(self, shape: Shape, events: str, program: list) -> list:
        spares = ["--spares", str(shape.spares)] if shape.spares else []
        return [self.oshrun, "-n", str(shape.pes), *spares, "--events", events, *self.options, *program]

    def open(self, pid: int) -> int:
        """A handle that names the process for ever, or -1 when it is gone."""
        try:
            return os.pidfd_open(pid)
        except ProcessLookupError:
            return -1

    def send(self, handle: int, number: int) -> bool:
        try:
            signal.pidfd_send_signal(handle, number)
            return True
        except ProcessLookupError:
            return False


def describe_waits(processes) -> list:
    """Lines that say where each of these (name, pid) waits, for whoever looks for the cause of a hang."""
    lines = []
    for name, pid in processes:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                state = stat.read().rsplit(")", 1)[1].split()[0]
            with open(f"/proc/{pid}/wchan", encoding="utf-8") as wchan:
                lines.append(f"{name}: state {state}, waits in {wchan.read()}")
        except OSError:
            pass
    return lines


def has_ended(handle: int) -> bool:
    return bool(select.select([handle], [], [], 0)[0])


class Job:
    """REQUIRES: start() once, then wait_for() and fail() from one thread, then finish() once."""

    def __init__(self, launcher: Launcher, shape: Shape, program: list, env: dict, timeout_s: float):
        self.launcher = launcher
        self.shape = shape
        self.program = program
        self.env = env
        self.timeout_s = timeout_s
        self.events: list = []
        self.deaths: list = []
        self._handles: dict = {}  # pid -> pidfd
        self._holders: dict = {}  # PE -> (rank, pid)
        self._sleepers: dict = {}  # rank -> pid of spares that hold no PE

    def start(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="shmem-ft-campaign-")
        self._events_path = os.path.join(self._directory, "events")
        open(self._events_path, "w", encoding="utf-8").close()
        self._shared_before = set(os.listdir("/dev/shm"))
        self._out = open(os.path.join(self._directory, "stdout"), "w+", encoding="utf-8", errors="replace")
        self._err = open(os.path.join(self._directory, "stderr"), "w+", encoding="utf-8", errors="replace")
        self._started = time.monotonic()
        self._process = subprocess.Popen(
            self.launcher.command(self.shape, self._events_path,
                                  [str(word).replace(FOLDER, self._directory) for word in self.program]),
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            env={**os.environ, **self.env},
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
        )
        self._log = EventLog(self._events_path, self._note)
        self.events = self._log.events

    def _note(self, event: Event) -> None:
        if event.kind in ("launched", "hello") and event.pid not in self._handles:
            handle = self.launcher.open(event.pid)
            if handle >= 0:
                self._handles[event.pid] = handle
        if event.kind == "initialized":
            if event.pe >= 0:
                self._holders[event.pe] = (event.rank, event.pid)
            else:
                self._sleepers[event.rank] = event.pid
        elif event.kind == "pe_taken":
            self._sleepers.pop(event.rank, None)
            self._holders[event.pe] = (event.rank, event.pid)

    def wait_for(self, wanted: Callable[[Event], bool], since: int = 0) -> Optional[int]:
        """Index after the first event from index `since` on that is wanted; None: the job ended before."""
        return self._log.wait_for(wanted, since, lambda: self.running and not self._expired())

    def wait_for_text(self, text: str) -> bool:
        """Until the job has printed text on stdout."""
        while self._process.poll() is None and not self._expired():
            if text in self._read(self._out):
                return True
            time.sleep(0.002)
        return text in self._read(self._out)

    def holder(self, pe: int) -> Optional[tuple]:
        with self._log.news:
            return self._holders.get(pe)

    def sleepers(self) -> list:
        with self._log.news:
            return sorted(self._sleepers.items())

    def send(self, pid: int, number: int) -> bool:
        """A signal that is no failure. False: the process had already ended."""
        handle = self._handles.get(pid, -1)
        return handle >= 0 and not has_ended(handle) and self.launcher.send(handle, number)

    def fail(self, rank: int, pid: int, pe: int, number: int) -> bool:
        """Sends the signal. False: the process had already ended."""
        death = Death(time.monotonic_ns(), rank, pid, pe, number)
        if not self.send(pid, number):
            return False
        death.sent_ns = time.monotonic_ns()
        self.deaths.append(death)
        with self._log.news:
            if pe < 0:
                self._sleepers.pop(rank, None)
        return True

    def interrupt(self, number: int) -> None:
        """Signals oshrun itself."""
        self._process.send_signal(number)

    @property
    def pid(self) -> int:
        """Of oshrun."""
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def finish(self) -> Outcome:
        hung = False
        try:
            self._process.wait(max(0.1, self.timeout_s - (time.monotonic() - self._started)))
        except subprocess.TimeoutExpired:
            hung = True
        ended_ns = time.monotonic_ns()
        seconds = time.monotonic() - self._started
        leftovers = [] if hung else self._leftovers()
        if hung:
            leftovers = self._describe_processes()
        self._end_everything()
        self._log.close()
        outcome = Outcome(
            exit_code=self._process.returncode,
            stdout=self._read(self._out),
            stderr=self._read(self._err),
            events=self.events,
            deaths=self.deaths,
            hung=hung,
            seconds=seconds,
            leftovers=leftovers,
            ended_ns=ended_ns,
            events_file=self._read_path(self._events_path),
        )
        self._clean_up()
        return outcome

    def _expired(self) -> bool:
        return time.monotonic() - self._started > self.timeout_s

    @staticmethod
    def _read_path(path: str) -> str:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def _read(self, file) -> str:
        return self._read_path(file.name)  # through a handle of its own: the job shares the file offset of ours

    def _leftovers(self) -> list:
        deadline = time.monotonic() + 0.2
        alive = list(self._handles.items())
        while alive and time.monotonic() < deadline:
            alive = [(pid, handle) for pid, handle in alive if not has_ended(handle)]
            if alive:
                time.sleep(0.005)
        found = [f"process {pid} is still running" for pid, _ in alive]
        folder = self._launcher_folder()
        while folder and os.path.exists(folder) and time.monotonic() < deadline + 1.0:
            time.sleep(0.005)
        if folder and os.path.exists(folder):
            found.append(f"{folder} was left behind")
        for name in set(os.listdir("/dev/shm")) - self._shared_before:
            if "shmem" in name:
                found.append(f"/dev/shm/{name} was left behind")
        return found

    def _launcher_folder(self) -> Optional[str]:
        """Where the launcher keeps its temporary files, from the command that oshrun gave it."""
        for line in self._read_path(self._events_path).splitlines()[:1]:
            words = json.loads(line).get("command", [])
            for name, value in zip(words, words[1:]):
                if name == "orte_local_tmpdir_base":
                    return value
        return None

    def _describe_processes(self) -> list:
        return describe_waits((f"process {pid}", pid) for pid, handle in self._handles.items() if not has_ended(handle))

    def _end_everything(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(3)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for handle in self._handles.values():
            if not has_ended(handle):
                self.launcher.send(handle, signal.SIGKILL)

    def _clean_up(self) -> None:
        for handle in self._handles.values():
            os.close(handle)
        self._out.close()
        self._err.close()
        shutil.rmtree(self._directory)
