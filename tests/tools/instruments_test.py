"""Programs under the tools that people look for errors with: compiled with a sanitizer while the library is not, or stopped
by a debugger. They run, they recover, and what the tool looks for is found."""

import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

SOURCE = os.environ["INSTRUMENTED"]
PES = 3
KILL = "kill pe 1 at update_begin visit 7; kill pe 0 at replicate_middle visit 12"
# GCC's sanitizers are shared libraries, Clang's lie among the globals of the program.
KINDS = [(compiler, sanitizer) for compiler in ("gcc", "clang") for sanitizer in ("address", "thread", "undefined")]


def run(*command, timeout=240, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SHMEM_", "SMA_", "OSHC", "ASAN_", "TSAN_", "LSAN_"))}
    return subprocess.run(command, env={**clean, **environment}, capture_output=True, text=True, timeout=timeout)


class Instrumented(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="instruments-test-")
        cls.plain = cls.compile("gcc", "")
        cls.expected = cls.result(run("oshrun", "-n", str(PES), cls.plain))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def compile(cls, compiler, sanitizer, *options):
        program = os.path.join(cls.folder, f"{compiler}-{sanitizer or 'plain'}")
        flags = [f"-fsanitize={sanitizer}"] if sanitizer else []
        done = run("oshcc", "-g", "-O1", *flags, *options, SOURCE, "-o", program, OSHCC_CC=compiler)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return program

    @staticmethod
    def result(done):
        return done.returncode, sorted(done.stdout.splitlines())

    def check_recovers(self, program):
        done = run("oshrun", "-n", str(PES), "--spares", "2", "-x", f"SHMEM_FT_FAULTS={KILL}", program)
        self.assertEqual(self.result(done), self.expected, done.stderr)
        self.assertEqual(done.stderr.count("fault: kill"), 2, done.stderr)
        for word in ("Sanitizer", "runtime error"):
            self.assertNotIn(word, done.stderr)

    def test_recovers_without(self):
        self.check_recovers(self.plain)

    def test_sanitizers(self):
        for compiler, sanitizer in KINDS:
            with self.subTest(compiler=compiler, sanitizer=sanitizer):
                self.check_recovers(self.compile(compiler, sanitizer))

    def test_position_independent(self):
        self.check_recovers(self.compile("clang", "address", "-fPIE", "-pie"))

    def test_errors_of_the_program_are_found(self):
        for compiler in ("gcc", "clang"):
            program = self.compile(compiler, "address")
            done = run("oshrun", "-n", str(PES), program, "read")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("heap-buffer-overflow", done.stderr)

    def test_valgrind(self):
        """Without pidfds, which Debian 12's valgrind does not know; nothing is reported that the program has not done."""
        expected = self.result(run("oshrun", "-n", "2", self.plain))
        done = run("oshrun", "-n", "2", "--spares", "1", "-x", "SHMEM_FT_FAULTS=kill pe 1 at update_begin visit 7",
                   "valgrind", "-q", "--error-exitcode=9", self.plain)
        self.assertEqual(self.result(done), expected, done.stderr)
        self.assertEqual([line for line in done.stderr.splitlines() if not line.startswith(("shmem-ft: fault", "shmem-ft: warning: PE"))], [])

    def test_debugger(self):
        """Who is held by a debugger for longer than a hang may last is not taken for hung."""
        job = subprocess.Popen(["oshrun", "-n", str(PES), "--spares", "1", "-x", "SHMEM_FT_HANG_TIMEOUT=1000", self.plain,
                                "slow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            pid = self.pid_of_a_pe(job)
            session = run("gdb", "-batch", "-nx", "-p", str(pid), "-ex", "backtrace 3", "-ex", "print sums[0]",
                          "-ex", "shell sleep 3", "-ex", "detach")
            self.assertRegex(session.stdout, r"\$1 = -?\d+", session.stderr)
            out, errors = job.communicate(timeout=120)
        finally:
            job.kill()
            job.wait()
        self.assertEqual((job.returncode, sorted(out.splitlines()), errors), (*self.expected, ""))

    def pid_of_a_pe(self, job):
        """Of one that is past its first step, so that it is neither starting nor a spare."""
        while job.poll() is None:
            listed = run("shmem-ft", "status", "--json", str(job.pid))
            for found in json.loads(listed.stdout)["jobs"] if listed.returncode == 0 else []:
                if found["version"] > 2:
                    return found["pes"][1]["pid"]
            time.sleep(0.1)
        self.fail("the job ended before it could be looked at")

    def test_stripped(self):
        program = self.compile("clang", "address")
        subprocess.run(["strip", program], check=True)
        done = run("oshrun", "-n", "1", program)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("do not strip it, or link with -shared-libsan", done.stderr)

    def test_state_of_a_sanitizer_is_left_out(self):
        listed = run("shmem-ft", "globals", self.compile("clang", "address")).stdout
        saved, _, left_out = listed.partition("Left out:")
        self.assertIn("state of a sanitizer", left_out)
        self.assertNotIn("__sanitizer", saved)
        self.assertNotIn("__asan::", saved)
        self.assertIn("sums", saved)
        both = run("shmem-ft", "globals", self.compile("clang", "address,undefined")).stdout
        self.assertNotIn("__ubsan_vptr", both.partition("Left out:")[0])


if __name__ == "__main__":
    unittest.main()
