"""oshrun on several hosts (tools/cluster): placement, exit codes, streams, losses of hosts and links, nothing left. The
processes play what a test tells them (fake_pe). Exit code 77: no cluster can be made here."""

import contextlib
import hashlib
import json
import os
import re
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.environ["SFT_SOURCE_DIR"], "tools", "cluster"))

from cluster import Cluster
from traces import eventually, run_or_skip

TIMEOUT_S = 60
OSHRUN = os.environ["OSHRUN"]
FAKE_PE = os.environ["FAKE_PE"]
GOOD = "*:hello,init,sleep=0.1,finalize,exit=0"
HANG = "*:hello,init,out=ready,hang"
WHERE = ["sh", "-c", "echo at $PMIX_RANK $(hostname)"]


class Job:
    """One oshrun on node0, with its output in files."""

    def __init__(self, cluster, *arguments, environment=None, stdin=None):
        self.cluster = cluster
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.program = cluster.start([OSHRUN, *arguments], environment=environment, stdin=stdin, stdout=self.out,
                                     stderr=self.err)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.close()
        self.out.close()
        self.err.close()

    @staticmethod
    def _text(file):
        return os.pread(file.fileno(), 1 << 22, 0).decode()

    def stdout(self):
        return self._text(self.out)

    def lines(self):
        return self._text(self.err).splitlines()

    def await_ready(self, count):
        if not eventually(lambda: self.stdout().count("ready") >= count, TIMEOUT_S):
            raise AssertionError("\n".join([self.stdout(), *self.lines(), *self.states()]))

    def states(self):
        """Of the processes on all hosts: where each one waits, for whoever looks for the cause of a hang."""
        found = []
        for host in range(3):
            for pid in self.cluster.pids(host):
                try:
                    with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                        command = file.read().replace("\0", " ")[:100]
                    with open(f"/proc/{pid}/wchan", encoding="utf-8") as file:
                        found.append(f"node{host}: {command}: waits in {file.read()}")
                except OSError:
                    continue
        return found

    def wait(self):
        return self.program.wait(TIMEOUT_S)


class Base(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(hosts=3, slots=2)
        self.addCleanup(self.cluster.close)

    def start(self, *arguments, **options):
        return Job(self.cluster, *arguments, **options)

    def check(self, exit_code, line, *arguments, **options):
        with self.start(*arguments, **options) as job:
            self.assertEqual(job.wait(), exit_code, job.lines())
            self.assertEqual(job.lines(), [line] if line else [])
            self.check_nothing_left()
            return job.stdout()

    def left(self, hosts=(0, 1, 2)):
        """Names of processes that are still on hosts, apart from each host's first one."""
        names = []
        for host in hosts:
            for pid in self.cluster.pids(host):
                try:
                    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                        name, state = re.search(r"\((.*)\) (\S)", file.read()).groups()
                    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                        inner = re.search(r"NSpid:.*\t(\d+)", file.read()).group(1)
                except OSError:
                    continue
                if inner != "1" and state != "Z":
                    names.append(f"node{host}: {name}")
        return names

    def check_nothing_left(self, hosts=(0, 1, 2), timeout_s=20):
        eventually(lambda: not self.left(hosts), timeout_s)
        self.assertEqual(self.left(hosts), [])
        for host in hosts:
            found = self.cluster.run(["sh", "-c", "ls -d /run/tmp/oshrun* $TMPDIR/oshrun* 2>/dev/null"], host=host,
                                     timeout_s=TIMEOUT_S)
            self.assertEqual(found.stdout, "")

    def pids(self, host, name="fake_pe"):
        """As this test's namespace numbers them."""
        found = []
        for pid in self.cluster.pids(host):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    if file.read().strip() == name:
                        found.append(pid)
            except OSError:
                pass
        return found


class Running(Base):
    def test_exit_codes(self):
        self.check(0, "", "-n", "6", FAKE_PE, GOOD)
        self.check(5, "oshrun: PE 3 exited with code 5 without calling shmem_finalize", "-n", "6", FAKE_PE, GOOD,
                   "3:hello,init,sleep=0.2,exit=5")
        self.check(137, "oshrun: PE 4 was killed by signal 9 (Killed)", "-n", "6", FAKE_PE, GOOD,
                   "4:hello,init,sleep=0.2,signal=9")
        self.check(42, "oshrun: PE 5 called shmem_global_exit(42)", "-n", "6", FAKE_PE, "*:hello,init,hang",
                   "5:hello,init,sleep=0.2,global_exit=42,exit=42")
        self.check(0, "", "-n", "4", "--spares", "2", FAKE_PE, GOOD, "2:hello,init,sleep=0.1,signal=9",
                   "4:hello,init,sleep=0.4,taken=2,finalize,exit=0")

    def test_placement(self):
        def placed(*arguments):
            with self.start(*arguments, *WHERE) as job:
                job.wait()
                return [int(host) for _, host in sorted(re.findall(r"at (\d+) node(\d)", job.stdout()))]
        self.assertEqual(placed("-n", "5"), [0, 0, 1, 1, 2])
        self.assertEqual(placed("--map-by", "node", "-n", "5"), [0, 1, 2, 0, 1])
        self.assertEqual(placed("--host", "node2:2,node1", "-n", "3"), [2, 2, 1])
        self.assertEqual(placed("--spare-nodes", "1"), [0, 0, 1, 1, 2, 2])
        self.assertEqual(placed("-n", "2", "--spares", "2", "--spare-nodes", "1", "--map-by", "node"), [0, 1, 2, 2])
        # Other names of hosts, this one's and those of others: an address, capitals.
        self.assertEqual(placed("--host", f"{self.cluster.addresses[1]}:2,NODE2:2", "-n", "4"), [1, 1, 2, 2])
        self.assertEqual(placed("--host", f"{self.cluster.addresses[0]},Node1,{self.cluster.addresses[2]}", "-n", "3"), [0, 1, 2])
        self.assertEqual(placed("--host", f"NODE1,{self.cluster.addresses[1]}", "-n", "2"), [1, 1])  # one host, two slots
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("node1 slots=1\nnode2 slots=3 # big\n")
            file.flush()
            self.assertEqual(placed("--hostfile", file.name), [1, 2, 2, 2])

    def test_standard_input_of_a_pe_on_another_host(self):
        with tempfile.TemporaryFile() as text:
            content = b"".join(b"line %d\n" % i for i in range(100000))
            text.write(content)
            text.seek(0)
            with self.start("--host", "node1:2,node2:2", FAKE_PE, GOOD, "0:hello,init,read,finalize,exit=0",
                            stdin=text) as job:
                self.assertEqual(job.wait(), 0, job.lines())
                self.assertEqual(hashlib.md5(job.stdout().encode()).digest(), hashlib.md5(content).digest())
        read_end, write_end = os.pipe()
        with os.fdopen(write_end, "wb", buffering=0) as pipe:
            with self.start("--host", "node1:1", FAKE_PE, GOOD, "0:hello,init,out=ready,read,finalize,exit=0",
                            stdin=read_end) as job:
                os.close(read_end)
                job.await_ready(1)
                for word in (b"one\n", b"two\n"):
                    pipe.write(word)
                    time.sleep(0.1)
                pipe.close()
                self.assertEqual(job.wait(), 0, job.lines())
                self.assertEqual(job.stdout(), "ready\none\ntwo\n")

    def test_output_of_all_hosts(self):
        script = [f"{rank}:hello,init,out=out{rank},err=err{rank},finalize,exit=0" for rank in range(6)]
        with self.start("-n", "6", FAKE_PE, *script) as job:
            self.assertEqual(job.wait(), 0)
            self.assertEqual(sorted(job.stdout().split()), [f"out{rank}" for rank in range(6)])
            self.assertEqual(sorted(job.lines()), [f"err{rank}" for rank in range(6)])

    def test_nothing_is_left_whoever_is_killed(self):
        for who in ("told", "front", "guardian", "both", "launcher", "all"):
            # What the processes have left behind, whoever of oshrun lives ends it.
            with self.subTest(who=who), self.start("-n", "6", FAKE_PE, "*:ignore=15,hello,init,out=ready,fork=1000,hang") as job:
                job.await_ready(6)
                oshruns = sorted(self.pids(0, "oshrun"))
                launchers = self.pids(0, "mpirun.openmpi")
                self.assertEqual((len(oshruns), len(launchers)), (2, 1))
                for pid in {"told": [], "front": oshruns[:1], "guardian": oshruns[1:], "both": oshruns,
                            "launcher": launchers, "all": oshruns + launchers}[who]:
                    with contextlib.suppress(ProcessLookupError):  # it ends with the one before, and may have done so
                        os.kill(pid, signal.SIGKILL)
                if who == "told":
                    job.program.signal(signal.SIGTERM)
                self.assertNotEqual(job.wait(), 0)
                self.check_nothing_left()

    def test_a_process_that_hangs_elsewhere_is_killed_when_it_has_been_replaced(self):
        script = ("--host", "node0:2,node1:1", "-n", "3", "--spares", "1", FAKE_PE,
                  "*:hello,init,out=ready,sleep=2,finalize,exit=0", "2:hello,init,out=ready,stop",
                  "3:hello,init,out=ready,sleep=1,taken=2,sleep=0.5,finalize,exit=0")
        with self.start(*script) as job:
            self.assertEqual(job.wait(), 0, job.lines())
            self.assertEqual(job.lines(), [])
            self.check_nothing_left()

    def test_a_spare_on_demand_comes_from_a_host_that_lives(self):
        script = ("-n", "4", FAKE_PE, "*:hello,init,out=ready,sleep=6,finalize,exit=0",
                  "0:hello,init,out=ready,sleep=4,wish=2,wish=3,sleep=3,finalize,exit=0",
                  "4:environment=CLUSTER_HOST,hello,init,taken=2,sleep=1,finalize,exit=0",
                  "5:environment=CLUSTER_HOST,hello,init,taken=3,sleep=1,finalize,exit=0")
        # PEs 2 and 3 are on node1. On node2 there is no process of the job that a newcomer could learn from.
        with self.start("--map-by", "slot", *script, environment={"SHMEM_FT_NODE_TIMEOUT": "500"}) as job:
            job.await_ready(4)
            self.cluster.kill_host(1)
            self.assertEqual(job.wait(), 0, job.lines())
            self.assertEqual(job.stdout().count("CLUSTER_HOST=node0"), 2, job.stdout())
            told = [line for line in job.lines() if "one has been started on node0" in line]
            self.assertEqual(len(told), 2, job.lines())
            self.check_nothing_left((0, 2))

    def test_several_on_demand_are_started_at_once_on_several_hosts(self):
        # Each waits for the other one before it has joined.
        takes = "hello,environment=CLUSTER_HOST,create={},await={},init,taken={},sleep=1,finalize,exit=0"
        with tempfile.TemporaryDirectory() as folder:
            with self.start("-n", "6", "-x", f"RENDEZVOUS={folder}", FAKE_PE, "*:hello,init,out=ready,await=a,await=b,sleep=2,finalize,exit=0",
                            "0:hello,init,out=ready,await=lost,wish=4,wish=5,await=a,await=b,sleep=2,finalize,exit=0",
                            "6:" + takes.format("a", "b", 4), "7:" + takes.format("b", "a", 5), environment=BOUND) as job:
                job.await_ready(6)
                self.cluster.kill_host(2)
                self.assertTrue(eventually(lambda: any("host node2 is lost" in line for line in job.lines()), TIMEOUT_S))
                with open(os.path.join(folder, "lost"), "w", encoding="utf-8"):
                    pass
                self.assertEqual(job.wait(), 0, job.lines())
                for host in ("node0", "node1"):
                    self.assertEqual(job.stdout().count(f"CLUSTER_HOST={host}\n"), 1, job.stdout())
                self.check_nothing_left((0, 1))

    def test_a_spare_on_demand_is_started_by_an_agent(self):
        script = ("--host", "node0:1,node1:2,node2:2", "-n", "4", FAKE_PE,
                  "*:hello,init,out=ready,sleep=3,finalize,exit=0",
                  "1:hello,init,out=ready,sleep=0.5,signal=9",
                  "0:hello,init,out=ready,sleep=1,wish=1,sleep=2,finalize,exit=0",
                  "4:environment=PMIX_HOSTNAME,hello,init,taken=1,sleep=1,err=bye,finalize,exit=0")
        with self.start(*script) as job:
            self.assertEqual(job.wait(), 0, job.lines())
            self.assertIn("PMIX_HOSTNAME=node1\n", job.stdout())  # where PE 1 was
            self.assertIn("bye", job.lines())
            self.check_nothing_left()


# Nobody of these jobs judges hosts, so that the guardian does, when it has waited for such a judgement.
BOUND = {"SHMEM_FT_NODE_TIMEOUT": "500"}


class Losses(Base):
    def check_loss(self, lose, is_silent=True):
        """The host of the spares is lost: the job goes on and ends well."""
        with self.start("--spare-nodes", "1", "-n", "4", "--spares", "2", FAKE_PE,
                        "*:hello,init,out=ready,sleep=4,out=done,finalize,exit=0", environment=BOUND) as job:
            job.await_ready(6)
            lose()
            begin = time.monotonic()
            self.assertTrue(eventually(lambda: any("host node2 is lost" in line for line in job.lines()), TIMEOUT_S))
            if not is_silent:
                self.assertLess(time.monotonic() - begin, 1)
            self.assertEqual(job.wait(), 0, job.lines())
            self.assertEqual(len(job.lines()), 1, job.lines())
            self.assertIn("and with it spare 0, spare 1", job.lines()[0])
            self.assertEqual(job.stdout().count("done"), 4)
            self.check_nothing_left((0, 1))

    def test_a_host_without_power(self):
        self.check_loss(lambda: self.cluster.kill_host(2))

    def test_everything_on_a_host_is_killed(self):
        self.check_loss(lambda: self.cluster.kill_host(2, is_silent=False), is_silent=False)

    def test_the_end_comes_soon_after_the_last_pe(self):
        # The launcher waits for the daemon of the lost host whatever it is told, and had two seconds to obey.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "events")
            with self.start("--events", path, "--spare-nodes", "1", "-n", "4", "--spares", "2", FAKE_PE,
                            "*:hello,init,out=ready,sleep=4,finalize,exit=0", environment=BOUND) as job:
                job.await_ready(6)
                self.cluster.kill_host(2)
                self.assertEqual(job.wait(), 0, job.lines())
            with open(path, encoding="utf-8") as file:
                events = [json.loads(line) for line in file]
        last_ns = max(event["t_ns"] for event in events if event["event"] == "ended" and event["reason"] == "exited with code 0")
        (end_ns,) = [event["t_ns"] for event in events if event["event"] == "end"]
        self.assertLess((end_ns - last_ns) / 1e9, 2.5)

    def test_a_link_is_cut(self):
        self.check_loss(lambda: self.cluster.cut(2))
        # Whoever is cut off ends, though nobody can tell it to.
        self.check_nothing_left((2,))

    def test_a_link_is_cut_and_heals_too_late(self):
        with self.start("-n", "6", FAKE_PE, HANG, environment=BOUND) as job:
            job.await_ready(6)
            self.cluster.cut(2)
            self.assertTrue(eventually(lambda: any("host node2 is lost" in line for line in job.lines()), TIMEOUT_S))
            self.cluster.heal(2)
            self.assertTrue(eventually(lambda: not self.pids(2), 10))
            self.assertEqual((len(self.pids(0)), len(self.pids(1))), (2, 2))
            job.program.signal(signal.SIGTERM)
            self.assertEqual(job.wait(), 143)
            self.check_nothing_left()

    def test_a_short_cut_is_no_loss(self):
        with self.start("-n", "6", FAKE_PE, "*:hello,init,out=ready,sleep=3,finalize,exit=0") as job:
            job.await_ready(6)
            self.cluster.cut(2)
            time.sleep(0.6)
            self.cluster.heal(2)
            self.assertEqual(job.wait(), 0, job.lines())
            self.assertEqual(job.lines(), [])

    def check_goes_on_without_the_link(self, heals, output):
        """Only oshrun's link to node2 is cut: by node1 everything comes through all the same."""
        with self.start("--host", "node1:2,node2:2", "-n", "4", FAKE_PE, f"*:hello,init,out=ready,sleep=4,{output}finalize,exit=0",
                        "3:hello,init,out=ready,sleep=4,finalize,exit=0", environment=BOUND) as job:
            job.await_ready(4)
            self.cluster.cut_between(0, 2)
            if heals:
                time.sleep(3)
                self.cluster.heal_between(0, 2)
            self.assertEqual(job.wait(), 0, job.lines())
            lines, printed = job.lines(), job.stdout()
            self.check_nothing_left()
            return lines, printed

    def test_a_link_of_oshruns_own_is_cut_and_heals(self):
        # It was given up with all that ran there after 500 ms, and ended itself 1 s later.
        lines, printed = self.check_goes_on_without_the_link(True, "out=done,")
        self.assertEqual(printed.count("done"), 3)
        self.assertEqual([line for line in lines if "missing" not in line], [])

    def test_a_link_of_oshruns_own_is_cut_for_good(self):
        lines, _ = self.check_goes_on_without_the_link(False, "")
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("host node2 could not be reached directly in the end", lines[0])

    def test_the_exit_code_comes_the_other_way(self):
        with self.start("--host", "node1:2,node2:2", "-n", "4", FAKE_PE, "*:hello,init,out=ready,sleep=4,finalize,exit=0",
                        "2:hello,init,out=ready,sleep=3,exit=7", environment=BOUND) as job:
            job.await_ready(4)
            self.cluster.cut_between(0, 2)
            self.assertEqual(job.wait(), 7, job.lines())
            self.assertIn("oshrun: PE 2 exited with code 7 without calling shmem_finalize", job.lines())
            self.check_nothing_left()

    def test_a_guardian_that_stands_still_loses_nobody_and_is_waited_for(self):
        with self.start("-n", "6", FAKE_PE, "*:hello,init,out=ready,sleep=5,out=done,finalize,exit=0",
                        environment=BOUND) as job:
            job.await_ready(6)
            front, guardian = sorted(self.pids(0, "oshrun"))
            del front
            os.kill(guardian, signal.SIGSTOP)
            time.sleep(3.5)  # three bounds and the second by which hosts wait longer, and more
            os.kill(guardian, signal.SIGCONT)
            self.assertEqual(job.wait(), 0, job.lines())
            self.assertEqual((job.lines(), job.stdout().count("done")), ([], 6))
            self.check_nothing_left()

    def test_a_lost_pe_that_is_not_replaced(self):
        with self.start("-n", "4", "--host", "node0:2,node1:2", FAKE_PE,
                        "*:hello,init,out=ready,sleep=4,finalize,exit=0", environment=BOUND) as job:
            job.await_ready(4)
            self.cluster.kill_host(1)
            self.assertEqual(job.wait(), 1)
            self.assertEqual(job.lines()[-1], "oshrun: PE 2 was lost with its host")
            self.check_nothing_left((0, 2))

    def test_the_host_of_oshrun_is_lost(self):
        with self.start("-n", "6", FAKE_PE, "*:ignore=15,hello,init,out=ready,fork=1000,hang") as job:
            job.await_ready(6)
            self.cluster.kill_host(0)
            self.check_nothing_left((1, 2))

    def test_several_hosts_one_after_the_other(self):
        with self.start("-n", "2", "--spares", "4", FAKE_PE, "*:hello,init,out=ready,sleep=8,finalize,exit=0",
                        environment=BOUND) as job:
            job.await_ready(6)
            self.cluster.kill_host(2)
            time.sleep(1)
            self.cluster.kill_host(1)
            self.assertEqual(job.wait(), 0, job.lines())
            self.assertEqual(len(job.lines()), 2, job.lines())
            self.check_nothing_left((0,))


if __name__ == "__main__":
    sys.exit(run_or_skip())
