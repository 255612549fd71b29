#!/usr/bin/env python3
"""The code of docs/survive.md, as it stands there: each piece is put into the frame, compiled, run without faults, and killed
at random moments. What is called right gives the same result, what is called wrong is found wrong.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = {
    "allocate": "void allocate(void) {}",
    "begin": "void begin(void) {}",
    "again": "void again(void) {}",
    "finish": "void finish(void) {}",
}
WORK_MS = 3  # so that there is time to die in
TOPICS = {"globals", "counters", "heap", "private-arrays", "early-exit", "random-numbers", "files", "openmp", "cxx", "output"}
OPTIONS = None


def blocks_of(text: str) -> dict:
    """(kind, topic) -> (language, code)."""
    found = re.findall(r"^<!-- (frame|right|wrong)(?:: ([\w-]+))? -->\n```(c|cpp)\n(.*?)^```$", text, re.M | re.S)
    return {(kind, topic): (language, code) for kind, topic, language, code in found}


def program_of(frame: str, part: str) -> str:
    includes, rest = re.match(r"((?:#include [^\n]*\n)+)(.*)", frame, re.S).groups()
    missing = [text for name, text in PARTS.items() if not re.search(rf"^void {name}\(", part, re.M)]
    if rest.count("        work();\n") != 1:
        raise AssertionError("the frame has no place where it works")
    paced = rest.replace("        work();\n", f"        work();\n        usleep({WORK_MS}000);\n")
    return "\n".join([includes, "#include <unistd.h>", part, *missing, paced])


class Survive(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="shmem-ft-survive-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        # Programs write files where they are, and several runs go on at once.
        cls.oshrun = cls.folder / "oshrun"
        cls.oshrun.write_text(f'#!/bin/sh\ncd "$(mktemp -d -p {cls.folder})" && exec {os.path.abspath(OPTIONS.oshrun)} "$@"\n', encoding="utf-8")
        cls.oshrun.chmod(0o755)
        cls.text = (ROOT / "docs" / "survive.md").read_text(encoding="utf-8")
        cls.blocks = blocks_of(cls.text)
        cls.frame = cls.blocks.pop(("frame", ""))[1]

    def compile(self, kind: str, topic: str) -> pathlib.Path:
        language, part = self.blocks[kind, topic]
        source = self.folder / f"{kind}-{topic}.{language}"
        source.write_text(program_of(self.frame, part), encoding="utf-8")
        program = source.with_suffix("")
        compiler = OPTIONS.cxx if language == "cpp" else OPTIONS.cc
        words = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", *(["-fopenmp"] if topic == "openmp" else []), source, "-o", program]
        result = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return program

    def kill(self, program: pathlib.Path, seed: int) -> subprocess.CompletedProcess:
        words = [sys.executable, ROOT / "tests/fault/campaign.py", "--oshrun", self.oshrun, "--timeout", OPTIONS.timeout,
                 "--runs", OPTIONS.runs, "--seed", str(seed), program]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)

    def test_every_block_is_looked_at(self):
        self.assertEqual(len(re.findall(r"^```c", self.text, re.M)), len(self.blocks) + 1)
        self.assertLessEqual(TOPICS, {topic for _, topic in self.blocks})

    def test_what_is_right_survives(self):
        for number, (kind, topic) in enumerate(sorted(self.blocks)):
            if kind == "right":
                with self.subTest(topic=topic):
                    result = self.kill(self.compile(kind, topic), 23000 + 100 * number)
                    self.assertEqual(result.returncode, 0, result.stdout[-3000:] + result.stderr)

    def test_what_is_wrong_is_found_wrong(self):
        for number, (kind, topic) in enumerate(sorted(self.blocks)):
            if kind == "wrong":
                with self.subTest(topic=topic):
                    result = self.kill(self.compile(kind, topic), 24000 + 100 * number)
                    self.assertEqual(result.returncode, 1, result.stdout[-3000:] + result.stderr)
                    self.assertRegex(result.stdout, r"[1-9]\d* WRONG")


def main() -> int:
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("oshrun", "cc", "cxx", "timeout"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--runs", default="6")
    OPTIONS, rest = parser.parse_known_args()
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    return 0 if unittest.main(argv=[sys.argv[0], *rest], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
