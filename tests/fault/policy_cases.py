"""Cases about what the user chooses: what a call does when it meets a fault, what happens when nobody is left to take over
a PE, and spares that join the job while it runs. cases.py runs them."""

import dataclasses
import os
import re
import signal
import subprocess
import time

from bench import JACOBI, Wrong, await_commit, await_repair, check, check_error, check_success, jacobi_results, kill_pes


# --- what a call does when it meets a fault ---


def on_fault(action, kill, pes=4, **env):
    """The outcome, and that of a run in which nobody dies."""
    def runs(bench):
        words = ["--action", action] + (["--tolerant"] if action in ("return", "call") else [])
        expected = bench.run(pes, 0, "on_fault", *words)
        check(expected.exit_code == 0 and expected.results(), "the run without a death failed", expected)
        return bench.run(pes, 1, "on_fault", *words, "--kill", kill, **env), expected

    return runs


def jumps_from(kill):
    def case(bench):
        outcome, expected = on_fault("jump", kill)(bench)
        check_success(outcome, expected.results())
        check(any(e.kind == "pe_taken" for e in outcome.events), "nobody was replaced", outcome)

    return case


def returns_with_garbage(bench):
    """The control: what the jump avoids does happen without it, and is rolled back."""
    outcome, expected = on_fault("return", "wait_until")(bench)
    check_success(outcome, expected.results())
    outcome = bench.run(4, 1, "on_fault", "--action", "return", "--kill", "wait_until")
    check(outcome.exit_code != 0 and "wrong number" in outcome.stderr, "no wrong number was seen", outcome)


def calls_the_handler(bench):
    outcome, expected = on_fault("call", "barrier_all")(bench)
    check_success(outcome, expected.results())
    told = re.findall(r"^PE (\d): handler called (\d+) times, last for (\w+)$", outcome.stdout, re.M)
    survivors = sorted(pe for pe, calls, routine in told if int(calls) >= 2 and routine == "shmem_checkpoint_all")
    check(survivors == ["0", "2", "3"], f"handlers were called in PEs {survivors}", outcome)


def aborts(action, **env):
    def case(bench):
        outcome, _ = on_fault(action, "barrier_all", **env)(bench)
        check_error(outcome, r"PE 1 failed \((killed by signal 9|died) .*SHMEM_FT_ON_FAULT=abort.* shmem_barrier_all$")
        check(len(outcome.errors()) == 1, f"{len(outcome.errors())} lines of errors", outcome)
        check(not outcome.results(), "a result", outcome)

    return case


def jumps_in_cxx(bench):
    outcome = bench.run(4, 1, "jumping")
    check_success(outcome, [f"result {pe} {21 * (pe + 1)}" for pe in range(4)])


def threads(*options):
    """A PE dies while each thread of the others is in another kind of call, on a team, context or lock of its own."""
    def case(bench):
        expected = bench.run(4, 0, "threaded", *options)
        check(expected.exit_code == 0 and expected.results(), "the run without a death failed", expected)
        outcome = bench.run(4, 1, "threaded", "--kill", *options)
        check_success(outcome, expected.results())
        check(any(e.kind == "pe_taken" for e in outcome.events), "nobody was replaced", outcome)

    return case


# --- what watches over the job goes before everything else ---


def may_prefer_threads():
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return True


def preferred_threads(pid):
    """The names of its threads with real-time priority."""
    names = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        if os.sched_getscheduler(int(thread)) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR:
            with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8") as name:
                names.append(name.read().strip())
    return names


def parent_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("PPid:"))


def launcher_and_guardian(pid):
    """Of a process of a job; without a launcher the guardian alone."""
    parent = parent_of(pid)
    with open(f"/proc/{parent}/comm", encoding="utf-8") as name:
        return [parent] if name.read().strip() == "oshrun" else [parent, parent_of(parent)]


def watchers_go_first(bench):
    """One thread of each process, and oshrun's guardian above them; not the launcher, which it has started."""
    allowed = may_prefer_threads()
    for wanted, count in ("1", 1 if allowed else 0), ("0", 0):
        job = bench.job(3, 1, "jacobi1d", *JACOBI, SHMEM_FT_REALTIME=wanted)
        await_commit(job, 2)
        pids = [job.holder(pe)[1] for pe in range(3)] + [pid for _, pid in job.sleepers()]
        found = [len(preferred_threads(pid)) for pid in pids]
        above = [len(preferred_threads(pid)) for pid in launcher_and_guardian(pids[0])]
        kill_pes(job, [1])
        outcome = job.finish()
        check_success(outcome, jacobi_results(bench, 3))
        check(found == [count] * 4, f"SHMEM_FT_REALTIME={wanted}: {found} threads of the processes", outcome)
        check(above[-1] == count and not any(above[:-1]), f"SHMEM_FT_REALTIME={wanted}: {above} threads of launcher and guardian", outcome)


# --- nobody is left to take over ---


def by_hand(case):
    """oshrun starts no spare by itself."""
    def on_its_own(bench):
        launcher = type(bench.launcher)(bench.launcher.oshrun, ("--on-demand", "never"))
        case(dataclasses.replace(bench, launcher=launcher))

    return on_its_own


def waits_in_vain(bench):
    """Named end after the bound, and the others have not gone on meanwhile."""
    job = bench.job(3, 0, "jacobi1d", *JACOBI, SHMEM_FT_UNREPLACED="wait", SHMEM_FT_WAIT_TIMEOUT="2")
    await_commit(job, 2)
    kill_pes(job, [1])
    outcome = job.finish()
    check_error(outcome, r"PE 1 failed \((killed by signal 9|died) .* no spare has come within 2 s \(SHMEM_FT_WAIT_TIMEOUT\)$")
    lasted = outcome.seconds
    check(2.0 < lasted < 8.0, f"ended after {lasted:.1f} s", outcome)
    check("waiting 2 s" in outcome.stderr, "no notice of the wait", outcome)
    check(not outcome.results(), "a result", outcome)


def leader_dies_waiting(bench):
    """The next leader goes on waiting, for both PEs."""
    job = bench.job(4, 0, "jacobi1d", *JACOBI, SHMEM_FT_UNREPLACED="wait", SHMEM_FT_WAIT_TIMEOUT="1")
    await_commit(job, 2)
    kill_pes(job, [2])
    time.sleep(0.4)
    kill_pes(job, [0])
    check_error(job.finish(), r"PE 2 failed .*, PE 0 failed .*no spare has come within 1 s")


def asks_handler(answer, pattern, least_s):
    def case(bench):
        outcome = bench.run(4, 0, "on_fault", "--action", "jump", "--kill", "reduce", "--unreplaced", answer,
                            SHMEM_FT_UNREPLACED="handler", SHMEM_FT_WAIT_TIMEOUT="2")
        check_error(outcome, pattern)
        check(outcome.stderr.count("handler: no spare, 1 PEs, first 1") == 1, "the handler was not called once", outcome)
        check(outcome.seconds > least_s, f"ended after {outcome.seconds:.1f} s", outcome)
        check(len(outcome.errors()) == 1 or answer == "wait", "more than one line", outcome)

    return case


def tells_handler_of_loss(bench):
    job = bench.job(4, 2, "on_fault", "--action", "return", "--tolerant", "--steps", "400", "--pace", "10", "--unreplaced",
                    "wait", SHMEM_FT_UNREPLACED="handler", SHMEM_FT_PRETEND_NODES="4")
    await_commit(job, 2)
    kill_pes(job, [2, 3], signal.SIGSTOP)  # each alone on a node: what was left of PE 2 was on that of PE 3
    kill_pes(job, [2, 3])
    outcome = job.finish()
    check_error(outcome, r"PE 2 .*data is lost")
    check(outcome.stderr.count("handler: data lost, ") == 1, "the handler was not called once", outcome)


# --- spares that come while the job runs ---

WAITING = {"SHMEM_FT_UNREPLACED": "wait", "SHMEM_FT_WAIT_TIMEOUT": "15"}
LONG_JACOBI = [*JACOBI[:-1], "25"]


def add_spares(bench, job, count=1, sleep_first=True):
    """oshrun --join; waits until they sleep. Until they are counted takes a message more."""
    known = len([event for event in job.events if event.kind == "initialized"])
    added = subprocess.run([bench.launcher.oshrun, "--join", str(job.pid), "-n", str(count)], capture_output=True,
                           text=True, timeout=10, check=False)
    if added.returncode != 0:
        raise Wrong(f"oshrun --join: exit code {added.returncode}: {added.stderr}", job.finish())
    at = 0
    for _ in range(known + count if sleep_first else 0):
        at = job.wait_for(lambda event: event.kind == "initialized", at) or at
    return added


def joins_waiting_job(bench):
    expected = jacobi_results(bench)
    job = bench.job(4, 0, "jacobi1d", *LONG_JACOBI, **WAITING)
    await_commit(job, 2)
    kill_pes(job, [1])
    time.sleep(0.3)
    add_spares(bench, job)
    outcome = job.finish()
    check_success(outcome, expected)
    told = re.search(r"waiting 15 s for one .*oshrun --join (\d+) adds one", outcome.stderr)
    check(told, "the way out is not told", outcome)


def joins_before_deaths(bench):
    """More spares than there were, for deaths of the leader, of another PE and of a substitute that has joined."""
    expected = jacobi_results(bench)
    job = bench.job(4, 1, "jacobi1d", *LONG_JACOBI, **WAITING)
    await_commit(job, 2)
    add_spares(bench, job, 2)
    for pe in (0, 3, 3):
        kill_pes(job, [pe])
        await_repair(job)
    outcome = job.finish()
    check(len(outcome.deaths) == 3, "not all three deaths took place", outcome)
    check_success(outcome, expected)


def joiner_dies_asleep(bench):
    expected = jacobi_results(bench)
    job = bench.job(4, 0, "jacobi1d", *LONG_JACOBI, **WAITING)
    await_commit(job, 2)
    add_spares(bench, job, 2)
    for rank, pid in job.sleepers()[:1]:
        job.fail(rank, pid, -1, signal.SIGKILL)
    time.sleep(0.05)
    kill_pes(job, [2])
    outcome = job.finish()
    check(len(outcome.deaths) == 2, "the spare was not there", outcome)
    check_success(outcome, expected)
    check(any(e.kind == "pe_taken" and e.rank == 5 for e in outcome.events), "the second one was not taken", outcome)


def leader_dies_then_two_join(bench):
    """Two PEs that are no neighbours, one of them the leader, are waited for; the next leader takes in both spares."""
    expected = jacobi_results(bench)
    job = bench.job(4, 0, "jacobi1d", *LONG_JACOBI, **WAITING)
    await_commit(job, 2)
    kill_pes(job, [2])
    time.sleep(0.2)
    kill_pes(job, [0])
    time.sleep(0.2)
    add_spares(bench, job, 1)
    time.sleep(0.2)
    add_spares(bench, job, 1)
    check_success(job.finish(), expected)


def all_by_joiners(bench):
    """In the end every PE is held by a process that the launcher does not know."""
    expected = jacobi_results(bench, 3)
    job = bench.job(3, 0, "jacobi1d", *LONG_JACOBI, **WAITING)
    await_commit(job, 2)
    add_spares(bench, job, 3)
    for pe in (0, 1, 2):
        kill_pes(job, [pe])
        await_repair(job)
    outcome = job.finish()
    check_success(outcome, expected)
    takers = sorted(event.rank for event in outcome.events if event.kind == "pe_taken")
    check(takers == [3, 4, 5], f"PEs were taken by {takers}", outcome)


def joiner_dies_joining(bench):
    """At any moment of its way in: the job does not care, and takes the next one."""
    expected = jacobi_results(bench, 3)
    job = bench.job(3, 0, "jacobi1d", *LONG_JACOBI, **WAITING)
    await_commit(job, 2)
    kill_pes(job, [1])
    for delay_ms in (0, 2, 4, 6):
        count = len(job.events)
        add_spares(bench, job, 1, sleep_first=False)
        at = job.wait_for(lambda event: event.kind == "launched", count)
        time.sleep(delay_ms / 1e3)
        event = job.events[at - 1]
        job.fail(event.rank, event.pid, -1, signal.SIGKILL)
    add_spares(bench, job, 1, sleep_first=False)
    check_success(job.finish(), expected)


def join_is_refused(bench):
    job = bench.job(3, 0, "jacobi1d", *LONG_JACOBI)
    await_commit(job, 2)
    for words, pattern in [(["--join", "1"], "no job of that pid"), (["--join", str(job.pid), "x"], "takes -n and --host only"),
                           (["--join", str(job.pid), "-n", "70"], "has room for 64")]:
        refused = subprocess.run([bench.launcher.oshrun, *words], capture_output=True, text=True, timeout=20, check=False)
        if refused.returncode == 0 or not re.search(pattern, refused.stderr):
            raise Wrong(f"{words}: exit code {refused.returncode}: {refused.stderr}", job.finish())
    check_success(job.finish(), jacobi_results(bench, 3))


# --- spares that oshrun starts because the job waits for one ---


def one_on_demand(bench):
    """None was asked for. It is started, and joins, and takes over."""
    expected = jacobi_results(bench)
    job = bench.job(4, 0, "jacobi1d", *LONG_JACOBI, **WAITING)
    await_commit(job, 2)
    kill_pes(job, [1])
    outcome = job.finish()
    check_success(outcome, expected)
    check(any(e.kind == "pe_taken" and e.rank == 4 for e in outcome.events), "nobody was replaced", outcome)
    check("no spare was left for PE 1: one has been started on" in outcome.stderr, "it is not told", outcome)


def several_on_demand(bench):
    """Two at once that are no neighbours, the leader among them, then a newcomer."""
    expected = jacobi_results(bench)
    job = bench.job(4, 0, "jacobi1d", *LONG_JACOBI, **WAITING)
    await_commit(job, 2)
    kill_pes(job, [0, 2])
    await_repair(job)
    kill_pes(job, [2])
    outcome = job.finish()
    check_success(outcome, expected)
    check(len(outcome.deaths) == 3, "not all three deaths took place", outcome)


def join_in_their_order(bench):
    """They are started at once, and the lower one takes longer: it must not come too late for that."""
    expected = jacobi_results(bench)
    job = bench.job(4, 0, "jacobi1d", *LONG_JACOBI, SHMEM_FT_FAULTS="delay 400 ms process 4 at init_ready", **WAITING)
    await_commit(job, 2)
    kill_pes(job, [0, 2])
    outcome = job.finish()
    check_success(outcome, expected)
    check([event.rank for event in outcome.events if event.kind == "spare_joined"] == [4, 5], "in another order", outcome)
    check("could not join" not in outcome.stderr, "one was sent away", outcome)


def demand_has_a_limit(bench):
    launcher = type(bench.launcher)(bench.launcher.oshrun, ("--on-demand-limit", "1"))
    own = dataclasses.replace(bench, launcher=launcher)
    job = own.job(4, 0, "jacobi1d", *LONG_JACOBI, SHMEM_FT_UNREPLACED="wait", SHMEM_FT_WAIT_TIMEOUT="2")
    await_commit(job, 2)
    kill_pes(job, [1])
    await_repair(job)
    kill_pes(job, [2])
    outcome = job.finish()
    check_error(outcome, r"PE 2 failed \((killed by signal 9|died) .* no spare has come within 2 s \(SHMEM_FT_WAIT_TIMEOUT\)$")
    check("no more are started than 1" in outcome.stderr, "the limit is not told", outcome)


POLICY_CASES = {
    "watchers-go-first": watchers_go_first,
    "jump-from-wait-until": jumps_from("wait_until"),
    "jump-from-reduce": jumps_from("reduce"),
    "jump-from-barrier-all": jumps_from("barrier_all"),
    "jump-in-cxx": jumps_in_cxx,
    "threads-call-handlers": threads(),
    "threads-jump": threads("--jump"),
    "return-with-garbage": returns_with_garbage,
    "handler": calls_the_handler,
    "abort-by-call": aborts("abort"),
    "abort-by-environment": aborts("none", SHMEM_FT_ON_FAULT="abort"),
    "waits-in-vain": by_hand(waits_in_vain),
    "leader-dies-waiting": by_hand(leader_dies_waiting),
    "handler-aborts": asks_handler("abort", r"PE 1 failed .*no spare left", 0.1),
    "handler-waits": by_hand(asks_handler("wait", r"PE 1 failed .*no spare has come within 2 s", 2.0)),
    "handler-told-of-loss": tells_handler_of_loss,
    "join-a-waiting-job": by_hand(joins_waiting_job),
    "join-before-deaths": by_hand(joins_before_deaths),
    "joiner-dies-asleep": by_hand(joiner_dies_asleep),
    "joiner-dies-joining": by_hand(joiner_dies_joining),
    "leader-dies-then-two-join": by_hand(leader_dies_then_two_join),
    "all-by-joiners": by_hand(all_by_joiners),
    "join-is-refused": join_is_refused,
    "one-on-demand": one_on_demand,
    "several-on-demand": several_on_demand,
    "join-in-their-order": join_in_their_order,
    "demand-has-a-limit": demand_has_a_limit,
}
