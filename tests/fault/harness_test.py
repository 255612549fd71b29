"""The judge of the campaigns itself: that it believes no false explanation, and that seeds keep their meaning."""

import dataclasses
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))

from job_watch import Death, Event, Outcome  # noqa: E402
from placement import holders_at, keepers  # noqa: E402
from scenario import Kill, Scenario, draw  # noqa: E402
from verdict import NAMED_ERROR, RECOVERED, UNTOUCHED, WRONG, Reference, Rules, judge  # noqa: E402

MS = 1_000_000
LOST = ", and so has the process that kept the copy of the last checkpoint: the data is lost"
KILLED = "failed (killed by signal 9 (Killed))"
REFERENCE = Reference(["result 1"], 20, 1000.0)


def event(kind, rank, begin_ms, **more) -> Event:
    fields = {"pid": 100 + rank, "pe": rank, "code": 0, "end_ns": begin_ms * MS, "value": 0, "text": "", "seen_ns": 0}
    return Event(kind=kind, rank=rank, begin_ns=begin_ms * MS, **{**fields, **more})


def commit(version, at_ms) -> Event:
    return event("span", 0, at_ms, value=version, text="checkpoint")


def seen(rank, at_ms, status) -> Event:
    return event("failure_seen", 3, at_ms, pe=rank, value=rank, code=status)


def outcome(deaths, events, error="", results=("result 1",)) -> Outcome:
    """Of a job that has committed versions 1 to 5 by 50 ms; deaths: (rank, signal, ms)."""
    return Outcome(exit_code=70 if error else 0, stdout="".join(f"{line}\n" for line in results),
                   stderr=f"oshrun: {error}\n" if error else "",
                   events=[commit(version, 10 * version) for version in range(1, 6)] + events,
                   deaths=[Death(at_ms * MS, rank, 100 + rank, rank if rank < 5 else -1, number)
                           for rank, number, at_ms in deaths],
                   hung=False, seconds=1.0, leftovers=[], ended_ns=500 * MS, events_file="")


def scenario(spares=2, numbers=(signal.SIGKILL,), mode="double") -> Scenario:
    return Scenario(5, spares, mode, tuple(Kill("now", 0.0, 0.0, "pe", 1, number) for number in numbers))


class JudgeTest(unittest.TestCase):
    TOGETHER = Rules(nodes=5)  # each PE on a node of its own: PE 2 keeps the copy of PE 1

    def kind(self, of, end) -> str:
        return judge(of, end, REFERENCE).kind

    def partners(self, error) -> str:
        """What is said about an error after PEs 1 and 2 have died at once."""
        deaths = [(1, signal.SIGKILL, 60), (2, signal.SIGUSR1, 60)]
        noticed = [seen(1, 61, 0x10009), seen(2, 61, 0x20003)]
        return judge(scenario(), outcome(deaths, noticed, error, results=()), REFERENCE, self.TOGETHER).kind

    def test_an_error_has_to_be_true(self):
        self.assertEqual(self.partners(f"PE 1 {KILLED}{LOST}"), NAMED_ERROR)
        self.assertEqual(self.partners(f"PE 1 {KILLED}, PE 2 failed (exited with code 3 without shmem_finalize){LOST}"),
                         NAMED_ERROR)
        for error in (f"PE 3 {KILLED}{LOST}", f"PE 2 {KILLED}{LOST}", f"PE 1 failed (hung){LOST}",
                      f"PE 1 {KILLED}, and so has the proc", f"PE 1 {KILLED} and there is no spare left to take over",
                      f"PE 1 {KILLED} before the first checkpoint was committed: there is nothing to go back to",
                      "PE 1 was killed by signal 9 (Killed)"):
            self.assertEqual(self.partners(error), WRONG, error)

    def test_partners_of_one_node_are_no_excuse(self):
        deaths = [(1, signal.SIGKILL, 60), (2, signal.SIGKILL, 60)]
        end = outcome(deaths, [seen(1, 61, 0x10009), seen(2, 61, 0x10009)], f"PE 1 {KILLED}{LOST}", results=())
        self.assertEqual(self.kind(scenario(), end), WRONG)

    def test_a_warning_is_no_error(self):
        finished = dataclasses.replace(REFERENCE, last_version=5)
        end = outcome([(1, signal.SIGSTOP, 60)], [], "PE 1 was killed by signal 9 (Killed)")
        self.assertEqual(judge(scenario(), end, finished).kind, NAMED_ERROR)
        end.stderr = "oshrun: warning: process 101 has been stopped for 300 ms\n" + end.stderr
        self.assertEqual(judge(scenario(), end, finished).kind, NAMED_ERROR)

    def test_a_death_after_the_last_commit_on_a_busy_machine(self):
        """A commit is known from its end on the PEs, long after the others could see it, and a signal may be late."""
        finished = dataclasses.replace(REFERENCE, last_version=5)
        error = "PE 1 failed (killed by signal 9 (Killed)) after the last shmem_checkpoint_all: the others are in shmem_finalize"
        for died_ms, sent_ms, kind in ((20, 20, WRONG), (45, 45, NAMED_ERROR), (20, 45, NAMED_ERROR)):
            end = outcome([(1, signal.SIGKILL, died_ms)], [], error, results=())
            end.deaths[0].sent_ns = sent_ms * MS
            end.events[-1] = dataclasses.replace(end.events[-1], begin_ns=40 * MS, end_ns=80 * MS)
            self.assertEqual(judge(scenario(), end, finished).kind, kind, (died_ms, sent_ms))

    def test_an_error_needs_a_loss(self):
        deaths = [(1, signal.SIGKILL, 60)]
        self.assertEqual(self.kind(scenario(), outcome(deaths, [seen(1, 61, 0x10009)], f"PE 1 {KILLED}{LOST}", ())),
                         WRONG)
        self.assertEqual(self.kind(scenario(mode="none"), outcome(deaths, [seen(1, 61, 0x10009)],
                                                                  f"PE 1 {KILLED} and no copies are kept", ())),
                         NAMED_ERROR)

    def test_nobody_dies_unasked(self):
        restart = event("span", 0, 70, text="restart", value=5)
        deaths = [(1, signal.SIGKILL, 60)]
        self.assertEqual(self.kind(scenario(), outcome(deaths, [seen(1, 61, 0x10009), restart])), RECOVERED)
        self.assertEqual(self.kind(scenario(), outcome(deaths, [seen(4, 61, 0x1000b), restart])), WRONG)
        self.assertEqual(self.kind(scenario(), outcome(deaths, [seen(4, 61, 0x30000), restart])), WRONG)
        # With a bound as short as that of stops a busy machine is enough.
        stops = scenario(numbers=(signal.SIGKILL, signal.SIGSTOP))
        self.assertEqual(self.kind(stops, outcome(deaths, [seen(4, 61, 0x30000), restart])), RECOVERED)

    def test_a_short_stop_is_no_excuse(self):
        short = Scenario(5, 1, "double", (Kill("now", 0.0, 0.0, "pe", 1, signal.SIGSTOP, stop_ms=80.0),))
        self.assertEqual(short.hang_timeout_ms, 0)
        self.assertEqual(self.kind(short, outcome([], [])), UNTOUCHED)
        self.assertEqual(self.kind(short, outcome([], [seen(1, 61, 0x30000)], f"PE 1 failed (hung){LOST}", ())), WRONG)

    def test_partners_are_on_different_nodes(self):
        self.assertEqual(keepers([0, 1, 2, 3, 4], 0, "double"), [[1], [2], [3], [4], [0]])
        self.assertEqual(keepers([0, 1, 2, 3, 4], 2, "double"), [[1], [0], [3], [2], [1]])
        self.assertEqual(keepers([0, 1, 2, 3, 4], 2, "single"), [[2], [3], [4], [1], [0]])
        self.assertEqual(keepers([0, 6, 2], 2, "double"), [[1], [2], [0]])  # all on one node now
        self.assertEqual(keepers([0, 1, 2, 3], 3, "replica:2"), [[1, 2], [2, 0], [0, 1], [1, 2]])
        self.assertEqual(keepers([0, 1, 2], 2, "replica:2"), [[1], [0], [1]])  # there are no more nodes
        taken = [event("pe_taken", 7, 30, pe=2)]
        self.assertEqual(holders_at(taken, 3, 29 * MS), [0, 1, 2])
        self.assertEqual(holders_at(taken, 3, 31 * MS), [0, 1, 7])
        # PEs 1 and 2 keep nothing of each other on two nodes: PE 0 keeps that of PE 1, and PE 3 that of PE 2.
        deaths = [(1, signal.SIGKILL, 60), (2, signal.SIGKILL, 60)]
        end = outcome(deaths, [seen(1, 61, 0x10009), seen(2, 61, 0x10009)], f"PE 1 {KILLED}{LOST}", results=())
        self.assertEqual(judge(scenario(), end, REFERENCE, Rules(nodes=2)).kind, WRONG)
        self.assertEqual(judge(scenario(), end, REFERENCE, Rules(nodes=5)).kind, NAMED_ERROR)

    def test_what_a_keeper_has_left_on_its_node_is_not_lost(self):
        def kind_of(pes, nodes, mode="double", spares=()):
            deaths = [(rank, signal.SIGKILL, 60) for rank in [*pes, *spares]]
            events = [seen(pe, 61, 0x10009) for pe in pes]
            end = outcome(deaths, events, f"PE {pes[0]} {KILLED}{LOST}", results=())
            return judge(scenario(spares=4, mode=mode), end, REFERENCE, Rules(nodes=nodes)).kind

        self.assertEqual(kind_of([0, 1], 2), WRONG)  # each kept the other's copy, and both nodes have other PEs
        self.assertEqual(kind_of([0, 1, 3], 2, spares=[5, 7]), NAMED_ERROR)  # and all of node 1
        self.assertEqual(kind_of([0, 1, 3], 2, spares=[5]), WRONG)  # but a spare, which takes over there
        self.assertEqual(kind_of([0, 3], 3, spares=[6]), WRONG)
        # PE 2, alone on its node, had its only copy on that of 0 and 3.
        self.assertEqual(kind_of([0, 3], 3, "single", spares=[6]), NAMED_ERROR)
        self.assertEqual(kind_of([0, 3], 3, "single"), WRONG)

    def test_with_an_interval_by_time_the_printed_result_tells_what_is_after_the_last_call(self):
        line = f"PE 1 {KILLED} after the last shmem_checkpoint_all"
        timed = Rules(is_timed=True)
        early = outcome([(1, signal.SIGKILL, 15)], [seen(1, 16, 0x10009)], line, results=())
        late = outcome([(1, signal.SIGKILL, 15)], [seen(1, 16, 0x10009)], line)
        self.assertEqual(judge(scenario(), early, REFERENCE, timed).kind, WRONG)
        self.assertEqual(judge(scenario(), late, REFERENCE, timed).kind, NAMED_ERROR)
        self.assertEqual(judge(scenario(), late, REFERENCE).kind, WRONG)

    def test_with_replicas_a_pe_is_lost_with_all_that_keep_it(self):
        lost = f"PE 1 {KILLED}{LOST}"

        def kind_of(pes, whole_at=None, spares=(7, 8)):
            deaths = [(rank, signal.SIGKILL, 60 + 2 * rank) for rank in [*pes, *spares]]
            events = [seen(pe, 61 + 2 * pe, 0x10009) for pe in pes]
            if whole_at is not None:
                events.append(event("span", 0, 64, text="protect", end_ns=whole_at * MS))
            end = outcome(deaths, events, lost, results=())
            return judge(scenario(spares=4, mode="replica:2"), end, REFERENCE, Rules(nodes=5)).kind

        self.assertEqual(kind_of([1, 2]), WRONG)
        self.assertEqual(kind_of([1, 2, 3]), NAMED_ERROR)
        self.assertEqual(kind_of([1, 2, 3], spares=[8]), WRONG)  # a spare is left on the node of PE 2
        self.assertEqual(kind_of([1, 2, 4]), WRONG)
        self.assertEqual(kind_of([1, 2, 3], whole_at=66), WRONG)  # before the third died

    def test_a_wrong_result_is_wrong_whatever_else(self):
        self.assertEqual(self.kind(scenario(), outcome([], [], results=("result 2",))), WRONG)
        self.assertEqual(self.kind(scenario(), outcome([], [], results=())), WRONG)


class ScenarioTest(unittest.TestCase):
    def test_a_seed_is_a_scenario(self):
        self.assertEqual([draw(seed) for seed in range(200)], [draw(seed) for seed in range(200)])

    def test_everything_is_drawn(self):
        drawn = [draw(seed) for seed in range(2000)]
        kills = [kill for item in drawn for kill in item.kills]
        self.assertEqual({item.mode for item in drawn}, {"none", "single", "double"})
        self.assertEqual({kill.trigger for kill in kills},
                         {"commit", "checkpoint", "now", "failure_seen", "pe_taken", "restarted"})
        self.assertEqual({kill.signal for kill in kills},
                         {signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGSTOP})
        self.assertTrue(any(not kill.is_failure for kill in kills))
        for item in drawn:
            self.assertEqual(item.hang_timeout_ms != 0, any(kill.is_stop_for_ever for kill in item.kills), str(item))


if __name__ == "__main__":
    unittest.main()
