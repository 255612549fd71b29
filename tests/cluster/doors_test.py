"""Who reaches the ports of a job on two hosts: each other, and nobody else (tools/cluster). Of the three ports that a PE listens
at in the job's network, two belong to UCX (one for each of its workers), which does what it is told by whoever is connected;
so a third host gets no connection there. Exit code 77: no cluster can be made here."""

import glob
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["SFT_SOURCE_DIR"], "tools", "cluster"))

from cluster import Cluster
from traces import eventually, run_or_skip

OSHRUN = os.environ["OSHRUN"]
JACOBI1D = os.environ["JACOBI1D"]
TIMEOUT_S = 60
LISTEN = "0A"  # in /proc/net/tcp
N_PORTS = 3

CONNECT = """
import socket, sys
for port in sys.argv[2:]:
    try:
        socket.create_connection((sys.argv[1], int(port)), timeout=0.4).close()
        print(port)
    except (TimeoutError, ConnectionRefusedError):
        pass
"""


def ports_of(pid):
    """Where the process listens."""
    inodes = set()
    for link in glob.glob(f"/proc/{pid}/fd/*"):
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link))
        except OSError:
            continue
        if found:
            inodes.add(found[1])
    with open(f"/proc/{pid}/net/tcp", encoding="utf-8") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return sorted(int(row[1].split(":")[1], 16) for row in rows if row[3] == LISTEN and row[9] in inodes)


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


class Doors(unittest.TestCase):
    def let_in(self, cluster, host, ports):
        """Which of host 1's ports give a connection to `host`."""
        result = cluster.run([sys.executable, "-c", CONNECT, cluster.addresses[1], *map(str, ports)], host, timeout_s=TIMEOUT_S)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [int(line) for line in result.stdout.split()]

    def run_job(self, look, **environment):
        """Calls look(cluster, ports of the PE on host 1) when the PEs have met."""
        with Cluster(hosts=3, slots=1) as cluster:
            job = cluster.start([OSHRUN, "-n", "2", JACOBI1D, "--cells", "2000", "--steps", "2000", "--pace", "500"],
                                environment={"SHMEM_TRANSPORT": "ucx", **environment})
            with job:
                def pe():
                    return [pid for pid in cluster.pids(1) if name_of(pid) == os.path.basename(JACOBI1D)]

                self.assertTrue(eventually(lambda: pe() and len(ports_of(pe()[0])) == N_PORTS, TIMEOUT_S))
                ports = ports_of(pe()[0])
                # Until then, the job's other host is not let in either.
                self.assertTrue(eventually(lambda: self.let_in(cluster, 0, ports) == ports, TIMEOUT_S))
                look(cluster, ports)
                self.assertIsNone(job.poll(), "none of this has disturbed the job")

    def test_ucx_is_reached_from_the_hosts_of_the_job_only(self):
        def look(cluster, ports):
            mail = self.let_in(cluster, 2, ports)
            self.assertEqual(len(mail), 1, "of the control messages' port and those of UCX")
            self.assertEqual(self.let_in(cluster, 1, ports), mail, "who is on the PE's own host is no partner of UCX's")

        self.run_job(look)

    def test_the_guard_can_be_sent_away(self):
        self.run_job(lambda cluster, ports: self.assertEqual(self.let_in(cluster, 2, ports), ports), SHMEM_FT_GUARD_PORTS="0")


if __name__ == "__main__":
    sys.exit(run_or_skip())
