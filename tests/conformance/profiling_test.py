#!/usr/bin/env python3
"""A profiling tool that is a library of its own, in the three ways there are: preloaded into a program that was linked
without it, linked in front of the shared library, and linked in front of the static one. Each PE must report the calls
that the program makes, no more: nothing of the library may go through the tool."""

import argparse
import os
import subprocess
import sys
import unittest

OPTIONS = None
PES = 3


def expected_of(pe):
    return (
        f"tool: PE {pe}: puts 3 of {12 * 8 + 2 * 8} bytes, gets 2, atomics {pe}, barriers 4, collectives 2, waits 1, "
        "allocations 3, signals 1, locks 1, fences 2"
    )


class Tool(unittest.TestCase):
    def check(self, *words):
        command = [OPTIONS.oshrun, "-n", str(PES), *words]
        result = subprocess.run(command, timeout=60, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        reports = sorted(line for line in result.stdout.splitlines() if line.startswith("tool: "))
        self.assertEqual(reports, [expected_of(pe) for pe in range(PES)])

    @unittest.skipIf("address" in os.environ.get("SFT_SANITIZE", ""), "AddressSanitizer wants to be loaded first")
    def test_preloaded(self):
        self.check("-x", f"LD_PRELOAD={OPTIONS.tool}", OPTIONS.plain)

    def test_linked_before_the_shared_library(self):
        self.check(OPTIONS.linked)

    def test_linked_before_the_static_library(self):
        self.check(OPTIONS.linked_statically)

    def test_without_the_tool_nothing_is_reported(self):
        result = subprocess.run([OPTIONS.oshrun, "-n", "2", OPTIONS.plain], timeout=60, capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("oshrun", "tool", "plain", "linked", "linked-statically"):
        parser.add_argument(f"--{name}", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
