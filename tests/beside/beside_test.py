#!/usr/bin/python3
"""Programs that do not look like the others: executables that do not use OpenSHMEM themselves (Python, and a program whose
own shared library does), and programs that use MPI beside it."""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPTIONS = None
LIMIT_S = 90

WRAPPER = """
#include <shmem.h>
int wrapped_init(void);
int wrapped_put(long *where);
void wrapped_end(void);
int wrapped_init(void) { shmem_init(); return shmem_my_pe(); }
int wrapped_put(long *where) { shmem_long_p(where, 7, 0); shmem_barrier_all(); return shmem_n_pes(); }
void wrapped_end(void) { shmem_finalize(); }
"""
THROUGH_WRAPPER = """
#include <stdio.h>
int wrapped_init(void);
int wrapped_put(long *where);
void wrapped_end(void);
long cell;
int main(void) {
    const int me = wrapped_init();
    wrapped_put(&cell);
    if (me == 0) { printf("cell %ld\\n", cell); }
    wrapped_end();
    return 0;
}
"""
USER = "#include <shmem.h>\nlong cell;\nint main(void) { shmem_init(); cell = 1; shmem_finalize(); return 0; }\n"
OTHER = "void shmem_init(void) {}\nvoid shmem_finalize(void) {}\n"
PLAIN = "int cell; int main(void) { return cell; }\n"


def run(*words, status=0, **settings):
    result = subprocess.run([str(word) for word in words], env={**os.environ, **settings}, capture_output=True, text=True,
                            timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL)
    if result.returncode != status:
        raise AssertionError(f"{words}: exit status {result.returncode}, not {status}\n{result.stdout}{result.stderr}")
    return result


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def compile(self, compiler, name, source, *options):
        (self.folder / f"{name}.c").write_text(source)
        run(compiler, self.folder / f"{name}.c", "-o", self.folder / name, *options)
        return self.folder / name

    def wrapped(self):
        library = self.compile(OPTIONS.oshcc, "libwrapper.so", WRAPPER, "-shared", "-fPIC")
        return self.compile("cc", "through", THROUGH_WRAPPER, library, f"-Wl,-rpath,{self.folder}",
                            "-Wl,--allow-shlib-undefined")

    def globals_of(self, program, **settings):
        return run(OPTIONS.shmem_ft, "globals", program, **settings).stdout


class Globals(InFolder):
    """Which executables have symmetric globals."""

    def test_users_of_the_library(self):
        for name, options in {"plain": [], "pie": ["-fPIE", "-pie"], "no_pie": ["-fno-pie", "-no-pie"]}.items():
            with self.subTest(name=name):
                program = self.compile(OPTIONS.oshcc, name, USER, *options)
                self.assertIn("are symmetric: it needs libshmem_ft.so", self.globals_of(program))
        static = self.compile(OPTIONS.oshcc, "static", USER, "--shmem-static")
        self.assertIn("are symmetric: it has the library", self.globals_of(static))
        run("strip", static)
        self.assertIn("are symmetric: it has the library", self.globals_of(static))

    def test_a_program_linked_with_another_library(self):
        """It names that one among what it needs, and still calls our routines if ours is loaded."""
        other = self.compile("cc", "libother.so", OTHER, "-shared", "-fPIC")
        program = self.compile("cc", "user", USER, f"-I{ROOT / 'include'}", other)
        self.assertIn("are symmetric: it refers to shmem_", self.globals_of(program))

    def test_others(self):
        for program in (self.compile("cc", "plain", PLAIN), self.wrapped(), sys.executable):
            with self.subTest(program=program):
                self.assertIn("globals are private", self.globals_of(program))
                self.assertIn("are symmetric: SHMEM_FT_GLOBALS=yes", self.globals_of(program, SHMEM_FT_GLOBALS="yes"))
        user = self.compile(OPTIONS.oshcc, "user", USER)
        self.assertIn("globals are private", self.globals_of(user, SHMEM_FT_GLOBALS="no"))

    def test_through_a_library_of_its_own(self):
        program = self.wrapped()
        told = run(OPTIONS.oshrun, "-n", 2, program, status=70, SHMEM_FT_GLOBALS="auto").stderr
        self.assertIn("SHMEM_FT_GLOBALS", told)
        self.assertIn("is not symmetric", told)
        self.assertEqual(run(OPTIONS.oshrun, "-n", 2, program, SHMEM_FT_GLOBALS="yes").stdout, "cell 7\n")


class Python(unittest.TestCase):
    def test_results_do_not_depend_on_the_number_of_pes(self):
        results = set()
        for pes in (1, 2, 3):
            for settings in ({}, {"SHMEM_FT_PRETEND_NODES": "2"} if pes == 3 else {}):
                told = run(OPTIONS.oshrun, "-n", pes, sys.executable, ROOT / "apps/heat.py", "--library", OPTIONS.library,
                           "--verify", "--steps", 60, **settings).stdout
                self.assertIn("verified: bit-identical", told)
                results.add(told.splitlines()[1])
        self.assertEqual(len(results), 1, results)

    def test_a_death_is_recovered_from(self):
        calm = run(OPTIONS.oshrun, "-n", 3, sys.executable, ROOT / "apps/heat.py", "--library", OPTIONS.library).stdout
        told = run(OPTIONS.oshrun, "-n", 3, "--spares", 2, sys.executable, ROOT / "apps/heat.py", "--library",
                   OPTIONS.library, SHMEM_FT_FAULTS="kill pe 1 at replicate_begin visit 5; kill pe 0 at replicate_begin visit 9").stdout
        self.assertEqual(told, calm)


@unittest.skipIf(shutil.which("mpicc") is None, "no mpicc here")
class Mpi(InFolder):
    def setUp(self):
        super().setUp()
        self.program = self.folder / "mpi_beside"
        library = pathlib.Path(OPTIONS.library)
        run("mpicc", OPTIONS.mpi_program, f"-I{ROOT / 'include'}", library, f"-Wl,-rpath,{library.parent}", "-o",
            self.program)

    def test_the_same_result_as_under_mpirun(self):
        """shmem_init is in the middle of a program that mpirun has started, and the other way round."""
        for order in ("mpi-first", "shmem-first"):
            with self.subTest(order=order):
                own = run(OPTIONS.oshrun, "-n", 3, self.program, order)
                root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
                theirs = run("mpirun.openmpi", *root, "--oversubscribe", "-n", 3, self.program, order)
                self.assertEqual(sorted(own.stdout.splitlines()), sorted(theirs.stdout.splitlines()))
                self.assertEqual(len(own.stdout.splitlines()), 3)
                self.assertEqual(own.stderr, "")

    def test_a_death_ends_the_job_with_one_line(self):
        for order in ("mpi-first", "shmem-first"):
            with self.subTest(order=order):
                told = run(OPTIONS.oshrun, "-n", 3, self.program, order, "die", status=137)
                self.assertEqual(len(told.stderr.splitlines()), 1, told.stderr)
                self.assertRegex(told.stderr, r"PE 1 failed \(killed by signal 9 \(Killed\)\), and the program uses MPI")

    def test_mpi_needs_a_launcher(self):
        """Without one MPI_Init would make a world of each process, and say nothing."""
        for order in ("mpi-first", "shmem-first"):
            with self.subTest(order=order):
                told = run(OPTIONS.oshrun, "--launcher", "own", "-n", 2, self.program, order, status=1)
                self.assertEqual(told.stdout, "")

    def test_spares_are_refused(self):
        told = run(OPTIONS.oshrun, "-n", 2, "--spares", 1, self.program, "mpi-first", status=70)
        self.assertIn("start the job without spares", told.stderr)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("oshrun", "oshcc", "shmem-ft", "mpi-program", "library"):
        parser.add_argument(f"--{name}", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
