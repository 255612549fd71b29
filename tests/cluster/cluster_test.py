"""Clusters in one machine (tools/cluster): hosts, links, deaths, several at once. Exit code 77: none can be made
here."""

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.environ["SFT_SOURCE_DIR"], "tools", "cluster"))

import cluster_cli
from cluster import Cluster, ClusterError
from traces import eventually, run_or_skip

TIMEOUT_S = 30
PROBE = os.environ["PMIX_PROBE"]

RECEIVER = """
import socket, sys, time
listener = socket.create_server(("", 5000))
print("ready", flush=True)
stream = listener.accept()[0]
count, begin = len(stream.recv(1)), time.monotonic()
while data := stream.recv(1 << 20):
    count += len(data)
print(count * 8e-6 / (time.monotonic() - begin))
"""
SENDER = """
import socket, sys, time
stream = socket.create_connection((sys.argv[1], 5000), timeout=20)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    stream.sendall(bytes(65536))
"""
# Each end sends some, for a second, and says whether one has come.
DATAGRAMS = """
import socket, sys
s = socket.socket(type=socket.SOCK_DGRAM)
s.bind(("", 5002))
s.settimeout(0.05)
is_heard = False
for _ in range(20):
    s.sendto(b"x", (sys.argv[1], 5002))
    try:
        s.recv(9)
        is_heard = True
    except OSError:  # nothing yet, or the other end is not there yet
        pass
print(is_heard)
"""
ECHO = """
import socket
stream = socket.create_server(("", 5001)).accept()[0]
while data := stream.recv(1000):
    stream.sendall(data)
"""

PATIENT_RECEIVER = """
import contextlib, socket
server = socket.create_server(("", 5002))
print("ready", flush=True)
stream = server.accept()[0]
stream.settimeout(1)
count = 0
with contextlib.suppress(TimeoutError):
    while data := stream.recv(65536):
        count += len(data)
print(count)
"""
ONE_PIECE = """
import socket, sys, time
stream = socket.create_connection((sys.argv[1], 5002))
stream.sendall(b"x" * int(sys.argv[2]))
time.sleep(1000)
"""


def round_trip_ms(cluster, source, target, count=5):
    """The shortest of some round trips; None if nothing comes back."""
    done = cluster.run(
        ["ping", "-n", "-q", "-c", count, "-i", "0.02", "-W", "1", f"node{target}"], host=source, timeout_s=TIMEOUT_S
    )
    return float(done.stdout.rsplit("= ", 1)[1].split("/")[0]) if done.returncode == 0 else None


def gets_through(cluster, source, target):
    """Whether one of three packets does: on a busy machine a single one may be late."""
    command = ["ping", "-n", "-c", "1", "-W", "0.3", f"node{target}"]
    return any(cluster.run(command, host=source, timeout_s=TIMEOUT_S).returncode == 0 for _ in range(3))


def becomes(measure, low, high):
    """Whether a time or a rate is once what it should be: a busy machine spoils single measurements, but not all."""
    seen = []
    while len(seen) < 8:
        seen.append(measure())
        if seen[-1] is not None and low <= seen[-1] < high:
            return True
    print(f"never from {low} to {high}: {seen}", file=sys.stderr)
    return False


def stream_mbit(cluster, source, target, seconds):
    """What a TCP stream brings, measured where it arrives."""
    with tempfile.TemporaryFile("w+") as output:
        with cluster.start([sys.executable, "-c", RECEIVER], host=target, stdout=output) as receiver:
            assert eventually(lambda: os.pread(output.fileno(), 10, 0))
            sent = cluster.run(
                [sys.executable, "-c", SENDER, f"node{target}", seconds], host=source, timeout_s=TIMEOUT_S
            )
            assert sent.returncode == 0, sent
            assert receiver.wait(TIMEOUT_S) == 0
        output.seek(0)
        return float(output.read().split()[-1])


class HostsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(hosts=4, slots=2)
        cls.addClassCleanup(cls.cluster.close)

    def shell(self, text, host=0):
        return self.cluster.run(["sh", "-c", text], host=host, timeout_s=TIMEOUT_S)

    def test_every_host_has_its_own_name_and_reaches_all_others_by_name(self):
        for host in range(4):
            done = self.shell(
                "hostname; for i in 0 1 2 3; do ping -n -c 1 -W 2 node$i >/dev/null && echo $i; done", host
            )
            self.assertEqual(done.stdout.split(), [f"node{host}", "0", "1", "2", "3"], done)

    def test_a_host_sees_its_own_processes_files_and_devices_only(self):
        self.shell("echo secret >/dev/shm/a; echo secret >/run/tmp/a; echo secret >$TMPDIR/b", host=1)
        self.assertEqual(self.shell("cat /dev/shm/* /run/tmp/* $TMPDIR/*", host=2).stdout, "")
        self.assertEqual(self.shell("cat /dev/shm/* /run/tmp/*", host=1).stdout, "secret\n" * 3)
        self.assertEqual(self.shell("ls /sys/class/net").stdout.split(), ["eth0", "lo"])
        self.assertEqual(self.shell("ip route").stdout.split()[:3], ["10.213.0.0/24", "dev", "eth0"])
        self.assertNotEqual(self.shell("ping -n -c 1 -W 1 192.0.2.1").returncode, 0)
        with self.cluster.start(["sleep", "100"], host=3):
            for host, count in ((2, 0), (3, 1)):
                self.assertEqual(self.shell("cat /proc/[0-9]*/comm", host).stdout.split().count("sleep"), count)
            pids = self.cluster.pids(3)
            self.assertEqual(len(pids), 2)
            with open(f"/proc/{max(pids)}/comm", encoding="ascii") as file:
                self.assertEqual(file.read(), "sleep\n")

    def test_exit_codes_streams_environment_and_folder(self):
        self.assertEqual(self.shell("exit 42").returncode, 42)
        self.assertEqual(self.shell("kill -9 $$").returncode, 137)
        self.assertEqual(self.cluster.run(["no-such-program"], timeout_s=TIMEOUT_S).returncode, 127)
        self.assertEqual(self.cluster.run(["/dev/null"], timeout_s=TIMEOUT_S).returncode, 126)
        self.assertIn("no-such-folder", self.cluster.run(["true"], cwd="/no-such-folder", timeout_s=TIMEOUT_S).stderr)
        done = self.cluster.run(
            ["sh", "-c", "echo $X $CLUSTER_HOST $CLUSTER_HOST_LIST; pwd; echo error >&2"],
            host=1,
            cwd="/usr",
            environment={"X": "given"},
            timeout_s=TIMEOUT_S,
        )
        self.assertEqual(done.stdout, "given node1 node0:2,node1:2,node2:2,node3:2\n/usr\n")
        self.assertEqual(done.stderr, "error\n")

    def test_a_program_ends_with_whom_it_was_started_for(self):
        program = self.cluster.start(["sleep", "1000"], host=2)
        self.assertEqual(len(self.cluster.pids(2)), 2)
        program.close()
        self.assertTrue(eventually(lambda: len(self.cluster.pids(2)) == 1))
        with self.cluster.start(["sleep", "1000"], host=2) as program:
            program.signal(signal.SIGINT)
            self.assertEqual(program.wait(TIMEOUT_S), 128 + signal.SIGINT)
        with self.assertRaisesRegex(ClusterError, "still runs after"):
            self.cluster.run(["sleep", "1000"], timeout_s=0.1)

    def test_the_agent_starts_commands_like_ssh_and_never_fails(self):
        done = self.shell(
            "$CLUSTER_AGENT node3 'hostname;' echo '\"$X$CLUSTER_HOST\"'; echo $?; "
            "$CLUSTER_AGENT node3 false; echo $?; "
            "$CLUSTER_AGENT node7 true; echo $?; X=1 $CLUSTER_AGENT node3 'echo $X'"
        )
        self.assertEqual(done.stdout, "node3\nnode3\n0\n0\n0\n\n", done)
        self.assertIn("there is no host 'node7'", done.stderr)

    def test_bad_requests_are_refused_with_a_reason(self):
        for call, reason in (
            (lambda: self.cluster.cut("node9"), "no host 'node9'"),
            (lambda: self.cluster.delay(0, -1), "a delay"),
            (lambda: self.cluster.cut(0, "off"), "'drop' or 'down'"),
            (lambda: Cluster(hosts=0), "1 to 200"),
        ):
            with self.assertRaisesRegex(ClusterError, reason):
                call()

    def test_mpirun_starts_a_pmix_program_on_all_hosts(self):
        done = self.cluster.run(["mpirun", "-n", "8", "--map-by", "node", PROBE], timeout_s=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done)
        lines = done.stdout.splitlines()
        for rank in range(8):
            self.assertIn(f"{rank} node{rank % 4} proc {rank} pmix.hname = 'node{rank % 4}'", lines)
            self.assertIn(f"{rank} node{rank % 4} job -2 pmix.lpeers = '{rank % 4},{rank % 4 + 4}'", lines)
        self.assertEqual(done.stdout.count("first: 8 of 8 values right"), 8, done.stdout)


class LinksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(hosts=3)
        cls.addClassCleanup(cls.cluster.close)

    def tearDown(self):
        for host in range(3):
            self.cluster.heal(host)
            self.cluster.delay(host, 0)
            self.cluster.loss(host, 0)
            self.cluster.mtu(host, 0)
            self.cluster.rate(host, 0)
        for source, target in ((0, 1), (1, 2), (2, 0)):
            self.assertTrue(gets_through(self.cluster, source, target))

    def test_a_cut_link_lets_nothing_through_until_it_is_healed(self):
        for how in ("drop", "down"):
            for delay_ms in (0, 1):
                self.cluster.delay(1, delay_ms)
                self.cluster.cut(1, how)
                self.assertFalse(gets_through(self.cluster, 0, 1), how)
                self.assertFalse(gets_through(self.cluster, 1, 2), how)
                self.assertTrue(gets_through(self.cluster, 0, 2), how)
                carrier = self.cluster.run(
                    ["cat", "/sys/class/net/eth0/operstate"], host=1, timeout_s=TIMEOUT_S
                ).stdout.strip()
                self.assertEqual(carrier == "up", how == "drop", carrier)
                self.cluster.heal(1)
                self.assertTrue(gets_through(self.cluster, 0, 1), how)

    def test_a_link_stays_cut_when_its_delay_changes(self):
        self.cluster.cut(1)
        for delay_ms in (2, 0):
            self.cluster.delay(1, delay_ms)
            self.assertFalse(gets_through(self.cluster, 0, 1))
        self.cluster.heal(1)
        self.assertTrue(gets_through(self.cluster, 0, 1))

    def test_two_hosts_are_cut_off_from_each_other_only(self):
        self.cluster.cut_between(0, 1)
        self.assertFalse(gets_through(self.cluster, 0, 1))
        self.assertTrue(gets_through(self.cluster, 0, 2) and gets_through(self.cluster, 2, 1))
        self.cluster.heal_between(0, 1)
        self.assertTrue(gets_through(self.cluster, 1, 0))

    def test_a_way_is_cut_in_one_direction(self):
        self.cluster.cut_between("node0", "node1", is_one_way=True)
        programs, outputs = [], []
        for host in (0, 1):
            outputs.append(tempfile.TemporaryFile("w+"))
            command = [sys.executable, "-c", DATAGRAMS, f"node{1 - host}"]
            programs.append(self.cluster.start(command, host=host, stdout=outputs[host]))
        texts = []
        for program, output in zip(programs, outputs):
            with program, output:
                self.assertEqual(program.wait(TIMEOUT_S), 0)
                output.seek(0)
                texts.append(output.read().strip())
        self.assertEqual(texts, ["True", "False"])

    def test_a_connection_outlives_a_short_cut(self):
        talk = """import socket, sys, time
s = socket.create_connection(("node1", 5001), timeout=10)
for word in (b"before", b"meanwhile"):
    s.sendall(word); print(s.recv(100), flush=True)
    time.sleep(0.2)"""
        with tempfile.TemporaryFile("w+") as output, self.cluster.start([sys.executable, "-c", ECHO], host=1) as echo:
            self.assertTrue(eventually(lambda: self.cluster.run(["ss", "-Hltn"], host=1, timeout_s=TIMEOUT_S).stdout))
            with self.cluster.start([sys.executable, "-c", talk], stdout=output) as talker:
                self.assertTrue(eventually(lambda: os.pread(output.fileno(), 100, 0)))
                self.cluster.cut(1)
                time.sleep(0.5)
                self.assertIsNone(talker.poll())
                self.assertEqual(os.pread(output.fileno(), 100, 0), b"b'before'\n")
                self.cluster.heal(1)
                self.assertEqual(talker.wait(TIMEOUT_S), 0)
            self.assertEqual(echo.wait(TIMEOUT_S), 0)

    def test_a_delay_is_what_was_asked_for(self):
        plain_ms = round_trip_ms(self.cluster, 0, 1)
        self.cluster.delay(1, 3)
        self.cluster.delay(1, 20)  # replaces the former one; no second process relays the same frames
        self.assertTrue(becomes(lambda: round_trip_ms(self.cluster, 0, 1), 20, 25))
        self.cluster.delay(0, 10)
        self.assertTrue(becomes(lambda: round_trip_ms(self.cluster, 0, 1), 30, 37))
        self.assertTrue(becomes(lambda: round_trip_ms(self.cluster, 2, 0), 10, 15))
        self.cluster.delay(0, 0)
        self.cluster.delay(1, 0)
        self.assertTrue(becomes(lambda: round_trip_ms(self.cluster, 0, 1), 0, max(1.0, 3 * plain_ms)))

    def test_a_rate_is_what_was_asked_for_in_both_directions(self):
        self.cluster.rate(1, 50)
        for source, target in ((0, 1), (1, 0)):
            # A bucket's content and a queue come at once, so short streams are a little faster.
            self.assertTrue(becomes(lambda: stream_mbit(self.cluster, source, target, 1), 35, 56), (source, target))
        self.assertTrue(becomes(lambda: stream_mbit(self.cluster, 0, 2, 0.3), 200, math.inf))

    def test_rate_and_delay_together(self):
        self.cluster.rate(1, 50)
        self.cluster.delay(1, 5)
        self.assertTrue(becomes(lambda: stream_mbit(self.cluster, 1, 0, 1), 35, 56))
        self.assertTrue(becomes(lambda: round_trip_ms(self.cluster, 0, 1), 5, 9))

    def test_a_delayed_link_carries_a_fast_stream(self):
        self.cluster.delay(0, 1)
        self.assertTrue(becomes(lambda: stream_mbit(self.cluster, 0, 1, 0.5), 200, math.inf))

    def test_a_share_of_the_packets_is_lost(self):
        self.cluster.loss(1, 30)
        done = self.cluster.run("ping -n -q -c 300 -i 0.002 -W 1 node1".split(), timeout_s=TIMEOUT_S)
        received = int(done.stdout.split(" received")[0].split()[-1])
        self.assertTrue(150 < received < 270, received)  # 210 are expected, with a deviation of 8
        self.cluster.loss(1, 100)
        self.assertFalse(gets_through(self.cluster, 0, 1))

    def bytes_that_arrive(self, source, target, n_bytes):
        """Of a stream, within a second."""
        with tempfile.TemporaryFile("w+") as output:
            with self.cluster.start([sys.executable, "-c", PATIENT_RECEIVER], host=target, stdout=output) as receiver:
                self.assertTrue(eventually(lambda: os.pread(output.fileno(), 10, 0)))
                with self.cluster.start([sys.executable, "-c", ONE_PIECE, f"node{target}", n_bytes], host=source):
                    self.assertEqual(receiver.wait(TIMEOUT_S), 0)
            output.seek(0)
            return int(output.read().split()[-1])

    def test_large_packets_are_lost(self):
        def passes(source, payload_bytes):
            words = f"ping -n -q -c 3 -i 0.05 -W 1 -M do -s {payload_bytes} node1".split()
            return self.cluster.run(words, host=source, timeout_s=TIMEOUT_S).returncode == 0

        headers_bytes = 28  # of the internet protocol and of ping
        self.cluster.mtu(1, 1000)
        self.assertTrue(passes(0, 1000 - headers_bytes))
        self.assertFalse(passes(0, 1001 - headers_bytes))
        # A stream is sent in pieces larger than a packet, which the card would cut.
        for source, target in ((0, 1), (1, 0)):
            self.assertEqual(self.bytes_that_arrive(source, target, 900), 900)
            self.assertEqual(self.bytes_that_arrive(source, target, 50 * 1448), 0)
        self.cluster.mtu(1, 0)
        self.assertTrue(passes(0, 1001 - headers_bytes))
        self.assertTrue(becomes(lambda: stream_mbit(self.cluster, 0, 1, 0.3), 200, math.inf))


class DeathsTest(unittest.TestCase):
    def survivors(self, is_silent):
        """A job of 4 hosts x 2 of which one dies: who lives exchanges values once more."""
        with Cluster(hosts=4, slots=2) as cluster, tempfile.TemporaryDirectory() as folder:
            go, log = os.path.join(folder, "go"), os.path.join(folder, "log")
            command = ["mpirun", "--enable-recovery", "-n", "8", "--map-by", "node", PROBE, "survivors", go]
            with open(log, "w+", encoding="utf-8") as output, cluster.start(command, stdout=output, stderr=output):

                def text():
                    with open(log, encoding="utf-8") as file:
                        return file.read()

                self.assertTrue(eventually(lambda: text().count("second: 8 of 8") == 8, TIMEOUT_S), text())
                doomed = cluster.pids(2)
                self.assertGreaterEqual(len(doomed), 4)  # the first process, the daemon, two of the job
                cluster.kill_host(2, is_silent=is_silent)
                self.assertEqual(cluster.pids(2), [])
                self.assertFalse(gets_through(cluster, 0, 2))
                with self.assertRaisesRegex(ClusterError, "node2 is dead"):
                    cluster.start(["true"], host=2)
                with open(go + "~", "w", encoding="ascii") as file:
                    file.write("0 1 3 4 5 7\n")
                os.rename(go + "~", go)
                self.assertTrue(eventually(lambda: text().count("third: 6 of 6 values right") == 6, 15), text())

    def test_the_others_live_on_when_a_host_loses_its_power(self):
        self.survivors(is_silent=True)

    def test_the_others_live_on_when_all_processes_of_a_host_are_killed(self):
        self.survivors(is_silent=False)

    def test_peers_of_a_silent_host_hear_nothing_and_of_the_other_one_the_end(self):
        listen = """import socket
stream = socket.create_connection(('node1', 5001))
print('up', flush=True)
stream.recv(9)"""
        for is_silent in (True, False):
            with Cluster(hosts=2) as cluster, tempfile.TemporaryFile("w+") as output, cluster.start(
                [sys.executable, "-c", ECHO], host=1
            ), tempfile.TemporaryFile() as errors:
                self.assertTrue(eventually(lambda: cluster.run(["ss", "-Hltn"], host=1, timeout_s=TIMEOUT_S).stdout))
                with cluster.start([sys.executable, "-c", listen], stdout=output, stderr=errors) as listener:
                    self.assertTrue(eventually(lambda: os.pread(output.fileno(), 100, 0)))
                    cluster.kill_host(1, is_silent=is_silent)
                    has_ended = eventually(lambda: listener.poll() is not None, 0.5 if is_silent else TIMEOUT_S)
                    self.assertEqual(has_ended, not is_silent)

    def test_what_was_started_from_a_host_goes_on_when_that_host_dies(self):
        # As on a real network, where only the network can tell; once, the hub told the command that its agent had died.
        with Cluster(hosts=3) as cluster:
            with cluster.start(["sh", "-c", "$CLUSTER_AGENT node1 exec sleep 1000"], host=0):
                self.assertTrue(eventually(lambda: len(cluster.pids(1)) == 2))
                cluster.kill_host(0)
                self.assertFalse(eventually(lambda: len(cluster.pids(1)) != 2, 0.3))


class SeveralTest(unittest.TestCase):
    def test_two_clusters_do_not_disturb_each_other(self):
        with Cluster(hosts=2, name=f"a{os.getpid()}") as first, Cluster(hosts=2, name=f"b{os.getpid()}") as second:
            self.assertTrue({first.name, second.name} <= set(Cluster.names()))
            with self.assertRaisesRegex(ClusterError, "there is a cluster"):
                Cluster(hosts=1, name=first.name)
            with second.start(["sleep", "100"], host=1) as program:
                first.cut(0)
                self.assertFalse(gets_through(first, 0, 1))
                self.assertTrue(gets_through(second, 0, 1))
                first.kill_host(1)
                first.close()
                self.assertIsNone(program.poll())
                self.assertTrue(gets_through(second, 0, 1))
            again = Cluster.named(second.name)
            self.assertEqual(again.hosts, ["node0", "node1"])
            again.kill_host(1)
            self.assertEqual([host["is_alive"] for host in second.describe()["hosts"]], [True, False])


class CommandLineTest(unittest.TestCase):
    script = os.path.join(os.environ["SFT_SOURCE_DIR"], "script", "cluster")

    def cluster(self, *words):
        return subprocess.run([self.script, *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    def test_wrong_words_are_refused(self):
        for words in (
            ["fly"],
            ["run", "--hosts", "many"],
            ["run", "--name", "node1", "true"],
            ["delay", "node1", "slow"],
            ["exec", "node1"],
            ["cut"],
            ["list", "all"],
            [],
        ):
            self.assertEqual(self.cluster(*words).returncode, 2, words)
        self.assertEqual(self.cluster("cut", "no-such-cluster", "node1").returncode, 125)
        self.assertIn("SYNOPSIS", self.cluster("--help").stdout)

    def test_all_commands_work_from_inside_and_outside(self):
        name = f"t{os.getpid()}"
        inside = (
            f"{self.script} exec node1 -- sh -c 'hostname; exit 3'; echo $?; {self.script} list --json; read x; exit 7"
        )
        with subprocess.Popen(
            [self.script, "run", "--name", name, "--hosts", "3", "--slots=2", "--delay", "3", "--", "sh", "-c", inside],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as run:
            self.assertEqual(run.stdout.readline(), "node1\n")
            self.assertEqual(run.stdout.readline(), "3\n")
            own = json.loads(run.stdout.readline())
            self.assertEqual([own[0]["name"], own[0]["hosts"][2]["delay_ms"]], [name, 3.0])
            for words in (
                ["kill", name, "node2"],
                ["cut", name, "node1"],
                ["heal", name, "node1"],
                ["cut", name, "node0", "node1", "--one-way"],
                ["rate", name, "node0", "node1", "100"],
                ["loss", name, "node1", "1.5"],
                ["mtu", name, "node0", "1400"],
                ["delay", name, "node0", "0"],
            ):
                done = self.cluster(*words)
                self.assertEqual(done.returncode, 0, (words, done.stderr))
            self.assertEqual(
                self.cluster("list").stdout.split(f"{name}: ")[1].splitlines()[:4],
                [
                    "3 hosts, 2 slots each",
                    "  node0 10.213.0.1 rate_mbit 100, mtu 1400, cut off from node1",
                    "  node1 10.213.0.2 delay_ms 3, loss_percent 1.5, rate_mbit 100",
                    "  node2 10.213.0.3 dead",
                ],
            )
            self.assertEqual(self.cluster("exec", name, "node1", "--", "hostname").stdout, "node1\n")
            run.communicate("\n", timeout=TIMEOUT_S)
            self.assertEqual(run.returncode, 7)

    def test_who_is_not_root_is_told_so_with_77(self):
        child = os.fork()
        if child == 0:
            os.setgroups([])
            os.setuid(65534)
            os._exit(cluster_cli.main(["run", "true"]))
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 77)


if __name__ == "__main__":
    sys.exit(run_or_skip())
