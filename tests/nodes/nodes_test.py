#!/usr/bin/env python3
"""Jobs on several nodes: starting, recovering from the death of processes and of whole nodes, and being cut off.

    nodes_test.py --oshrun build/bin/oshrun --programs build [CASE...]      # no CASE: all of them

The nodes are pretended (SHMEM_FT_PRETEND_NODES=K: process r is on node r mod K), so this needs no root; nothing is
shared between them, and they talk through the network. tests/cluster has real ones.
"""

import argparse
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))

from bench import (  # noqa: E402
    Bench, Wrong, await_commit, await_repair, check, check_ended, check_error, check_success, run_cases,
)
from job_watch import Launcher  # noqa: E402

JACOBI = ["--cells", "2000", "--steps", "320", "--halo", "16", "--pace", "10"]
EXPECTED = {}


def job_on(bench, nodes, pes, spares, *arguments, **env):
    return bench.job(pes, spares, *arguments, SHMEM_FT_PRETEND_NODES=str(nodes), SHMEM_SYMMETRIC_SIZE="1M", **env)


def expected(bench):
    if not EXPECTED:
        outcome = bench.run(4, 0, "jacobi1d", *JACOBI, SHMEM_SYMMETRIC_SIZE="1M")
        check_ended(outcome)
        EXPECTED["jacobi"] = outcome.results()
    return EXPECTED["jacobi"]


def fail_node(job, nodes, node, how):
    """All processes of a node, as nearly at once as can be; its spares first, lest one is chosen that is about to die."""
    victims = [(*sleeper, -1) for sleeper in job.sleepers()] + [(*job.holder(pe), pe) for pe in range(job.shape.pes)]
    for rank, pid, pe in victims:
        if rank % nodes == node:
            job.fail(rank, pid, pe, how)


def exchange(nodes, pes):
    def case(bench):
        outcome = job_on(bench, nodes, pes, 0, "exchange").finish()
        check_success(outcome, outcome.results())
        check(len(outcome.results()) == pes, "a PE has printed no result", outcome)

    return case


def death_of_a_pe(nodes, pe, how=signal.SIGKILL, **env):
    def case(bench):
        results = expected(bench)
        job = job_on(bench, nodes, 4, 2, "jacobi1d", *JACOBI, **env)
        await_commit(job, 3)
        job.fail(*job.holder(pe), pe, how)
        check_success(job.finish(), results)

    return case


def loss_of_a_node(nodes, node, spares, how=signal.SIGKILL, **env):
    def case(bench):
        results = expected(bench)
        job = job_on(bench, nodes, 4, spares, "jacobi1d", *JACOBI, **env)
        await_commit(job, 3)
        fail_node(job, nodes, node, how)
        check_success(job.finish(), results)

    return case


def losses_one_after_another(bench):
    results = expected(bench)
    job = job_on(bench, 4, 4, 4, "jacobi1d", *JACOBI)
    await_commit(job, 2)
    fail_node(job, 4, 1, signal.SIGKILL)
    await_repair(job)
    fail_node(job, 4, 0, signal.SIGKILL)
    check_success(job.finish(), results)


def wakes_up(bench):
    """A process that was declared dead while it stood still changes nothing when it goes on: nobody has killed it."""
    results = expected(bench)
    job = job_on(bench, 6, 4, 2, "jacobi1d", *JACOBI, SHMEM_FT_NODE_TIMEOUT="500", SHMEM_FT_HANG_TIMEOUT="500",
                 OSHRUN_WITHHOLD_KILL="1")
    await_commit(job, 3)
    rank, pid = job.holder(2)
    job.fail(rank, pid, 2, signal.SIGSTOP)
    await_repair(job)
    was_there = job.send(pid, signal.SIGCONT)
    outcome = job.finish()
    check(was_there, "somebody has killed it", outcome)
    check_success(outcome, results)
    said = f"process {rank} was declared dead by the others and ends"
    check(said in outcome.stderr, f"it does not say: {said}", outcome)


def on_demand_elsewhere(bench):
    """Nobody is left on the node of the PE, so its substitute is started on another one."""
    results = expected(bench)
    job = job_on(bench, 7, 4, 0, "jacobi1d", *JACOBI, SHMEM_FT_UNREPLACED="wait", SHMEM_FT_WAIT_TIMEOUT="20")
    await_commit(job, 3)
    job.fail(*job.holder(1), 1, signal.SIGKILL)
    outcome = job.finish()
    check_success(outcome, results)
    check(re.search(r"no spare was left for PE 1: one has been started on \S+ and has joined", outcome.stderr),
          "nothing says that a spare was started", outcome)


def too_few_spares(bench):
    job = job_on(bench, 2, 4, 1, "jacobi1d", *JACOBI)
    await_commit(job, 3)
    fail_node(job, 2, 1, signal.SIGKILL)
    check_error(job.finish(), r"PE [13] failed .* no spare left to take over: start the job with more spares")


def spares_on_the_lost_node(bench):
    """More spares in the same places would not have helped."""
    job = job_on(bench, 2, 4, 2, "jacobi1d", *JACOBI)
    await_commit(job, 3)
    fail_node(job, 2, 1, signal.SIGKILL)
    check_error(job.finish(), r"PE [13] failed .* no spare left to take over: of 2 spares 1 was lost with pretended node 1: "
                              r"start more of them, or on hosts of their own \(oshrun --spares, --spare-nodes\)")


def dies_before_its_copy_is_sent(spares):
    """The substitute of PE 1 dies before it has sent its copy to where that belongs now, and there is no other one yet.
    The others must not go on as if it had: the newcomer would find nothing there. PE 3, which has already sent its own
    to the substitute, has it where it was before."""
    def case(bench):
        results = expected(bench)
        schedule = "kill pe 1 at checkpoint_enter visit 6; delay 300 ms process 4 at protect_begin; " \
                   "kill process 4 at protect_begin"
        job = job_on(bench, 5, 4, spares, "jacobi1d", *JACOBI, SHMEM_FT_FAULTS=schedule, SHMEM_FT_UNREPLACED="wait",
                     SHMEM_FT_WAIT_TIMEOUT="20")
        outcome = job.finish()
        check("kill process 4 at protect_begin (process 4" in outcome.stderr, "the substitute did not die", outcome)
        check_success(outcome, results)
        check(any(e.kind == "pe_taken" and e.rank == 5 for e in outcome.events), "nobody came", outcome)

    return case


def joins_while_others_protect(bench):
    """As above, with time between the spare's joining and the new plan: whoever has its memory protected does it again."""
    results = expected(bench)
    schedule = "kill pe 1 at checkpoint_enter visit 6; delay 300 ms process 4 at protect_begin; " \
               "kill process 4 at protect_begin; delay 50 ms pe 0 at ballot_begin every"
    outcome = job_on(bench, 5, 4, 1, "jacobi1d", *JACOBI, SHMEM_FT_FAULTS=schedule, SHMEM_FT_UNREPLACED="wait").finish()
    check_success(outcome, results)
    check(any(e.kind == "pe_taken" and e.rank == 5 for e in outcome.events), "nobody came", outcome)


def scrubs_until_the_end(bench):
    """The copy of PE 3 on the other node is being checked, a block every 64 ms, and who keeps it leaves the job first."""
    job = ["--cells", "20000", "--steps", "640", "--halo", "16", "--pace", "10"]
    results = bench.run(4, 0, "jacobi1d", *job).results()
    outcome = job_on(bench, 2, 4, 0, "jacobi1d", *job, SHMEM_FT_SCRUB="1", SHMEM_FT_SCRUB_RATE="256k",
                     SHMEM_FT_FAULTS="delay 600 ms pe 3 at finish_decided").finish()
    check_success(outcome, results)


def short_cut(bench):
    """A link that is away for less than the bound, with all connections reset, is no failure."""
    results = expected(bench)
    outcome = job_on(bench, 3, 4, 1, "jacobi1d", *JACOBI,
                     SHMEM_FT_FAULTS="cut 700 ms process 1 at arrived visit 3").finish()
    check_success(outcome, results)
    check("recomputed 0 steps" in outcome.stdout, "somebody was taken for dead", outcome)


def cut_among_messages(bench):
    """The same where a message is sent or received: there its sender, or who takes it, has the lock of all of them."""
    results = expected(bench)
    for point in ("message_send", "message_receive"):
        outcome = job_on(bench, 3, 4, 1, "jacobi1d", *JACOBI,
                         SHMEM_FT_FAULTS=f"cut 300 ms process 1 at {point} visit 12").finish()
        check("fault: cut 300 ms process 1" in outcome.stderr, "nothing was cut", outcome)
        check_success(outcome, results)
        check("recomputed 0 steps" in outcome.stdout, f"{point}: somebody was taken for dead", outcome)


def minority(bench):
    """Who is cut off for ever ends itself, and the others go on without it."""
    results = expected(bench)
    outcome = job_on(bench, 5, 4, 1, "jacobi1d", *JACOBI, SHMEM_FT_NODE_TIMEOUT="500",
                     SHMEM_FT_FAULTS="cut process 1 at arrived visit 3").finish()
    check_success(outcome, results)


def told_job(bench):
    """A spare alone on its node, to which nobody has a connection: its rank and pid. And the pid of PE 0."""
    job = job_on(bench, 3, 2, 1, "told", SHMEM_FT_NODE_TIMEOUT="0")
    has_begun = job.wait_for_text("ready")
    for number in range(3):
        has_begun &= job.wait_for(lambda event: event.kind == "initialized" and event.rank == number) is not None
    if not has_begun:
        raise Wrong("it has not begun", job.finish())
    return job, job.sleepers()[0], job.holder(0)[1]


def is_noticed(job, rank):
    return any(event.kind == "failure_seen" and event.value == rank for event in job.events)


def told_by_the_launcher(bench):
    """Nobody notices the death until an event of PMIx makes PE 0 look."""
    job, (rank, pid), first = told_job(bench)
    job.fail(rank, pid, -1, signal.SIGKILL)
    time.sleep(1)
    is_noticed_untold = is_noticed(job, rank)
    job.send(first, signal.SIGUSR1)
    seen = job.wait_for(lambda event: event.kind == "failure_seen" and event.value == rank)
    job.send(first, signal.SIGUSR2)
    outcome = job.finish()
    check(not is_noticed_untold, "the death is noticed without an event, so this case shows nothing", outcome)
    check(seen is not None, "nobody has looked", outcome)
    check_success(outcome, ["result 0 told 1 times", "result 1 told 0 times"])


def told_what_is_false(bench):
    job, (rank, _), first = told_job(bench)
    job.send(first, signal.SIGUSR1)
    time.sleep(1)
    job.send(first, signal.SIGUSR2)
    outcome = job.finish()
    check(not is_noticed(job, rank), "a process that lives was taken for dead", outcome)
    check_success(outcome, ["result 0 told 1 times", "result 1 told 0 times"])


def wrong_interface(bench):
    outcome = job_on(bench, 2, 2, 0, "exchange", SHMEM_FT_INTERFACE="no-such-card").finish()
    check_error(outcome, r"SHMEM_FT_INTERFACE=no-such-card")


CASES = {
    "exchange-2": exchange(2, 4),
    "exchange-3": exchange(3, 5),
    "exchange-each-alone": exchange(4, 4),
    "kill-beside-others": death_of_a_pe(2, 1),
    "kill-of-the-first": death_of_a_pe(2, 0),
    "kill-alone": death_of_a_pe(6, 2),
    "kill-of-the-first-alone": death_of_a_pe(6, 0),
    "stop-beside-others": death_of_a_pe(2, 1, signal.SIGSTOP, SHMEM_FT_HANG_TIMEOUT="500"),
    "stop-alone": death_of_a_pe(6, 3, signal.SIGSTOP, SHMEM_FT_NODE_TIMEOUT="500", SHMEM_FT_HANG_TIMEOUT="500"),
    "node-killed": loss_of_a_node(3, 1, 3),
    "first-node-killed": loss_of_a_node(2, 0, 4),
    "node-stopped": loss_of_a_node(3, 1, 3, signal.SIGSTOP, SHMEM_FT_NODE_TIMEOUT="500", SHMEM_FT_HANG_TIMEOUT="0"),
    "wakes-up": wakes_up,
    "two-nodes": losses_one_after_another,
    "on-demand-elsewhere": on_demand_elsewhere,
    "too-few-spares": too_few_spares,
    "spares-on-the-lost-node": spares_on_the_lost_node,
    "substitute-dies-unprotected": dies_before_its_copy_is_sent(2),
    "waits-without-a-copy": dies_before_its_copy_is_sent(1),
    "joins-while-others-protect": joins_while_others_protect,
    "scrubs-until-the-end": scrubs_until_the_end,
    "short-cut": short_cut,
    "cut-among-messages": cut_among_messages,
    "minority": minority,
    "told-by-the-launcher": told_by_the_launcher,
    "told-what-is-false": told_what_is_false,
    "wrong-interface": wrong_interface,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--timeout", type=float, default=60)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    if options.list:
        print("\n".join(CASES))
        return 0
    bench = Bench(Launcher(options.oshrun), options.programs, options.timeout)
    return run_cases(bench, CASES, options.cases)


if __name__ == "__main__":
    sys.exit(main())
