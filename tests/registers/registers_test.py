#!/usr/bin/env python3
"""Does any public routine return with the upper halves of the vector registers in use (observer.c says what that costs)?

The observer is preloaded into the conformance programs and into one that recovers twice, on one node and on pretended
ones. What it has not seen come back is a failure as well: a new routine has to be called by one of the programs.
"""

import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
OPTIONS = None
NEVER_RETURNS = {"shmem_global_exit"}
# Many of glibc's functions clean up behind themselves, and so behind whoever was there before; the older variants do not.
PLAIN_GLIBC = "glibc.cpu.hwcaps=-AVX2,-AVX_Fast_Unaligned_Load,-AVX512F,-AVX512VL"
DEATHS = {f"{who} of PE {pe}, step {step}" for who in ("substitute", "survivor") for pe, step in ((1, 4), (0, 8))}

Seen = collections.namedtuple("Seen", "called behind before output")


def observe(words, environment=None):
    """Runs a job under the observer. What was seen in all of its processes."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report"
        names = {**os.environ, **(environment or {}), "REGISTERS_REPORT": str(report)}
        preload = ["-x", f"LD_PRELOAD={OPTIONS.observer}", "-x", f"GLIBC_TUNABLES={PLAIN_GLIBC}"]
        command = [OPTIONS.oshrun, *preload, *map(str, words)]
        result = subprocess.run(command, timeout=OPTIONS.limit_s, capture_output=True, text=True, env=names, check=False)
        if result.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
        lines = report.read_text(encoding="ascii").splitlines() if report.exists() else []
    if any(line.startswith("unusable") for line in lines):
        print(f"skipped: {lines[0]}")
        sys.exit(SKIPPED)
    named = {what: {line.removeprefix(what + " ") for line in lines if line.startswith(what + " ")}
             for what in ("called", "dirty behind", "dirty before")}
    return Seen(*named.values(), result.stdout)


def recover(environment, *options):
    return observe(["-n", "4", "--spares", "2", OPTIONS.recovering, *options], environment)


def of_fault_tolerance(names):
    return {name for name in names if name.startswith("shmem_ft_") or name in OPTIONS.fault_tolerance}


def listed():
    words = [sys.executable, OPTIONS.writer, "--list"]
    return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


def exported():
    """The public routines: each is exported with a p in front as well, but for those that only look at a number."""
    output = subprocess.run(["nm", "-D", "--defined-only", OPTIONS.library], capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in output.stdout.splitlines()}
    return {name for name in names if "p" + name in names or name.startswith("shmem_")}


class Registers(unittest.TestCase):
    def assert_clean(self, seen, what):
        self.assertEqual((seen.behind, seen.before), (set(), set()), what)

    def test_the_observer_stands_before_every_routine(self):
        self.assertEqual(listed(), exported())

    def test_standard_routines(self):
        for nodes in OPTIONS.nodes:
            called = set()
            for program in OPTIONS.programs:
                shape = ["-n", 4, "-x", "CONFORMANCE_NODES=2"] if nodes else ["-n", 3]
                seen = observe([*shape, program], nodes)
                self.assert_clean(seen, (program, nodes))
                called |= seen.called
            missing = listed() - called - NEVER_RETURNS - of_fault_tolerance(listed())
            self.assertEqual(missing, set(), f"no program calls them {nodes}")

    def test_checkpoints_and_recoveries(self):
        for nodes in OPTIONS.nodes:
            # With a single copy on another node a PE's death is the end of those whose copy it kept.
            for mode in ("double",) if nodes else ("double", "single"):
                with self.subTest(mode=mode, **nodes):
                    seen = recover({**nodes, "SHMEM_FT_BACKUP_MODE": mode})
                    self.assert_clean(seen, "while recovering")
                    self.assertEqual(set(seen.output.splitlines()), DEATHS)
                    self.assertEqual(of_fault_tolerance(listed()) - seen.called, set())

    def test_checkpoints_of_a_single_copy_on_another_node(self):
        for nodes in OPTIONS.nodes[1:]:
            seen = recover({**nodes, "SHMEM_FT_BACKUP_MODE": "single"}, "--lossless")
            self.assert_clean(seen, nodes)
            self.assertIn("shmem_checkpoint_all", seen.called)

    def test_copies_that_are_checked_and_mended(self):
        for nodes in OPTIONS.nodes:
            with self.subTest(**nodes):
                flips = "flip local of pe 2 at restart_enter; flip shadow of pe 3 at updated visit 3"
                seen = recover({**nodes, "SHMEM_FT_SCRUB": "1", "SHMEM_FT_FAULTS": flips}, "--pace", "120")
                self.assert_clean(seen, "while mending")
                self.assertEqual(set(seen.output.splitlines()), DEATHS)

    def test_an_offender_is_found(self):
        seen = recover({"REGISTERS_OFFENDER": "shmem_restart_pes"})
        self.assertEqual(seen.behind, {"shmem_restart_pes"})

    def test_every_routine_can_be_found(self):
        everyone = {"REGISTERS_OFFENDER": "all"}
        for seen in (recover(everyone), observe(["-n", "2", OPTIONS.programs[0]], everyone)):
            self.assertEqual(seen.behind, seen.called)
            self.assertEqual(seen.before, set())


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("oshrun", "observer", "library", "writer", "recovering"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--fabric", action="append", default=[], help="also on pretended nodes with this network")
    parser.add_argument("--limit-s", type=float, default=90, help="how long a job may take")
    parser.add_argument("--programs", nargs="+", required=True)
    OPTIONS = parser.parse_args()
    OPTIONS.nodes = [{}, *({"SHMEM_FT_PRETEND_NODES": "2", "SHMEM_TRANSPORT": name} for name in OPTIONS.fabric)]
    OPTIONS.fault_tolerance = {"shmem_checkpoint_all", "shmem_query_fault", "shmem_restart_pes"}
    if "address" in os.environ.get("SFT_SANITIZE", ""):
        print("skipped: AddressSanitizer wants to be loaded first")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])


if __name__ == "__main__":
    main()
