"""Starts that cannot succeed, on several hosts (tools/cluster): one line that names the host and what is wrong, a non-zero exit
code within the bound, and nothing left. Exit code 77: no cluster can be made here."""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["SFT_SOURCE_DIR"], "tools", "cluster"))

from cluster import Cluster, ClusterError
from cluster_job import ClusterJob
from traces import run_or_skip

TIMEOUT_S = 90
OSHRUN = os.environ["OSHRUN"]
PROGRAM = [os.environ["JACOBI1D"], "--cells", "6000", "--steps", "10"]
LIBRARY = os.environ["LIBRARY_PATH_UNDER_TEST"]
BOUND_MS = 6000
LATE = rf"within {BOUND_MS} ms \(SHMEM_FT_START_TIMEOUT\)"


def mount(cluster, host, *words):
    done = cluster.run(["mount", *words], host=host, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr


def hide(cluster, path, host):
    """The folder in which `path` is is empty on that host."""
    mount(cluster, host, "-t", "tmpfs", "none", os.path.dirname(path))


class Starts(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(hosts=3, slots=1)
        self.addCleanup(self.cluster.close)

    def check(self, line, bound_ms=BOUND_MS, **environment):
        """The job ends with this line, last; all lines are returned."""
        job = ClusterJob(self.cluster, [OSHRUN, "-n", "3"], PROGRAM,
                         {"SHMEM_FT_START_TIMEOUT": str(bound_ms), **environment}, TIMEOUT_S)
        job.start()
        outcome = job.finish()
        self.assertFalse(outcome.hung, f"{outcome.stderr} {outcome.states}")
        self.assertNotEqual(outcome.exit_code, 0)
        self.assertEqual(outcome.leftovers, [])
        self.assertRegex(outcome.errors()[-1], f"^oshrun: {line}$")
        return outcome

    def test_oshrun_is_missing_on_a_host(self):
        hide(self.cluster, OSHRUN, 1)
        # Then the launcher has no daemon there, and brings up nobody. Why is what the remote shell says.
        outcome = self.check(
            rf"PE 0 on node0, PE 1 on node1, PE 2 on node2 have not been started {LATE}: is every host up, can mpirun start "
            "programs there, are oshrun and the current folder there under the same paths, and can it connect to this host\\?")
        self.assertRegex(outcome.stderr, "oshrun: .*not found")

    def test_a_host_is_down(self):
        self.cluster.kill_host(2)
        # The launcher brings up nobody before all of its daemons are there.
        self.check(rf"PE 0 on node0, PE 1 on node1, PE 2 on node2 have not been started {LATE}: .*")

    def test_the_program_is_missing_on_a_host(self):
        hide(self.cluster, PROGRAM[0], 1)
        self.check(rf"{PROGRAM[0]}: cannot be run on node1: No such file or directory")

    def test_the_library_is_missing_on_a_host(self):
        mount(self.cluster, 1, "--bind", "/dev/null", LIBRARY)
        self.check(r"PE 1 on node1 exited with code 127 (before|without) .*")

    def test_the_loopback_interface(self):
        outcome = self.check("SHMEM_FT_INTERFACE=lo: the loopback interface leads to no other host, and the job is on "
                             "several: name one that does", bound_ms=600_000, SHMEM_FT_INTERFACE="lo")
        self.assertEqual(len(outcome.errors()), 1)

    def test_hosts_that_cannot_reach_each_other(self):
        # Both reach node0, where the launcher is, so they learn of each other, and then nothing gets through.
        self.cluster.cut_between(1, 2)
        self.check(r"PE ([12]) on node\1: node\1 cannot reach node[12] by interface eth0 \(10\.213\.0\.[23] port \d+: no "
                   r"answer\): is there a firewall between them, or does SHMEM_FT_INTERFACE name another network\?",
                   bound_ms=600_000)

    def test_a_process_that_stands_still(self):
        for point in ("init_begin", "init_connected"):
            with self.subTest(point=point):
                self.check(rf"PE 2 on node2 stands still in shmem_init for {BOUND_MS} ms \(SHMEM_FT_START_TIMEOUT\): "
                           "stopped, or its host does not run", SHMEM_FT_FAULTS=f"stop process 2 at {point}")

    def test_a_process_that_dies(self):
        for point in ("init_begin", "init_connected"):
            with self.subTest(point=point):
                self.check(r"PE 2 on node2 was killed by signal 9 \(Killed\) before shmem_init was complete on all PEs",
                           bound_ms=600_000, SHMEM_FT_FAULTS=f"kill process 2 at {point}")

    def test_without_oshrun(self):
        # The launcher waits for the process that is stopped; the others have said why they end.
        words = ["mpirun", "--allow-run-as-root", "--enable-recovery", "--map-by", "node", "-n", "3"]
        for name in ("SHMEM_FT_START_TIMEOUT", "SHMEM_FT_FAULTS"):
            words += ["-x", name]
        environment = {"SHMEM_FT_START_TIMEOUT": "3000", "SHMEM_FT_FAULTS": "stop process 2 at init_connected"}
        text = ""
        try:
            text = self.cluster.run([*words, *PROGRAM], timeout_s=15, environment=environment).stderr
        except ClusterError as error:
            text = str(error)
        found = re.findall(r"error: process (\d) on node(\d) has not come through shmem_init within 3000 ms "
                           r"\(SHMEM_FT_START_TIMEOUT\): it waits for the others", text)
        self.assertEqual(sorted(found), [("0", "0"), ("1", "1")], text)


if __name__ == "__main__":
    sys.exit(run_or_skip())
