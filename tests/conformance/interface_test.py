#!/usr/bin/env python3
"""The interface as a whole: the committed headers are what the tables say, the tables have every routine of the
specification with its prototype and no other, both libraries define each routine under both names and nothing else that
could get in a program's way, and the headers compile in every language and version that programs use."""

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

import header_texts

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GENERATOR = ROOT / "tools" / "gen_api.py"
PROTOTYPES = (HERE / "prototypes-1.6.txt").read_text().splitlines()
SYMBOLS = {re.match(r".*?(\w+)\(", line).group(1) for line in PROTOTYPES}
# Of 1.0 to 1.4, removed in 1.5; programs of that time call them.
REMOVED = {
    "shmem_set_cache_inv",
    "shmem_clear_cache_inv",
    "shmem_set_cache_line_inv",
    "shmem_clear_cache_line_inv",
    "shmem_udcflush",
    "shmem_udcflush_line",
}
LIBRARIES = {}
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
C_COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
CXX_COMPILERS = [name for name in ("g++", "clang++") if shutil.which(name)]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def defined_symbols(library, *options):
    """{name: kind} as nm prints it: T is a strong definition, W a weak one."""
    lines = run("nm", "--defined-only", "--format=posix", *options, library).stdout.splitlines()
    rows = [line.split() for line in lines]
    return {row[0].split("@")[0]: row[1] for row in rows if len(row) > 1}


def own_routines():
    """The calls of shmem_ft.h."""
    text = (ROOT / "include/shmem_ft.h").read_text()
    return set(re.findall(r"^\w[\w ]*[ *](p?shmem_\w+)\([^;{}]*\);", text, re.M))


def with_profiling_names(names):
    return names | {"p" + name for name in names}


class Names(unittest.TestCase):
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
        self.assertEqual((len(PROTOTYPES), len(SYMBOLS)), (1788, 1788))
        self.assertEqual(set(listed) - SYMBOLS, REMOVED)
        self.assertEqual(sorted(SYMBOLS - set(listed)), [])

    def check_library(self, symbols):
        names = SYMBOLS | REMOVED
        wrong = [name for name in names if symbols.get(name) != "W" or symbols.get("p" + name) != "T"]
        self.assertEqual(sorted(wrong), [], "not defined weakly, and strongly with a p in front")
        missing = [name for name in own_routines() if symbols.get(name) not in ("W", "T")]
        self.assertEqual(sorted(missing), [], "in shmem_ft.h, not in the library")

    def test_shared_library_defines_them_and_nothing_else(self):
        symbols = defined_symbols(LIBRARIES["shared"], "--dynamic")
        self.check_library(symbols)
        allowed = with_profiling_names(SYMBOLS | REMOVED | own_routines())
        self.assertEqual(sorted(set(symbols) - allowed), [])

    def test_static_library_defines_them_and_nothing_that_could_clash(self):
        """What else is visible in it is C++ of the namespace sft, and instances of templates, which are weak."""
        symbols = defined_symbols(LIBRARIES["static"], "--extern-only")
        self.check_library(symbols)
        allowed = with_profiling_names(SYMBOLS | REMOVED | own_routines())
        others = {name: kind for name, kind in symbols.items() if name not in allowed}
        self.assertEqual(sorted(name for name in others if not name.startswith(("_Z", "DW.ref."))), [])
        strong = [name for name, kind in others.items() if kind not in "WVu" and "3sft" not in name]
        self.assertEqual(sorted(strong), [])

    def test_calls_of_shmem_ft_h_are_found(self):
        self.assertIn("shmem_ft_on_fault", own_routines())


class Headers(unittest.TestCase):
    """Each job is (compiler, language, version, flags, text); nothing may be said about any."""

    def check(self, jobs):
        self.assertGreater(len(jobs), 0)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for job, errors in zip(jobs, pool.map(lambda job: self.errors_of(*job), jobs)):
                with self.subTest(compiler=job[0], version=job[2], text=job[4][:300]):
                    self.assertEqual(errors[:2000], "")

    @staticmethod
    def errors_of(compiler, language, version, flags, text):
        command = [compiler, "-x", language, f"-std={version}", *flags, "-fsyntax-only", f"-I{ROOT / 'include'}", "-"]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False).stderr

    def test_alone_and_together_in_c(self):
        self.check([
            (compiler, "c", version, STRICT, text)
            for compiler in C_COMPILERS
            for version in ("c99", "c11", "c17")
            for text in header_texts.all_inclusions()
        ])

    def test_alone_and_together_in_cxx(self):
        """The oldest language sees each header alone, too; and extern "C" around an inclusion, as old C++ programs have
        it, does no harm."""
        jobs = []
        for compiler in CXX_COMPILERS:
            for version in ("c++11", "c++14", "c++17", "c++20"):
                texts = header_texts.all_inclusions() if version == "c++11" else header_texts.together()
                jobs += [(compiler, "c++", version, STRICT, text) for text in texts]
            wrapped = [header_texts.in_extern_c(text) for text in header_texts.together()]
            jobs += [(compiler, "c++", "c++11", STRICT, text) for text in wrapped]
        self.check(jobs)

    def test_old_c(self):
        """C of 1989 has no long long, which every compiler has; so without -Wpedantic."""
        flags = ["-Wall", "-Wextra", "-Werror"]
        texts = header_texts.together()
        self.check([(compiler, "c", "gnu89", flags, text) for compiler in C_COMPILERS for text in texts])

    def test_prototypes_are_those_of_the_specification(self):
        """A second declaration must agree with the first. Names are in parentheses, because some are macros, too."""
        text = header_texts.prototypes(PROTOTYPES)
        jobs = [(compiler, "c", version, STRICT, text) for compiler in C_COMPILERS for version in ("c99", "c11")]
        text = header_texts.prototypes_for_cxx(PROTOTYPES)
        jobs += [(compiler, "c++", "c++11", STRICT, text) for compiler in CXX_COMPILERS]
        self.check(jobs)

    def test_a_wrong_prototype_would_be_found(self):
        wrong = [line.replace("size_t nelems, int pe", "int nelems, int pe") for line in PROTOTYPES]
        self.assertIn("conflicting types", self.errors_of("gcc", "c", "c11", STRICT, header_texts.prototypes(wrong)))

    def test_constants_and_handles(self):
        text = header_texts.constants()
        jobs = [(compiler, "c", version, STRICT, text) for compiler in C_COMPILERS for version in ("c11", "c17")]
        jobs += [(compiler, "c++", "c++11", STRICT, text) for compiler in CXX_COMPILERS]
        self.check(jobs)

    def test_generic_names_for_other_compilers(self):
        """generics.c runs as GCC has compiled it; here the others, and the strict rules."""
        text = (HERE / "generics.c").read_text()
        flags = [*STRICT, "-D_POSIX_C_SOURCE=200809L", f"-I{ROOT}"]
        self.check([(compiler, "c", version, flags, text) for compiler in C_COMPILERS for version in ("c11", "c17")])

    def test_a_generic_name_refuses_a_type_that_it_has_not(self):
        for call in (
            "shmem_atomic_fetch_inc((float*)x, 0)",
            "shmem_atomic_or((long long*)x, 1, 0)",
            "shmem_put((struct s*)x, (struct s*)x, 1, 0)",
            "shmem_and_reduce(SHMEM_TEAM_WORLD, (long long*)x, (long long*)x, 1)",
            "shmem_max_reduce(SHMEM_TEAM_WORLD, (double _Complex*)x, (double _Complex*)x, 1)",
            "shmem_wait_until_all((short*)x, 1, 0, SHMEM_CMP_EQ, 1)",
        ):
            text = f"#include <shmem.h>\nstruct s {{ int a; }};\nvoid f(void *x);\nvoid f(void *x) {{ {call}; }}\n"
            for compiler in C_COMPILERS:
                with self.subTest(compiler=compiler, call=call):
                    self.assertIn("error", self.errors_of(compiler, "c", "c11", ["-w"], text))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", required=True)
    parser.add_argument("--static", required=True)
    options, rest = parser.parse_known_args()
    LIBRARIES.update(shared=options.shared, static=options.static)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
