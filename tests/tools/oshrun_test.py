"""oshrun by itself: the processes of the jobs play what a test tells them (fake_pe), the launcher is the real one."""

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from job_process import FAKE_PE, GOOD, OSHRUN, JobProcess, eventually, parent_of, run


class Outcomes(unittest.TestCase):
    """The exit status and the one line."""

    def check(self, exit_code, line, *arguments, **options):
        result = run(*arguments, **options)
        self.assertEqual(result.exit_code, exit_code, result.stderr)
        self.assertEqual(result.lines, [line] if line else [])

    def test_good(self):
        self.check(0, "", "-n", "3", FAKE_PE, GOOD)

    def test_good_with_unused_spare(self):
        self.check(0, "", "-n", "2", "--spares", "1", FAKE_PE, GOOD)

    def test_replaced_death(self):
        self.check(0, "", "-n", "2", "--spares", "1", FAKE_PE, GOOD, "1:hello,init,sleep=0.1,signal=9",
                   "2:hello,init,sleep=0.3,taken=1,finalize,exit=0")

    def test_spares_from_the_environment(self):
        self.check(0, "", "-n", "1", FAKE_PE, GOOD, "1:hello,init,finalize,exit=0", env={"SHMEM_FT_SPARES": "1"})

    def test_killed(self):
        self.check(137, "oshrun: PE 1 was killed by signal 9 (Killed)", "-n", "2", FAKE_PE, GOOD,
                   "1:hello,init,sleep=0.2,signal=9")

    def test_exit_code(self):
        self.check(3, "oshrun: PE 0 exited with code 3 without calling shmem_finalize", "-n", "2", FAKE_PE, GOOD,
                   "0:hello,init,sleep=0.2,exit=3")

    def test_exit_code_after_finalize(self):
        self.check(5, "oshrun: PE 1 exited with code 5", "-n", "2", FAKE_PE, GOOD, "1:hello,init,finalize,exit=5")

    def test_exit_code_when_reports_and_end_are_heard_at_once(self):
        # The guardian watched the process anew because of its first report, found it gone and did not know its status:
        # a PE that had failed after shmem_finalize counted as a good one.
        script = "out=up,sleep=1,hello,init,finalize,exit="
        with JobProcess("-n", "2", FAKE_PE, "*:" + script + "0", "1:" + script + "5") as job:
            job.await_output(b"up", 2)
            pes, guardian = job.pes(), job.guardian()
            os.kill(guardian, signal.SIGSTOP)
            self.assertTrue(eventually(lambda: not any(parent_of(pid) for pid in pes)))
            os.kill(guardian, signal.SIGCONT)
            result = job.wait()
            self.assertEqual((result.exit_code, result.lines), (5, ["oshrun: PE 1 exited with code 5"]))
            self.assertEqual(job.leftovers(), [])

    def test_names_of_this_host(self):
        own = socket.gethostname()
        for name in ("localhost", "LOCALHOST", "127.0.0.1", own, own.upper()):
            self.check(0, "", "--host", f"{name}:2", "-n", "2", FAKE_PE, GOOD)
        with tempfile.NamedTemporaryFile("w", newline="") as file:
            file.write("localhost slots=1 max_slots=2\r\n")
            file.flush()
            self.check(0, "", "--hostfile", file.name, "-n", "2", FAKE_PE, GOOD)
            self.check(2, "oshrun: 3 processes are more than the 2 that max_slots of the hosts allows: raise it, or name "
                       "more hosts", "--hostfile", file.name, "-n", "3", FAKE_PE, GOOD)

    def test_exit_zero_without_finalize(self):
        self.check(1, "oshrun: PE 1 exited with code 0 without calling shmem_finalize", "-n", "2", FAKE_PE, GOOD,
                   "1:hello,init,sleep=0.2,exit=0")

    def test_global_exit(self):
        begin = time.monotonic()
        self.check(99, "oshrun: PE 1 called shmem_global_exit(99)", "-n", "3", FAKE_PE, "*:hello,init,hang",
                   "1:hello,init,global_exit=99,exit=99")
        self.assertLess(time.monotonic() - begin, 5)

    def test_global_exit_zero(self):
        self.check(0, "", "-n", "2", FAKE_PE, "*:hello,init,hang", "1:hello,init,global_exit=0,exit=0")

    def test_stubborn_processes_are_killed(self):
        begin = time.monotonic()
        self.check(99, "oshrun: PE 1 called shmem_global_exit(99)", "-n", "3", FAKE_PE, "*:ignore=15,hello,init,hang",
                   "1:hello,init,global_exit=99,exit=99", "2:hello,init,stop")
        self.assertLess(time.monotonic() - begin, 8)

    def test_unrecoverable(self):
        text = "PE 1 was killed by signal 9 (Killed) and could not be replaced: no spare left"
        self.check(137, "oshrun: " + text, "-n", "3", FAKE_PE, "*:hello,init,sleep=0.4,unrecoverable=" + text + ",hang",
                   "1:hello,init,sleep=0.1,signal=9")

    def test_everybody_reports_and_ends_at_once(self):
        # The ends of processes and their last reports arrive together, in any order.
        text = "PE 1 is lost"
        for _ in range(5):
            self.check(137, "oshrun: " + text, "-n", "4", FAKE_PE,
                       "*:hello,init,sleep=0.8,unrecoverable=" + text + ",exit=70", "1:hello,init,sleep=0.1,signal=9",
                       "3:hello,init,sleep=0.8,exiting=70,unrecoverable=" + text + ",exit=70")

    def test_death_before_shmem_init(self):
        self.check(139, "oshrun: PE 1 was killed by signal 11 (Segmentation fault) before shmem_init was complete on "
                   "all PEs", "-n", "2", FAKE_PE, "*:hello,hang", "1:signal=11")

    def test_death_inside_shmem_init(self):
        self.check(4, "oshrun: PE 0 exited with code 4 before shmem_init was complete on all PEs", "-n", "2", FAKE_PE,
                   "*:hello,hang", "0:hello,sleep=0.2,exit=4")

    def test_spare_dies_inside_shmem_init(self):
        self.check(134, "oshrun: spare 0 was killed by signal 6 (Aborted) before shmem_init was complete on all PEs",
                   "-n", "1", "--spares", "1", FAKE_PE, "*:hello,hang", "1:hello,sleep=0.2,signal=6")

    def test_a_start_that_stands_still(self):
        # Silence for ever.
        bound = {"SHMEM_FT_START_TIMEOUT": "1500"}
        where = "within 1500 ms (SHMEM_FT_START_TIMEOUT)"
        self.check(1, f"oshrun: PE 1, spare 0 have not called shmem_init {where} after the others", "-n", "2", "--spares",
                   "1", FAKE_PE, "*:hang", "0:hello,hang", env=bound)
        self.check(1, "oshrun: PE 1 stands still in shmem_init for 1500 ms (SHMEM_FT_START_TIMEOUT): stopped, or its host "
                   "does not run", "-n", "2", FAKE_PE, "0:hello,init,hang", "1:hello,stop", env=bound)
        self.check(1, f"oshrun: PE 1 has not come through shmem_init {where}: it waits", "-n", "2", FAKE_PE,
                   "0:hello,init,hang", "1:hello,late=2,hang", env=bound)

    def test_a_start_that_takes_its_time(self):
        self.check(0, "", "-n", "2", FAKE_PE, GOOD, "1:sleep=2,hello,init,finalize,exit=0",
                   env={"SHMEM_FT_START_TIMEOUT": "0"})

    def test_not_linked_with_the_library(self):
        self.check(1, f"oshrun: {FAKE_PE} ended without calling shmem_init: is it linked with the library (see oshcc)?",
                   "-n", "2", FAKE_PE, "*:exit=0")

    def test_failed_without_the_library(self):
        self.check(7, f"oshrun: PE 1 exited with code 7 without calling shmem_init: is {FAKE_PE} linked with the library "
                   "(see oshcc)?", "-n", "2", FAKE_PE, "*:exit=0", "1:exit=7")

    def test_other_version_of_the_library(self):
        result = run("-n", "1", FAKE_PE, "*:hello,foreign,hang")
        self.assertEqual(result.exit_code, 1)
        self.assertIn("is linked with a library of another version", result.lines[0])
        self.assertEqual(len(result.lines), 1)

    def test_sleeping_spares_are_ended_when_all_pes_are_gone(self):
        self.check(137, "oshrun: PE 0 was killed by signal 9 (Killed)", "-n", "1", "--spares", "1", FAKE_PE,
                   "0:hello,init,sleep=0.2,signal=9", "1:hello,init,hang")

    def test_wrapped_program(self):
        self.check(0, "", "-n", "2", "sh", "-c", '"$@"; exit 3', "sh", FAKE_PE, GOOD)

    def test_background_process_of_a_pe(self):
        begin = time.monotonic()
        self.check(0, "", "-n", "2", FAKE_PE, GOOD, "1:hello,init,fork=1000,finalize,exit=0")
        self.assertLess(time.monotonic() - begin, 15)


class BadInput(unittest.TestCase):
    """One line that names the culprit, a status, and nothing started."""

    def check(self, exit_code, culprit, *arguments, **options):
        with self.subTest(arguments=arguments, env=options.get("env")):
            result = run(*arguments, **options)
            self.assertEqual(result.exit_code, exit_code, result.stderr)
            self.assertEqual(len(result.lines), 1, result.stderr)
            self.assertTrue(result.lines[0].startswith("oshrun: "), result.lines)
            self.assertIn(culprit, result.lines[0])
            self.assertEqual(result.stdout, b"")

    def test_counts(self):
        for count in ["0", "-3", "abc", "", "1.5", "4095", "100000", "99999999999999999999"]:
            self.check(2, f"-n {count}: not a number of PEs", "-n", count, FAKE_PE, GOOD)
        self.check(2, "--spares x", "-n", "1", "--spares", "x", FAKE_PE)
        self.check(2, "4096 processes are more than", "-n", "4000", "--spares", "96", FAKE_PE)

    def test_options(self):
        self.check(2, "--spare: no such option; did you mean --spares?", "-n", "2", "--spare", "1", FAKE_PE)
        self.check(2, "--launcher-args", "-n", "2", "--bind-to", "core", FAKE_PE)
        self.check(2, "-n: its value is missing", "-n")
        self.check(2, "no program given", "-n", "2")
        self.check(2, "no program given")
        self.check(2, "-x 1=2", "-x", "1=2", FAKE_PE)
        self.check(2, "a quote is not closed", "-L", "'x", FAKE_PE)
        self.check(2, "/nonexistent/events", "--events", "/nonexistent/events", FAKE_PE)

    def test_programs(self):
        self.check(127, "/nonexistent/prog: no such file", "-n", "2", "/nonexistent/prog")
        self.check(127, "nosuchprog: no such program", "-n", "2", "nosuchprog")
        self.check(126, "/tmp: is a directory", "-n", "2", "/tmp")
        self.check(126, "/etc/passwd: not executable", "-n", "2", "/etc/passwd")
        with tempfile.TemporaryDirectory() as folder:
            self.check(127, "prog: not found in PATH; did you mean ./prog?", "-n", "1", "prog",
                       cwd=self.make_program(folder, "prog", b"#!/bin/sh\n"))
            # Something that claims to be a program and is none.
            script = self.make_program(folder, "script", b"exit 6\n")
            self.check(6, "PE", "-n", "1", os.path.join(script, "script"))
            self.check(126, "broken: cannot be run: Exec format error", "-n", "2",
                       os.path.join(self.make_program(folder, "broken", b"\x7fELF\0\0\0"), "broken"))

    @staticmethod
    def make_program(folder, name, content):
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(content)
        os.chmod(path, 0o755)
        return folder

    def test_settings(self):
        for name, value in [("SHMEM_SYMMETRIC_SIZE", "much"), ("SHMEM_SYMMETRIC_SIZE", "-0.5m"), ("SMA_SYMMETRIC_SIZE", "-1"),
                            ("SHMEM_FT_BACKUP_MODE", "tripple"), ("SHMEM_FT_SPARES", "many"), ("SHMEM_FT_EVENTS", "yes"),
                            ("SHMEM_FT_HEAP_BASE", "here")]:
            self.check(2, f"{name}={value}: not ", "-n", "2", FAKE_PE, GOOD, env={name: value})
        self.check(2, "SHMEM_FT_SPARE: no such setting; did you mean SHMEM_FT_SPARES?", FAKE_PE, env={"SHMEM_FT_SPARE": "1"})
        self.check(2, "SHMEM_SYMMETRIC_SIZE=x: not", "-x", "SHMEM_SYMMETRIC_SIZE=x", FAKE_PE)

    def test_temporary_folder(self):
        self.check(1, "/nonexistent (TMPDIR): No such file", "--launcher", "mpirun", "-n", "1", FAKE_PE, env={"TMPDIR": "/nonexistent"})

    @unittest.skipUnless(os.geteuid() == 0, "only root can have a full folder")
    def test_full_temporary_folder(self):
        # The launcher's first file was cut short, and the processes came up alone.
        with tempfile.TemporaryDirectory() as folder:
            command = ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size=1m none {folder} && TMPDIR={folder} exec "$@"',
                       "-", OSHRUN, "--launcher", "mpirun", "-n", "1", FAKE_PE, GOOD)
            result = subprocess.run(command, capture_output=True, text=True, timeout=100)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, rf"^oshrun: {folder} \(TMPDIR\): no room for .*: No space left on device: .*\n$")

    def test_more_processes_than_the_limits_allow(self):
        # Thousands of processes were started, and one of them ended with "cannot map the memory of PE 1970 ()".
        result = subprocess.run(["sh", "-c", 'ulimit -n 1024 && exec "$@"', "-", OSHRUN, "-n", "2000", FAKE_PE, GOOD],
                                capture_output=True, text=True, timeout=100)
        self.assertEqual((result.returncode, result.stderr), (2, "oshrun: -n 2000: too many processes for this system's limit "
                                                              "of 1024 open files (ulimit -Hn)\n"))

    def test_no_launcher(self):
        self.check(127, "openmpi-bin", "--launcher", "mpirun", "-n", "1", FAKE_PE, env={"PATH": "/nonexistent"})
        # None is needed for a job on this host.
        result = run("--launcher", "own", "-n", "2", FAKE_PE, GOOD, env={"PATH": "/nonexistent", "TMPDIR": "/nonexistent"})
        self.assertEqual((result.exit_code, result.lines), (0, []))

    def test_a_launcher_is_needed(self):
        for words, env in [(("-L", "--tag-output"), None), (("--host", "node7:2"), None), ((), {"SHMEM_FT_PRETEND_NODES": "2"})]:
            self.check(2, "--launcher own: ", "--launcher", "own", *words, "-n", "2", FAKE_PE, env=env)

    def test_failing_launcher(self):
        with tempfile.TemporaryDirectory() as folder:
            self.make_program(folder, "mpirun.openmpi", b"#!/bin/sh\nexit 5\n")
            path = folder + ":" + os.environ["PATH"]
            self.check(5, "the launcher mpirun exited with code 5", "--launcher", "mpirun", "-n", "1", FAKE_PE, env={"PATH": path})
            self.make_program(folder, "mpirun.openmpi", b"#!/nonexistent/interpreter\n")
            self.check(127, "the launcher mpirun exited with code 127", "--launcher", "mpirun", "-n", "1", FAKE_PE, env={"PATH": path})

    def test_export_of_an_unset_variable_is_only_a_warning(self):
        result = run("-n", "1", "-x", "UNSET_VARIABLE", FAKE_PE, GOOD)
        self.assertEqual(result.exit_code, 0)
        self.assertEqual(len(result.lines), 1)
        self.assertIn("-x UNSET_VARIABLE", result.lines[0])


class Ends(unittest.TestCase):
    """oshrun, its guardian or the launcher is told to end or killed: nothing stays."""

    WAITING = ("-n", "2", "--spares", "1", FAKE_PE, "*:hello,init,out=ready,hang")

    def run_until_ready(self, *arguments, **options):
        job = JobProcess(*(arguments or self.WAITING), **options)
        job.await_output(b"ready", 3 if not arguments else 1)
        return job

    def finish(self, job, exit_code, text):
        result = job.wait(15)
        self.assertEqual(result.exit_code, exit_code, result.stderr)
        self.assertEqual(len(result.lines), 1, result.stderr)
        self.assertIn(text, result.lines[0])
        self.assertEqual(job.leftovers(), [])

    def test_signals_to_oshrun(self):
        for number, name in [(signal.SIGINT, "Interrupt"), (signal.SIGTERM, "Terminated"), (signal.SIGHUP, "Hangup"),
                             (signal.SIGQUIT, "Quit")]:
            with self.subTest(name), self.run_until_ready() as job:
                begin = time.monotonic()
                job.process.send_signal(number)
                self.finish(job, 128 + number, f"told to end by signal {int(number)} ({name})")
                self.assertLess(time.monotonic() - begin, 4)

    def test_stubborn_and_stopped_processes(self):
        with self.run_until_ready("-n", "2", FAKE_PE, "*:ignore=15,ignore=2,hello,init,out=ready,hang",
                                  "1:hello,init,stop") as job:
            job.process.send_signal(signal.SIGINT)
            self.finish(job, 130, "told to end by signal 2")

    def test_second_interrupt_is_in_a_hurry(self):
        with self.run_until_ready("-n", "1", FAKE_PE, "*:ignore=15,hello,init,out=ready,hang") as job:
            begin = time.monotonic()
            job.process.send_signal(signal.SIGINT)
            time.sleep(0.2)
            job.process.send_signal(signal.SIGINT)
            self.finish(job, 130, "told to end by signal 2")
            self.assertLess(time.monotonic() - begin, 1.5)

    def test_signal_while_the_job_starts(self):
        for delay_ms in range(0, 120, 15):
            with self.subTest(delay_ms), JobProcess("-n", "3", FAKE_PE, "*:hello,init,hang") as job:
                time.sleep(delay_ms / 1000)
                job.process.send_signal(signal.SIGTERM)
                result = job.wait(15)
                self.assertIn(result.exit_code, [143, -15])  # -15: before oshrun has prepared for signals
                self.assertEqual(job.leftovers(), [])

    def test_ignored_signals_stay_ignored(self):
        with self.run_until_ready("-n", "1", FAKE_PE, "*:hello,init,out=ready,sleep=1,finalize,exit=0",
                                  preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as job:
            job.process.send_signal(signal.SIGHUP)
            self.assertEqual(job.wait().exit_code, 0)

    def test_kill_of_oshrun(self):
        with self.run_until_ready() as job:
            job.process.kill()
            job.process.wait()
            self.assertEqual(job.leftovers(), [])
            self.assertEqual(job.result().lines, ["oshrun: was killed while the job ran: the job has been ended"])

    def test_kill_of_the_process_group(self):
        with self.run_until_ready(start_new_session=True) as job:
            os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait()
            self.assertEqual(job.leftovers(), [])

    def test_kill_of_oshrun_with_stubborn_processes(self):
        with self.run_until_ready("-n", "2", FAKE_PE, "*:ignore=15,hello,init,out=ready,stop") as job:
            job.process.kill()
            job.process.wait()
            self.assertEqual(job.leftovers(timeout_s=15), [])

    def test_kill_of_all_of_oshrun(self):
        # The launcher and the processes do what they are told by nothing but SIGKILL, as those that hang.
        script = "*:ignore=15,hello,init,out=ready,fork=1000,hang"
        for launcher in ("own", "mpirun"):
            for stands in (False, True):
                with self.subTest(launcher=launcher, stands=stands), self.run_until_ready(
                        "--launcher", launcher, "-n", "2", FAKE_PE, script) as job:
                    job.await_output(b"ready", 2)
                    victims = [job.guardian(), job.process.pid]
                    if stands:
                        for pid in [job.launcher(), *job.pes()]:
                            if pid:
                                os.kill(pid, signal.SIGSTOP)
                    for pid in victims:
                        os.kill(pid, signal.SIGKILL)
                    job.process.wait()
                    self.assertEqual(job.leftovers(timeout_s=20), [])

    def test_kill_of_the_launcher(self):
        with self.run_until_ready("--launcher", "mpirun", *self.WAITING) as job:
            job.await_output(b"ready", 3)
            os.kill(job.launcher(), signal.SIGKILL)
            self.finish(job, 137, "the launcher mpirun was killed by signal 9 (Killed)")

    def test_kill_of_the_guardian(self):
        with self.run_until_ready() as job:
            os.kill(job.guardian(), signal.SIGKILL)
            self.finish(job, 137, "guardian process was killed by signal 9 (Killed)")

    def test_kill_of_the_guardian_with_stubborn_processes(self):
        # Stopped processes do not notice the end of their guardian.
        with self.run_until_ready("-n", "2", FAKE_PE, "*:ignore=15,hello,init,out=ready,stop") as job:
            os.kill(job.guardian(), signal.SIGKILL)
            self.finish(job, 137, "guardian process was killed by signal 9 (Killed)")

    def test_crash_of_a_pe(self):
        with JobProcess("-n", "2", FAKE_PE, GOOD, "1:hello,init,sleep=0.1,signal=11") as job:
            self.finish(job, 139, "PE 1 was killed by signal 11")

    def test_children_that_the_shell_had_before_are_not_ours(self):
        # A shell with a background process turns into oshrun, whose guardian is then killed.
        with self.run_until_ready("-c", f'sleep 1000 & exec "$@"', "sh", OSHRUN, "-n", "1", FAKE_PE,
                                  "*:hello,init,out=ready,hang", program="sh") as job:
            sleeper = next(p for p in job.alive() if self.command(p) == "sleep")
            guardian = next(p for p in job.alive() if self.command(p).startswith("oshrun") and p != job.process.pid)
            os.kill(guardian, signal.SIGKILL)
            job.process.wait(15)
            self.assertEqual(job.alive(), [sleeper])

    @staticmethod
    def command(pid):
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()


class Reports(unittest.TestCase):
    def test_events_file(self):
        with tempfile.NamedTemporaryFile() as file:
            result = run("-n", "2", "--spares", "1", "--events", file.name, FAKE_PE, GOOD,
                         "1:hello,init,environment=SHMEM_FT_EVENTS,sleep=0.1,signal=9",
                         "2:hello,init,sleep=0.3,taken=1,finalize,exit=0")
            self.assertEqual(result.exit_code, 0, result.stderr)
            self.assertEqual(result.stdout, b"SHMEM_FT_EVENTS=1\n")
            records = [json.loads(line) for line in file.read().splitlines()]
        kinds = [record["event"] for record in records]
        self.assertEqual((kinds[0], kinds[-1]), ("start", "end"))
        self.assertEqual((records[0]["pes"], records[0]["spares"]), (2, 1))
        for kind, count in [("launched", 3), ("hello", 3), ("initialized", 3), ("ended", 3), ("pe_taken", 1), ("finalized", 2)]:
            self.assertEqual(kinds.count(kind), count, kind)
        death = next(record for record in records if record["event"] == "ended" and record["rank"] == 1)
        self.assertEqual((death["pe"], death["signal"], death["exit_code"]), (1, 9, 137))
        self.assertEqual([process["pe"] for process in records[-1]["processes"]], [0, 1, 1])
        times = [record["t_ns"] for record in records]
        self.assertEqual(times, sorted(times))
        pids = {record["rank"]: record["pid"] for record in records if record["event"] == "hello"}
        self.assertEqual(pids, {process["rank"]: process["pid"] for process in records[-1]["processes"]})

    def test_verbose(self):
        result = run("--launcher", "mpirun", "-n", "2", "-v", FAKE_PE, GOOD)
        self.assertEqual(len(result.lines), 1)
        self.assertRegex(result.lines[0], "^oshrun: .*mpirun.* --enable-recovery .* -n 2 ")

    def test_what_is_loaded_into_the_launcher_stays_there(self):
        words = ["--launcher", "mpirun", "-n", "1", "sh", "-c", "env"]
        for before in (None, "libm.so.6"):
            lines = run(*words, env={"LD_PRELOAD": before} if before else {}).stdout.decode().splitlines()
            self.assertEqual([line for line in lines if line.startswith("LD_PRELOAD=")], [f"LD_PRELOAD={before}"] if before else [])
            self.assertEqual([line for line in lines if re.match("OSHRUN_(DOOR|PRELOAD)|.*(oshrun_door|oob_tcp_if)", line)], [])

    def test_help_and_version(self):
        for option in ["--help", "-h"]:
            result = run(option)
            self.assertEqual((result.exit_code, result.stderr), (0, b""))
            self.assertTrue(result.stdout.startswith(b"Usage: oshrun"))
        self.assertRegex(run("--version").stdout.decode(), r"^oshrun \(shmem-ft\) \d+\.\d+\.\d+\n$")

    def test_internal_option_by_hand(self):
        result = run("--exec-pe")
        self.assertEqual((result.exit_code, len(result.lines)), (2, 1))
        result = run("--exec-pe", "/bin/true", "true")
        self.assertEqual((result.exit_code, len(result.lines)), (1, 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
