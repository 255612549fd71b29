#!/usr/bin/env python3
"""Deaths at chosen moments, one named case each: what must come back, what must be repaired, what must end the job.

    cases.py --oshrun build/bin/oshrun --programs build [CASE...]      # no CASE: all of them
    cases.py --list

A case that fails prints what the job printed and its last events.
"""

import argparse
import dataclasses
import os
import re
import signal
import sys
import tempfile
import time

from bench import (JACOBI, Bench, Wrong, at_once, await_commit, await_repair, check, check_ended, check_error, check_success,
                   jacobi_results, kill_pes, nodes_lost)
from placement import keepers
from policy_cases import POLICY_CASES

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))

from job_watch import Launcher  # noqa: E402
import background_cases  # noqa: E402
import crowded_cases  # noqa: E402
import handle_cases  # noqa: E402
import interval_cases  # noqa: E402
import memory_error_cases  # noqa: E402
import parity_cases  # noqa: E402
import program_cases  # noqa: E402
import roomy_cases  # noqa: E402
import scarce_cases  # noqa: E402
import schedule_cases  # noqa: E402
import stop_cases  # noqa: E402
import version_cases  # noqa: E402

BLOCKING_MODES = ["barrier_all", "sync_all", "barrier", "broadcast", "reduce", "fcollect", "alltoall", "wait_until",
                  "test", "set_lock", "quiet", "allocate", "checkpoint"]
WAYS_TO_DIE = ["segv", "abort", "exit", "exit0", "_exit"]


# --- a PE dies while the others are inside a call ---


def blocked(mode, how="kill", pes=3, spares=1):
    def case(bench):
        expected = bench.run(pes, 0, "blocked", "--mode", mode, "--how", "none")
        check(expected.exit_code == 0 and len(expected.results()) == pes, "the run without a death failed", expected)
        check_success(bench.run(pes, spares, "blocked", "--mode", mode, "--how", how), expected.results())

    return case


def exit_in_a_program(bench):
    """exit(0) without shmem_finalize is a failure like any other, but not when no spare is left."""
    check_error(bench.run(3, 0, "blocked", "--mode", "barrier_all", "--how", "exit0"), r"PE 1")


# --- ends that are errors ---


def partners_at_once(bench):
    """Each has kept the copy of the other, in memory of its node, where another PE lives."""
    nodes = int(os.environ.get("SHMEM_FT_PRETEND_NODES", "0"))
    expected = jacobi_results(bench)
    job = bench.job(4, 2, "jacobi1d", *JACOBI)
    await_commit(job, 3)
    partners = sorted([1, keepers(list(range(4)), nodes, "double")[1][0]])
    at_once(job, partners)
    check_success(job.finish(), expected)


RACKS = "".join(f'[[rack]]\nname = "r{rack}"\nhosts = ["pretended node [{2 * rack}-{2 * rack + 1}]"]\n'
                for rack in range(3))


def rack_at_once(bench):
    """Six nodes in three racks: one rack is lost, once with the file that says so, once without."""
    expected = jacobi_results(bench, 6)
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(RACKS)
        file.flush()
        for known in (True, False):
            setting = {"SHMEM_FT_PRETEND_NODES": "6", **({"SHMEM_FT_TOPOLOGY": file.name} if known else {})}
            job = bench.job(6, 4, "jacobi1d", *JACOBI, **setting)
            await_commit(job, 3)
            for rank, pid in job.sleepers():
                if rank in (8, 9):  # those of the rack
                    job.fail(rank, pid, -1, signal.SIGKILL)
            at_once(job, [2, 3])
            if known:
                check_success(job.finish(), expected)
            else:
                check_error(job.finish(), r"PE 2\b.*the data is lost")


def places_told(bench):
    """More copies than there are racks, a node that the file does not name, and a file that says nothing of use."""
    expected = jacobi_results(bench, 7)
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(RACKS)
        file.flush()
        setting = {"SHMEM_FT_PRETEND_NODES": "7", "SHMEM_FT_TOPOLOGY": file.name, "SHMEM_FT_BACKUP_MODE": "replica:4"}
        outcome = bench.job(7, 1, "jacobi1d", *JACOBI, **setting).finish()
        check_success(outcome, expected)
        for text in ("pretended node 6 is in no rack of it", "there are PEs in 4 racks only, so 3 others have a copy"):
            check(text in outcome.stderr, f"not told: {text}", outcome)
        setting.update({"SHMEM_FT_PRETEND_NODES": "2", "SHMEM_FT_BACKUP_MODE": "double"})
        outcome = bench.job(2, 1, "jacobi1d", *JACOBI, **setting).finish()
        check("all nodes of the job are in one rack, whose loss it does not survive" in outcome.stderr, "not told", outcome)
        file.write("[[rack]]\n")
        file.flush()
        outcome = bench.job(2, 1, "jacobi1d", *JACOBI, **setting).finish()
        check_error(outcome, r"SHMEM_FT_TOPOLOGY: .*\.toml:\d+: rack: a domain needs a name")
        check(len(outcome.errors()) == 1, "more than one line", outcome)


def demands_of_a_topology(bench):
    """What has to be survived and is not ends the job before it begins, with one line; else nothing is said of it."""
    expected = jacobi_results(bench, 6)
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(RACKS + "[survive]\nrack = 1\nhost = 2\n")
        file.flush()
        setting = {"SHMEM_FT_PRETEND_NODES": "6", "SHMEM_FT_TOPOLOGY": file.name}
        for nodes, mode, error in (
            ("6", "double", r"\.toml: survive: host = 2 \(line \d+\) is not met: pretended node 0, pretended node [23]: PE 0 and all its copies "
                            r"are there; SHMEM_FT_BACKUP_MODE=replica:2 would survive it$"),
            ("6", "replica:2", ""),
            ("1", "replica:2", r"survive: rack = 1 .*: PE 0 and all its copies are there; no mode survives it with these nodes"),
        ):
            setting.update({"SHMEM_FT_PRETEND_NODES": nodes, "SHMEM_FT_BACKUP_MODE": mode})
            outcome = bench.run(6, 4, "jacobi1d", *JACOBI, **setting)
            if error:
                check_error(outcome, error)
                check(len(outcome.errors()) == 1 and not outcome.stdout, "more than one line", outcome)
            else:
                check_success(outcome, expected)


def damaged_replica(bench):
    """The first copy that a substitute asks for is bad; the second one is not."""
    expected = jacobi_results(bench, 5)
    setting = {"SHMEM_FT_PRETEND_NODES": "5", "SHMEM_FT_BACKUP_MODE": "replica:2",
               "SHMEM_FT_FAULTS": "flip shadow of pe 1 at checkpoint_leave visit 4; kill pe 1 at checkpoint_leave visit 4"}
    check_success(bench.job(5, 1, "jacobi1d", *JACOBI, **setting).finish(), expected)
    setting["SHMEM_FT_BACKUP_MODE"] = "double"
    check_error(bench.job(5, 1, "jacobi1d", *JACOBI, **setting).finish(), r"PE 1 is bad in its shadow at process \d+, the only copy")


def spares_used_up(bench):
    expected = jacobi_results(bench)
    job = bench.job(4, 1, "jacobi1d", *JACOBI)
    await_commit(job, 2)
    kill_pes(job, [2])
    await_repair(job)
    kill_pes(job, [0])
    outcome = job.finish()
    check_error(outcome, r"PE 0.*spare|spare.*PE 0")
    check(set(outcome.results()) <= set(expected), "a wrong result", outcome)


def no_spare(bench):
    job = bench.job(3, 0, "jacobi1d", *JACOBI)
    await_commit(job, 2)
    kill_pes(job, [1])
    check_error(job.finish(), r"PE 1.*spare|spare.*PE 1")


def before_the_first_commit(bench):
    outcome = bench.run(3, 2, "blocked", "--mode", "before_first_commit")
    check_error(outcome, r"PE 1|no checkpoint")
    check(not outcome.results(), "a result without any checkpoint", outcome)


def all_at_once(spares, times=1, **env):
    """Nobody is left who knows what was agreed on; the memory of the nodes does. Twice: also of those that took over."""

    def case(bench):
        expected = jacobi_results(bench)
        job = bench.job(4, spares, "jacobi1d", *JACOBI, **env)
        for time in range(times):
            await_commit(job, 2 + 2 * time)
            at_once(job, range(4))
            if time + 1 < times:
                await_repair(job)
        check_success(job.finish(), expected)

    return case


def all_at_once_and_too_few_spares(bench):
    job = bench.job(4, 2, "jacobi1d", *JACOBI)
    await_commit(job, 2)
    at_once(job, range(4))
    outcome = job.finish()
    check_error(outcome, r"PE 2 failed \(killed by signal 9 \(Killed\)\), PE 3 .* no spare left to take over")
    check(len(outcome.errors()) == 1, f"{len(outcome.errors())} lines of errors", outcome)


def node_bytes(pid):
    """In memory of the node that the process has open."""
    folder = f"/proc/{pid}/fd"
    files = [f"{folder}/{fd}" for fd in os.listdir(folder) if "shmem-ft-node" in os.readlink(f"{folder}/{fd}")]
    return max(os.stat(file).st_blocks * 512 for file in files)


def left_behind_is_freed(bench):
    """A PE moves from node 1 to node 0: heap and copies there are of no use. Node 1 keeps for one PE more instead."""
    cells = ["--cells", "1000000", "--steps", "640", "--halo", "16", "--pace", "10"]
    job = bench.job(4, 1, "jacobi1d", *cells, SHMEM_FT_PRETEND_NODES="2", SHMEM_FT_FIRST_TOUCH="0")
    await_commit(job, 3)
    before = node_bytes(job.holder(3)[1])
    kill_pes(job, [1])
    await_repair(job)
    await_commit(job, max(event.value for event in job.events if event.is_commit()) + 2)
    after = node_bytes(job.holder(3)[1])
    outcome = job.finish()
    check(outcome.exit_code == 0, "the job failed", outcome)
    check(after < 1.1 * before, f"{before} bytes before the PE has moved, {after} after it", outcome)


def all_of_several_nodes_and_one_unread(bench):
    """On node 2 nobody is left: what was agreed on there nobody can know."""
    job = bench.job(3, 2, "jacobi1d", *JACOBI, SHMEM_FT_PRETEND_NODES="3")
    await_commit(job, 2)
    at_once(job, range(3))
    outcome = job.finish()
    pattern = ", ".join(rf"PE {pe} failed \([^,]*\)" for pe in range(3))
    check_error(outcome, pattern + ": no process is left that holds a PE, and the data is lost$")
    check(len(outcome.errors()) == 1, f"{len(outcome.errors())} lines of errors", outcome)


def in_finalize(bench):
    """The others wait in shmem_finalize for a PE that dies first: all results are out, the job failed."""
    outcome = bench.run(3, 1, "blocked", "--mode", "finalize")
    check_error(outcome, r"PE 1")


def inside_init(rank, kind="hello", delay_ms=0.0):
    def case(bench):
        expected = jacobi_results(bench, 3)
        job = bench.job(3, 1, "jacobi1d", *JACOBI)
        at = 0
        while (at := job.wait_for(lambda event: event.kind == kind, at)) is not None:
            event = job.events[at - 1]
            if event.rank == rank:
                time.sleep(delay_ms / 1e3)
                job.fail(event.rank, event.pid, event.pe, signal.SIGKILL)
                break
        outcome = job.finish()
        check_ended(outcome)
        # The signal may come late: to a spare that nobody needs, or to a PE that can be replaced already.
        if outcome.exit_code == 0:
            check(rank == 3 or any(e.kind == "pe_taken" for e in outcome.events), "a PE died unnoticed", outcome)
            check_success(outcome, expected)
        else:
            check_error(outcome, r"PE \d|spare|shmem_init|no checkpoint")

    return case


def second_block(bench):
    """Two initialisation blocks: a death between the second one and the checkpoint after it cannot be repaired."""
    job = bench.job(3, 1, "two_phase", "--steps", "5", "--idle", "500")
    await_commit(job, 6)
    time.sleep(0.2)
    kill_pes(job, [1])
    check_error(job.finish(), r"initiali[sz]ed after the last checkpoint")


# --- nobody needs to care ---


def sleeping_spare(bench):
    expected = jacobi_results(bench)
    job = bench.job(4, 2, "jacobi1d", *JACOBI)
    await_commit(job, 2)
    for rank, pid in job.sleepers():
        job.fail(rank, pid, -1, signal.SIGKILL)
    outcome = job.finish()
    check(len(outcome.deaths) == 2, "the spares were not there", outcome)
    check_success(outcome, expected)
    restarts = [event for event in outcome.events if event.kind == "span" and event.text == "restart"]
    check(not restarts, "the job restarted for a spare", outcome)


def spare_then_pe(bench):
    """The first spare in line is dead when it is needed: the next one is taken."""
    expected = jacobi_results(bench)
    job = bench.job(4, 2, "jacobi1d", *JACOBI)
    await_commit(job, 2)
    job.fail(*job.sleepers()[0], -1, signal.SIGKILL)
    time.sleep(0.02)
    kill_pes(job, [3])
    check_success(job.finish(), expected)


def substitute_of_a_substitute(bench):
    expected = jacobi_results(bench)
    job = bench.job(4, 3, "jacobi1d", *JACOBI)
    await_commit(job, 2)
    for _ in range(3):
        kill_pes(job, [2])
        await_repair(job)
    outcome = job.finish()
    check(len(outcome.deaths) == 3, "not all three deaths took place", outcome)
    check_success(outcome, expected)


def one_pe(**env):
    """The copy of an only PE lies in memory of its node, or with its spare."""

    def case(bench):
        expected = jacobi_results(bench, 1)
        job = bench.job(1, 1, "jacobi1d", *JACOBI, **env)
        await_commit(job, 2)
        kill_pes(job, [0])
        outcome = job.finish()
        check_success(outcome, expected)
        check("cannot be tracked" not in outcome.stderr, outcome.stderr, outcome)

    return case


def one_pe_and_the_lowest_spares(bench):
    """The spare that is left reads in memory of the node what was agreed on; and dies as well, when it is the PE."""
    expected = jacobi_results(bench, 1)
    job = bench.job(1, 4, "jacobi1d", *JACOBI)
    await_commit(job, 2)
    lowest = job.sleepers()[:2]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        kill_pes(job, [0], number)
        for rank, pid in lowest:
            job.fail(rank, pid, -1, number)
    await_repair(job)
    kill_pes(job, [0])
    check_success(job.finish(), expected)


def children(bench):
    expected = bench.run(3, 0, "forking", "--steps", "12")
    check(expected.exit_code == 0 and expected.results(), "the run without a death failed", expected)
    job = bench.job(3, 1, "forking", "--steps", "12")
    await_commit(job, 4)
    kill_pes(job, [1])
    check_success(job.finish(), expected.results())


# --- the launcher ---


def end_by_signal(number):
    def case(bench):
        job = bench.job(3, 1, "jacobi1d", *JACOBI)
        await_commit(job, 2)
        job.interrupt(number)
        deadline = time.monotonic() + 5
        pids = [event.pid for event in job.events if event.kind == "hello"]
        outcome = job.finish()
        check(outcome.exit_code != 0, "exit code 0 for an interrupted job", outcome)
        while time.monotonic() < deadline and any(os.path.exists(f"/proc/{pid}") for pid in pids):
            time.sleep(0.02)
        alive = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
        check(not alive, f"processes {alive} live on", outcome)
        check(not outcome.leftovers, "; ".join(outcome.leftovers), outcome)

    return case


CASES = {f"blocked-{mode}": blocked(mode) for mode in BLOCKING_MODES}
CASES |= {f"dies-by-{how}": blocked("barrier_all", how) for how in WAYS_TO_DIE}
CASES |= {
    "exit0-without-spare": exit_in_a_program,
    "partners-at-once": partners_at_once,
    "spares-used-up": spares_used_up,
    "no-spare": no_spare,
    "before-the-first-commit": before_the_first_commit,
    "all-at-once": all_at_once(4),
    "all-at-once-twice": all_at_once(8, times=2),
    "all-at-once-single-copy": all_at_once(5, SHMEM_FT_BACKUP_MODE="single"),
    "all-at-once-too-few-spares": all_at_once_and_too_few_spares,
    "all-at-once-on-several-nodes": all_at_once(4, SHMEM_FT_PRETEND_NODES="2"),
    "all-at-once-on-several-nodes-twice": all_at_once(8, times=2, SHMEM_FT_PRETEND_NODES="2"),
    "all-at-once-and-a-node-unread": all_of_several_nodes_and_one_unread,
    "left-behind-is-freed": left_behind_is_freed,
    # The node of a PE, and the next ones, two of which keep its copies; then two more, one of which has just taken over.
    "replicas": nodes_lost("replica:2", 2, [0, 1]),
    "rack-at-once": rack_at_once,
    "places-told": places_told,
    "demands-of-a-topology": demands_of_a_topology,
    "replicas-lost": nodes_lost("replica:2", 3, [], r"PEs? 1\b.*the data is lost"),
    "replicas-damaged": damaged_replica,
    "in-finalize": in_finalize,
    "inside-init-pe0": inside_init(0),
    "inside-init-pe2": inside_init(2),
    "inside-init-spare": inside_init(3),
    "at-launch-pe1": inside_init(1, "launched"),
    "at-launch-spare": inside_init(3, "launched"),
    "after-launch-pe0": inside_init(0, "launched", 8.0),
    "after-launch-pe2": inside_init(2, "launched", 14.0),
    "second-block": second_block,
    "sleeping-spare": sleeping_spare,
    "spare-then-pe": spare_then_pe,
    "substitute-of-a-substitute": substitute_of_a_substitute,
    "one-pe": one_pe(),
    "one-pe-tracked": one_pe(SHMEM_FT_TRACKING="on"),
    "one-pe-single": one_pe(SHMEM_FT_BACKUP_MODE="single"),
    "one-pe-on-two-nodes": one_pe(SHMEM_FT_PRETEND_NODES="2"),
    "one-pe-and-the-lowest-spares": one_pe_and_the_lowest_spares,
    "children": children,
    "oshrun-sigterm": end_by_signal(signal.SIGTERM),
    "oshrun-sigint": end_by_signal(signal.SIGINT),
    "oshrun-sigkill": end_by_signal(signal.SIGKILL),
}
CASES |= POLICY_CASES | stop_cases.CASES | schedule_cases.CASES | handle_cases.CASES | scarce_cases.CASES
CASES |= background_cases.CASES | roomy_cases.CASES | crowded_cases.CASES | interval_cases.CASES | version_cases.CASES
CASES |= program_cases.CASES | parity_cases.CASES | memory_error_cases.CASES


def report_failure(name, error) -> None:
    print(f"{name}: FAILED: {error}")
    outcome = error.outcome
    print(f"  exit code {outcome.exit_code}, {outcome.seconds:.2f} s")
    for death in outcome.deaths:
        print(f"  killed: {death}")
    for event in outcome.events[-40:]:
        print(f"  event: {dataclasses.asdict(event)}")
    print("  stdout:\n" + outcome.stdout + "  stderr:\n" + outcome.stderr, flush=True)


def part(text: str) -> tuple[int, int]:
    first, step = map(int, text.split("/"))
    if not 1 <= first <= step:
        raise ValueError(text)
    return first, step


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--oshrun")
    parser.add_argument("--programs", help="build directory")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds until a job counts as hung")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--part", type=part, default=(1, 1), metavar="I/N", help="every N-th case, from the I-th on")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args()
    if options.list:
        print("\n".join(CASES))
        return 0
    if not options.oshrun or not options.programs:
        parser.error("--oshrun and --programs are needed")
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]}: --list shows them")
    bench = Bench(Launcher(options.oshrun), options.programs, options.timeout)
    failed = []
    first, step = options.part
    chosen = (options.cases or list(CASES))[first - 1 :: step]
    for name in chosen:
        began = time.monotonic()
        try:
            CASES[name](bench)
            print(f"{name}: ok ({time.monotonic() - began:.2f} s)", flush=True)
        except Wrong as error:
            report_failure(name, error)
            failed.append(name)
    print(f"cases: {len(chosen) - len(failed)} ok, {len(failed)} failed {' '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
