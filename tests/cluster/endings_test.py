"""What the loss of the launcher's daemon means to a PE of its host that has done its part (tools/cluster): nothing. Exit code 77: no
cluster can be made here."""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["SFT_SOURCE_DIR"], "tools", "cluster"))

from cluster import Cluster
from cluster_job import ClusterJob
from traces import eventually, run_or_skip

TIMEOUT_S = 60
COMMAND = [os.environ["OSHRUN"], "-n", "2"]
LINGERS = os.environ["LINGERS"]
# A process hears from PMIx that its daemon is gone within this time, if it listens to that.
HEARD_S = 2.0


class Endings(unittest.TestCase):
    def run_job(self, do):
        with Cluster(hosts=2, slots=1) as cluster:
            job = ClusterJob(cluster, COMMAND, [LINGERS], {}, TIMEOUT_S)
            job.start()
            self.assertTrue(job.await_start(2))
            do(job)
            outcome = job.finish()
            self.assertFalse(outcome.hung, outcome.states)
            self.assertEqual(outcome.leftovers, [])
            return outcome

    def test_a_pe_that_has_done_its_part_ends_as_it_likes(self):
        def do(job):
            self.assertTrue(eventually(lambda: job.read_output().count("finalized") == 2, TIMEOUT_S))
            self.assertTrue(job.kill_daemon(1))
            self.assertFalse(eventually(lambda: not job.is_alive(1), HEARD_S), "the PE has ended with its daemon")
            for rank in (0, 1):
                job.quietly(job.process(rank), signal.SIGUSR1)

        outcome = self.run_job(do)
        self.assertEqual(outcome.exit_code, 0, outcome.stderr)


if __name__ == "__main__":
    sys.exit(run_or_skip())
