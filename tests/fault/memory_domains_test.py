#!/usr/bin/env python3
"""Jobs on one node whose processes are bound to two memory domains: copies are the node's, and each lies in another domain
than its PE.

    memory_domains_test.py --oshrun build/bin/oshrun --programs build [CASE...]      # no CASE: all of them

The domains are made up (HWLOC_SYNTHETIC): processor 0 is one and processor 1 the other. Exit code 77: they are not there.
"""

import argparse
import os
import re
import shlex
import signal
import sys

from bench import JACOBI, Bench, await_commit, await_repair, check, check_success, jacobi_results, kill_pes, run_cases
from job_watch import Launcher

SKIPPED = 77
IN_PAIRS = "$PMIX_RANK / 2 % 2"
SPARES_IN_THE_SECOND = "$PMIX_RANK / 2 ? 1 : 0"


class BoundLauncher(Launcher):
    """Binds each process to the processor that a formula of the shell says."""

    def __init__(self, oshrun, processor):
        super().__init__(oshrun)
        self.processor = processor

    def command(self, shape, events, program):
        domains = "HWLOC_THISSYSTEM=1 HWLOC_SYNTHETIC=" + shlex.quote("numa:2 core:1 pu:1")
        script = f'export {domains}; exec taskset -c $(({self.processor})) "$0" "$@"'
        return super().command(shape, events, ["sh", "-c", script, *program])


def bound_job(bench, spares, processor=IN_PAIRS, **env):
    """Four PEs: 0 and 1 in one domain, 2 and 3 in the other."""
    bound = Bench(BoundLauncher(bench.launcher.oshrun, processor), bench.programs, bench.timeout_s)
    return bound.job(4, spares, "jacobi1d", *JACOBI, **{"SHMEM_FT_MEMORY_DOMAINS": "1", **env})


def lose(job, pes):
    # Stopped first, so that neither death is noticed and repaired before the other one has happened.
    kill_pes(job, pes, signal.SIGSTOP)
    kill_pes(job, pes)


def loss_of_a_domain(pes, **env):
    def case(bench):
        expected = jacobi_results(bench)
        job = bound_job(bench, 2, **env)
        await_commit(job, 3)
        lose(job, pes)
        check_success(job.finish(), expected)

    return case


def one_after_the_other(bench):
    expected = jacobi_results(bench)
    job = bound_job(bench, 4)
    await_commit(job, 2)
    lose(job, [0, 1])
    await_repair(job)
    lose(job, [2, 3])
    check_success(job.finish(), expected)


def moves(**env):
    """After the loss of a domain all PEs are in the other one: the copies of those that live move to the next PE."""

    def case(bench):
        expected = jacobi_results(bench)
        job = bound_job(bench, 3, SPARES_IN_THE_SECOND, **env)
        await_commit(job, 2)
        lose(job, [0, 1])
        await_repair(job)
        lose(job, [2])
        check_success(job.finish(), expected)

    return case


def partners(pes, **env):
    """PE 2, in the other domain, keeps the copy of PE 0, in memory of the node."""

    def case(bench):
        expected = jacobi_results(bench)
        job = bound_job(bench, len(pes), **env)
        await_commit(job, 3)
        lose(job, pes)
        check_success(job.finish(), expected)

    return case


def preferred_by_offset(pid):
    """Where the memory file of the node is mapped in a process -> the domain that its pages are to come from; -1: none."""
    offsets, found = {}, {}
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        for line in file:
            if "shmem-ft-node" in line:
                words = line.split()
                offsets[int(words[0].split("-")[0], 16)] = int(words[2], 16)
    with open(f"/proc/{pid}/numa_maps", encoding="utf-8") as file:
        for line in file:
            words = line.split()
            begin = int(words[0], 16)
            if begin in offsets:
                policy = re.match(r"prefer(?: \(many\))?:(\d+)", words[1])
                found[offsets[begin]] = int(policy.group(1)) if policy else -1
    return found


def placed(bench):
    """In the file: shadows of all PEs, their own copies, and heaps. Few machines have the second domain; where it is missing, what
    belongs there has no policy."""
    job = bound_job(bench, 0)
    await_commit(job, 3)
    domain_of = {}
    for pe in range(4):
        for offset, domain in preferred_by_offset(job.holder(pe)[1]).items():
            domain_of[offset] = domain
    outcome = job.finish()
    check(outcome.exit_code == 0, f"exit code {outcome.exit_code}", outcome)
    there = [domain if domain <= 0 else -1 for _, domain in sorted(domain_of.items())]
    check(there[:8] == [-1, -1, 0, 0, 0, 0, -1, -1], f"shadows and own copies are in domains {there}", outcome)


def tracked(bench):
    """What has changed is known from the page tables, as in one domain."""
    expected = jacobi_results(bench)
    job = bound_job(bench, 1, SHMEM_FT_TRACKING="on")
    await_commit(job, 3)
    kill_pes(job, [1])
    outcome = job.finish()
    check_success(outcome, expected)
    check("cannot be tracked" not in outcome.stderr, outcome.stderr, outcome)


CASES = {
    "first-domain": loss_of_a_domain([0, 1]),
    "second-domain": loss_of_a_domain([2, 3]),
    "single-copy": loss_of_a_domain([0, 1], SHMEM_FT_BACKUP_MODE="single"),
    "one-after-the-other": one_after_the_other,
    "copies-move": moves(),
    "single-copies-move": moves(SHMEM_FT_BACKUP_MODE="single"),
    "partners": partners([0, 2]),
    "partners-single-copy": partners([0, 2], SHMEM_FT_BACKUP_MODE="single"),
    "all": partners([0, 1, 2, 3]),
    "without-domains": partners([0, 2], SHMEM_FT_MEMORY_DOMAINS="0"),
    "placed": placed,
    "tracked": tracked,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    if not {0, 1} <= os.sched_getaffinity(0):
        print("skipped: needs the processors 0 and 1")
        return SKIPPED
    bench = Bench(Launcher(options.oshrun), options.programs, options.timeout)
    return run_cases(bench, CASES, options.cases)


if __name__ == "__main__":
    sys.exit(main())
