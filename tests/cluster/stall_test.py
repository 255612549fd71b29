"""Data that does not get through between hosts that show signs of life (tools/cluster): packets above some size are lost. A line
says so, one host leaves the job, and the others go on with the right result; a slow link that loses much is left alone. Exit
code 77: no cluster can be made here."""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["SFT_SOURCE_DIR"], "tools", "cluster"))

from cluster import Cluster
from cluster_job import ClusterJob
from traces import run_or_skip

TIMEOUT_S = 150
OSHRUN = os.environ["OSHRUN"]
PROGRAM = [os.environ["JACOBI1D"], "--cells", "60000", "--steps", "800", "--halo", "16", "--pace", "5"]
BOUND = {"SHMEM_FT_STALL_TIMEOUT": "10000"}
LINE = re.compile(r"warning: data from (node\d) to (node\d) does not get through, though signs of life do: packets of full size")


class Stalls(unittest.TestCase):
    def run_job(self, transport, do=None, spares=2, environment=None, program=None):
        """4 PEs on node0 and node1, spares on node2; do(cluster) after the first checkpoint."""
        with Cluster(hosts=3, slots=2) as cluster:
            job = ClusterJob(cluster, [OSHRUN, "-n", "4", "--spares", str(spares)], program or PROGRAM,
                             {"SHMEM_TRANSPORT": transport, **BOUND, **(environment or {})}, TIMEOUT_S)
            job.start()
            self.assertTrue(job.await_start(4 + spares))
            self.assertIsNotNone(job.wait_for(lambda event: event.is_commit()))
            if do is not None:
                do(cluster)
            outcome = job.finish()
            self.assertFalse(outcome.hung, f"{outcome.stderr} {outcome.states}")
            self.assertEqual(outcome.leftovers, [])
            return outcome

    def check_that_node1_leaves(self, outcome):
        """It is the heavier side's word against that of the side with the lowest host."""
        self.assertEqual(outcome.exit_code, 0, outcome.stderr)
        self.assertTrue({frozenset(pair) for pair in LINE.findall(outcome.stderr)} == {frozenset(("node0", "node1"))},
                        outcome.stderr)
        self.assertEqual(set(re.findall(r"(node\d) leaves the job", outcome.stderr)), {"node1"}, outcome.stderr)

    def test_large_packets_are_lost(self):
        for transport in os.environ["FABRICS"].split():
            with self.subTest(transport=transport):
                right = self.run_job(transport)
                self.assertEqual((right.exit_code, right.errors()), (0, []))
                outcome = self.run_job(transport, lambda cluster: cluster.mtu(1, 1000))
                self.check_that_node1_leaves(outcome)
                self.assertEqual(outcome.results(), right.results())

    def test_nobody_is_left_to_take_over(self):
        outcome = self.run_job("auto", lambda cluster: cluster.mtu(1, 1000), spares=0)
        self.assertNotEqual(outcome.exit_code, 0)
        self.assertTrue(LINE.search(outcome.stderr), outcome.stderr)
        self.assertTrue(outcome.errors(), outcome.stderr)

    def test_a_link_that_is_slow_and_loses_much_is_left_alone(self):
        def spoil(cluster):
            for host in range(3):
                cluster.rate(host, 10)
                cluster.loss(host, 5)
                cluster.delay(host, 50)

        # Signs of life get lost, too: who waits longer for them loses no host.
        program = [*PROGRAM[:-4], "--halo", "16", "--pace", "5"]
        program[program.index("--steps") + 1] = "120"
        outcome = self.run_job("auto", spoil, environment={"SHMEM_FT_NODE_TIMEOUT": "30000"}, program=program)
        self.assertEqual(outcome.exit_code, 0, outcome.stderr)
        self.assertNotIn("does not get through", outcome.stderr)
        self.assertNotIn("leaves the job", outcome.stderr)


if __name__ == "__main__":
    sys.exit(run_or_skip())
