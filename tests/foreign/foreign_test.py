#!/usr/bin/env python3
"""Programs that others have written compile unchanged with our oshcc and oshc++, and put out what they must.

They come from Debian source packages, which script/foreign fetches: the OpenSHMEM examples of Open MPI, and NetPIPE with
its module for SHMEM, which uses the interface as it was before OpenSHMEM. Nothing of them is part of this tree. Where
Open MPI's own tools are installed, its run of each example is compared with ours, too.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))

from compare import open_mpi, open_mpi_environment  # noqa: E402

SKIPPED = 77
LIMIT_S = 60
PES = (1, 2, 3, 5)
OPTIONS = None


def run(*command, environment=None, folder=None) -> str:
    words = [str(word) for word in command]
    result = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=environment,
                            cwd=folder, stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def lines_of(output: str) -> list:
    """Without an order, which PEs do not keep among themselves, and without the space that some lines end with."""
    return sorted(line.rstrip() for line in output.splitlines())


def hello(pes: int) -> list:
    return [f"Hello, world, I am {pe} of {pes}: LIBRARY" for pe in range(pes)]


def ring(pes: int) -> list:
    return ([f"Process 0 puts message 10 to {1 % pes} ({pes} processes in ring)"]
            + [f"Process 0 decremented value: {value}" for value in range(10)]
            + [f"Process {pe} exiting" for pe in range(pes)])


def circular_shift(pes: int) -> list:
    return ([f"Process {pe} gets message from {(pe + 1) % pes} ({pes} processes in ring)" for pe in range(pes)]
            + [f"Process {pe} exiting" for pe in range(pes)])


def max_reduction(pes: int) -> list:
    return [f"{pe}/{pes} dst = {pes - 1} {pes} {pes + 1}" for pe in range(pes)]


def strided_puts(_: int) -> list:
    return ["target on PE 1 is 1 3 5 7 9"]


def symmetric_data(pes: int) -> list:
    numbers = " \t".join(str(number) for number in range(16))
    return [f"Target on PE {pe} is \t{numbers}" for pe in range(1, pes)]


# Source, what it puts out on so many PEs, the smallest number of PEs.
EXAMPLES = (
    ("hello_oshmem_c.c", hello, 1),
    ("hello_oshmem_cxx.cc", hello, 1),
    ("ring_oshmem_c.c", ring, 1),
    ("oshmem_circular_shift.c", circular_shift, 1),
    ("oshmem_max_reduction.c", max_reduction, 1),
    ("oshmem_shmalloc.c", lambda pes: [], 1),
    ("oshmem_strided_puts.c", strided_puts, 2),
    ("oshmem_symmetric_data.c", symmetric_data, 1),
)


def without_names(output: str) -> str:
    """The greeting of a library is its own affair; that it is there, and a version, is not."""
    return re.sub(r"(Hello, world, I am \d+ of \d+: ).+ \(version: \d+\.\d+\)$", r"\1LIBRARY", output, flags=re.M)


class Foreign(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="shmem-ft-foreign-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compile(self, name: str, *words) -> pathlib.Path:
        program = self.folder / name
        run(*words, "-o", program)
        return program

    def test_examples_of_open_mpi(self):
        for name, expected, fewest in EXAMPLES:
            source = OPTIONS.sources / "openmpi" / "examples" / name
            compiler = OPTIONS.cxx if name.endswith(".cc") else OPTIONS.cc
            program = self.compile(name + ".ours", compiler, "-O2", source)
            for pes in PES:
                if pes >= fewest:
                    with self.subTest(program=name, pes=pes):
                        output = without_names(run(OPTIONS.oshrun, "-n", pes, program))
                        self.assertEqual(lines_of(output), sorted(expected(pes)))

    def test_open_mpi_says_the_same(self):
        wrapper, launcher = open_mpi("oshcc", "--showme:version"), open_mpi("oshrun", "--version")
        if not wrapper or not launcher:
            self.skipTest("Open MPI's oshcc and oshrun are not installed")
        environment = open_mpi_environment(str(self.folder))
        for name, expected, _ in EXAMPLES:
            if name.endswith(".c"):
                source = OPTIONS.sources / "openmpi" / "examples" / name
                with self.subTest(program=name):
                    program = self.compile(name + ".theirs", wrapper, "-O2", source)
                    output = without_names(run(launcher, "-n", 2, program, environment=environment))
                    self.assertEqual(lines_of(output), sorted(expected(2)))

    def test_netpipe(self):
        """Each size is thrown to and fro; a side goes on when the last byte has come. Its own check of the bytes (-i)
        is not used: it writes over the byte that is waited for and hangs, with Open MPI as well."""
        source = OPTIONS.sources / "netpipe" / "src"
        program = self.compile("NPshmem", OPTIONS.cc, "-O2", "-w", "-DSHMEM", source / "netpipe.c", source / "shmem.c")
        for mode in ([], ["-I"]):  # one buffer, or another place for every message
            with self.subTest(mode=mode):
                run(OPTIONS.oshrun, "-n", 2, program, *mode, "-n", 20, "-l", 1, "-u", 100000, "-o", "np.out",
                    folder=self.folder)
                rows = [line.split() for line in (self.folder / "np.out").read_text(encoding="utf-8").splitlines()]
                self.assertGreater(len(rows), 60)
                for size, megabits_per_s, seconds in rows:
                    megabits = int(size) * 8 / 2**20
                    self.assertAlmostEqual(float(megabits_per_s) * float(seconds), megabits,
                                           delta=0.05 * megabits + 1e-3)


def main() -> int:
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("oshrun", "cc", "cxx", "fetch"):
        parser.add_argument(f"--{name}", required=True)
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.oshrun = pathlib.Path(OPTIONS.oshrun).resolve()  # NetPIPE runs in another folder
    OPTIONS.sources = pathlib.Path(run(OPTIONS.fetch, "--folder").strip())
    for package in ("openmpi", "netpipe"):
        if not (OPTIONS.sources / package).is_dir():
            print(f"the sources of {package} are not in {OPTIONS.sources}: script/foreign fetches them")
            return SKIPPED
    return 0 if unittest.main(argv=[sys.argv[0], *rest], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
