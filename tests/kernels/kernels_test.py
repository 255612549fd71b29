#!/usr/bin/env python3
"""The kernels of apps/kernels give one and the same verified result, however they are built and run: on any number of PEs,
plain and fault-tolerant, and with Open MPI's library where that is installed. Their verification finds faults, and the
documentation shows the lines that are there.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from compare import open_mpi, open_mpi_environment  # noqa: E402

LIMIT_S = 90
PES = (1, 2, 3, 4, 6)
OPTIONS = None

# Small enough for a busy machine.
ARGUMENTS = {
    "gups": ["--log2-words", "12", "--batches", "5"],
    "hash_table": ["--keys", "1000", "--draws", "10000", "--batches", "5"],
    "isx": ["--keys", "30000", "--max-key", "20000", "--rounds", "5"],
    "matmul": ["--size", "101", "--panel", "8", "--interval", "4"],
    "stencil2d": ["--cells", "61", "--steps", "50", "--interval", "10"],
}

# A fault in the communication of each kernel, as text of the source and what takes its place.
FAULTS = {
    "gups": ("random, (int)(word % n_pes)", "random ^ (left == 1 && batch == 0), (int)(word % n_pes)"),
    "hash_table": ("found == 0 || found == key", "found != 1"),
    "isx": ("count * sizeof *room->keys, pe)", "(count - (round_number == 3)) * sizeof *room->keys, pe)"),
    "matmul": ("part->height * count, (int)owner)", "part->height * count, 0)"),
    "stencil2d": ("= inboxes[step % 2]", "= inboxes[(step + 1) % 2]"),
}


def run(*command, status=0, environment=None):
    words = [str(word) for word in command]
    result = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=environment,
                            stdin=subprocess.DEVNULL)
    if result.returncode != status:
        raise AssertionError(f"{' '.join(words)}: exit status {result.returncode} instead of {status}\n"
                             f"{result.stdout}{result.stderr}")
    return result


def result_of(output: str) -> str:
    results = [line for line in output.splitlines() if line.startswith("result ")]
    if len(results) != 1 or not re.search(r"^rate \d+\.\d+ \S", output, re.M):
        raise AssertionError(f"not one result and one rate:\n{output}")
    return results[0]


def source_of(kernel: str) -> pathlib.Path:
    return ROOT / "apps" / "kernels" / f"{kernel}.c"


class Kernels(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="shmem-ft-kernels-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, name: str) -> pathlib.Path:
        return pathlib.Path(OPTIONS.programs) / name

    def reference(self, kernel: str) -> str:
        return result_of(run(OPTIONS.oshrun, "-n", 1, self.program(kernel), *ARGUMENTS[kernel]).stdout)

    def test_one_result_on_any_number_of_pes(self):
        for kernel, arguments in ARGUMENTS.items():
            results = {pes: result_of(run(OPTIONS.oshrun, "-n", pes, self.program(kernel), *arguments).stdout)
                       for pes in PES}
            with self.subTest(kernel=kernel):
                self.assertRegex(results[1], rf"^result {kernel} [0-9a-f]{{16}} errors 0$")
                self.assertEqual(set(results.values()), {results[1]}, results)

    def test_the_fault_tolerant_one_gives_the_same(self):
        for kernel, arguments in ARGUMENTS.items():
            with self.subTest(kernel=kernel):
                output = run(OPTIONS.oshrun, "-n", 4, "--spares", 1, self.program(kernel + "_ft"), *arguments).stdout
                self.assertEqual(result_of(output), self.reference(kernel))

    def test_another_seed_gives_another_result(self):
        for kernel in ("hash_table", "isx", "matmul"):
            with self.subTest(kernel=kernel):
                words = [self.program(kernel), *ARGUMENTS[kernel], "--seed", "2"]
                self.assertNotEqual(result_of(run(OPTIONS.oshrun, "-n", 2, *words).stdout), self.reference(kernel))

    def test_the_verification_finds_a_fault(self):
        for kernel, (right, wrong) in FAULTS.items():
            with self.subTest(kernel=kernel):
                text = source_of(kernel).read_text(encoding="utf-8")
                self.assertEqual(text.count(right), 1, f"the place for the fault is not in {kernel}.c")
                source = self.folder / f"{kernel}.c"
                source.write_text(text.replace(right, wrong), encoding="utf-8")
                program = self.folder / kernel
                run(OPTIONS.cc, "-O1", "-I", ROOT, source, "-lm", "-o", program)
                result = run(OPTIONS.oshrun, "-n", 4, program, *ARGUMENTS[kernel], status=1)
                self.assertNotRegex(result.stdout, r"errors 0$")
                self.assertIn(f"{kernel}: error: the result is wrong in", result.stderr)

    def test_options(self):
        for kernel in ARGUMENTS:
            with self.subTest(kernel=kernel):
                self.assertIn("Options:", run(OPTIONS.oshrun, "-n", 2, self.program(kernel), "--help").stdout)
                result = run(OPTIONS.oshrun, "-n", 2, self.program(kernel), "--pace", "x", status=2)
                self.assertIn(f"{kernel}: error: --pace x: expected a whole number", result.stderr)

    def test_open_mpi_gives_the_same(self):
        wrapper, launcher = open_mpi("oshcc", "--showme:version"), open_mpi("oshrun", "--version")
        if not wrapper or not launcher:
            self.skipTest("Open MPI's oshcc and oshrun are not installed")
        for kernel in ("gups", "hash_table", "isx", "stencil2d"):  # it has no teams for matmul
            with self.subTest(kernel=kernel):
                program = self.folder / kernel
                run(wrapper, "-std=gnu11", "-Werror=implicit-function-declaration", "-O2", "-I", ROOT,
                    source_of(kernel), "-lm", "-o", program)
                output = run(launcher, "-n", 2, program, *ARGUMENTS[kernel],
                             environment=open_mpi_environment(str(self.folder))).stdout
                self.assertEqual(result_of(output), self.reference(kernel))

    def test_the_documentation_shows_what_is_there(self):
        chapter = (ROOT / "docs" / "applications.md").read_text(encoding="utf-8")
        sources = [source_of(kernel).read_text(encoding="utf-8") for kernel in ARGUMENTS]
        blocks = re.findall(r"^```c\n(.*?)^```$", chapter, re.M | re.S)
        self.assertGreaterEqual(len(blocks), len(ARGUMENTS))
        for block in blocks:
            for part in re.split(r"^ *\.\.\.\n", block, flags=re.M):
                with self.subTest(part=part):
                    self.assertTrue(any(part in source for source in sources), "no kernel has these lines")


def main() -> int:
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("oshrun", "cc", "programs"):
        parser.add_argument(f"--{name}", required=True)
    OPTIONS, rest = parser.parse_known_args()
    return 0 if unittest.main(argv=[sys.argv[0], *rest], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
