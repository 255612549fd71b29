"""One judge of hosts (tools/cluster): cuts of single links, short cuts and slow links, and a guardian that stands still,
in real jobs on three hosts. Exit code 77: no cluster can be made here."""

import os
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.environ["SFT_SOURCE_DIR"], "tools", "cluster"))

from cluster import Cluster
from cluster_job import ClusterJob
from traces import eventually, run_or_skip

OSHRUN = os.environ["OSHRUN"]
JACOBI1D = os.environ["JACOBI1D"]
TRANSPORT = os.environ.get("JUDGE_TRANSPORT", "auto")
TIMEOUT_S = 120


class Judge(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(hosts=3, slots=3)
        self.addCleanup(self.cluster.close)

    def start(self, seconds, *options, bound_ms=1000):
        """A job of six PEs and three spares, three of them on each host, that takes so long at least."""
        job = ClusterJob(self.cluster, [OSHRUN, *(options or ("-n", "6", "--spares", "3"))],
                         [JACOBI1D, "--cells", "6000", "--steps", str(160 * seconds), "--halo", "16", "--pace", "100",
                          "--verify"],
                         {"SHMEM_TRANSPORT": TRANSPORT, "SHMEM_FT_NODE_TIMEOUT": str(bound_ms)}, TIMEOUT_S)
        job.start()
        self.assertTrue(job.await_start(6 if options else 9))
        self.assertIsNotNone(job.wait_for(lambda event: event.kind == "span" and event.text == "checkpoint"))
        return job

    def check_end(self, job, hosts_without_pes=()):
        """It ends well, and nobody but those hosts has lost a PE."""
        outcome = job.finish()
        said = (outcome.stderr, outcome.states)
        self.assertFalse(outcome.hung, said)
        self.assertEqual(outcome.exit_code, 0, said)
        self.assertEqual(outcome.leftovers, [])
        taken = [event for event in outcome.events if event.kind == "pe_taken" and event.rank >= 6]
        if not hosts_without_pes:
            self.assertEqual(taken, [], said)
        return outcome

    def test_a_link_to_a_host_that_holds_spares_only(self):
        # oshrun, on node0, dropped node2; node2 told node1 that node0 was lost, and both hosts with PEs ended.
        for host in (0, 1):
            with self.subTest(cut=(host, 2)):
                job = self.start(7)
                self.cluster.cut_between(host, 2)
                # By the one, or because it has been told that it is the one to go: the spares end.
                self.assertTrue(eventually(lambda: not any(job.is_alive(p.rank) for p in job.processes_on(2)), 40))
                self.check_end(job)
                self.cluster.heal_between(host, 2)

    def test_a_link_between_two_hosts_with_pes(self):
        # They count alike, so that with the lowest process stays, and the others are replaced on node2.
        job = self.start(7)
        self.cluster.cut_between(0, 1)
        outcome = self.check_end(job, hosts_without_pes=(1,))
        taken = sorted(event.pe for event in outcome.events if event.kind == "pe_taken" and event.rank >= 6)
        self.assertEqual(taken, [3, 4, 5])

    def test_oshruns_own_link(self):
        job = self.start(9, "--host", "node1:3,node2:3", "-n", "6")
        self.cluster.cut_between(0, 2)
        time.sleep(6)  # longer than any bound
        self.cluster.heal_between(0, 2)
        outcome = self.check_end(job)
        self.assertNotIn("lost", outcome.stderr)

    def test_short_cuts(self):
        # That a cut may be nearly as long as the bound is a unit test's (node_watch_test.cpp). A busy machine adds to them:
        # one of 1.5 s has taken 5.3, and then the host is lost rightly.
        job = self.start(20, bound_ms=3000)
        took_s = []
        for length_s in (0.5, 1.0, 1.5, 2.0):
            begin = time.monotonic()
            self.cluster.cut(2)
            time.sleep(length_s)
            self.cluster.heal(2)
            took_s.append(round(time.monotonic() - begin, 2))
            time.sleep(1.0)
        if max(took_s) > 2.5:
            job.end()
            self.skipTest(f"the machine is too busy: the cuts took {took_s} s")
        n_alive = len([p for p in job.processes_on(2) if job.is_alive(p.rank)])
        self.assertEqual(n_alive, 3, (took_s, job.read_errors()))
        self.cluster.cut(2)
        time.sleep(4.5)
        self.cluster.heal(2)
        self.assertTrue(eventually(lambda: not any(job.is_alive(p.rank) for p in job.processes_on(2)), 40))
        self.check_end(job)

    def test_a_link_that_becomes_slow(self):
        job = self.start(7, bound_ms=2000)
        self.cluster.delay(1, 1000)
        time.sleep(5)
        self.cluster.delay(1, 0)
        outcome = self.check_end(job)
        self.assertNotIn("lost", outcome.stderr)

    def test_a_guardian_that_stands_still(self):
        job = self.start(12, bound_ms=2000)
        guardian = max(pid for pid in self.cluster.pids(0) if self.name_of(pid) == "oshrun")
        for length_s in (2.2, 8.0):  # the second one is longer than any bound
            os.kill(guardian, signal.SIGSTOP)
            time.sleep(length_s)
            os.kill(guardian, signal.SIGCONT)
            time.sleep(0.5)
        outcome = self.check_end(job)
        self.assertNotIn("lost", outcome.stderr)

    @staticmethod
    def name_of(pid):
        try:
            with open(f"/proc/{pid}/comm", encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""


if __name__ == "__main__":
    sys.exit(run_or_skip())
