#!/usr/bin/env python3
"""The demonstration behind script/demo: a Jacobi job runs to its end once in peace and once with one PE killed.

The result of both runs must be the same to the last bit; that decides the exit code. What happened in between is read
from the events that oshrun writes: it is measured by the job itself, not by this program.
"""

import argparse
import dataclasses
import os
import signal
import sys
import time
from typing import Optional

import plot_profile
import plot_timeline
from job_watch import Job, Launcher, Shape

PES = 4
VICTIM = 2
HALO = 1024
INTERVALS = 40
STEPS = HALO * INTERVALS
PROGRAM = ["--cells", "16384", "--steps", str(STEPS), "--halo", str(HALO), "--seed", "11", "--pace", "60"]
VERSIONS = INTERVALS + 1  # one checkpoint per interval and one for the last
TIMEOUT_S = 120.0


class Bar:
    """A progress bar on one line of a terminal; in a file only its last state."""

    WIDTH = 36

    def __init__(self, title: str, total: int):
        self._title = title
        self._total = total
        self._note = ""
        self._began = time.monotonic()
        self._done = 0
        self._shown = 0.0

    def update(self, done: int, note: Optional[str] = None) -> None:
        self._done = max(self._done, done) if note is None else done
        changed = note is not None and note != self._note
        if note is not None:
            self._note = note
        now = time.monotonic()
        if sys.stdout.isatty() and (changed or now - self._shown > 0.03):
            self._shown = now
            print("\r\x1b[2K" + self._line(), end="", flush=True)

    def close(self) -> None:
        print(("\r\x1b[2K" if sys.stdout.isatty() else "") + self._line(), flush=True)

    def _line(self) -> str:
        part = min(1.0, self._done / self._total)
        full = int(part * self.WIDTH)
        seconds = time.monotonic() - self._began
        bar = "█" * full + "░" * (self.WIDTH - full)
        return f"  {self._title:<16} {bar} {part:4.0%}  {seconds:4.1f} s  {self._note}"


@dataclasses.dataclass
class Run:
    outcome: object
    result: str
    notes: dict  # other lines of the program, by their first word


def _start(options, spares: int, name: str) -> Job:
    profile = os.path.join(options.out, name + ".csv")
    program = [os.path.join(options.build, "apps", "jacobi1d"), *PROGRAM, "--output", profile]
    job = Job(Launcher(os.path.join(options.build, "bin", "oshrun")), Shape(PES, spares), program, {}, TIMEOUT_S)
    job.start()
    return job


def _finish(job: Job, bar: Bar, options, name: str) -> Run:
    outcome = job.finish()
    bar.close()
    with open(os.path.join(options.out, name + ".events.jsonl"), "w", encoding="utf-8") as file:
        file.write(outcome.events_file)
    if outcome.exit_code != 0 or outcome.hung or len(outcome.results()) != 1:
        sys.exit(f"demo: error: the job ended with exit code {outcome.exit_code}\n{outcome.stdout}{outcome.stderr}")
    notes = {line.split()[0]: line for line in outcome.stdout.splitlines() if line}
    return Run(outcome, outcome.results()[0].split()[1], notes)


def _follow(job: Job, bar: Bar, until: int, since: int = 0) -> int:
    """Moves the bar with every commit up to a version. Returns the index of the next event."""
    at = since
    while (found := job.wait_for(lambda event: event.is_commit() or event.kind == "pe_taken", at)) is not None:
        at = found
        event = job.events[at - 1]
        if event.kind == "pe_taken":
            bar.update(bar_position(job, at), f"PE {event.pe} was killed, a spare has taken over")
        else:
            bar.update(event.value)
            if event.value >= until:
                break
    return at


def bar_position(job: Job, at: int) -> int:
    """The last committed version among the events before index at."""
    return max((event.value for event in job.events[:at] if event.is_commit()), default=0)


def run_in_peace(options) -> Run:
    bar = Bar("nobody dies", VERSIONS)
    job = _start(options, 0, "without-kill")
    _follow(job, bar, VERSIONS)
    return _finish(job, bar, options, "without-kill")


def run_with_kill(options) -> Run:
    bar = Bar(f"PE {VICTIM} is killed", VERSIONS)
    job = _start(options, 1, "with-kill")
    at = _follow(job, bar, VERSIONS // 2)
    time.sleep(0.045)  # into the middle of an interval, so that there is something to lose
    holder = job.holder(VICTIM)
    if holder is None or not job.fail(*holder, VICTIM, signal.SIGKILL):
        sys.exit(f"demo: error: PE {VICTIM} was gone before it could be killed")
    bar.update(bar_position(job, at), f"PE {VICTIM} killed: process {holder[1]}, signal {signal.SIGKILL}")
    _follow(job, bar, VERSIONS, at)
    return _finish(job, bar, options, "with-kill")


@dataclasses.dataclass
class Story:
    """What the events say about the death and its repair; times in ms."""

    pid: int
    reason: str
    at_s: float  # after the first checkpoint began
    noticed: float  # after the signal
    reached: float  # after the signal: the last survivor came to its next checkpoint
    agreed: float  # the longest that a survivor was in there, knowing of the death or learning of it
    restored: float  # from then on
    resumed: float  # from then on
    version: int


def tell(run: Run) -> Story:
    events, death = run.outcome.events, run.outcome.deaths[0]
    seen = next(event for event in events if event.kind == "failure_seen" and event.value == death.rank)
    ended = next((event for event in events if event.kind == "ended" and event.rank == death.rank), None)
    spans = [event for event in events if event.kind == "span"]
    checks = [span for span in spans if span.text == "agree" and span.end_ns > death.time_ns]

    def last_end(name: str) -> int:
        return max(span.end_ns for span in spans if span.text == name)

    agreed_ns = max(span.end_ns for span in checks)
    return Story(
        pid=death.pid,
        reason=ended.text if ended is not None and ended.text else f"signal {death.signal}",
        at_s=(death.time_ns - min(span.begin_ns for span in spans)) / 1e9,
        noticed=(seen.begin_ns - death.time_ns) / 1e6,
        reached=(max(span.begin_ns for span in checks) - death.time_ns) / 1e6,
        agreed=max(span.end_ns - max(span.begin_ns, seen.begin_ns) for span in checks) / 1e6,
        restored=(last_end("restore") - agreed_ns) / 1e6,
        resumed=(last_end("restart") - last_end("restore")) / 1e6,
        version=next(span.value for span in spans if span.text == "restart"),
    )


def in_words(milliseconds: float) -> str:
    return f"{milliseconds:.1f} ms" if milliseconds >= 1 else f"{1000 * milliseconds:.0f} µs"


def computing_s(run: Run) -> float:
    """From the first checkpoint to the last: the start of the processes is not ours."""
    commits = [event for event in run.outcome.events if event.is_commit()]
    return (max(event.end_ns for event in commits) - min(event.begin_ns for event in commits)) / 1e9


def print_summary(peace: Run, kill: Run, identical: bool, options) -> None:
    story = tell(kill)
    recomputed = kill.notes.get("recomputed", "recomputed unknown").split()[1]
    seconds = computing_s(peace), computing_s(kill)
    lines = [
        ("who died", f"PE {VICTIM} of {PES}: process {story.pid} {story.reason}, {story.at_s:.2f} s into the run"),
        ("noticed", f"{in_words(story.noticed)} after the kill"),
        ("agreed", f"in {in_words(story.agreed)}, when the survivors came to their next checkpoint (the last of them "
                   f"{in_words(story.reached)} after the kill)"),
        ("restored", f"{in_words(story.restored)} later: a spare has become PE {VICTIM}, all are back at checkpoint "
                     f"{story.version}"),
        ("resumed", f"{in_words(story.resumed)} later, every copy whole again"),
        ("recomputed", f"{recomputed} of {STEPS} steps"),
        ("run time", f"{seconds[0]:.2f} s in peace, {seconds[1]:.2f} s with the death"),
        ("result", f"{kill.result}, " + ("identical to the last bit" if identical
                                         else f"NOT the {peace.result} of the run in peace")),
    ]
    print()
    for name, text in lines:
        print(f"  {name:>10}  {text}")
    print(f"\n  pictures: {options.out}/profile.svg  {options.out}/timeline.svg", flush=True)


def draw(options) -> None:
    def path(name: str) -> str:
        return os.path.join(options.out, name)

    for ending in ["svg"] + (["png"] if options.png else []):
        plot_profile.draw(path("without-kill.csv"), path("with-kill.csv"), path("profile." + ending), PES, VICTIM)
        plot_timeline.draw(path("with-kill.events.jsonl"), path("timeline." + ending))


def same_profile(options) -> bool:
    contents = []
    for name in ("without-kill.csv", "with-kill.csv"):
        with open(os.path.join(options.out, name), "rb") as file:
            contents.append(file.read())
    return contents[0] == contents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description="Kills a PE of a running job and shows that nothing is lost.")
    parser.add_argument("--build", default="build", help="build directory (default: build)")
    parser.add_argument("--out", default="demo-out", help="where the pictures go (default: demo-out)")
    parser.add_argument("--png", action="store_true", help="write the pictures as PNG, too")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    sys.stdout.reconfigure(errors="replace")  # the bar on a terminal that has no such characters
    print(f"\n  Jacobi on {PES} PEs, {STEPS} steps, a checkpoint every {HALO}; then again with 1 spare and a kill -9\n",
          flush=True)
    peace = run_in_peace(options)
    kill = run_with_kill(options)
    identical = peace.result == kill.result and same_profile(options)
    draw(options)
    print_summary(peace, kill, identical, options)
    return 0 if identical else 1


if __name__ == "__main__":
    sys.exit(main())
