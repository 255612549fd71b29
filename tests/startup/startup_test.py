#!/usr/bin/env python3
"""Start-ups that are repeated in substitutes: real jobs whose PEs are killed once they are in their loops.

    startup_test.py --oshrun OSHRUN beginnings PROGRAM          start-ups as people write them: the output is that of a run
                                                                without a kill
    startup_test.py --oshrun OSHRUN named PROGRAM               what cannot be repeated is named
    startup_test.py --oshrun OSHRUN random PROGRAM --seeds N    start-ups drawn from seeds; each program compares for itself
    startup_test.py --oshrun OSHRUN behind PROGRAM...           conformance programs as start-ups
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PES = 3
LIMIT_S = 120  # of one job, on a machine with much else to do


class Failed(Exception):
    pass


def run(options, words, spares=2, victim=None, environment=None):
    """Exit status, sorted lines of output, and what was said on stderr."""
    env = {**os.environ, **(environment or {})}
    if victim is not None:
        env["STARTUP_VICTIM"] = f"{victim[0]} {victim[1]}"
    command = [options.oshrun, "-n", str(PES), "--spares", str(spares), *options.oshrun_option, *words]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, env=env, timeout=LIMIT_S, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"") + (late.stderr or b"")
        raise Failed(f"{' '.join(command)}: not finished after {LIMIT_S} s\n{said}") from None
    return done.returncode, sorted(done.stdout.splitlines()), done.stderr


def check(condition, what, result):
    if not condition:
        raise Failed(f"{what}: exit status {result[0]}\n" + "\n".join(result[1]) + "\n" + result[2])


def test_beginnings(options):
    program = options.programs[0]
    for name in ["broadcast", "put", "get", "polling", "heap"]:
        words = [program, name, "137", "5"]
        expected = run(options, words)
        check(expected[0] == 0 and len(expected[1]) == PES, f"{name} without a kill", expected)
        for pe in range(PES):
            for times in [1, 2]:
                result = run(options, words, victim=(pe, times))
                check(result[:2] == expected[:2], f"{name}, PE {pe} killed {times} times", result)


def test_named(options):
    program = options.programs[0]
    for name, line in [
        ("time", r"a substitute, calls shmem_long_get in by_time \(beginnings\.c:\d+\) as call \d+ before shmem_restart_pes, "
                 r"where the PE that it replaces had called shmem_long_get in by_time .* with other arguments"),
        ("random", r"a substitute, calls shmem_long_get in by_random .* had called shmem_long_get .* with other arguments"),
        ("file", r"a substitute, calls shmem_barrier_all in by_file .* had called shmem_sync_all in by_file"),
    ]:
        for pe in range(PES):
            with tempfile.TemporaryDirectory() as folder:
                there = pathlib.Path(folder) / "there"
                there.touch()
                result = run(options, [program, name, "137", "5", str(there)], victim=(pe, 1))
            check(result[0] == 70 and re.search(rf"PE {pe}, {line}", result[2]), f"{name}, PE {pe}", result)
            check(result[2].count("\n") == 1, f"{name}, PE {pe}: more than a line", result)
    small = {"SHMEM_FT_STARTUP_RECORD": "100k"}
    expected = run(options, [program, "large", "137", "5"])
    result = run(options, [program, "large", "137", "5"], environment=small, victim=(1, 1))
    check(result[:2] == expected[:2], "a start-up that is too large but needs nothing", result)
    check(re.search(r"PE \d: what its calls have brought before the first checkpoint takes more than "
                    r"SHMEM_FT_STARTUP_RECORD=\d+ bytes.*shmem_long_get in too_large \(beginnings\.c:\d+\)", result[2]),
          "no word of the start-up that is too large", result)
    check(len(re.findall("takes more than SHMEM_FT_STARTUP_RECORD", result[2])) == 1, "said more than once", result)
    check(re.search(r"PE 1, a substitute, calls shmem_\w+ in .* and gets nothing", result[2]),
          "the substitute does not say that it gets nothing", result)


def test_random(options):
    program = options.programs[0]
    runs = 0
    for seed in range(options.first, options.first + options.seeds):
        for pe in range(PES) if options.every_pe else [seed % PES]:
            result = run(options, [program, str(seed), str(pe), str(1 + seed % 2)])
            check(result[0] == 0 and result[1] == ["the same again"], f"seed {seed}, PE {pe}", result)
            runs += 1
    print(f"{runs} jobs")


def test_behind(options):
    for number, program in enumerate(options.programs):
        for pe in range(PES) if options.every_pe else [number % PES]:
            result = run(options, [program], victim=(pe, 1))
            check(result[0] == 0, f"{program}, PE {pe}", result)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--oshrun-option", action="append", default=[], help="a further option for oshrun")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--every-pe", action="store_true", help="kill each PE, in a job of its own")
    parser.add_argument("what", choices=["beginnings", "named", "random", "behind"])
    parser.add_argument("programs", nargs="+")
    options = parser.parse_args()
    tests = {"beginnings": test_beginnings, "named": test_named, "random": test_random, "behind": test_behind}
    try:
        tests[options.what](options)
    except Failed as failed:
        print(failed)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
