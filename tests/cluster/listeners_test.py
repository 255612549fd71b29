"""Who reaches the ports of a job on two hosts: each other, and nobody else (tools/cluster). A PE listens at one port for control
messages and at those of the transport (UCX has one for each of its workers); a third host gets no connection at any. With
signatures, even the job's own hosts get none at the transport's unless they know the secret. Whatever listens, the launcher and its
daemons included, does so at the job's address or the loopback. Exit code 77: no cluster can be made here."""

import glob
import ipaddress
import os
import re
import struct
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["SFT_SOURCE_DIR"], "tools", "cluster"))

from cluster import Cluster
from traces import eventually, run_or_skip

OSHRUN = os.environ["OSHRUN"]
JACOBI1D = os.environ["JACOBI1D"]
TIMEOUT_S = 60
LISTEN = "0A"  # in /proc/net/tcp
FABRICS = os.environ["FABRICS"].split()
N_PORTS = {"ucx": 3, "ofi": 2}

CONNECT = """
import socket, sys
for port in sys.argv[2:]:
    try:
        socket.create_connection((sys.argv[1], int(port)), timeout=0.4).close()
        print(port)
    except (TimeoutError, ConnectionRefusedError):
        pass
"""


def listens_of(pid):
    """Where the process listens: (address in digits, port)."""
    inodes = set()
    for link in glob.glob(f"/proc/{pid}/fd/*"):
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link))
        except OSError:
            continue
        if found:
            inodes.add(found[1])
    found = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="utf-8") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        for row in rows:
            if row[3] == LISTEN and row[9] in inodes:
                digits, port = row[1].split(":")
                words = struct.unpack(f">{len(digits) // 8}I", bytes.fromhex(digits))  # each in this machine's order
                packed = struct.pack(f"={len(words)}I", *words)
                found.append((str(ipaddress.ip_address(packed)), int(port, 16)))
    return sorted(found)


def ports_of(pid):
    return sorted(port for _, port in listens_of(pid))


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


class Listeners(unittest.TestCase):
    def let_in(self, cluster, host, ports):
        """Which of host 1's ports give a connection to `host`."""
        result = cluster.run([sys.executable, "-c", CONNECT, cluster.addresses[1], *map(str, ports)], host, timeout_s=TIMEOUT_S)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [int(line) for line in result.stdout.split()]

    def run_job(self, transport, is_open, look, **environment):
        """Calls look(cluster, ports of the PE on host 1) when is_open(ports that let host 0 in, ports)."""
        with Cluster(hosts=3, slots=1) as cluster:
            job = cluster.start([OSHRUN, "-n", "2", JACOBI1D, "--cells", "2000", "--steps", "2000", "--pace", "500"],
                                environment={"SHMEM_TRANSPORT": transport, **environment})
            with job:
                def pe():
                    return [pid for pid in cluster.pids(1) if name_of(pid) == os.path.basename(JACOBI1D)]

                self.assertTrue(eventually(lambda: pe() and len(ports_of(pe()[0])) == N_PORTS[transport], TIMEOUT_S))
                ports = ports_of(pe()[0])
                # Until then, the job's other host is not let in either.
                self.assertTrue(eventually(lambda: is_open(self.let_in(cluster, 0, ports), ports), TIMEOUT_S))
                look(cluster, ports)
                self.assertIsNone(job.poll(), "none of this has disturbed the job")

    def test_ports_are_reached_from_the_hosts_of_the_job_only(self):
        def look(cluster, ports):
            self.assertTrue(eventually(lambda: self.let_in(cluster, 2, ports) == [], TIMEOUT_S))
            self.assertEqual(self.let_in(cluster, 1, ports), [], "who is on the PE's own host is no partner either")

        for transport in FABRICS:
            with self.subTest(transport=transport):
                self.run_job(transport, lambda let_in, ports: let_in == ports, look)

    def test_signatures_keep_the_hosts_of_the_job_out_as_well(self):
        def look(cluster, ports):
            self.assertTrue(eventually(lambda: self.let_in(cluster, 2, ports) == [], TIMEOUT_S))
            self.assertEqual(self.let_in(cluster, 0, ports), [], "who does not sign")

        for transport in FABRICS:
            with self.subTest(transport=transport):
                self.run_job(transport, lambda let_in, _: let_in == [], look, SHMEM_FT_GUARD_PORTS="sign")

    def test_the_guard_can_be_sent_away(self):
        self.run_job(FABRICS[0], lambda let_in, ports: let_in == ports,
                     lambda cluster, ports: self.assertEqual(self.let_in(cluster, 2, ports), ports), SHMEM_FT_GUARD_PORTS="0")

    def look_at_doors(self, hosts, options, names):
        """All listening sockets of a job are at its own addresses, and each of `names` (host, program) has some."""
        with Cluster(hosts=hosts, slots=2) as cluster:
            job = cluster.start([OSHRUN, "-n", "2", "--map-by", "node", *options, JACOBI1D, "--cells", "2000", "--steps", "2000",
                                 "--pace", "500"])
            with job:
                def doors():
                    found = {}
                    for host in range(hosts):
                        for pid in cluster.pids(host):
                            for address, _ in listens_of(pid) if os.path.exists(f"/proc/{pid}") else ():
                                found.setdefault((host, name_of(pid)), set()).add(address)
                    return found

                self.assertTrue(eventually(lambda: names <= set(doors()), TIMEOUT_S), doors())
                for (host, name), addresses in doors().items():
                    allowed = {"127.0.0.1", "::1"} | ({cluster.addresses[host]} if hosts > 1 else set())
                    self.assertLessEqual(addresses, allowed, (host, name))
                self.assertIsNone(job.poll())

    def test_launcher_and_daemons_listen_at_the_address_of_the_job_only(self):
        self.look_at_doors(2, [], {(0, "mpirun.openmpi"), (1, "orted"), (1, os.path.basename(JACOBI1D))})

    def test_with_a_launcher_on_one_host_nothing_listens_outside(self):
        self.look_at_doors(1, ["--host", "node0:2", "--launcher", "mpirun"], {(0, "mpirun.openmpi")})


if __name__ == "__main__":
    sys.exit(run_or_skip())
