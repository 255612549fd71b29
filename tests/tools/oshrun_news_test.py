"""What a job with the real library says when something happens to it: recoveries, substitutes that die again, programs
that its processes start, a program file that changes meanwhile, a launcher that hangs."""

import os
import re
import shutil
import signal
import socket
import stat
import tempfile
import unittest

from job_process import FAKE_PE, OSHRUN, JobProcess, run

NEWS_PE = os.environ["NEWS_PE"]
LISTEN = "0A"  # in /proc/net/tcp


def killed(*entries):
    return {"SHMEM_FT_FAULTS": "; ".join(f"kill pe {pe} at arrived visit {visit}" for pe, visit in entries)}


def total(pes, steps=20):
    return f"sum {pes * steps * (steps + 1) // 2}".encode()


class Recoveries(unittest.TestCase):
    """Nothing of a recovered death was seen on the standard error."""

    def lines(self, *arguments, pes=3, exit_code=0, env=None):
        result = run("-n", str(pes), *arguments, env=env)
        self.assertEqual(result.exit_code, exit_code, result.stderr)
        if exit_code == 0:
            self.assertIn(total(pes), result.stdout)
        # What the schedule itself says is for the tests of the schedule.
        return [line for line in result.lines if not line.startswith("shmem-ft: fault")]

    def test_one_line_each(self):
        lines = self.lines("--spares", "2", NEWS_PE, env=killed((1, 4)))
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], r"^shmem-ft: warning: PE 1 failed \(killed by signal 9 \(Killed\)\): process 3 took over after "
                         r"\d+ ms, and the job goes on from checkpoint \d+; it survives 1 further loss of a PE at one "
                         r"moment, 1 one after another$")

    def test_one_line_for_two_and_what_is_left(self):
        lines = self.lines("--spares", "2", NEWS_PE, pes=4, env=killed((1, 4), (3, 4)))
        if len(lines) == 1:  # both in one recovery, nearly always
            self.assertRegex(lines[0], r"PE [13] failed \(.*, PE [13] failed \(.*: process \d, process \d took over")
        self.assertRegex(lines[-1], r"; it survives no further loss of a PE now$")

    def test_quiet(self):
        self.assertEqual(self.lines("--quiet", "--spares", "2", NEWS_PE, env=killed((1, 4))), [])

    def test_a_substitute_that_dies_by_itself(self):
        # "start the job with more spares" does not help.
        lines = self.lines("--spares", "1", NEWS_PE, "crash", exit_code=139, env=killed((1, 4)))
        self.assertRegex(lines[-1], r"^oshrun: PE 1 failed \(killed by signal 11 \(Segmentation fault\)\) as its own substitute, "
                         r"right after it had taken over, and there is no spare left to take over; more of them would hardly help: ")

    def test_a_substitute_that_is_killed(self):
        lines = self.lines("--spares", "1", NEWS_PE, exit_code=137, env=killed((1, 4), (1, "9 incarnation 1")))
        self.assertRegex(lines[-1], r"start the job with more spares \(oshrun --spares\)$")


class Children(unittest.TestCase):
    """A process of a job hands its environment on to what it starts."""

    def test_a_program_that_is_no_member(self):
        # It hung in silence.
        result = run("-n", "2", NEWS_PE, f"child={NEWS_PE}")
        self.assertEqual(result.exit_code, 0, result.stderr)
        self.assertIn(b"child 70\n", result.stdout)
        self.assertEqual(len(result.lines), 1, result.lines)
        self.assertRegex(result.lines[0], r"^shmem-ft: error: this program is no member of a job: it was started by process 0 of "
                         r"one that runs \(pid \d+\), whose environment it has; start it by oshrun$")

    def test_a_program_behind_a_wrapper_is_one(self):
        result = run("-n", "2", "/bin/sh", "-c", f"{NEWS_PE}; exit $?")
        self.assertEqual((result.exit_code, result.lines), (0, []))

    def test_a_job_inside_of_a_job(self):
        # It ended with a text of the launcher, and had the spares of the outer one.
        with tempfile.TemporaryDirectory() as folder:
            result = run("-n", "2", "--spares", "1", "--events", f"{folder}/outer", NEWS_PE,
                         f"child={OSHRUN} -n 2 --events {folder}/inner {NEWS_PE}")
            self.assertEqual((result.exit_code, result.lines), (0, []))
            self.assertEqual(result.stdout.count(total(2)), 2, result.stdout)
            self.assertIn(b"child 0\n", result.stdout)
            with open(f"{folder}/inner", encoding="utf-8") as file:
                self.assertIn('"spares":0,', file.readline())

    def test_what_the_user_has_set_counts_inside(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run("-n", "2", NEWS_PE, f"child=SHMEM_FT_SPARES=1 {OSHRUN} -n 1 --events {folder}/inner {NEWS_PE}")
            self.assertEqual((result.exit_code, result.lines), (0, []))
            with open(f"{folder}/inner", encoding="utf-8") as file:
                self.assertIn('"spares":1,', file.readline())


class ProgramFile(unittest.TestCase):
    """Eight spares on demand were spent on a program file that was not there any more, and the job waited on."""

    def run_with(self, change):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program")
            shutil.copy(NEWS_PE, program)
            libraries = {"LD_LIBRARY_PATH": os.environ["SFT_BUILD_DIR"]}  # where the copy is, nobody else would look there
            with JobProcess("--on-demand", "always", "-n", "2", program, "pace=50", env=libraries) as job:
                job.await_output(b" is ", 2)
                victim = int(re.search(rb"PE 1 is (\d+)", job.stdout_so_far())[1])
                change(program)
                os.kill(victim, signal.SIGKILL)
                result = job.wait()
                self.assertEqual(job.leftovers(), [])
                return result

    def test_deleted(self):
        result = self.run_with(os.unlink)
        self.assertEqual(result.exit_code, 0, result.stderr)
        self.assertIn(total(2), result.stdout)

    def test_rebuilt(self):
        def rebuild(program):
            shutil.copy(FAKE_PE, program + ".new")
            os.replace(program + ".new", program)

        result = self.run_with(rebuild)
        self.assertEqual(result.exit_code, 0, result.stderr)
        self.assertIn(total(2), result.stdout)

    def test_not_to_be_run_any_more(self):
        result = self.run_with(lambda program: os.chmod(program, stat.S_IRUSR | stat.S_IWUSR))
        self.assertEqual(result.exit_code, 137, result.stderr)
        failures = [line for line in result.lines if "could not join" in line]
        self.assertEqual(len(failures), 2, result.lines)
        self.assertRegex(result.lines[-1], r"^oshrun: PE 1 was killed by signal 9 \(Killed\) and no spare is left to take over, nor can "
                         r"one be started: \S+/program: cannot be run: Permission denied$")


def ports_of(pid):
    """Where the process listens, as (family, port)."""
    inodes = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
        if found:
            inodes.add(found[1])
    ports = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with open(f"/proc/{pid}/net/{table}", encoding="utf-8") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        ports += [(family, int(row[1].split(":")[1], 16)) for row in rows if row[3] == LISTEN and row[9] in inodes]
    return ports


class Strangers(unittest.TestCase):
    def test_nobody_listens(self):
        # A job on this host has no door to the network at all.
        with JobProcess("--launcher", "own", "-n", "2", "--spares", "1", NEWS_PE, "pace=100") as job:
            job.await_output(b" is ", 2)
            processes = job.alive()
            self.assertGreaterEqual(len(processes), 5)
            self.assertEqual([(pid, ports_of(pid)) for pid in processes if ports_of(pid)], [])
            job.process.send_signal(signal.SIGTERM)
            self.assertEqual(job.wait().exit_code, 143)
            self.assertEqual(job.leftovers(), [])

    def test_three_bytes_for_the_launcher(self):
        # mpirun waits for the rest. oshrun waited with it for ever; elsewhere it ended with 0, and output was lost.
        with JobProcess("--launcher", "mpirun", "-n", "2", FAKE_PE, "*:hello,init,out=up,sleep=2,out=late,finalize,exit=0") as job:
            job.await_output(b"up", 2)
            ports = ports_of(job.launcher())
            self.assertTrue(ports)
            strangers = []
            for family, port in ports:
                stranger = socket.socket(family)
                stranger.connect(("127.0.0.1" if family == socket.AF_INET else "::1", port))
                stranger.send(b"abc")
                strangers.append(stranger)
            result = job.wait()
            for stranger in strangers:
                stranger.close()
            self.assertEqual(job.leftovers(), [])
            if result.stdout.count(b"late") == 2:
                return  # it was not kept waiting, so nothing is missing
            self.assertEqual((result.exit_code, result.lines), (1, [
                "oshrun: the launcher mpirun hangs after all processes have ended: what they have printed may be missing"]))


if __name__ == "__main__":
    unittest.main()
