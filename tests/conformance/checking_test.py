#!/usr/bin/env python3
"""SHMEM_FT_CHECK: every wrong call gets the one line that names the PE, the routine and the argument; right programs get
none. See wrong_calls.c."""

import argparse
import os
import re
import subprocess
import sys
import unittest

PROGRAMS = {}
LIMIT_S = 90
PES = 3

# Calls that go on under warn, by PE 1: name, routine, what the line says behind it.
GO_ON = {
    "put_end": ("shmem_putmem", r"dest 0x\w+ \+ 800 bytes runs 1 bytes past the end of its block \[0x\w+, 799 bytes\]"),
    "get_end": ("shmem_long_get", r"source 0x\w+ \+ 808 bytes runs 8 bytes past the end of its block \[0x\w+, 800 bytes\]"),
    "source_end": ("shmem_long_put", r"source 0x\w+ \+ 408 bytes runs 8 bytes past the end of its block .*"),
    "iget_end": ("shmem_long_iget", r"source 0x\w+ \+ 808 bytes runs 8 bytes past the end of its block .*"),
    "ibget_end": ("shmem_long_ibget", r"source 0x\w+ \+ 824 bytes runs 24 bytes past the end of its block .*"),
    "in_freed": ("shmem_long_g", r"source 0x\w+ \+ 8 bytes lies in freed memory: block \[0x\w+, 800 bytes\] .*shmem_free"),
    "atomic_in_freed": ("shmem_long_atomic_fetch", r"source 0x\w+ \+ 8 bytes lies in freed memory.*"),
    "in_no_block": ("shmem_long_g", r"source 0x\w+ \+ 8 bytes lies in no block of the symmetric heap: it begins 0 bytes past.*"),
    "misaligned": ("shmem_get64", r"source 0x\w+ is not aligned to 8 bytes"),
    "misaligned_local": ("shmem_get64", r"dest 0x\w+ is not aligned to 8 bytes"),
    "overlap": ("shmem_long_put", r"dest 0x\w+ \+ 16 bytes and source 0x\w+ \+ 16 bytes overlap"),
    "overlap_window": ("shmem_long_get", r"dest 0x\w+ \+ 16 bytes and source 0x\w+ \+ 16 bytes overlap"),
    "overlap_signal": ("shmem_uint64_put_signal", r"dest 0x\w+ \+ 16 bytes and sig_addr 0x\w+ \+ 8 bytes overlap"),
    "stride_zero": ("shmem_long_iget", r"dst is 0: a stride is at least 1"),
    "stride_negative": ("shmem_long_iget", r"sst is -1: a stride is at least 1"),
    "stride_small": ("shmem_long_ibget", r"dst is 2: a stride is at least 4"),
    "test_freed": ("shmem_long_test", r"ivar 0x\w+ \+ 8 bytes lies in freed memory.*"),
    "wait_end": ("shmem_long_test_any", r"ivars 0x\w+ \+ 16 bytes runs 8 bytes past the end of its block.*"),
    "destroy_default": ("shmem_ctx_destroy", r"ctx is SHMEM_CTX_DEFAULT, which cannot be destroyed"),
    "left_context": ("shmem_finalize", r"ctx: a SHMEM_CTX_PRIVATE context has not been destroyed before"),
    "quiet_pe": ("shmem_pe_quiet", r"target_pes\[1\]: there is no PE 99: PE numbers go from 0 to 2 here"),
    "destroy_world": ("shmem_team_destroy", r"team is predefined and cannot be destroyed"),
    "clear_unheld": ("shmem_clear_lock", r"lock 0x\w+ is not held by this PE"),
    "test_held": ("shmem_test_lock", r"lock 0x\w+ is held by this PE already"),
    "thread_query": ("shmem_my_pe", r"called by a thread that did not initialise, but .* SHMEM_THREAD_FUNNELED"),
    "thread_quiet": ("shmem_quiet", r"called by a thread that did not initialise, but .* SHMEM_THREAD_FUNNELED"),
    "thread_put": ("shmem_long_p", r"called by a thread that did not initialise, but .* SHMEM_THREAD_FUNNELED"),
    "outside_set": ("shmem_barrier", r"this PE does not belong to the active set \(PE_start 0, logPE_stride 1, PE_size 2\)"),
    "outside_set_sum": ("shmem_long_sum_to_all", r"this PE does not belong to the active set .*"),
    "dead_team": ("shmem_team_my_pe", r"team is invalid.*"),
    "team_with_context": ("shmem_team_destroy", r"ctx: a SHMEM_CTX_PRIVATE context of the team .*"),
    "sync_unset": ("shmem_barrier", r"pSync\[3\] is 5: every element must have been set to SHMEM_SYNC_VALUE"),
}

# The same, found when calls of PEs are compared, which PE 0 does.
GO_ON_COMPARED = {
    "count_differs": ("shmem_long_fcollect", r"nelems differs between PEs: 1 on PEs 0, 2; 2 on PE 1"),
    "dest_differs": ("shmem_long_broadcast", r"dest differs between PEs: 0x\w+ on PEs 0, 2; 0x\w+ on PE 1"),
    "source_differs": ("shmem_long_sum_reduce", r"source differs between PEs: 0x\w+ on PEs 0, 2; 0x\w+ on PE 1"),
}

# With a thread level of its own.
GO_ON_SERIALIZED = {
    "private_context": ("shmem_ctx_long_p", r"ctx is SHMEM_CTX_PRIVATE and used by a thread that did not create it"),
    "two_at_once": ("shmem_long_atomic_set", r"called while another thread is in a call, but .* SHMEM_THREAD_SERIALIZED"),
}

# What cannot be carried out: the job ends in both modes.
END = {
    "null_dest": (1, "shmem_long_put", r"dest is a null pointer, for 24 bytes"),
    "null_source": (1, "shmem_int_put", r"source is a null pointer, for 12 bytes"),
    "null_fetch": (1, "shmem_long_atomic_fetch_nbi", r"fetch is a null pointer, for 8 bytes"),
    "private_dest": (1, "shmem_long_p", r"dest 0x\w+ is not symmetric: it lies neither in .*"),
    "private_atomic": (1, "shmem_long_atomic_add", r"dest 0x\w+ is not symmetric: it lies neither in .*"),
    "window_dest": (1, "shmem_long_p", r"dest 0x\w+ is not symmetric: it is memory of PE 0 as shmem_ptr gives it"),
    "private_signal": (1, "shmem_signal_set", r"sig_addr 0x\w+ is not symmetric: it lies neither in .*"),
    "signal_operation": (1, "shmem_uint64_put_signal", r"sig_op has the unknown value 7.*"),
    "bad_pe": (1, "shmem_long_p", r"pe: there is no PE 99: PE numbers go from 0 to 2 here"),
    "negative_pe": (1, "shmem_long_atomic_fetch", r"pe: there is no PE -1.*"),
    "private_wait": (1, "shmem_long_wait_until", r"ivar 0x\w+ is not symmetric.*"),
    "comparison": (1, "shmem_long_wait_until", r"cmp has the unknown value 77.*"),
    "null_indices": (1, "shmem_long_test_some", r"indices is a null pointer.*"),
    "dead_context": (1, "shmem_ctx_long_p", r"ctx is invalid: it was never created, or has been destroyed"),
    "quiet_dead_context": (1, "shmem_ctx_quiet", r"ctx is invalid.*"),
    "set_twice": (1, "shmem_set_lock", r"lock 0x\w+ is held by this PE already: it would wait for itself"),
    "free_twice": (None, "shmem_free", r"ptr 0x\w+ has been freed already: block of 800 bytes"),
    "free_middle": (None, "shmem_free", r"ptr 0x\w+ is not the beginning of a block of the symmetric heap.*"),
    "free_private": (None, "shmem_free", r"ptr 0x\w+ lies outside the symmetric heap"),
    "bad_root": (None, "shmem_long_broadcast", r"PE_root: there is no PE 5: PE numbers go from 0 to 2 here"),
    "type_differs": (0, "shmem_long_fcollect", r"members call different routines: shmem_long_fcollect .* on PE 0, shmem_int_fcollect .* on PE 1"),
    "routine_differs": (0, "shmem_barrier_all", r"members call different routines: shmem_barrier_all .* on PE 0, shmem_sync_all .* on PE 1"),
    "finalize_differs": (0, "shmem_finalize", r"members call different routines: shmem_finalize .* on PE 0, shmem_barrier_all .* on PE 1"),
    "checkpoint_differs": (0, "shmem_barrier_all", r"members call different routines: .*, shmem_checkpoint_all .* on PE 1"),
    "team_differs": (0, "shmem_team_sync", r"members call different routines: .* size 2 on PE 0, .* size 3 on PE 1"),
    "reduce_private": (None, "shmem_long_sum_reduce", r"source 0x\w+ is not symmetric.*"),
    "sync_private": (None, "shmem_broadcast64", r"pSync 0x\w+ is not symmetric.*"),
}

# What would do harm if it went on.
ONLY_ABORT = {
    "globals_end": (1, "shmem_getmem", r"source 0x\w+ \+ 1099511627776 bytes runs \d+ bytes past the end of the globals.*"),
    "too_many": (1, "shmem_long_get", r"dest 0x\w+ \+ 18446744073709551615 bytes .*|source .* runs \d+ bytes past .*"),
    "free_differs": (0, "shmem_free", r"ptr differs between PEs: 0x\w+ on PEs 0, 2; 0x\w+ on PE 1"),
    "malloc_differs": (0, "shmem_malloc", r"size differs between PEs: 8 on PEs 0, 2; 16 on PE 1"),
    "align_differs": (0, "shmem_align", r"alignment differs between PEs: 128 on PEs 0, 2; 64 on PE 1"),
    "align_odd": (None, "shmem_align", r"alignment 24 is no power of two or no multiple of 8"),
    "root_differs": (0, "shmem_long_broadcast", r"PE_root differs between PEs: 0 on PEs 0, 2; 1 on PE 1"),
    "stride_differs": (0, "shmem_long_alltoalls", r"dst differs between PEs: 1 on PEs 0, 2; 2 on PE 1"),
    "split_differs": (0, "shmem_team_split_strided", r"size differs between PEs: 2 on PEs 0, 2; 1 on PE 1"),
    "gather_end": (None, "shmem_long_fcollect", r"dest 0x\w+ \+ 2400 bytes runs 1600 bytes past the end of its block.*"),
    "gather_overlap": (None, "shmem_long_fcollect", r"dest 0x\w+ \+ 48 bytes and source 0x\w+ \+ 16 bytes overlap"),
    "reduce_overlap": (None, "shmem_long_sum_reduce", r"dest 0x\w+ \+ 16 bytes and source 0x\w+ \+ 16 bytes overlap"),
}


def job(mode, *command, pes=PES, spares=0, environment=None):
    words = [PROGRAMS["oshrun"], "-n", str(pes)] + (["--spares", str(spares)] if spares else [])
    return subprocess.run(
        [*words, *command],
        env={**os.environ, "SHMEM_FT_CHECK": mode, **(environment or {})},
        timeout=LIMIT_S,
        capture_output=True,
        text=True,
        check=False,
    )


def pattern(pe, routine, text):
    return f"(?:shmem-ft|oshrun): PE {r'[0-9]+' if pe is None else pe}: {routine}: (?:{text})"


class Warn(unittest.TestCase):
    def check_all(self, wrong, *options):
        result = job("warn", PROGRAMS["wrong_calls"], *options, *wrong)
        lines = result.stderr.splitlines()
        for name, (pe, routine, text) in wrong.items():
            with self.subTest(name=name):
                matching = [line for line in lines if re.fullmatch(pattern(pe, routine, text), line)]
                self.assertEqual(len(matching), 1, result.stderr)
                lines.remove(matching[0])
        self.assertEqual(lines, [])
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_one_line_each_and_the_program_goes_on(self):
        wrong = {name: (1, *line) for name, line in GO_ON.items()}
        wrong.update({name: (0, *line) for name, line in GO_ON_COMPARED.items()})
        self.check_all(wrong)

    def test_threads(self):
        self.check_all({name: (1, *line) for name, line in GO_ON_SERIALIZED.items()}, "--level", "2")

    def test_what_cannot_go_on_ends_the_job(self):
        for name, (pe, routine, text) in END.items():
            with self.subTest(name=name):
                check_end(self, job("warn", PROGRAMS["wrong_calls"], name), pe, routine, text)


class Abort(unittest.TestCase):
    def test_one_line_and_the_job_ends(self):
        wrong = {name: (1, *line) for name, line in {**GO_ON, **GO_ON_SERIALIZED}.items()}
        wrong.update({name: (0, *line) for name, line in GO_ON_COMPARED.items()})
        wrong.update(END)
        wrong.update(ONLY_ABORT)
        for name, (pe, routine, text) in wrong.items():
            with self.subTest(name=name):
                level = ("--level", "2") if name in GO_ON_SERIALIZED else ()
                check_end(self, job("abort", PROGRAMS["wrong_calls"], *level, name), pe, routine, text)


def check_end(test, result, pe, routine, text):
    lines = result.stderr.splitlines()
    test.assertEqual(len(lines), 1, result.stderr)
    test.assertRegex(lines[0], "^" + pattern(pe, routine, text) + "$")
    test.assertEqual(result.returncode, 70, result.stderr)


class Off(unittest.TestCase):
    def test_says_nothing(self):
        result = job("off", PROGRAMS["wrong_calls"], "get_end", "in_freed", "overlap", "count_differs", "test_held")
        self.assertEqual((result.returncode, result.stderr), (0, ""))


class RightPrograms(unittest.TestCase):
    def test_no_line(self):
        for program in PROGRAMS["right"]:
            with self.subTest(program=os.path.basename(program)):
                result = job("warn", program)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertNotIn("shmem-ft: PE", result.stderr)


class AfterARecovery(unittest.TestCase):
    """The table of blocks goes back with the heap, and a substitute has it."""

    def test_blocks_are_those_of_the_checkpoint(self):
        result = job("warn", PROGRAMS["checked_recovery"], spares=1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("went back"), PES, result.stdout)
        self.assertEqual(len(result.stdout.splitlines()), PES, result.stdout)
        lines = [line for line in result.stderr.splitlines() if line.startswith("shmem-ft: PE")]
        for pe in range(PES):
            own = [line for line in lines if line.startswith(f"shmem-ft: PE {pe}: ")]
            self.assertEqual(len(own), 2, result.stderr)
            self.assertRegex(own[0], r"shmem_long_get: source 0x\w+ \+ 88 bytes runs 8 bytes past .*, 80 bytes\]$")
            self.assertRegex(own[1], r"shmem_clear_lock: lock 0x\w+ is not held by this PE$")
        self.assertEqual(len(lines), 2 * PES, result.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("oshrun", "wrong-calls", "checked-recovery"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--right", nargs="+", required=True)
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    PROGRAMS.update(vars(options))
    unittest.main(argv=[sys.argv[0], *options.tests])


if __name__ == "__main__":
    main()
