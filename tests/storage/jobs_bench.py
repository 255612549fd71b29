"""What the tests of versions in files share: running a job that stores, and judging what has become of it."""

import os
import random
import re
import subprocess
import sys

# A sanitizer makes jobs several times as slow.
TIMEOUT_S = 60 if os.environ.get("SFT_SANITIZE", "none") == "none" else 240


# PE 0, when two versions are complete; without a spare that ends the job. Until then the job takes its time.
LOST = "kill pe 0 at store_committed visit 2"
UNHURRIED = ["--pace", "250"]

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = sys.executable


class Wrong(Exception):
    pass


def check(condition, text, outcome=None):
    if not condition:
        told = "" if outcome is None else f"\n{outcome.stdout}\n{outcome.stderr}"
        raise Wrong(f"{text}{told}")


class Bench:
    def __init__(self, options):
        self.oshrun = os.path.abspath(options.oshrun)
        self.tool = os.path.join(os.path.dirname(self.oshrun), "shmem-ft")
        self.programs = os.path.abspath(options.programs)
        self.random = random.Random(options.seed)
        self.rounds = options.rounds
        self.folder = None

    def command(self, *words):
        if words[-1][0] == PYTHON:
            heat = os.path.join(HERE, "..", "..", "apps", words[-1][1])
            library = os.path.join(self.programs, "libshmem_ft.so")
            return [self.oshrun, *words[:-1], PYTHON, heat, "--library", library, *words[-1][2:]]
        paths = [os.path.join(self.programs, below, words[-1][0]) for below in ("apps", "tests/fault")]
        return [self.oshrun, *words[:-1], next(path for path in paths if os.path.exists(path)), *words[-1][1:]]

    def environment(self, settings):
        return {**os.environ, "SHMEM_FT_MEMORY_DOMAINS": "0", **settings}

    def run(self, *words, stdin=subprocess.DEVNULL, **settings):
        return subprocess.run(self.command(*words), env=self.environment(settings), stdin=stdin, capture_output=True,
                              text=True, timeout=TIMEOUT_S, check=False)

    def start(self, *words, **settings):
        return subprocess.Popen(self.command(*words), env=self.environment(settings), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def shmem_ft(self, *words):
        return subprocess.run([self.tool, *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    def store(self, **settings):
        return {"SHMEM_FT_STORE": self.folder, "SHMEM_FT_STORE_INTERVAL": "2", **settings}

    def complete(self):
        found = os.listdir(self.folder) if os.path.isdir(self.folder) else []
        return sorted(int(name[8:]) for name in found
                      if name[8:].isdigit() and os.path.exists(os.path.join(self.folder, name, "manifest.toml")))

    def version(self, number):
        return os.path.join(self.folder, f"version-{number:08}")

    def check_stored(self):
        if self.complete():
            for number in self.complete():
                verified = self.shmem_ft("verify", self.version(number))
                check(verified.returncode == 0, "a version with a manifest is damaged", verified)


def results(outcome):
    """What was printed behind the version from which the job goes on is printed again."""
    return sorted({line for line in outcome.stdout.splitlines() if line.startswith("result ")})


def check_right(outcome, expected):
    check(outcome.returncode == 0, f"exit code {outcome.returncode}", outcome)
    check(results(outcome) == expected and expected, f"results {results(outcome)} instead of {expected}", outcome)


def check_refused(outcome, pattern):
    check(outcome.returncode != 0, "exit code 0", outcome)
    lines = [line for line in outcome.stderr.splitlines() if line.startswith(("oshrun: ", "shmem-ft: "))]
    check(any(re.search(pattern, line) for line in lines), f"no line matches /{pattern}/", outcome)
