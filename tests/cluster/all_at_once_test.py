"""All PEs of a job on several hosts die at one moment: a spare on each host finds there what the dead had decided, and their
memory. Without one on a host the job ends, with one line. Exit code 77: no cluster can be made here."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["SFT_SOURCE_DIR"], "tools", "cluster"))

from cluster import Cluster
from cluster_job import ClusterJob
from traces import run_or_skip

OSHRUN = os.environ["OSHRUN"]
PROGRAM = [os.environ["JACOBI1D"], "--cells", "6000", "--steps", "1200", "--halo", "16", "--pace", "100"]
FABRICS = os.environ["FABRICS"].split()
TIMEOUT_S = 120
PES = 6


class AllAtOnce(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(hosts=3, slots=4)
        self.addCleanup(self.cluster.close)

    def job(self, spares, fabric):
        job = ClusterJob(self.cluster, [OSHRUN, "-n", str(PES), "--spares", str(spares), "--map-by", "node"], PROGRAM,
                         {"SHMEM_TRANSPORT": fabric}, TIMEOUT_S)
        job.start()
        self.assertTrue(job.await_start(PES + spares), job.read_output())
        return job

    def kill_pes(self, job):
        """Behind the third checkpoint from now on."""
        begin = len(job.events)
        for _ in range(3):
            begin = job.wait_for(lambda event: event.kind == "span" and event.text == "checkpoint" and event.pe == 0, begin)
            self.assertIsNotNone(begin)
        victims = job.holders()
        self.assertEqual(sorted(victims), list(range(PES)))
        for process in victims.values():
            job.kill(process)

    def test_with_spares_on_each_host(self):
        whole = self.job(0, FABRICS[0]).finish()
        self.assertEqual(whole.exit_code, 0, whole.stderr)
        for fabric in FABRICS:
            with self.subTest(fabric):
                job = self.job(6, fabric)
                self.kill_pes(job)
                outcome = job.finish()
                self.assertFalse(outcome.hung, (outcome.stderr, outcome.states))
                self.assertEqual((outcome.exit_code, outcome.leftovers), (0, []), outcome.stderr)
                self.assertEqual(outcome.results(), whole.results())
                hosts = {process.rank: process.host for process in map(job.process, range(PES * 2))}
                moved = [event for event in outcome.events if event.kind == "pe_taken"
                         and hosts[event.rank] != hosts[event.pe]]
                self.assertEqual(moved, [], "each PE stays on its host")

    def test_with_a_host_without_a_spare(self):
        job = self.job(2, FABRICS[0])
        self.kill_pes(job)
        outcome = job.finish()
        self.assertFalse(outcome.hung, (outcome.stderr, outcome.states))
        self.assertNotEqual(outcome.exit_code, 0)
        self.assertEqual((len(outcome.errors()), outcome.leftovers), (1, []), outcome.stderr)
        self.assertIn("no process is left that holds a PE, and the data is lost", outcome.errors()[0])


if __name__ == "__main__":
    sys.exit(run_or_skip())
