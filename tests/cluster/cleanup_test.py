"""Nothing of a cluster is left, however it ends: processes, namespaces, devices, mounts, files. 77: none can be made
here."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

sys.path.insert(0, os.path.join(os.environ["SFT_SOURCE_DIR"], "tools", "cluster"))

from cluster import Cluster
from cluster_kernel import adopt_orphans
from traces import (
    TOKEN_NAME,
    children,
    eventually,
    living_children,
    names_on_machine,
    processes_with,
    run_or_skip,
)

TIMEOUT_S = 30
SCRIPT = os.path.join(os.environ["SFT_SOURCE_DIR"], "script", "cluster")
# A job on all hosts, whose daemons have left the processes that started them; a delayed link has a process of its own.
JOB = [
    "run",
    "--hosts",
    "3",
    "--delay",
    "0.1",
    "--",
    "sh",
    "-c",
    "trap 'echo asked' TERM INT; "
    "mpirun -n 3 --map-by node sh -c 'echo at work; touch $TMPDIR/a /dev/shm/a; sleep 1000' & wait; wait",
]


class Run:
    """A script/cluster that runs a job. What it starts carries a token in its environment, and becomes a child of this
    process when its parent ends."""

    def __init__(self, words=None, marker=b"at work", count=3):
        self.before = names_on_machine()
        self.others = children()
        self.token = uuid.uuid4().hex
        self.temp = tempfile.TemporaryDirectory(prefix="cleanup-test-")
        self.output = tempfile.TemporaryFile()
        environment = {**os.environ, TOKEN_NAME: self.token, "TMPDIR": self.temp.name}
        self.process = subprocess.Popen(
            [SCRIPT, *(words or JOB)],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        if not eventually(lambda: self.text().count(marker) == count, TIMEOUT_S):
            text = self.text()
            self.__exit__()
            raise AssertionError(f"the job has not started: {text}")

    def text(self):
        return os.pread(self.output.fileno(), 1 << 16, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in processes_with(self.token):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(TIMEOUT_S)
        self.output.close()
        self.temp.cleanup()

    def of(self, name):
        for pid in processes_with(self.token):
            with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                if file.read().strip() == name:
                    return pid
        raise AssertionError(f"there is no process {name}")

    def leftovers(self, timeout_s=5):
        """Waits until nothing is left; returns what still is."""

        def look():
            ended = self.process.poll() is not None
            processes = [f"process {pid}" for pid in living_children(self.others | {self.process.pid})]
            return ([] if ended else ["the script"]) + processes + sorted(names_on_machine() - self.before) + os.listdir(self.temp.name)

        left = []

        def is_clean():
            left[:] = look()
            return not left

        eventually(is_clean, timeout_s)
        return left


class CleanupTest(unittest.TestCase):
    def assert_gone(self, run, code=None):
        self.assertEqual(run.leftovers(), [])
        if code is not None:
            self.assertEqual(run.process.wait(TIMEOUT_S), code, run.text())

    def test_a_normal_end(self):
        with Run(["run", "--", "sh", "-c", "sleep 1000 & echo at work; exit 3"], count=1) as run:
            self.assert_gone(run, 3)

    def test_while_it_runs_there_is_nothing_with_a_name_outside_either(self):
        with Run() as run:
            self.assertGreater(len(processes_with(run.token)), 10)
            self.assertEqual(names_on_machine() - run.before, set())
            self.assertEqual(os.listdir(run.temp.name), [])

    def test_mounts_stay_inside_where_the_machine_shares_them(self):
        # As systemd does with all of them; the kernel itself begins with private ones.
        count = "wc -l </proc/self/mountinfo"
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "shared", "sh", "-c", f"{count}; {SCRIPT} run -- true; {count}"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=True,
        )
        before, after = done.stdout.split()
        self.assertEqual(before, after, done)

    def test_signals_go_to_the_command_first(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Run(
                [
                    "run",
                    "--",
                    "sh",
                    "-c",
                    f"trap 'echo asked; exit 9' {number.value}; echo at work; while :; do sleep 0.05; done",
                ],
                count=1,
            ) as run:
                run.process.send_signal(number)
                self.assert_gone(run, 9)
                self.assertIn(b"asked", run.text())

    def test_a_second_signal_ends_a_command_that_does_not_want_to(self):
        with Run(
            ["run", "--", "sh", "-c", "trap 'echo asked' TERM; echo at work; while :; do sleep 0.05; done"], count=1
        ) as run:
            run.process.terminate()
            self.assertTrue(eventually(lambda: b"asked" in run.text()))
            run.process.terminate()
            self.assert_gone(run, 143)

    def test_a_time_limit(self):
        with Run(["run", "--timeout", "0.5", "--", "sh", "-c", "echo at work; sleep 1000"], count=1) as run:
            self.assert_gone(run, 124)

    def test_kill_of_each_process_behind_it(self):
        # Of the script; of the process outside that watches it; of the one inside that all others hang from.
        for name, code in (("", -signal.SIGKILL), ("cluster-guard", 125), ("cluster-hub", 125)):
            with self.subTest(name or "the script"), Run() as run:
                os.kill(run.of(name) if name else run.process.pid, signal.SIGKILL)
                self.assert_gone(run, code)

    def test_kill_of_all_of_them_at_once(self):
        with Run() as run:
            for pid in (run.process.pid, run.of("cluster-guard"), run.of("cluster-hub")):
                os.kill(pid, signal.SIGKILL)
            self.assert_gone(run)

    def test_kill_of_the_script_while_the_cluster_is_being_made(self):
        for delay_s in (0.03, 0.06, 0.1, 0.15, 0.2):
            with Run(["run", "--hosts", "20", "--", "sleep", "1000"], count=0) as run:
                time.sleep(delay_s)
                run.process.kill()
                self.assert_gone(run)

    def test_an_exception_in_who_made_it(self):
        before, token = names_on_machine(), uuid.uuid4().hex
        os.environ[TOKEN_NAME] = token
        try:
            with self.assertRaises(ZeroDivisionError), Cluster(hosts=2) as cluster, cluster.start(
                ["sleep", "1000"], host=1
            ):
                print(1 / 0)
        finally:
            del os.environ[TOKEN_NAME]
        self.assertEqual((processes_with(token), names_on_machine() - before), ([], set()))

    def test_a_cluster_that_runs_is_left_alone_when_another_one_is_killed(self):
        with Cluster(hosts=2) as other, Run() as run:
            run.process.kill()
            self.assert_gone(run)
            with Cluster(hosts=1):
                self.assertEqual(other.run(["ping", "-n", "-c", "1", "node1"], timeout_s=TIMEOUT_S).returncode, 0)


if __name__ == "__main__":
    adopt_orphans()
    sys.exit(run_or_skip())
