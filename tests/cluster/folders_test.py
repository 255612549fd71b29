"""What another user of a host may have laid where the launcher's daemon makes its folder ($TMPDIR/ompi.HOST.UID): a link to a
folder, which was followed, or a file, at which the job hung. Exit code 77: no cluster can be made here."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["SFT_SOURCE_DIR"], "tools", "cluster"))

from cluster import Cluster
from cluster_job import ClusterJob
from traces import eventually, run_or_skip

TIMEOUT_S = 60
OSHRUN = os.environ["OSHRUN"]
PROGRAM = [os.environ["JACOBI1D"], "--cells", "6000", "--steps", "400", "--pace", "200"]
TRAP = f"/run/tmp/ompi.node1.{os.geteuid()}"


class Folders(unittest.TestCase):
    def shell(self, cluster, script):
        done = cluster.run(["sh", "-c", script], host=1, timeout_s=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def run_with(self, trap):
        """The job goes well, and its folder on host 1 is one that nobody else could have named, or enter."""
        with Cluster(hosts=2, slots=1) as cluster:
            self.shell(cluster, f"mkdir -p /run/tmp/victim && {trap}")
            before = self.shell(cluster, "ls -A /run/tmp")
            job = ClusterJob(cluster, [OSHRUN, "-n", "2"], PROGRAM, {}, TIMEOUT_S)
            job.start()
            if job.await_start(2):
                folders = self.shell(cluster, "stat -c '%a %n' /run/tmp/oshrun-*; ls -A /run/tmp/oshrun-*")
                self.assertRegex(folders, r"^700 /run/tmp/oshrun-\w{6}\nompi\.node1\.\d+\n$")
                self.assertEqual(self.shell(cluster, "ls -A /run/tmp/victim"), "")
            outcome = job.finish()
            self.assertFalse(outcome.hung, outcome.stderr)
            self.assertEqual((outcome.exit_code, outcome.errors(), outcome.leftovers), (0, [], []), outcome.stderr)
            self.assertTrue(eventually(lambda: self.shell(cluster, "ls -A /run/tmp") == before, TIMEOUT_S),
                            self.shell(cluster, "ls -A /run/tmp"))

    def test_a_link(self):
        self.run_with(f"ln -s /run/tmp/victim {TRAP}")

    def test_a_file(self):
        self.run_with(f"touch {TRAP}")


if __name__ == "__main__":
    sys.exit(run_or_skip())
