#!/usr/bin/env python3
"""What a wrong call looks like: one line that names the routine and the fault, a non-zero status, nobody left. And the
end by shmem_global_exit from any PE, whatever the others do."""

import argparse
import subprocess
import sys
import unittest

PROGRAMS = {}
LIMIT_S = 60


def job(pes, *command):
    return subprocess.run(
        [PROGRAMS["oshrun"], "-n", str(pes), *command], timeout=LIMIT_S, capture_output=True, text=True, check=False
    )


class OutsideOfAJob(unittest.TestCase):
    def test_the_routine_is_named(self):
        names = {
            "put": "shmem_long_p",
            "malloc": "shmem_malloc",
            "barrier": "shmem_barrier_all",
            "my_pe": "shmem_my_pe",
            "lock": "shmem_set_lock",
            "context": "shmem_ctx_create",
        }
        for when in ("before", "after"):
            for word, routine in names.items():
                with self.subTest(when=when, routine=routine):
                    result = job(2, PROGRAMS["outside"], when, word)
                    self.assertNotEqual(result.returncode, 0)
                    self.assertIn(f"{routine} was called before shmem_init or after the last", result.stderr)


class GlobalExit(unittest.TestCase):
    def test_ends_everybody_with_its_status(self):
        places = ("barrier", "wait", "signal", "compute", "lock", "reduce", "heap", "finalize")
        for index, where in enumerate(places):
            for who, status in ((0, 0), (1, 7), (2, 99)) if index < 4 else ((index % 3, 7 * (index % 2)),):
                with self.subTest(where=where, who=who, status=status):
                    result = job(3, PROGRAMS["global_exit"], str(who), str(status), where)
                    self.assertEqual(result.returncode, status, result.stderr)
                    self.assertNotIn("went on", result.stderr)
                    self.assertIn("buffered output is flushed", result.stdout)


    def test_one_of_several_statuses_is_reported(self):
        for _ in range(3):
            result = job(4, PROGRAMS["global_exit"], "0", "20", "all")
            self.assertIn(result.returncode, range(20, 24), result.stderr)
            self.assertIn("buffered output is flushed", result.stdout)

    def test_several_threads_exit_once(self):
        for who in (0, 1, 2):
            result = job(3, PROGRAMS["global_exit"], str(who), "9", "threads")
            self.assertEqual(result.returncode, 9, result.stderr)
            self.assertEqual(result.stdout.count("exit handlers are run"), 1, result.stdout)
            self.assertNotIn("went on", result.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("oshrun", "outside", "global-exit"):
        parser.add_argument(f"--{name}", required=True)
    options, rest = parser.parse_known_args()
    PROGRAMS.update(vars(options))
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
