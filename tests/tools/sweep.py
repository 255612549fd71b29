#!/usr/bin/env python3
"""Jobs under settings, command lines, limits and environments as nobody should make them.

    sweep.py --tables build/tests/tools/sweep_tables --program build/apps/hello                  # all of them
    sweep.py ... --sample 24 --seed 3      # as many, drawn from that seed
    sweep.py ... --only 'option --events'  # those with that in their names
    sweep.py ... --list

Settings and options come from the tables of the library and of oshrun, limits from the system, so new ones are in by
themselves. Each case is one job of two PEs. It is right if

  - the job works: exit code 0, each PE has said its line, and stderr has nothing but warnings of ours;
  - or it is refused, or fails: another exit code, and one line of ours that is no warning (besides one of each process that has met it), and
    nobody else's line;

in bounded time, with nothing left: no process, no file. What the kernel does to oshrun before it runs is not judged (a
limit under which no program can be loaded).
"""

import argparse
import dataclasses
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile

from job_process import JobProcess

BOUND_S = 60
START_TIMEOUT_MS = "8000"
OURS = re.compile(r"^(oshrun|shmem-ft): ")
WARNING = re.compile(r"^(oshrun|shmem-ft): (warning|fault schedule|fault): ")
SAID = re.compile(rb"^PE \d+ of (\d+): \d+ sweeps, .* degrees$", re.M)
# Said by the dynamic linker, or when no program could be started at all.
NOT_LOADED = re.compile(r"error while loading shared libraries|cannot allocate|Cannot allocate|failed to map")
# What is said to the launcher itself, and what becomes of hosts that it cannot reach, it may answer itself.
LAUNCHERS = ("option -L", "option --launcher-args", "OMPI_MCA", "option -H", "option -host", "option --host")
# Become a file and a folder of the case's own. Whatever is named may be written to, by root too: so no value names anything that
# exists outside of the case's folder, but for devices that take and give everything.
FILE, FOLDER = "@file", "@folder"
DEVICES = ("/dev/zero", "/dev/full")
TEXTS = ["", " ", "x", "-1", "0", "1", "3", "4095", "99999999999999999999", "1e999", "nan", "0x10", "1 2", "=", "%s%n", "\u00e4",
         "\x1b[2J", "a\nb", "y" * 5000, FILE, FOLDER, "/dev/zero", "/dev/full", "nowhere/at/all", "../x", "~", "'", "$(id)"]


@dataclasses.dataclass
class Case:
    name: str
    options: list = dataclasses.field(default_factory=list)
    env: dict = dataclasses.field(default_factory=dict)
    without: list = dataclasses.field(default_factory=list)  # variables; "*": all
    prepare: object = None  # in the child, before it becomes oshrun
    may_not_load: bool = False
    loses_stdout: bool = False
    loses_stderr: bool = False


def values_of(setting):
    """What is written in the table, what is just outside of it, and what is wrong everywhere."""
    values = list(TEXTS)
    numbers = re.search(r"a number from (\d+) to (\d+)", setting["range"])
    if numbers:
        low, high = map(int, numbers.groups())
        values += [str(low), str(low - 1), str(high + 1)] + ([] if setting["unit"] == "processes" else [str(high)])
    choices = re.search(r"one of (.*)", setting["range"])
    if choices:
        values += choices[1].split(", ") + [choices[1].split(", ")[0].upper()]
    if setting["type"] == "size":
        values += ["4G4", "3.7", "1.5M", "20kk", "1T", "16E", ".5M", "4M "]
    if setting["type"] == "address":
        values += ["0x10000", "0x200000001000", "7fffffffe000", "0x400000", "0x1"]
    if setting["default"] != "unset":
        values.append(setting["default"])
    if "beginning of a file name" in setting["range"]:
        values = [value for value in values if value not in DEVICES]  # the files would lie beside these
    return values


def settings_cases(tables):
    for setting in tables["settings"]:
        for name in filter(None, (setting["name"], setting["alias"])):
            for value in values_of(setting):
                yield Case(f"setting {name}={value[:40]!r}", env={name: value})
    for name in ("SHMEM_FT_", "SHMEM_FT_NOTHING", "SHMEM_FT_spares", "SHMEM_FT_SPARE"):
        yield Case(f"setting {name}", env={name: "1"})


def options_cases(tables):
    for option in tables["options"]:
        name = option["name"]
        if not option["takes_value"]:
            yield Case(f"option {name}", [name])
            yield Case(f"option {name} with a value", [name + "=1"])
            continue
        yield Case(f"option {name} at the end", ["--only", name])
        for value in TEXTS:
            yield Case(f"option {name} {value[:40]!r}", [name, value])
            if name.startswith("--"):
                yield Case(f"option {name}={value[:40]!r}", [f"{name}={value}"])
        yield Case(f"option {name} twice", [name, "1", name, "x"])
    for words in (["--"], ["-"], ["---"], ["-nx"], ["-n2", "-n3"], ["--nope"], ["-x"], ["-z"], [""]):
        yield Case(f"option words {words}", words)


def limits_cases():
    def setter(what, soft, both):
        def prepare():
            hard = resource.getrlimit(what)[1]
            resource.setrlimit(what, (soft, soft if both else hard))

        return prepare

    for name in sorted(name for name in dir(resource) if name.startswith("RLIMIT_")):
        for soft in (0, 1, 16, 100, 4096, 1 << 20, 64 << 20, 1 << 30):
            for both in (False, True):
                # Nothing, or not even our own first line, fits into these.
                may_not_load = name in ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_STACK", "RLIMIT_CPU", "RLIMIT_NOFILE", "RLIMIT_OFILE")
                yield Case(f"limit {name} {soft}{' hard' if both else ''}", prepare=setter(getattr(resource, name), soft, both),
                           may_not_load=may_not_load, loses_stderr=name == "RLIMIT_FSIZE" and soft < 4096)


def signals_cases():
    def ignorer(number):
        return lambda: signal.signal(number, signal.SIG_IGN)

    def blocker(number):
        return lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {number})

    for number in sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}):
        if number < signal.SIGRTMIN:
            yield Case(f"signal {number} ignored", prepare=ignorer(number))
            yield Case(f"signal {number} blocked", prepare=blocker(number))


def closer(*descriptors):
    def prepare():
        for descriptor in descriptors:
            os.close(descriptor)

    return prepare


def opener(path, descriptor):
    def prepare():
        os.dup2(os.open(path, os.O_RDWR), descriptor)

    return prepare


def in_deleted_folder():
    os.chdir(tempfile.mkdtemp(dir="."))
    os.rmdir(os.getcwd())


def environments_cases():
    yield Case("environment empty", without=["*"])
    for name in sorted(set(os.environ) & {"PATH", "HOME", "USER", "LANG", "TMPDIR", "TERM", "SHELL", "LOGNAME"} | {"PATH", "HOME"}):
        yield Case(f"environment without {name}", without=[name])
    for name in ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "USER", "SHELL", "LD_LIBRARY_PATH", "TZ", "COLUMNS",
                 "OMPI_MCA_orte_default_hostfile", "SLURM_JOB_ID", "PMIX_RANK", "OSHRUN_GUARDIAN"):
        for value in ("", "x", "nowhere/at/all", "/dev/null", FILE, FOLDER, "/dev/zero", "a b", "y" * 3000, "\x1b[2J", "%s"):
            yield Case(f"environment {name}={value[:40]!r}", env={name: value})
    for descriptors in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)):
        yield Case(f"descriptors {descriptors} closed", prepare=closer(*descriptors), loses_stdout=1 in descriptors,
                   loses_stderr=2 in descriptors)
    yield Case("stdin is /dev/full", prepare=opener("/dev/full", 0))
    yield Case("stdout is /dev/full", prepare=opener("/dev/full", 1), loses_stdout=True)
    yield Case("stderr is /dev/full", prepare=opener("/dev/full", 2), loses_stderr=True)
    yield Case("umask 0777", prepare=lambda: os.umask(0o777))
    yield Case("umask 0", prepare=lambda: os.umask(0))
    yield Case("nice 19", prepare=lambda: os.nice(19))
    yield Case("a deleted folder", prepare=in_deleted_folder)
    yield Case("the folder /", prepare=lambda: os.chdir("/"))
    yield Case("the folder /proc/self", prepare=lambda: os.chdir("/proc/self"))
    yield Case("a session of its own", prepare=os.setsid)


def all_cases(tables):
    cases = []
    for some in (settings_cases(tables), options_cases(tables), limits_cases(), signals_cases(), environments_cases()):
        cases += some
    named = {case.name: case for case in cases}
    return list(named.values())


def verdict(case, result):
    """A text for what is wrong; empty: nothing."""
    lines = [line for line in result.lines if line]
    ours = [line for line in lines if OURS.match(line) and not WARNING.match(line)]
    others = [line for line in lines if not OURS.match(line)]
    talks = any(word in case.name for word in ("SHMEM_INFO", "SMA_INFO", "SHMEM_DEBUG", "SMA_DEBUG", "SHMEM_VERSION", "SMA_VERSION",
                                               "--verbose", "-v"))
    may_launcher_talk = any(word in case.name for word in LAUNCHERS)
    if result.exit_code == 0:
        said = SAID.findall(result.stdout)
        is_asked = any(word in case.options for word in ("--help", "-h", "--version", "-V"))
        if not case.loses_stdout and not is_asked and (not said or len(said) != int(said[0])):
            return f"exit code 0, and the output is not complete: {result.stdout[:200]!r}"
        return "" if talks or may_launcher_talk or not (ours or others) else f"exit code 0, and lines: {lines[:5]}"
    if case.may_not_load and (result.exit_code < 0 or any(NOT_LOADED.search(line) for line in lines) or not lines):
        return ""
    if case.loses_stderr and len("".join(lines)) < 4096 and len(lines) < 2:
        return ""
    if ours and may_launcher_talk:
        return ""
    # Processes that meet the same at once may say so each; oshrun says it once.
    of_pes = [line for line in ours if line.startswith("shmem-ft: error: ")]
    if len(ours) - len(of_pes) != 1 and not (talks and ours) or len(of_pes) > 2:
        return f"exit code {result.exit_code}, and {len(ours)} lines of ours: {lines[:5]}"
    return f"exit code {result.exit_code}, and lines of others: {lines[:5]}" if others else ""


def environment_of(case):
    """What is to be added for JobProcess, and what taken away."""
    added = {"SHMEM_FT_START_TIMEOUT": START_TIMEOUT_MS, "SHMEM_FT_WAIT_TIMEOUT": "3", "SHMEM_SYMMETRIC_SIZE": "4M"}
    if any(name.startswith("SMA_SYMMETRIC") for name in case.env):
        del added["SHMEM_SYMMETRIC_SIZE"]
    return {**added, **case.env}


def run_case(case, program):
    removed = {name: os.environ.pop(name) for name in list(os.environ) if "*" in case.without or name in case.without}
    try:
        outer = tempfile.TemporaryDirectory(prefix="oshrun-sweep-")
        here, own = (os.path.join(outer.name, name) for name in ("here", "own"))
        os.makedirs(here)
        os.makedirs(own)
        paths = {FILE: os.path.join(outer.name, "file"), FOLDER: own}
        with open(paths[FILE], "w", encoding="ascii") as file:
            file.write("what somebody has written\n")

        def real(word):
            for mark, path in paths.items():
                word = word.replace(mark, path)
            return word

        options = [real(word) for word in case.options]
        env = {name: real(value) for name, value in environment_of(case).items()}
        with outer, JobProcess("-n", "2", *options, program, env=env, preexec_fn=case.prepare, cwd=here,
                               program=OSHRUN_PATH) as job:
            try:
                result = job.wait(BOUND_S)
            except subprocess.TimeoutExpired:
                return f"it has not ended within {BOUND_S} s: {job.result().lines[:3]}"
            left = job.leftovers()
            return verdict(case, result) or (f"left behind: {left}" if left else "")
    except (ValueError, OSError, subprocess.SubprocessError) as error:
        # The kernel, or Python, does not let such a process be started.
        return "" if isinstance(error, ValueError) or case.may_not_load or "limit" in case.name else f"cannot be started: {error}"
    finally:
        os.environ.update(removed)


SHIELD = "SWEEP_SHIELDED"


def run_shielded():
    """Root may write to everything, and what is swept is not known beforehand: so everything but one folder is made
    read-only first, for this process and its children alone."""
    with tempfile.TemporaryDirectory(prefix="oshrun-sweep-") as folder:
        script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro / && shift && exec "$@"'
        words = ["unshare", "--mount", "sh", "-c", script, "sh", folder, sys.executable, *sys.argv]
        tried = subprocess.run(words[:7] + ["true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            print(f"sweep: not as root without a mount namespace: {tried.stderr.strip()}")
            return 77
        environment = {**os.environ, SHIELD: "1", "TMPDIR": folder}
        return subprocess.run(words, env=environment, check=False).returncode


def find_program(name):
    from shutil import which
    return os.path.realpath(which(name) or name)


OSHRUN_PATH = find_program(os.environ.get("OSHRUN", "oshrun"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if os.geteuid() == 0 and SHIELD not in os.environ and not arguments.list:
        return run_shielded()
    tables = json.loads(subprocess.run([arguments.tables], capture_output=True, check=True).stdout)
    cases = [case for case in all_cases(tables) if arguments.only in case.name]
    if arguments.sample:
        cases = random.Random(arguments.seed).sample(cases, min(arguments.sample, len(cases)))
    if arguments.list:
        print("\n".join(case.name for case in cases))
        return 0
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    failures = 0
    for case in cases:
        wrong = run_case(case, os.path.realpath(arguments.program))
        failures += bool(wrong)
        if wrong:
            print(f"FAILED {case.name}: {wrong}", flush=True)
    print(f"sweep: {len(cases)} cases, {failures} failed (seed {arguments.seed})")
    return 1 if failures or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
