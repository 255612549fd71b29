"""What the cases share: running a program as a job, killing its processes, and judging the end."""

import dataclasses
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))

from job_watch import Job, Launcher, Shape  # noqa: E402


class Wrong(Exception):
    """What is not as it should be; outcome is printed with it."""

    def __init__(self, text, outcome):
        super().__init__(text)
        self.outcome = outcome


@dataclasses.dataclass
class Bench:
    """Where the programs are, and how to run them."""

    launcher: Launcher
    programs: str
    timeout_s: float

    def path(self, name: str) -> str:
        for folder in ("apps", os.path.join("tests", "fault"), os.path.join("tests", "nodes")):
            path = os.path.join(self.programs, folder, name)
            if os.path.exists(path):
                return path
        sys.exit(f"cases: error: no program {name} below {self.programs}: build it first")

    def job(self, pes, spares, name, *arguments, **env) -> Job:
        job = Job(self.launcher, Shape(pes, spares), [self.path(name), *arguments], env, self.timeout_s)
        job.start()
        return job

    def run(self, pes, spares, name, *arguments, **env):
        return self.job(pes, spares, name, *arguments, **env).finish()


def check(condition, text, outcome) -> None:
    if not condition:
        raise Wrong(text, outcome)


def check_ended(outcome) -> None:
    check(not outcome.hung, "the job hangs: " + "; ".join(outcome.leftovers), outcome)
    check(not outcome.leftovers, "; ".join(outcome.leftovers), outcome)
    check(not outcome.sanitizer_reports(), "; ".join(outcome.sanitizer_reports()), outcome)


def check_success(outcome, results) -> None:
    check_ended(outcome)
    check(outcome.exit_code == 0, f"exit code {outcome.exit_code}", outcome)
    check(outcome.results() == results, f"results {outcome.results()} instead of {results}", outcome)


def check_error(outcome, pattern) -> None:
    """Not zero, and one line that says why."""
    check_ended(outcome)
    check(outcome.exit_code != 0, "exit code 0 for a job that failed", outcome)
    found = any(re.search(pattern, line) for line in outcome.errors())
    check(found, f"no error message matches /{pattern}/", outcome)


def await_event(job, wanted, text) -> None:
    if job.wait_for(wanted) is None:
        raise Wrong(f"never seen: {text}", job.finish())


def await_commit(job, version=1) -> None:
    await_event(job, lambda event: event.is_commit() and event.value >= version, f"a commit of version {version}")


def await_repair(job) -> None:
    """Until a commit that began after the last death. Before its signal was sent, on a busy machine for long, the PE went on."""
    since_ns = job.deaths[-1].sent_ns
    await_event(job, lambda event: event.is_commit() and event.begin_ns > since_ns, "a commit after the deaths")


def kill_pes(job, pes, number=signal.SIGKILL) -> None:
    for pe in pes:
        holder = job.holder(pe)
        if holder is not None:
            job.fail(*holder, pe, number)


def at_once(job, pes):
    """Stopped first, so that no death is noticed and repaired before the others have happened."""
    kill_pes(job, pes, signal.SIGSTOP)
    kill_pes(job, pes)


def nodes_lost(mode, n_lost, then, error="", **more):
    """A case: of five nodes with a PE and two spares each so many are lost at once with all that they have; and when the job is
    whole again, these PEs die. error: what the one line says that ends the job instead."""

    def case(bench):
        expected = jacobi_results(bench, 5)
        setting = {"SHMEM_FT_PRETEND_NODES": "5", "SHMEM_FT_BACKUP_MODE": mode, **more}
        job = bench.job(5, 10, "jacobi1d", *JACOBI, **setting)
        await_commit(job, 3)
        lost = range(1, 1 + n_lost)
        for rank, pid in job.sleepers():
            if rank % 5 in lost:
                job.fail(rank, pid, -1, signal.SIGKILL)
        at_once(job, lost)
        if error:
            check_error(job.finish(), error)
            return
        await_repair(job)
        at_once(job, then)
        check_success(job.finish(), expected)

    return case


def run_cases(bench, cases, names) -> int:
    """All cases if no names are given. The exit code of a test."""
    wrong = 0
    for name in names or cases:
        try:
            cases[name](bench)
            print(f"ok    {name}", flush=True)
        except Wrong as what:
            wrong += 1
            print(f"WRONG {name}: {what}", flush=True)
            print(what.outcome.stdout, what.outcome.stderr, sep="\n", flush=True)
    return 1 if wrong else 0


JACOBI = ["--cells", "4000", "--steps", "640", "--halo", "16", "--pace", "10"]


def jacobi_results(bench, pes=4):
    return bench.run(pes, 0, "jacobi1d", *JACOBI[:-2]).results()
