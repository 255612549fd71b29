#!/usr/bin/env python3
"""Start-ups that are repeated in substitutes: real jobs whose PEs are killed once they are in their loops.

    startup_test.py --oshrun OSHRUN beginnings PROGRAM          start-ups as people write them: the output is that of a run
                                                                without a kill
    startup_test.py --oshrun OSHRUN named PROGRAM               what cannot be repeated is named
    startup_test.py --oshrun OSHRUN input PROGRAM               standard input is given again, and what was not read is kept
    startup_test.py --oshrun OSHRUN random PROGRAM --seeds N    start-ups drawn from seeds; each program compares for itself
    startup_test.py --oshrun OSHRUN behind PROGRAM...           conformance programs as start-ups
    startup_test.py --oshrun OSHRUN points PROGRAM              kills at the fault points of a start-up and its repetition
"""

import argparse
import fcntl
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import termios

PES = 3
LIMIT_S = 120  # of one job, on a machine with much else to do


class Failed(Exception):
    pass


def run(options, words, spares=2, victim=None, environment=None, text="", is_file=False, is_typed=False):
    """Exit status, sorted lines of output, and what was said on stderr. Text: standard input, by a pipe, in a file, or typed."""
    env = {**os.environ, **(environment or {})}
    if victim is not None:
        env["STARTUP_VICTIM"] = f"{victim[0]} {victim[1]}"
    command = [options.oshrun, "-n", str(PES), "--spares", str(spares), *options.oshrun_option, *words]
    if is_typed:
        ours, theirs = pty.openpty()
        os.write(ours, text.encode())
        try:
            return run_with({"stdin": theirs, "preexec_fn": take_terminal}, command, env)
        finally:
            os.close(ours)
            os.close(theirs)
    with tempfile.TemporaryFile("w+") as file:
        file.write("not for this job" + text)
        file.flush()
        file.seek(len("not for this job"))
        given = {"stdin": file} if is_file else {"input": text} if text else {"stdin": subprocess.DEVNULL}
        return run_with(given, command, env)


def take_terminal():
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def run_with(given, command, env):
    try:
        done = subprocess.run(command, **given, env=env, timeout=LIMIT_S, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"") + (late.stderr or b"")
        raise Failed(f"{' '.join(command)}: not finished after {LIMIT_S} s\n{said}") from None
    return done.returncode, sorted(done.stdout.splitlines()), done.stderr


def check(condition, what, result):
    if not condition:
        raise Failed(f"{what}: exit status {result[0]}\n" + "\n".join(result[1]) + "\n" + result[2])


def test_beginnings(options):
    program = options.programs[0]
    for name in ["broadcast", "put", "get", "polling", "heap", "input"]:
        words = [program, name, "137", "5"]
        text = "137 5\n" if name == "input" else ""
        expected = run(options, words, text=text)
        check(expected[0] == 0 and len(expected[1]) == PES, f"{name} without a kill", expected)
        for pe in range(PES):
            for times in [1, 2]:
                result = run(options, words, victim=(pe, times), text=text)
                check(result[:2] == expected[:2], f"{name}, PE {pe} killed {times} times", result)


def test_input(options):
    program = options.programs[0]
    kept = 1 << 20
    for launcher in ["own", "mpirun"]:
        options.oshrun_option = ["--launcher", launcher]
        for is_file in [False, True]:
            way = f"{launcher}, a {'file' if is_file else 'pipe'}"
            text = "137 5\n"
            expected = run(options, [program, "input"], text=text, is_file=is_file)
            check(expected[0] == 0 and "137 numbers" in expected[1][0], f"numbers, {way}", expected)
            for victim in [(0, 1), (0, 2), (1, 1)]:
                result = run(options, [program, "input"], victim=victim, text=text, is_file=is_file)
                check(result[:2] == expected[:2], f"numbers, {way}, victim {victim}", result)
            # More than a pipe takes, and left over is more than that, too.
            text = "".join(f"{i:07}\n" for i in range(40000)) + "z"
            expected = run(options, [program, "all", "200003", "5"], text=text, is_file=is_file)
            check(f"{len(text) - 200003} bytes are left, the last is z" in expected[1], f"bytes, {way}", expected)
            for victim in [(0, 1), (0, 2)]:
                result = run(options, [program, "all", "200003", "5"], victim=victim, text=text, is_file=is_file)
                check(result[:2] == expected[:2], f"bytes, {way}, victim {victim}", result)
        for victim in [None, (0, 2)]:
            result = run(options, [program, "input"], victim=victim, text="137 5\n", is_typed=True)
            check(result[0] == 0 and "137 numbers" in result[1][0], f"numbers, {launcher}, typed, victim {victim}", result)
    options.oshrun_option = []
    # As much as is kept, and a byte more.
    text = "x" * (kept + 100000)
    words = [program, "all", str(kept), "5"]
    result = run(options, words, victim=(0, 1), text=text)
    check(result[0] == 0 and "100000 bytes are left, the last is x" in result[1] and "standard input" not in result[2],
          "as much as is kept", result)
    words = [program, "all", str(kept + 1), "5"]
    warning = f"PE 0 has read more than {kept} bytes of standard input before its first checkpoint"
    for victim, left in [(None, "99999 bytes are left, the last is x"), ((0, 2), "0 bytes are left, the last is -")]:
        result = run(options, words, victim=victim, text=text)
        check(result[0] == 0 and left in result[1] and result[2].count(warning) == 1, f"more than is kept, victim {victim}", result)
    result = run(options, words, victim=(0, 1), text=text, is_file=True)
    check(result[0] == 0 and "99999 bytes are left, the last is x" in result[1] and warning not in result[2],
          "a large file", result)


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
            result = run(options, [program, str(seed)], victim=(pe, 1 + seed % 2))
            check(result[0] == 0 and result[1] == ["the same again"], f"seed {seed}, PE {pe}", result)
            runs += 1
    print(f"{runs} jobs")


def test_behind(options):
    for number, program in enumerate(options.programs):
        for pe in range(PES) if options.every_pe else [number % PES]:
            result = run(options, [program], victim=(pe, 1))
            check(result[0] == 0, f"{program}, PE {pe}", result)


def test_points(options):
    """A substitute dies while it repeats the start-up, and the next one does it. Who dies in a start-up is not replaced."""
    program = options.programs[0]
    words = [program, "broadcast", "137", "5"]
    expected = run(options, words)
    for pe in range(PES):
        for where in ["replay_begin", "replay_call", "replay_call visit 2", "replay_call visit 3", "replay_end"]:
            for victim in ["substitute", f"pe {pe} incarnation 0"]:
                if victim != "substitute" and where != "replay_call":
                    continue
                faults = f"kill pe {pe} at checkpoint_leave visit 2; kill {victim} at {where}"
                result = run(options, words, environment={"SHMEM_FT_FAULTS": faults})
                check(result[:2] == expected[:2], faults, result)
                struck = result[2].count("shmem-ft: fault: kill")
                check(struck == (2 if victim == "substitute" else 1), f"{faults}: {struck} faults", result)
        # The others are in a broadcast that brings nothing, for which the program would end itself while the job, with one
        # of them asleep, cannot yet decide that it is over.
        asleep = [f"startup_call; stop 600 ms pe {other} at {point}" for other in range(PES) if other != pe
                  for point in ("message_receive", "message_send")]
        for where in ["startup_call", "startup_call visit 3", "record_close", *asleep]:
            faults = f"kill pe {pe} at {where}"
            result = run(options, words, environment={"SHMEM_FT_FAULTS": faults})
            check(result[0] != 0 and re.search(rf"oshrun: PE {pe} .*before the first checkpoint", result[2]), faults, result)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--oshrun-option", action="append", default=[], help="a further option for oshrun")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--every-pe", action="store_true", help="kill each PE, in a job of its own")
    parser.add_argument("what", choices=["beginnings", "input", "named", "points", "random", "behind"])
    parser.add_argument("programs", nargs="+")
    options = parser.parse_args()
    tests = {"beginnings": test_beginnings, "input": test_input, "named": test_named, "points": test_points,
             "random": test_random, "behind": test_behind}
    try:
        tests[options.what](options)
    except Failed as failed:
        print(failed)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
