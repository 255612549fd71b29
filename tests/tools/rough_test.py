"""oshrun in rough surroundings: what it inherits from whoever starts it, where it stands, and where its output goes. The
processes play what a test tells them (fake_pe), the launcher is the real one. Each of these hung, or ended with pages of others or
with 0."""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from job_process import FAKE_PE, GOOD, OSHRUN, JobProcess, run

SAYS = "*:hello,init,out=said,sleep=0.1,finalize,exit=0"


def meeting(folder):
    """Two PEs that wait for each other in their start, as the library lets them, and then say so."""
    return [f"{own}:hello,init,create={folder}/{own},await={folder}/{1 - own},out=said,finalize,exit=0" for own in (0, 1)]


STRANGER = 12345  # a user that no table knows
REAL_LAUNCHER = shutil.which("mpirun.openmpi") or shutil.which("mpirun")


class Rough(unittest.TestCase):
    def works(self, *arguments, **options):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)  # for tests that run as another user
            result = run("-n", "2", *arguments, FAKE_PE, *meeting(folder), **options)
        self.assertEqual((result.exit_code, result.lines), (0, []))
        self.assertEqual(result.stdout.count(b"said"), 2)

    def refuses(self, exit_code, line, *arguments, program=(FAKE_PE, SAYS), **options):
        begin = time.monotonic()
        result = run("-n", "2", *arguments, *program, **options)
        self.assertEqual(result.exit_code, exit_code, result.stderr)
        self.assertEqual(len(result.lines), 1, result.stderr)
        self.assertRegex(result.lines[0], f"^oshrun: {line}$")
        self.assertLess(time.monotonic() - begin, 20)
        return result


class Inherited(Rough):
    def test_ignored_signals(self):
        # With SIGCHLD ignored nobody heard of the end of a child: oshrun never ended, and did not hear SIGTERM either.
        def ignore():
            for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGUSR1, signal.SIGALRM, signal.SIGCONT):
                signal.signal(number, signal.SIG_IGN)

        self.works(preexec_fn=ignore)

    def test_blocked_signals(self):
        def block():
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM, signal.SIGALRM, signal.SIGPIPE})

        self.works(preexec_fn=block)

    def test_no_environment(self):
        # The launcher printed a page about ssh, which it could not find without PATH.
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run([OSHRUN, "-n", "2", FAKE_PE, *meeting(folder)], env={}, capture_output=True, timeout=40)
        self.assertEqual((result.returncode, result.stderr, result.stdout.count(b"said")), (0, b"", 2))

    def limit(self, what, soft, hard=None):
        def set_limit():
            resource.setrlimit(what, (soft, resource.getrlimit(what)[1] if hard is None else hard))

        return set_limit

    def test_few_open_files(self):
        self.works(preexec_fn=self.limit(resource.RLIMIT_NOFILE, 16))
        self.refuses(2, r".* limit of 16 open files \(ulimit -Hn\)", preexec_fn=self.limit(resource.RLIMIT_NOFILE, 16, 16))

    def test_no_files_of_any_size(self):
        # Killed by SIGXFSZ without a word.
        result = subprocess.run([OSHRUN, "-n", "2", FAKE_PE, SAYS], preexec_fn=self.limit(resource.RLIMIT_FSIZE, 0, 0),
                                capture_output=True, timeout=20, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"^oshrun: the largest file allowed here \(ulimit -f\) has 0 bytes, and the symmetric heap "
                                        r"alone is a memory file of \d+ \(SHMEM_SYMMETRIC_SIZE\): raise the limit\n$")

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_a_user_without_a_name(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            program = shutil.copy(FAKE_PE, folder)
            result = subprocess.run([OSHRUN, "-n", "2", program, SAYS], env={"PATH": os.environ["PATH"], "TMPDIR": folder},
                                    cwd=folder, user=STRANGER, group=STRANGER, extra_groups=[], capture_output=True, timeout=40)
            self.assertEqual((result.returncode, result.stderr, result.stdout.count(b"said")), (0, b"", 2))


class Places(Rough):
    def test_a_deleted_folder(self):
        gone = tempfile.mkdtemp()
        here = os.open(gone, os.O_RDONLY | os.O_DIRECTORY)
        os.rmdir(gone)
        self.refuses(126, "the current folder cannot be named: it has been deleted: change to another one",
                     preexec_fn=lambda: os.fchdir(here))
        os.close(here)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_a_folder_that_cannot_be_entered(self):
        # The launcher cannot change to it, starts nobody and says nothing.
        with tempfile.TemporaryDirectory() as folder:
            secret = os.path.join(folder, "secret")
            os.mkdir(secret, 0o700)
            os.chmod(folder, 0o755)

            def enter():
                os.chdir(secret)
                os.setgroups([])
                os.setgid(STRANGER)
                os.setuid(STRANGER)

            result = subprocess.run([OSHRUN, "-n", "2", "/bin/true"], preexec_fn=enter, capture_output=True, timeout=20, text=True)
            self.assertEqual(result.returncode, 126)
            self.assertEqual(result.stderr, f"oshrun: the current folder, {secret}, cannot be entered: Permission denied: change "
                                            "to another one\n")
            # And a program in there, which was said not to exist.
            program = shutil.copy("/bin/true", secret)
            result = subprocess.run([OSHRUN, "-n", "2", program], user=STRANGER, group=STRANGER, extra_groups=[], cwd="/",
                                    capture_output=True, timeout=20, text=True)
            self.assertEqual((result.returncode, result.stderr),
                             (126, f"oshrun: {program}: a folder on the way to it cannot be entered: Permission denied\n"))

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "needs root")
    def test_no_proc(self):
        # An uncaught exception, and a core.
        script = 'umount -l /proc && exec "$0" "$@"'
        result = subprocess.run(["unshare", "-m", "sh", "-c", script, OSHRUN, "-n", "2", FAKE_PE, SAYS], capture_output=True,
                                timeout=40, text=True)
        if "unshare" in result.stderr or "umount" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, 126)
        self.assertEqual(result.stderr, "oshrun: /proc/self/exe: No such file or directory: is /proc mounted? Jobs cannot run "
                                        "without it\n")

    def test_what_is_no_file_of_hosts(self):
        # The first ended in an uncaught exception, the second read until memory was full.
        self.refuses(2, "--hostfile /etc: cannot be read: Is a directory", "--hostfile", "/etc")
        self.refuses(2, "--hostfile /dev/zero: cannot be read: more than 4 MiB are no list of hosts", "--hostfile", "/dev/zero")
        result = self.refuses(2, "--hostfile /bin/sh: '.*' is not NAME, .*", "--hostfile", "/bin/sh")
        self.assertLess(len(result.stderr), 400)
        self.assertNotIn(b"\0", result.stderr)


class Launchers(Rough):
    def test_a_word_that_it_would_take_for_the_program(self):
        # It started that instead, which failed; and since processes may fail it waited on, for ever and in silence.
        for words in ("abc", "--tag-output abc"):
            self.refuses(2, "--launcher-args abc: mpirun would take it for the program: it belongs to no option", "-L", words)
        self.works("-L", "--mca orte_base_help_aggregate 1 --bind-to none")

    def test_one_that_is_deaf_while_it_starts(self):
        # It was killed after 5.8 s.
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mpirun.openmpi")
            with open(path, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\ntrap '' TERM\necho up\nwhile :; do sleep 1; done\n")
            os.chmod(path, 0o755)
            with JobProcess("--launcher", "mpirun", "-n", "2", FAKE_PE, SAYS, env={"PATH": f"{folder}:{os.environ['PATH']}"}) as job:
                job.await_output(b"up")
                begin = time.monotonic()
                job.process.send_signal(signal.SIGTERM)
                result = job.wait(15)
                self.assertLess(time.monotonic() - begin, 4.5)
                self.assertEqual((result.exit_code, result.lines), (143, ["oshrun: told to end by signal 15 (Terminated)"]))
                self.assertEqual(job.leftovers(), [])


    def test_processes_that_are_deaf_while_they_start(self):
        # Without a launcher in between: the same, for processes that have not even become members.
        with JobProcess("--launcher", "own", "-n", "2", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done") as job:
            job.await_output(b"up", 2)
            begin = time.monotonic()
            job.process.send_signal(signal.SIGTERM)
            result = job.wait(15)
            self.assertLess(time.monotonic() - begin, 4.5)
            self.assertEqual((result.exit_code, result.lines), (143, ["oshrun: told to end by signal 15 (Terminated)"]))
            self.assertEqual(job.leftovers(), [])


class LostOutput(Rough):
    """What could not be written ended with 0."""

    FULL = "No space left on device"

    def test_standard_output(self):
        with open("/dev/full", "wb") as full:
            for nodes in ("0", "2"):
                self.refuses(1, f"standard output: {self.FULL}: what the processes have printed there is incomplete", stdout=full,
                             env={"SHMEM_FT_PRETEND_NODES": nodes})
            self.works_without_output(full)
            result = run("--help", stdout=full)
            self.assertEqual((result.exit_code, result.lines), (1, [f"oshrun: standard output: {self.FULL}"]))

    def works_without_output(self, full):
        result = run("-n", "2", FAKE_PE, GOOD, stdout=full)
        self.assertEqual((result.exit_code, result.lines), (0, []))

    def test_beside_a_failure(self):
        with open("/dev/full", "wb") as full:
            result = run("-n", "1", FAKE_PE, "*:hello,init,out=said,exit=3", stdout=full)
        self.assertEqual(result.exit_code, 3)
        self.assertEqual(result.lines, [f"oshrun: warning: standard output: {self.FULL}: what the processes have printed there is "
                                        "incomplete", "oshrun: PE 0 exited with code 3 without calling shmem_finalize"])

    def test_standard_error(self):
        with open("/dev/full", "wb") as full:
            result = run("-n", "1", FAKE_PE, "*:hello,init,err=said,finalize,exit=0", stderr=full)
        self.assertEqual(result.exit_code, 1)

    def test_a_file_that_grows_too_large(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, resource.RLIM_INFINITY))

        with tempfile.TemporaryFile() as file:
            file.truncate(64 << 20)
            file.seek(0, os.SEEK_END)
            self.refuses(1, "standard output: File too large: what the processes have printed there is incomplete", stdout=file,
                         preexec_fn=limit, env={"SHMEM_SYMMETRIC_SIZE": "1M"})

    def test_events(self):
        result = self.refuses(1, f"--events: the file is incomplete: {self.FULL}", "--events", "/dev/full")
        self.assertEqual(result.stdout.count(b"said"), 2)

    def test_nobody_reads(self):
        # `oshrun ... | head`: not missed by anybody.
        read_end, write_end = os.pipe()
        os.close(read_end)
        with open(write_end, "wb") as pipe:
            result = run("-n", "2", FAKE_PE, SAYS, stdout=pipe)
        self.assertEqual((result.exit_code, result.lines), (0, []))


CROWD = """#!{python}
import os, socket, sys, time
address, port = os.environ["OSHRUN_GUARDIAN"].split(",")[:2]
read_end, write_end = os.pipe()
if os.fork() == 0 or os.fork() == 0:
    crowd = [socket.create_connection((address, int(port))) for _ in range(150)]
    os.write(write_end, b"x")
    while True:
        {then}
        time.sleep({pause})
os.read(read_end, 1)
os.read(read_end, 1)
os.execv({launcher!r}, [{launcher!r}] + sys.argv[1:])
"""


class Crowds(Rough):
    """Silent connections to the guardian's port, made before its own agents could connect: these were turned away."""

    def start(self, then, pause):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mpirun.openmpi")
            with open(path, "w", encoding="ascii") as file:
                file.write(CROWD.format(python=sys.executable, launcher=REAL_LAUNCHER, then=then, pause=pause))
            os.chmod(path, 0o755)
            result = run("-n", "3", FAKE_PE, SAYS, env={"PATH": f"{folder}:{os.environ['PATH']}", "SHMEM_FT_PRETEND_NODES": "3"})
        self.assertEqual((result.exit_code, result.stdout.count(b"said")), (0, 3), result.stderr)
        crowd = (r"oshrun: warning: 256 connections to port \d+ do not say whose they are, 256 of them from 127\.0\.0\.1: the oldest are "
                 r"dropped")
        self.assertEqual(len([line for line in result.lines if re.fullmatch(crowd, line)]), 1, result.stderr)
        # The line about the first stranger that is dropped may come before it or behind it.
        others = [line for line in result.lines if not re.fullmatch(crowd, line)]
        self.assertLessEqual(len(others), 1, result.stderr)
        for line in others:
            self.assertRegex(line, r"^oshrun: warning: a connection from 127\.0\.0\.1 has been dropped: ")

    def test_that_stays(self):
        self.start("pass", 1)

    def test_that_comes_again_and_again(self):
        self.start("crowd = crowd[1:] + [socket.create_connection((address, int(port)))]", 0.0005)

    def test_few_descriptors(self):
        # More connections than the guardian can have files open.
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (270, 270))

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mpirun.openmpi")
            with open(path, "w", encoding="ascii") as file:
                file.write(CROWD.format(python=sys.executable, launcher=REAL_LAUNCHER, then="pass", pause=1))
            os.chmod(path, 0o755)
            environment = {"PATH": f"{folder}:{os.environ['PATH']}", "SHMEM_FT_PRETEND_NODES": "2"}
            result = run("-n", "2", FAKE_PE, SAYS, env=environment, preexec_fn=limit)
        self.assertEqual((result.exit_code, result.stdout.count(b"said")), (0, 2), result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
