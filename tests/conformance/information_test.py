#!/usr/bin/env python3
"""SHMEM_VERSION, SHMEM_INFO, SHMEM_DEBUG and SHMEM_SYMMETRIC_SIZE with their older names, in whole jobs: any value
switches on, PE 0 says it once, a bad size is one line and the end of the job."""

import argparse
import os
import re
import subprocess
import sys
import unittest

PROGRAMS = {}
LIMIT_S = 60
VERSION = re.compile(r"shmem-ft: version \d+\.\d+\.\d+, OpenSHMEM 1\.6, built with \w+ [\d.]+")


def job(environment, pes=3, program="hello"):
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("SHMEM_", "SMA_"))}
    return subprocess.run(
        [PROGRAMS["oshrun"], "-n", str(pes), PROGRAMS[program]],
        env={**clean, **environment},
        timeout=LIMIT_S,
        capture_output=True,
        text=True,
        check=False,
    )


class Information(unittest.TestCase):
    def lines(self, environment, **options):
        result = job(environment, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr.splitlines()

    def test_nothing_by_default(self):
        self.assertEqual(self.lines({}), [])

    def test_version_once_whatever_the_value(self):
        for name in ("SHMEM_VERSION", "SMA_VERSION"):
            for value in ("", "0", "1", "no"):
                with self.subTest(name=name, value=value):
                    lines = self.lines({name: value})
                    self.assertEqual(len(lines), 1, lines)
                    self.assertRegex(lines[0], VERSION)

    def test_version_once_in_a_program_that_initialises_twice(self):
        lines = self.lines({"SHMEM_VERSION": "1"}, program="setup")
        self.assertEqual(len([line for line in lines if VERSION.fullmatch(line)]), 1, lines)

    def test_info_explains_every_variable(self):
        for name in ("SHMEM_INFO", "SMA_INFO"):
            lines = self.lines({name: "", "SMA_SYMMETRIC_SIZE": "3.1M", "SHMEM_FT_CHECK": "off"})
            self.assertRegex(lines[0], VERSION)
            of = {line.split(": ", 1)[1].split("=")[0]: line for line in lines[1:]}
            for variable in ("SHMEM_VERSION", "SHMEM_INFO", "SHMEM_SYMMETRIC_SIZE", "SHMEM_DEBUG", "SHMEM_FT_CHECK",
                             "SHMEM_FT_BACKUP_MODE"):
                self.assertIn(variable, of)
                self.assertIn("Accepted: ", of[variable])
            self.assertEqual(len(of), len(lines) - 1, "a variable is there twice")
            self.assertIn("SHMEM_SYMMETRIC_SIZE=3250586 (SMA_SYMMETRIC_SIZE): ", of["SHMEM_SYMMETRIC_SIZE"])
            self.assertIn("Older name: SMA_SYMMETRIC_SIZE.", of["SHMEM_SYMMETRIC_SIZE"])
            self.assertIn("SHMEM_FT_CHECK=off (environment): ", of["SHMEM_FT_CHECK"])
            self.assertIn("SHMEM_FT_SCRUB=0 (default): ", of["SHMEM_FT_SCRUB"])

    def test_debug_tells_of_the_job(self):
        for name in ("SHMEM_DEBUG", "SMA_DEBUG"):
            lines = self.lines({name: ""})
            self.assertEqual(len([line for line in lines if "3 PEs, 0 spares, symmetric heap of" in line]), 1, lines)


class SymmetricSize(unittest.TestCase):
    def test_sizes_of_the_specification(self):
        for text in ("0", "1", "20m", "3.1M", ".5m", "400kk", "0.01g"):
            for name in ("SHMEM_SYMMETRIC_SIZE", "SMA_SYMMETRIC_SIZE"):
                with self.subTest(name=name, text=text):
                    result = job({name: text}, pes=2)
                    self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_garbage_is_one_line(self):
        for text in ("", "-1", "much", "20x", "M", "0x10", "nan"):
            for name in ("SHMEM_SYMMETRIC_SIZE", "SMA_SYMMETRIC_SIZE"):
                with self.subTest(name=name, text=text):
                    result = job({name: text}, pes=2)
                    self.assertNotEqual(result.returncode, 0)
                    self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                    self.assertIn(f"{name}={text}: not a number from 0 with a suffix", result.stderr)

    def test_the_new_name_wins(self):
        self.assertEqual(job({"SHMEM_SYMMETRIC_SIZE": "1m", "SMA_SYMMETRIC_SIZE": "much"}, pes=2).returncode, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("oshrun", "hello", "setup"):
        parser.add_argument(f"--{name}", required=True)
    options, rest = parser.parse_known_args()
    PROGRAMS.update(vars(options))
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
