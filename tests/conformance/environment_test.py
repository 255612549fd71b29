#!/usr/bin/env python3
"""SHMEM_SYMMETRIC_SIZE in all its forms, and its old name: the heap has the size that is asked for, the new name wins,
and what is no size ends the program with a line that names the variable."""

import argparse
import os
import subprocess
import sys
import unittest

OPTIONS = None

# What the variable says, and how many bytes that is.
SIZES = {
    "20m": 20 << 20,
    "20M": 20 << 20,
    "3.1M": 3250586,
    ".5m": 1 << 19,
    "0.5m": 1 << 19,
    "600kk": 600 << 10,
    "1024Kxyz": 1 << 20,
    "2097152": 2 << 20,
    "0.25g": 1 << 28,
    "0.0005T": 549755814,
}
WRONG = ("much", "", "-1", "5x", "M", "1.2.3m", "0x10")


def run(bytes_wanted, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.endswith("SYMMETRIC_SIZE")}
    command = [OPTIONS.oshrun, "-n", "2", OPTIONS.program, str(bytes_wanted)]
    return subprocess.run(
        command, timeout=60, capture_output=True, text=True, check=False, env={**environment, **variables}
    )


class SymmetricSize(unittest.TestCase):
    def check_size(self, bytes_asked, **variables):
        """Almost all of it can be had at once."""
        result = run(bytes_asked - bytes_asked // 8, **variables)
        self.assertEqual(result.returncode, 0, f"{variables}: {result.stderr}")

    def test_forms(self):
        for text, size in SIZES.items():
            with self.subTest(text=text):
                self.check_size(size, SHMEM_SYMMETRIC_SIZE=text)

    def test_old_name(self):
        self.check_size(3 << 20, SMA_SYMMETRIC_SIZE="3m")

    def test_new_name_wins(self):
        self.check_size(5 << 20, SMA_SYMMETRIC_SIZE="64m", SHMEM_SYMMETRIC_SIZE="5m")
        self.check_size(64 << 20, SMA_SYMMETRIC_SIZE="5m", SHMEM_SYMMETRIC_SIZE="64m")

    def test_a_bad_old_value_is_not_looked_at_if_the_new_name_is_there(self):
        self.check_size(5 << 20, SMA_SYMMETRIC_SIZE="much", SHMEM_SYMMETRIC_SIZE="5m")

    def test_what_is_no_size_is_reported(self):
        for name in ("SHMEM_SYMMETRIC_SIZE", "SMA_SYMMETRIC_SIZE"):
            for text in WRONG:
                with self.subTest(name=name, text=text):
                    result = run(1000, **{name: text})
                    self.assertNotEqual(result.returncode, 0)
                    self.assertIn(f"{name}={text}: not a number", result.stderr)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("oshrun", "program"):
        parser.add_argument(f"--{name}", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
