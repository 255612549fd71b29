#!/usr/bin/env python3
"""Versions in files: whole jobs that are lost, and go on from what is stored. Each gives what it gives without a fault.

    jobs_test.py --oshrun build/bin/oshrun --programs build [--rounds N] [--seed S] [CASE...]
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from arrays_cases import declared_meanwhile, not_to_be_loaded, regrouped, regrouped_in_python
from jobs_bench import Bench, LOST, PYTHON, TIMEOUT_S, UNHURRIED, Wrong, check, check_refused, check_right, results
from processes import any_process_with, await_child
import turns_cases

JACOBI = ["jacobi1d", "--cells", "6000", "--steps", "480", "--halo", "16", "--pace", "4"]
LONG = [*JACOBI[:-1], "60"]
SLOW = [*JACOBI[:-1], "20"]

# --- a job that goes on ---


def goes_on(program, pes=3, words=(), **settings):
    """All PEs die; the version from which it goes on is one of the last ones."""
    def case(bench):
        shape = ("-n", str(pes))
        expected = results(bench.run(*shape, program, **settings))
        lost = bench.run(*shape, [*program, *UNHURRIED], SHMEM_FT_FAULTS=LOST, **bench.store(**settings))
        check(lost.returncode != 0 and bench.complete(), "nothing was stored", lost)
        bench.check_stored()
        check_right(bench.run("--restart", bench.folder, *words, program, **settings), expected)
        check(not [name for name in os.listdir(bench.folder) if int(name[8:]) not in bench.complete()],
              f"something incomplete stays: {os.listdir(bench.folder)}")

    return case


def python(bench):
    """An interpreter, whose own globals stay as they are. With a sanitizer the library needs a program that has it."""
    if os.environ.get("SFT_SANITIZE", "none") == "none":
        goes_on([PYTHON, "heat.py", "--steps", "300", "--pace", "2"])(bench)


def spares_after_that(bench):
    """What goes on survives deaths as any job does, also that of PE 0."""
    expected = results(bench.run("-n", "3", JACOBI))
    bench.run("-n", "3", [*JACOBI, *UNHURRIED], SHMEM_FT_FAULTS=LOST, **bench.store())
    deaths = "kill pe 0 at replicate_end visit 3; kill pe 2 at checkpoint_enter visit 8"
    check_right(bench.run("--restart", bench.folder, "--spares", "2", JACOBI, SHMEM_FT_FAULTS=deaths), expected)


def told(bench):
    """The list has all PEs, another one is refused, and handlers hear the number that the version had."""
    bench.run("-n", "3", ["restarted"], SHMEM_FT_FAULTS=LOST, **bench.store())
    number = bench.complete()[-1]
    outcome = bench.run("--restart", bench.folder, ["restarted"], SHMEM_FT_STORE="")
    check_right(outcome, [f"result PE {pe} step 60 restored {number} of 3" for pe in range(3)])
    check(outcome.stderr.count("was not given the list") == 3, "a wrong list was taken", outcome)


def dies_again_and_again(bench):
    """In each attempt, at the places of a job that goes on."""
    expected = results(bench.run("-n", "3", JACOBI))
    bench.run("-n", "3", [*JACOBI, *UNHURRIED], SHMEM_FT_FAULTS=LOST, **bench.store())
    kept = bench.complete()
    for point in ["init_ready", "replay_begin", "replay_call", "replay_end", "substitute_joins", "stored_load", "query",
                  "arrived", "replicate_begin", "replicate_end", "replicated", "commit_decided", "updated"]:
        for pe in (0, 2):
            lost = bench.run("--restart", bench.version(kept[-1]), JACOBI, SHMEM_FT_FAULTS=f"kill process {pe} at {point}",
                             SHMEM_FT_STORE="")
            check(lost.returncode != 0, f"a death at {point} went unnoticed", lost)
    check(bench.complete() == kept, "versions have changed")
    check_right(bench.run("--restart", bench.folder, JACOBI), expected)


# --- retries ---


def retried(bench):
    expected = results(bench.run("-n", "3", JACOBI))
    outcome = bench.run("-n", "3", "--retries", "20", SLOW, SHMEM_FT_FAULTS=LOST, **bench.store())
    check_right(outcome, expected)
    check(re.search(r"oshrun: starts the job again \(1 of 20\), from version \d+, stored \d+ s ago", outcome.stderr),
          "no line that says so", outcome)


def retried_from_the_beginning(bench):
    """Nothing is stored, and the signal comes once."""
    expected = results(bench.run("-n", "3", JACOBI))
    job = bench.start("-n", "3", "--retries", "1", LONG)
    victim = await_child(job.pid, "jacobi1d")
    os.kill(victim, signal.SIGKILL)
    stdout, stderr = job.communicate(timeout=TIMEOUT_S)
    check_right(subprocess.CompletedProcess([], job.returncode, stdout, stderr), expected)
    check("from the beginning: no version is stored without SHMEM_FT_STORE" in stderr, stderr)


def not_retried(bench):
    """What ends by itself, or is told to, is not started again; nor is a job more often than allowed."""
    own = bench.run("-n", "3", "--retries", "3", ["blocked", "--mode", "barrier_all", "--how", "exit"])
    check(own.returncode != 0 and "again" not in own.stderr, "a program that exits was started again", own)
    job = bench.start("-n", "3", "--retries", "3", LONG, **bench.store())
    await_child(job.pid, "jacobi1d")
    job.send_signal(signal.SIGTERM)
    stdout, stderr = job.communicate(timeout=TIMEOUT_S)
    check(job.returncode == 128 + signal.SIGTERM and "again" not in stderr, f"{job.returncode} {stdout} {stderr}")
    often = bench.run("-n", "3", "--retries", "2", JACOBI, SHMEM_FT_FAULTS="kill pe 1 at checkpoint_enter visit 2")
    check_refused(often, r"the job was lost 3 times: --retries 2 allows no more")


def killed_with_all(bench):
    """The oshrun that retries is killed: nothing of its job stays."""
    job = bench.start("-n", "3", "--retries", "3", LONG, **bench.store())
    victim = await_child(job.pid, "jacobi1d")
    job.kill()
    job.communicate(timeout=TIMEOUT_S)
    end = time.monotonic() + 20
    while os.path.exists(f"/proc/{victim}/exe") and time.monotonic() < end:
        time.sleep(0.01)
    check(not os.path.exists(f"/proc/{victim}/exe"), "a PE outlives the killed oshrun")


def input_again(bench):
    """A file as standard input is read from the same place by each attempt."""
    program = os.path.join(bench.folder, "copy.c")
    os.makedirs(bench.folder)
    with open(program, "w", encoding="utf-8") as file:
        file.write('#include <shmem.h>\n#include <shmem_ft.h>\n#include <poll.h>\n#include <stdio.h>\nlong number, step;\n'
                   'int main(void) { shmem_init(); if (shmem_my_pe() == 0 && scanf("%ld", &number) != 1) return 3;\n'
                   'shmem_long_broadcast(SHMEM_TEAM_WORLD, &number, &number, 1, 0);\n'
                   'if (SHMEM_FT_ROLLBACK_POINT()) shmem_ft_recover();\n'
                   'while (step < 60) { shmem_checkpoint_all(); number += ++step; poll(NULL, 0, 5); }\n'
                   'if (shmem_my_pe() == 1) printf("result %ld\\n", number); shmem_finalize(); return 0; }\n')
    binary = os.path.join(bench.folder, "copy")
    oshcc = os.path.join(os.path.dirname(bench.oshrun), "oshcc")
    subprocess.run([oshcc, program, "-o", binary], check=True, timeout=TIMEOUT_S)
    numbers = os.path.join(bench.folder, "numbers")
    with open(numbers, "w", encoding="utf-8") as file:
        file.write("1000\n42\n")
    store = os.path.join(bench.folder, "store")
    with open(numbers, encoding="utf-8") as stdin:
        outcome = subprocess.run([bench.oshrun, "-n", "2", "--retries", "9", binary], stdin=stdin, capture_output=True,
                                 text=True, timeout=TIMEOUT_S, check=False,
                                 env=bench.environment({"SHMEM_FT_STORE": store, "SHMEM_FT_STORE_INTERVAL": "2",
                                                        "SHMEM_FT_FAULTS": "kill pe 1 at checkpoint_enter visit 31"}))
    check_right(outcome, ["result 2830"])


# --- deaths and failures while a version is written ---

POINTS = ["store_asked", "store_told", "store_begin", "store_block", "store_written", "store_complete", "store_committed"]


def deaths_in_storing(bench):
    """One PE at each point: the spare goes on, and writes what is left; then all at that point, and again from the files."""
    expected = results(bench.run("-n", "3", JACOBI))
    n_lost = 0
    for point in POINTS:
        for pe in (0, 1):
            if pe == 1 and point in ("store_complete", "store_committed"):
                continue
            shutil.rmtree(bench.folder, ignore_errors=True)
            fault = f"kill pe {pe} at {point} visit {bench.random.randint(1, 3)}"
            check_right(bench.run("-n", "3", "--spares", "1", LONG, SHMEM_FT_FAULTS=fault, **bench.store()), expected)
            bench.check_stored()
            shutil.rmtree(bench.folder, ignore_errors=True)
            fault = f"kill pe {pe} at {point} visit {bench.random.randint(1, 3)}"
            lost = bench.run("-n", "3", LONG, SHMEM_FT_FAULTS=fault, **bench.store())
            n_lost += lost.returncode != 0
            bench.check_stored()
            if bench.complete():
                check_right(bench.run("--restart", bench.folder, JACOBI), expected)
                bench.check_stored()
            else:
                check_right(bench.run("-n", "3", JACOBI, **bench.store()), expected)
    check(n_lost > len(POINTS), f"{n_lost} jobs were lost only")  # others were over before it came to that


def failures_in_storing(bench):
    """The job ends well whatever the disk says; versions with a manifest are sound; one line tells."""
    expected = results(bench.run("-n", "3", JACOBI))
    for call, error in [("open", "EMFILE"), ("open", "EACCES"), ("write", "ENOSPC"), ("write", "EIO"), ("write", "EINTR"),
                        ("sync", "EIO"), ("sync", "ENOSPC"), ("rename", "EACCES")]:
        # Of the first file of a version, where that is the first visit: on a slow disk a PE may not come to a second one.
        visit = 2 if call == "open" else 1
        for how in (f" visit {visit}", f" visit {visit} every"):
            shutil.rmtree(bench.folder, ignore_errors=True)
            pe = bench.random.randint(0, 1)
            often = "20 times " if error == "EINTR" else ""
            if error == "EINTR" and "every" in how:
                continue
            fault = f"fail {error} {often}pe {pe} at call_store_{call}{how}"
            outcome = bench.run("-n", "3", SLOW, SHMEM_FT_FAULTS=fault, **bench.store())
            check_right(outcome, expected)
            told = [line for line in outcome.stderr.splitlines() if "is not stored" in line]
            check(not told if error == "EINTR" else 1 <= len(told) <= 30, f"{len(told)} lines: {fault}", outcome)
            bench.check_stored()
            if "every" not in how:
                check(bench.complete(), "nothing was stored afterwards", outcome)


def full_disk(bench):
    """A file system that is really full."""
    os.makedirs(bench.folder)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=768k", "stored", bench.folder],
                                           capture_output=True, check=False).returncode != 0:
        print("skipped: no file system can be mounted here")
        return
    try:
        expected = results(bench.run("-n", "3", JACOBI))
        # There is room for one version; a job that goes on from that cannot store another one.
        check_right(bench.run("-n", "3", SLOW, **bench.store(SHMEM_FT_STORE_KEEP="100")), expected)
        stored = bench.complete()
        outcome = bench.run("--restart", bench.folder, SLOW, **bench.store(SHMEM_FT_STORE_KEEP="100"))
        check_right(outcome, expected)
        check("No space left on device" in outcome.stderr, "nothing was said", outcome)
        check(len(stored) == 1 and bench.complete() == stored, f"{stored} were stored, then {bench.complete()}", outcome)
        bench.check_stored()
        check_right(bench.run("--restart", bench.folder, JACOBI, SHMEM_FT_STORE=""), expected)
    finally:
        subprocess.run(["umount", bench.folder], check=True)


def compressed(bench):
    """A job that is lost goes on from compressed files, and stores on in another way; damage is named."""
    expected = results(bench.run("-n", "3", JACOBI))
    sizes = {}
    for how in ("none", "zstd:1", "lz4"):
        shutil.rmtree(bench.folder, ignore_errors=True)
        bench.run("-n", "3", [*JACOBI, *UNHURRIED], SHMEM_FT_FAULTS=LOST, **bench.store(SHMEM_FT_STORE_COMPRESSION=how))
        version = bench.version(bench.complete()[-1])
        sizes[how] = sum(os.stat(os.path.join(version, name)).st_blocks for name in os.listdir(version))
        bench.check_stored()
        shown = bench.shmem_ft("show", version).stdout
        check(("compressed with" in shown) == (how != "none"), f"show does not tell of {how}: {shown}")
        check_right(bench.run("--restart", bench.folder, JACOBI, **bench.store(SHMEM_FT_STORE_COMPRESSION="zstd")), expected)
        bench.check_stored()
    check(max(sizes["zstd:1"], sizes["lz4"]) < sizes["none"], f"blocks on the disk: {sizes}")
    path = os.path.join(bench.version(bench.complete()[-1]), "pe-00001.state")
    with open(path, "r+b") as file:
        file.seek(4096 + 16)
        file.write(bytes(64))
    check_refused(bench.shmem_ft("verify", bench.folder), rf"{path}: the piece at byte 4096 cannot be unpacked: the file is damaged")
    check_refused(bench.run("--restart", bench.folder, JACOBI, SHMEM_FT_STORE=""),
                  "pe-00001.state: the piece at byte 4096 cannot be unpacked: the file is damaged")


def at_random(bench):
    """All processes of the job at any time, again and again, until it is done."""
    expected = results(bench.run("-n", "3", JACOBI))
    for _ in range(bench.rounds):
        shutil.rmtree(bench.folder, ignore_errors=True)
        lives = 0
        outcome = None
        while outcome is None or outcome.returncode != 0:
            words = ["--restart", bench.folder] if bench.complete() else ["-n", "3"]
            job = bench.start(*words, SLOW, **bench.store())
            try:
                stdout, stderr = job.communicate(timeout=bench.random.uniform(0.1, 0.8) if lives < 4 else TIMEOUT_S)
            except subprocess.TimeoutExpired:
                check(lives < 4, "a job hangs")
                job.kill()
                stdout, stderr = job.communicate(timeout=TIMEOUT_S)
                await_end(bench)
            outcome = subprocess.CompletedProcess([], job.returncode, stdout, stderr)
            bench.check_stored()
            lives += 1
        check_right(outcome, expected)


def await_end(bench):
    """Until nobody of the killed job writes there any more."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if not any_process_with(f"SHMEM_FT_STORE={bench.folder}"):
            return
        time.sleep(0.01)
    raise Wrong("processes outlive their killed oshrun")


# --- what is wrong gets its line ---


def damaged(bench):
    bench.run("-n", "3", [*JACOBI, *UNHURRIED], SHMEM_FT_FAULTS=LOST, **bench.store())
    expected = results(bench.run("-n", "3", JACOBI))
    older, newer = bench.complete()[-2:]
    path = os.path.join(bench.version(newer), "pe-00001.state")
    damage(bench, newer)
    check_refused(bench.shmem_ft("verify", bench.folder), rf"{path}: block 0 of the globals does not fit its checksum")
    check_refused(bench.run("--restart", bench.folder, JACOBI, SHMEM_FT_STORE=""),
                  r"version-\d+, PE 1: block 0 of the globals does not fit its checksum")
    check_right(bench.run("--restart", bench.version(older), JACOBI, SHMEM_FT_STORE=""), expected)
    os.truncate(path, 1000)
    check_refused(bench.run("--restart", bench.folder, JACOBI), r"pe-00001.state: has 1000 bytes instead of \d+")
    os.remove(os.path.join(bench.version(newer), "manifest.toml"))
    check_refused(bench.run("--restart", bench.version(newer), JACOBI), "has not been stored completely")


def damaged_and_retried(bench):
    """An attempt that meets a damaged version is followed by one from the version before, or from the beginning."""
    expected = results(bench.run("-n", "3", JACOBI))
    bench.run("-n", "3", [*JACOBI, *UNHURRIED], SHMEM_FT_FAULTS=LOST, **bench.store())
    older, newer = bench.complete()[-2:]
    damage(bench, newer)
    again = bench.run("--restart", bench.folder, "--retries", "1", JACOBI, SHMEM_FT_STORE=bench.folder)
    check_right(again, expected)
    aside = bench.version(newer) + ".damaged"
    check(os.path.isdir(aside) and f"{bench.version(newer)} is damaged: it is {aside} from now on" in again.stderr,
          "the damaged one is not put aside", again)
    check(f"starts the job again (1 of 1), from version {older}, stored" in again.stderr, "not from the one before", again)
    bench.check_stored()
    shutil.rmtree(bench.folder)
    bench.run("-n", "3", [*JACOBI, *UNHURRIED], SHMEM_FT_FAULTS=LOST, **bench.store())
    stored = bench.complete()
    for number in stored:
        damage(bench, number)
    too_often = bench.run("--restart", bench.folder, "--retries", str(len(stored) - 1), JACOBI)
    check_refused(too_often, f"the job was lost {len(stored)} times: --retries {len(stored) - 1} allows no more")
    check(not bench.complete(), f"{bench.complete()} are left", too_often)
    bench.run("-n", "3", [*JACOBI, *UNHURRIED], SHMEM_FT_FAULTS=LOST, **bench.store())
    stored = bench.complete()
    for number in stored:
        damage(bench, number)
    anew = bench.run("--restart", bench.folder, "--retries", str(len(stored)), JACOBI)
    check_right(anew, expected)
    check(f"version-{stored[-1]:08}.damaged-2 from now on" in anew.stderr, "it has another's name", anew)
    check("from the beginning: no version was stored" in anew.stderr, "not from the beginning", anew)


def damage(bench, number):
    """A bit of the globals of PE 1."""
    with open(os.path.join(bench.version(number), "pe-00001.state"), "r+b") as file:
        place = int.from_bytes(file.read(160)[72:80], "little") + 200
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 1]))


def two_at_once(bench):
    """Of two jobs with one folder the second one is refused, and the first one is not disturbed."""
    expected = results(bench.run("-n", "3", JACOBI))
    first = bench.start("-n", "3", LONG, **bench.store())
    while not bench.complete():
        check(first.poll() is None, "it is over")
        time.sleep(0.01)
    check_refused(bench.run("-n", "3", JACOBI, **bench.store()), "another job that runs stores its versions there|of another job")
    stdout, stderr = first.communicate(timeout=TIMEOUT_S)
    check_right(subprocess.CompletedProcess([], first.returncode, stdout, stderr), expected)
    bench.check_stored()


def bad_input(bench):
    bench.run("-n", "3", [*JACOBI, *UNHURRIED], SHMEM_FT_FAULTS=LOST, **bench.store())
    folder = bench.folder
    check_refused(bench.run("-n", "3", JACOBI, **bench.store()), "has version .* of another job: go on from it")
    check_refused(bench.run("--restart", folder, "-n", "4", JACOBI), "was stored by 3 PEs: -n 3 instead of -n 4")
    check_refused(bench.run("--restart", folder, ["two_phase"]), "was stored by another program")
    check_refused(bench.run("--restart", folder + "/none", JACOBI), "No such file or directory")
    check_refused(bench.run("--restart", "/tmp", JACOBI), "no complete version is in there")
    check_refused(bench.run("--restart", folder, JACOBI, SHMEM_SYMMETRIC_SIZE="1G"),
                  "with SHMEM_SYMMETRIC_SIZE=512M, and this one has 1G")
    check_refused(bench.run("--restart", folder, JACOBI, SHMEM_FT_BACKUP_MODE="none", SHMEM_FT_STORE=""),
                  "cannot go on")
    check_refused(bench.run("-n", "3", JACOBI, **bench.store(SHMEM_FT_BACKUP_MODE="single")), "it needs")
    check_refused(bench.run("-n", "3", JACOBI, SHMEM_FT_STORE="/proc/none"), "SHMEM_FT_STORE: /proc/none")
    check_refused(bench.run("-n", "3", JACOBI, SHMEM_FT_RESTART=folder), "no folder of a version")
    check_refused(bench.run("-n", "3", JACOBI, SHMEM_FT_STORE_KEEP="0"), "SHMEM_FT_STORE_KEEP=0")
    check_refused(bench.shmem_ft("show", folder), "not the folder of one version")
    check_refused(bench.shmem_ft("list", "/tmp/none-of-it"), "no folder of that name")
    check_refused(bench.shmem_ft("verify"), "no folder given")


# --- the tool ---


def looked_at(bench):
    bench.run("-n", "3", [*JACOBI, *UNHURRIED], SHMEM_FT_FAULTS=LOST, **bench.store())
    numbers = bench.complete()
    listed = bench.shmem_ft("list", bench.folder)
    check(all(re.search(rf"^ +{number} +3 ", listed.stdout, re.M) for number in numbers), "not listed", listed)
    shown = bench.shmem_ft("show", bench.version(numbers[-1]) + "/")
    check(f"version {numbers[-1]} of 3 PEs" in shown.stdout and "SHMEM_FT_CHECK=off" in shown.stdout, "show", shown)
    output = os.path.join(bench.folder, "x.npy")
    extracted = bench.shmem_ft("extract", bench.version(numbers[-1]), "--pe", "2", "--global", "step", "--type", "<u8",
                               "--output", output)
    check(extracted.returncode == 0, "extract", extracted)
    with open(output, "rb") as file:
        content = file.read()
    check(content.startswith(b"\x93NUMPY") and len(content) % 64 == 8, f"{content}")
    step = int.from_bytes(content[-8:], "little")
    check(step % 16 == 0 and 0 < step <= 480, f"step {step}")
    os.remove(output)
    check_refused(bench.shmem_ft("extract", bench.version(numbers[-1]), "--global", "no_such", "--output", output),
                  "no global no_such")
    check_refused(bench.shmem_ft("extract", bench.version(numbers[-1]), "--range", "1:1", "--output", output),
                  "neither in the heap nor among the globals")
    removed = bench.shmem_ft("remove", bench.folder)
    check(removed.returncode == 0 and not bench.complete(), "remove", removed)


CASES = {
    "jacobi": goes_on(JACOBI),
    "jacobi-nodes": goes_on(JACOBI, SHMEM_FT_PRETEND_NODES="3"),
    "jacobi-nodes-ofi": goes_on(JACOBI, SHMEM_FT_PRETEND_NODES="3", SHMEM_TRANSPORT="ofi"),
    "jacobi-parity": goes_on(JACOBI, SHMEM_FT_PRETEND_NODES="3", SHMEM_FT_BACKUP_MODE="rs:2+1"),
    "jacobi-checked": goes_on(JACOBI, SHMEM_FT_CHECK="abort", SHMEM_FT_TRACKING="check"),
    "only-pe": goes_on(["remote_writes", "--steps", "40", "--pace", "4"], pes=1),
    "only-pe-with-witness": goes_on(["remote_writes", "--steps", "40", "--pace", "4"], pes=1, words=("--spares", "1")),
    "linked-list": goes_on(["linked_list", "--steps", "40", "--pace", "4"]),
    "remote-writes": goes_on(["remote_writes", "--steps", "40", "--pace", "4"]),
    "remote-writes-nodes": goes_on(["remote_writes", "--steps", "40", "--pace", "4"], SHMEM_FT_PRETEND_NODES="2"),
    "two-phase": goes_on(["two_phase", "--steps", "30", "--pace", "4"]),
    "spares-after-that": spares_after_that,
    "dies-again": dies_again_and_again,
    "retried": retried,
    "retried-from-the-beginning": retried_from_the_beginning,
    "not-retried": not_retried,
    "killed-with-all": killed_with_all,
    "input-again": input_again,
    "deaths-in-storing": deaths_in_storing,
    "failures-in-storing": failures_in_storing,
    "full-disk": full_disk,
    "compressed": compressed,
    "regrouped": regrouped,
    "regrouped-python": regrouped_in_python,
    "declared-meanwhile": declared_meanwhile,
    "not-to-be-loaded": not_to_be_loaded,
    "at-random": at_random,
    "damaged": damaged,
    "damaged-and-retried": damaged_and_retried,
    "bad-input": bad_input,
    "two-at-once": two_at_once,
    "python": python,
    "told": told,
    "looked-at": looked_at,
} | turns_cases.CASES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--programs", required=True, help="build directory")
    parser.add_argument("--rounds", type=int, default=3, help="of the case at-random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES])
    options = parser.parse_args()
    bench = Bench(options)
    wrong = 0
    for name in options.cases or CASES:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="stored-") as folder:
            bench.folder = os.path.join(folder, "versions")
            try:
                CASES[name](bench)
                print(f"ok    {name} ({time.monotonic() - begin:.1f} s)", flush=True)
            except (Wrong, subprocess.TimeoutExpired) as what:
                wrong += 1
                print(f"WRONG {name}: {what}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
