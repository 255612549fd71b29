"""oshrun and its agents: processes that act as if they were on several hosts (SHMEM_FT_PRETEND_NODES), so that the agents
run on this machine and need no privileges. The processes play what a test tells them (fake_pe)."""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

from job_process import FAKE_PE, GOOD, OSHRUN, JobProcess, eventually, name_of, parent_of, run

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TWO = {"SHMEM_FT_PRETEND_NODES": "2"}
THREE = {"SHMEM_FT_PRETEND_NODES": "3"}
READY = "*:hello,init,out=ready,hang"


def agents(job):
    return [pid for pid in job.alive() if name_of(pid) == "oshrun-agent"]


def agent_of(job, pid):
    """The agent that the process is connected to: the one with the socket that its environment names."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        name = re.search(rb"(?:^|\0)SHMEM_FT_JOB_SOCKET=(\S+?)\0", file.read()).group(1).decode()
    with open("/proc/net/unix", encoding="ascii") as file:
        inodes = {line.split()[6] for line in file if line.rstrip().endswith("@" + name)}
    for agent in agents(job):
        links = set()
        for fd in os.listdir(f"/proc/{agent}/fd"):
            try:
                links.add(os.readlink(f"/proc/{agent}/fd/{fd}"))
            except OSError:
                pass
        if any(f"socket:[{inode}]" in links for inode in inodes):
            return agent
    raise AssertionError(f"process {pid} is connected to no agent")  # 0 would be a signal to ourselves


def by_rank(job):
    """Pids of the job's programs."""
    found = {}
    for pid in job.alive():
        if name_of(pid) == os.path.basename(FAKE_PE)[:15]:
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    rank = re.search(rb"PMIX_RANK=(\d+)", file.read())
            except OSError:
                continue  # it has just ended
            if rank:
                found[int(rank.group(1))] = pid
    return found


class Outcomes(unittest.TestCase):
    def check(self, exit_code, line, *arguments, **options):
        result = run(*arguments, env=options.pop("env", THREE), **options)
        self.assertEqual(result.exit_code, exit_code, result.stderr)
        self.assertEqual(result.lines, [line] if line else [])
        return result

    def test_good(self):
        self.check(0, "", "-n", "5", "--spares", "1", FAKE_PE, GOOD)

    def test_exit_code(self):
        self.check(3, "oshrun: PE 1 exited with code 3 without calling shmem_finalize", "-n", "4", FAKE_PE, GOOD,
                   "1:hello,init,sleep=0.2,exit=3")

    def test_killed(self):
        self.check(139, "oshrun: PE 2 was killed by signal 11 (Segmentation fault)", "-n", "4", FAKE_PE, GOOD,
                   "2:hello,init,sleep=0.2,signal=11")

    def test_replaced(self):
        self.check(0, "", "-n", "2", "--spares", "1", FAKE_PE, GOOD, "1:hello,init,sleep=0.1,signal=9",
                   "2:hello,init,sleep=0.3,taken=1,finalize,exit=0")

    def test_global_exit(self):
        begin = time.monotonic()
        self.check(99, "oshrun: PE 1 called shmem_global_exit(99)", "-n", "4", FAKE_PE, "*:hello,init,hang",
                   "1:hello,init,global_exit=99,exit=99")
        self.assertLess(time.monotonic() - begin, 8)

    def test_stubborn_processes_are_killed(self):
        self.check(99, "oshrun: PE 1 called shmem_global_exit(99)", "-n", "4", FAKE_PE, "*:ignore=15,hello,init,hang",
                   "1:hello,init,global_exit=99,exit=99", "2:hello,init,stop")

    def test_background_process_of_a_pe(self):
        self.check(0, "", "-n", "2", FAKE_PE, GOOD, "1:hello,init,fork=1000,finalize,exit=0", env=TWO)

    def test_program_that_cannot_be_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "broken")
            with open(path, "wb") as file:
                file.write(b"\x7fELF\0\0\0")
            os.chmod(path, 0o755)
            result = run("-n", "2", path, env=TWO)
            self.assertEqual(result.exit_code, 126)
            self.assertIn("cannot be run: Exec format error", result.lines[0])

    def test_the_secret_is_not_in_the_programs_environment(self):
        result = run("-n", "2", FAKE_PE, "*:environment=OSHRUN_GUARDIAN,hello,init,finalize,exit=0", env=TWO)
        self.assertEqual(result.stdout.count(b"OSHRUN_GUARDIAN=(unset)"), 2, result.stdout)

    def test_no_agents_and_no_listening_without_other_hosts(self):
        with JobProcess("-n", "2", FAKE_PE, READY) as job:
            job.await_output(b"ready", 2)
            self.assertEqual(agents(job), [])
            inodes = {os.readlink(f"/proc/{job.guardian()}/fd/{fd}") for fd in os.listdir(f"/proc/{job.guardian()}/fd")}
            with open("/proc/net/tcp", encoding="ascii") as file:
                listening = [line for line in file if line.split()[3] == "0A" and f"socket:[{line.split()[9]}]" in inodes]
            self.assertEqual(listening, [])


class Losses(unittest.TestCase):
    def start(self, *arguments, ready=4, env=None, **options):
        job = JobProcess(*arguments, env={**TWO, **(env or {})}, **options)
        job.await_output(b"ready", ready)
        return job

    def test_an_agent_dies(self):
        # With the agent its host is lost: what runs there ends by itself.
        with self.start("-n", "4", FAKE_PE, READY) as job:
            os.kill(agent_of(job, by_rank(job)[1]), signal.SIGKILL)
            # The others go on: nobody has told that the job cannot.
            self.assertTrue(eventually(lambda: set(by_rank(job)) == {0, 2}))
            time.sleep(0.3)
            self.assertIsNone(job.process.poll())
            os.kill(job.process.pid, signal.SIGTERM)
            result = job.wait(15)
            self.assertEqual(result.exit_code, 128 + signal.SIGTERM)
            self.assertRegex(result.lines[0], "^oshrun: warning: host .* is lost, and with it PE 1, PE 3: ")
            self.assertEqual(job.leftovers(), [])

    def test_the_exit_code_after_a_loss_comes_from_who_is_left(self):
        for what_the_spare_does, exit_code, line in (("taken=1,", 0, None), ("", 1, "oshrun: PE 1 was lost with its host")):
            with self.start("-n", "2", "--spares", "1", FAKE_PE, "0:hello,init,out=ready,sleep=1.5,finalize,exit=0",
                            "1:hello,init,out=ready,hang",
                            f"2:hello,init,out=ready,sleep=1,{what_the_spare_does}sleep=0.5,finalize,exit=0",
                            ready=3, env=THREE) as job:
                os.kill(agent_of(job, by_rank(job)[1]), signal.SIGKILL)
                result = job.wait(20)
                self.assertEqual(result.exit_code, exit_code, result.stderr)
                self.assertRegex(result.lines[0], "^oshrun: warning: host .* is lost, and with it PE 1: ")
                self.assertEqual(result.lines[1:], [line] if line else [])
                self.assertEqual(job.leftovers(), [])

    def test_an_agent_falls_silent(self):
        with self.start("-n", "4", FAKE_PE, READY, env={"SHMEM_FT_NODE_TIMEOUT": "500"}) as job:
            agent = agent_of(job, by_rank(job)[1])
            os.kill(agent, signal.SIGSTOP)
            self.assertTrue(eventually(lambda: b"which is 3 times SHMEM_FT_NODE_TIMEOUT" in os.pread(
                job._stderr.fileno(), 10000, 0), 5))
            os.kill(agent, signal.SIGCONT)
            # It has been given up: it ends its processes and itself.
            self.assertTrue(eventually(lambda: set(by_rank(job)) == {0, 2} and not agents(job), 10))
            os.kill(job.process.pid, signal.SIGTERM)
            job.wait(15)
            self.assertEqual(job.leftovers(), [])

    def test_a_guardian_that_stood_still_has_missed_nobody(self):
        # When it woke up it found all hosts silent for longer than the bound and gave up every one of them.
        with self.start("-n", "4", FAKE_PE, "*:hello,init,out=ready,sleep=3,finalize,exit=0",
                        env={**THREE, "SHMEM_FT_NODE_TIMEOUT": "1000"}) as job:
            guardian = job.guardian()
            os.kill(guardian, signal.SIGSTOP)
            time.sleep(1.4)
            os.kill(guardian, signal.SIGCONT)
            result = job.wait()
            self.assertEqual((result.exit_code, result.lines), (0, []))
            self.assertEqual(job.leftovers(), [])

    def test_nothing_is_left_whoever_is_killed(self):
        for who in ("front", "guardian", "both", "launcher", "all"):
            # Whoever of oshrun lives ends what the processes have left behind, too.
            script = "*:ignore=15,hello,init,out=ready,fork=1000,hang"
            with self.subTest(who=who), self.start("-n", "4", FAKE_PE, script) as job:
                victims = {"front": [job.process.pid], "guardian": [job.guardian()], "launcher": [job.launcher()],
                           "both": [job.guardian(), job.process.pid],
                           "all": [job.launcher(), job.guardian(), job.process.pid]}[who]
                self.assertNotIn(0, victims)
                for pid in victims:
                    os.kill(pid, signal.SIGKILL)
                job.process.wait(20)
                self.assertEqual(job.leftovers(20), [])

    def test_the_former_holder_of_a_pe_is_killed(self):
        # It hangs: the others have agreed that it is dead, and replaced it.
        script = ("-n", "2", "--spares", "1", FAKE_PE, "0:hello,init,out=ready,sleep=1.5,finalize,exit=0",
                  "1:hello,init,out=ready,hang", "2:hello,init,out=ready,sleep=0.5,taken=1,sleep=0.5,finalize,exit=0")
        with self.start(*script, ready=3) as job:
            result = job.wait(15)
            self.assertEqual((result.exit_code, result.lines), (0, []))
            self.assertEqual(job.leftovers(), [])

    def test_whom_the_job_has_agreed_to_be_lost_is_ended(self):
        script = ("-n", "2", "--spares", "1", FAKE_PE, "0:hello,init,out=ready,sleep=0.3,agreed=2,sleep=2,finalize,exit=0",
                  "1:hello,init,out=ready,sleep=2,finalize,exit=0", "2:hello,init,out=ready,hang")
        with self.start(*script, ready=3, env=THREE) as job:
            self.assertTrue(eventually(lambda: set(by_rank(job)) == {0, 1}))
            self.assertIsNone(job.process.poll())
            result = job.wait()
            self.assertEqual((result.exit_code, result.lines), (0, []))
            self.assertEqual(job.leftovers(), [])

    def test_a_silent_host_is_lost_as_soon_as_the_job_has_agreed_on_it(self):
        script = ("-n", "2", "--spares", "1", FAKE_PE, "0:hello,init,out=ready,sleep=0.3,agreed=2,sleep=4,finalize,exit=0",
                  "1:hello,init,out=ready,sleep=4,finalize,exit=0", "2:hello,init,out=ready,hang")
        with self.start(*script, ready=3, env={**THREE, "SHMEM_FT_NODE_TIMEOUT": "1000"}) as job:
            agent = agent_of(job, by_rank(job)[2])
            os.kill(agent, signal.SIGSTOP)
            result = job.wait()
            self.assertEqual(result.exit_code, 0, result.stderr)
            self.assertRegex(result.lines[0], "is lost, and with it spare 0: the job has agreed on that")
            self.assertEqual(job.leftovers(15), [])

    def test_a_stopped_process_that_others_have_found_dead_is_killed_at_once(self):
        script = ("-n", "2", FAKE_PE, "0:hello,init,out=ready,sleep=0.3,seen=1,hang", "1:hello,init,out=ready,stop,hang")
        with self.start(*script, ready=2) as job:
            pid = by_rank(job)[1]
            self.assertTrue(eventually(lambda: parent_of(pid) == 0, 5))
        # Only one that really is stopped: the network may be the reason.
        script = ("-n", "2", FAKE_PE, "0:hello,init,out=ready,seen=1,sleep=0.1,out=said,hang", "1:hello,init,out=ready,hang")
        with self.start(*script, ready=2) as job:
            job.await_output(b"said")
            time.sleep(0.3)
            self.assertEqual(set(by_rank(job)), {0, 1})
        # And the hook for tests.
        script = ("-n", "2", FAKE_PE, "0:hello,init,out=ready,sleep=0.3,seen=1,sleep=0.1,out=said,hang",
                  "1:hello,init,out=ready,stop,hang")
        with self.start(*script, ready=2, env={"OSHRUN_WITHHOLD_KILL": "1"}) as job:
            job.await_output(b"said")
            time.sleep(0.3)
            self.assertEqual(set(by_rank(job)), {0, 1})

    def test_strangers_are_dropped_and_named_once(self):
        with self.start("-n", "2", FAKE_PE, READY, ready=2) as job:
            with open(f"/proc/{job.launcher()}/environ", "rb") as file:
                text = re.search(rb"(?:^|\0)OSHRUN_GUARDIAN=([^\0]+)", file.read()).group(1).decode()
            address, port = text.split(",")[:2]
            for said in (b"GET / HTTP/1.0\r\n\r\n" * 20, b"\0" * 400, b"\x4f\x46\x53\x41\x01\0\x02\0\xff\xff\xff\xff" + bytes(12)):
                with socket.create_connection((address, int(port)), timeout=5) as stranger:
                    stranger.sendall(said)
                    stranger.settimeout(5)
                    try:
                        self.assertEqual(stranger.recv(100), b"")
                    except ConnectionResetError:
                        pass
            # The right frame with a wrong secret.
            with open(os.path.join(SOURCE, "base", "job_channel.hpp"), encoding="utf-8") as file:
                layout = int(re.search(r"uint32_t layout = (\d+)", file.read()).group(1))
            hello = struct.pack("<IHHIIQ16sIiiIQiIQ256s", 0x4153464F, 1, 2, 312, 0, 0, b"\1" * 16, layout, 1, -1, 0, 0, -1, 0, 0,
                                b"stranger")
            with socket.create_connection((address, int(port)), timeout=5) as stranger:
                stranger.sendall(hello)
                stranger.settimeout(5)
                self.assertEqual(stranger.recv(100), b"")
            self.assertIsNone(job.process.poll())
            os.kill(job.process.pid, signal.SIGTERM)
            result = job.wait(15)
            self.assertEqual(len(result.lines), 2, result.stderr)
            self.assertRegex(result.lines[0], r"^oshrun: warning: a connection from 127\.0\.0\.1 has been dropped: ")


class OnDemand(unittest.TestCase):
    """Spares that are started because the job waits for one. The newcomer has the next rank."""

    WAIT = "0:hello,init,out=ready,sleep=0.3,wish=1,sleep=1.5,finalize,exit=0"

    def events(self, path, kind):
        with open(path, encoding="utf-8") as file:
            return [record for record in map(json.loads, file) if record["event"] == kind]

    def check(self, nodes, newcomer, way, *more):
        with tempfile.NamedTemporaryFile() as log:
            result = run("-n", str(newcomer), "--events", log.name, *more, FAKE_PE, GOOD, self.WAIT,
                         "1:hello,init,out=ready,sleep=0.2,signal=9",
                         *(f"{rank}:hello,init,out=ready,sleep=1.8,finalize,exit=0" for rank in range(2, newcomer)),
                         f"{newcomer}:out=hello_from_new,hello,init,taken=1,sleep=0.3,err=bye,finalize,exit=0",
                         env={"SHMEM_FT_PRETEND_NODES": str(nodes)})
            self.assertEqual(result.exit_code, 0, result.stderr)
            self.assertEqual(result.stdout.count(b"hello_from_new\n"), 1)
            self.assertIn("bye", result.lines)
            self.assertTrue(any(re.match(r"oshrun: warning: no spare was left for PE 1: one has been started on \S+ and has joined "
                                         r"after \d+ ms$", line) for line in result.lines), result.lines)
            joined = self.events(log.name, "spare_joined")
            self.assertEqual([(record["rank"], record["way"]) for record in joined], [(newcomer, way)])
            self.assertGreater(joined[0]["took_ns"], 0)
            self.assertLess(joined[0]["took_ns"], 5e9)

    def test_by_the_guardian(self):
        self.check(1, 2, "guardian")

    def test_by_an_agent(self):
        self.check(2, 5, "agent")  # rank 5 is on the second node, as is rank 3, which it learns from

    def test_several_are_started_at_once(self):
        # Each waits for the other one before it has joined.
        for nodes in (1, 2):
            takes = "hello,create={},await={},init,taken={},finalize,exit=0"
            with tempfile.TemporaryDirectory() as folder:
                result = run("-n", "4", "-x", f"RENDEZVOUS={folder}", FAKE_PE, "0:hello,init,await=dead1,await=dead2,sleep=0.3,"
                             "wish=1,wish=2,await=a,await=b,sleep=1,finalize,exit=0", "1:hello,init,create=dead1,sleep=0.1,signal=9",
                             "2:hello,init,create=dead2,sleep=0.1,signal=9", "3:hello,init,await=a,await=b,sleep=1,finalize,exit=0",
                             "4:" + takes.format("a", "b", 1), "5:" + takes.format("b", "a", 2),
                             env={"SHMEM_FT_PRETEND_NODES": str(nodes)})
            self.assertEqual(result.exit_code, 0, result.stderr)
            self.assertEqual(len([line for line in result.lines if "has been started on" in line]), 2, result.lines)

    def test_never(self):
        result = run("-n", "2", "--on-demand", "never", FAKE_PE, GOOD, self.WAIT, "1:hello,init,out=ready,sleep=0.2,signal=9",
                     "2:out=hello_from_new,hello,init,taken=1,finalize,exit=0", env=TWO)
        self.assertEqual((result.exit_code, result.lines), (137, ["oshrun: PE 1 was killed by signal 9 (Killed)"]))

    def test_the_limit(self):
        # Every newcomer is killed at once. (When two in a row say that they cannot join, there is no third.)
        for nodes in (1, 2):
            stays = "hello,init,sleep=2,finalize,exit=0"
            result = run("-n", "4", "--on-demand-limit", "3", FAKE_PE, "*:out=came,hello,signal=9", self.WAIT,
                         "1:hello,init,out=ready,sleep=0.2,signal=9", f"2:{stays}", f"3:{stays}", env={"SHMEM_FT_PRETEND_NODES": str(nodes)})
            self.assertEqual(result.exit_code, 137)
            self.assertEqual(result.stdout.count(b"came"), 3)
            self.assertEqual(result.lines.count("oshrun: warning: the job waits for a spare, but no more are started than 3 "
                                                "(--on-demand-limit)"), 1, result.lines)

    def test_always_lets_the_job_wait(self):
        for arguments, policy in (((), b"(unset)"), (("--on-demand", "always"), b"wait")):
            result = run("-n", "1", *arguments, FAKE_PE, "*:environment=SHMEM_FT_UNREPLACED,hello,init,finalize,exit=0")
            self.assertIn(b"SHMEM_FT_UNREPLACED=" + policy, result.stdout)

    def test_asked_for_by_a_user(self):
        with JobProcess("-n", "2", FAKE_PE, READY, "3:out=newcomer,hello,init,hang", env=TWO) as job:
            job.await_output(b"ready", 2)
            def ask(*arguments):
                return subprocess.run([OSHRUN, "--join", str(job.process.pid), *arguments], capture_output=True, text=True,
                                      timeout=20)
            self.assertEqual(ask("-n", "2").returncode, 0)
            job.await_output(b"newcomer")
            self.assertTrue(eventually(lambda: set(by_rank(job)) == {0, 1, 2, 3}))
            self.assertIn("no process of the job lives on host nowhere", ask("--host", "nowhere").stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
