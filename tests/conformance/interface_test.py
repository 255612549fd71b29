#!/usr/bin/env python3
"""The interface as a whole: the committed headers are what the tables say, the tables have every routine of the
specification and no other, both libraries define each routine under both names, and the headers compile in every
language and version that programs use."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GENERATOR = ROOT / "tools" / "gen_api.py"
SYMBOLS = set((HERE / "symbols-1.6.txt").read_text().split())
HEADERS = ["shmem.h", "shmemx.h", "pshmem.h", "shmem_ft.h", "mpp/shmem.h", "mpp/shmemx.h"]
LIBRARIES = {}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def defined_symbols(library, *options):
    """{name: kind} as nm prints it: T is a strong definition, W a weak one."""
    lines = run("nm", "--defined-only", "--format=posix", *options, library).stdout.splitlines()
    rows = [line.split() for line in lines]
    return {row[0].split("@")[0]: row[1] for row in rows if len(row) > 1}


class Interface(unittest.TestCase):
    def test_headers_are_what_the_tables_say(self):
        with tempfile.TemporaryDirectory() as folder:
            written = run(sys.executable, GENERATOR, "--output", folder)
            self.assertEqual(written.returncode, 0, written.stderr)
            for name in ("shmem.h", "pshmem.h"):
                fresh = (pathlib.Path(folder) / name).read_text()
                same = fresh == (ROOT / "include" / name).read_text()
                self.assertTrue(same, f"include/{name} is not what the tables say: run tools/gen_api.py")

    def test_tables_have_every_routine(self):
        listed = run(sys.executable, GENERATOR, "--list").stdout.split()
        self.assertEqual(len(listed), len(set(listed)), "a routine is listed twice")
        self.assertEqual(len(SYMBOLS), 1788)
        self.assertEqual(sorted(set(listed) - SYMBOLS), [])
        self.assertEqual(sorted(SYMBOLS - set(listed)), [])

    def check_library(self, symbols):
        wrong = [name for name in SYMBOLS if symbols.get(name) != "W" or symbols.get("p" + name) != "T"]
        self.assertEqual(sorted(wrong), [], "not defined weakly, and strongly with a p in front")

    def test_shared_library_defines_them(self):
        self.check_library(defined_symbols(LIBRARIES["shared"], "--dynamic"))

    def test_static_library_defines_them(self):
        self.check_library(defined_symbols(LIBRARIES["static"]))

    def test_calls_of_shmem_ft_h_are_defined(self):
        prototypes = re.findall(r"^\w[\w ]*[ *](p?shmem_\w+)\([^;{}]*\);", (ROOT / "include/shmem_ft.h").read_text(), re.M)
        self.assertIn("shmem_ft_on_fault", prototypes)
        for symbols in (defined_symbols(LIBRARIES["shared"], "--dynamic"), defined_symbols(LIBRARIES["static"])):
            self.assertEqual([name for name in prototypes if symbols.get(name) not in ("W", "T")], [])

    def test_headers_compile(self):
        jobs = []
        for header in HEADERS:
            plain = f"#include <{header}>\nint here;\n"
            wrapped = f'extern "C" {{\n{plain}}}\n'  # as old C++ programs do it
            for compiler in filter(shutil.which, ("gcc", "clang")):
                jobs += [(compiler, "c", version, plain) for version in ("c99", "c11", "c17")]
            for compiler in filter(shutil.which, ("g++", "clang++")):
                jobs += [(compiler, "c++", "c++11", wrapped), (compiler, "c++", "c++20", plain)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for job, errors in zip(jobs, pool.map(lambda job: self.errors_of(*job), jobs)):
                with self.subTest(compiler=job[0], version=job[2], text=job[3]):
                    self.assertEqual(errors, "")

    @staticmethod
    def errors_of(compiler, language, version, text):
        flags = ["-x", language, f"-std={version}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
        command = [compiler, *flags, f"-I{ROOT / 'include'}", "-"]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False).stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", required=True)
    parser.add_argument("--static", required=True)
    options, rest = parser.parse_known_args()
    LIBRARIES.update(shared=options.shared, static=options.static)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
