#!/usr/bin/env python3
"""`meson install` leaves a tree with which programs are compiled, linked in every documented way, and run.

The tree is installed below a temporary folder and so used at another place than the configured prefix: what is installed
must find its parts relative to itself.
"""

import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

OPTIONS = None

INSTALLED_BYTES_MAX = 60 << 20

CXX_PROGRAM = """
#include <cstdio>
#include <shmem_ft.hpp>
int main() {
    shmem_ft::Job job;
    shmem_ft::SymmetricArray<long> numbers(4);
    long sum = 0;
    for (long &number : numbers.span()) {
        number = 2;
        sum += number;
    }
    const shmem_ft::FaultList faults;
    std::printf("%ld %zu\\n", sum, faults.pes().size() + numbers.span().size());
}
"""


def run(*command, **keywords):
    result = subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
        **keywords,
    )
    if result.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, command))} ended with {result.returncode}:\n{result.stdout}")
    return result.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="shmem-ft-install-")
        root = pathlib.Path(cls.folder.name)
        run("meson", "install", "-C", OPTIONS.build, "--no-rebuild", "--strip", "--quiet", "--destdir", root)
        cls.prefix = root / OPTIONS.prefix.lstrip("/")
        cls.bin = cls.prefix / OPTIONS.bindir
        cls.lib = cls.prefix / OPTIONS.libdir
        cls.include = cls.prefix / OPTIONS.includedir
        cls.doc = cls.prefix / OPTIONS.datadir / "doc" / "shmem-ft"
        cls.man = cls.prefix / OPTIONS.mandir
        cls.program = root / "program"
        # A user's shell, not one in which a build tree comes first.
        os.environ.pop("LD_LIBRARY_PATH", None)  # Meson points it at the build tree
        cls.environment = {**os.environ, "PATH": f"{cls.bin}:/usr/local/bin:/usr/bin:/bin"}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def pkg_config(self, *arguments, package="shmem-ft"):
        environment = {**self.environment, "PKG_CONFIG_PATH": str(self.lib / "pkgconfig")}
        output = run(
            "pkg-config", f"--define-variable=prefix={self.prefix}", *arguments, package, env=environment
        )
        return shlex.split(output)

    def assert_runs(self, *, shared):
        needed = run("readelf", "--dynamic", self.program)
        self.assertEqual("libshmem_ft.so" in needed, shared)
        output = run(self.bin / "oshrun", "-n", "2", self.program, env=self.environment)
        self.assertNotEqual(output.strip(), "")

    def test_files(self):
        wanted = [
            *(self.bin / name for name in ("oshcc", "oshc++", "oshrun", "shmem-ft", "shmem_info")),
            *(self.lib / name for name in ("libshmem_ft.so", "libshmem_ft.so.0", "libshmem_ft.a")),
            *(self.include / name for name in ("shmem.h", "shmemx.h", "pshmem.h", "shmem_ft.h", "shmem_ft.hpp")),
            *(self.include / "mpp" / name for name in ("shmem.h", "shmemx.h")),
            self.lib / "pkgconfig" / "shmem-ft.pc",
            *(self.doc / name for name in ("README.md", "docs/faults.md", "docs/survive.md", "docs/images/timeline.svg")),
            *(self.doc / "apps" / name for name in ("hello.c", "app_support.h", "kernels/gups.c")),
        ]
        self.assertEqual([str(path) for path in wanted if not path.exists()], [])

    def test_nothing_of_the_build_tree(self):
        self.assertFalse((self.bin / "uninstalled").exists())
        for path in [self.lib / "libshmem_ft.so", *self.bin.iterdir()]:
            dynamic = run("readelf", "--dynamic", path)
            self.assertNotIn(str(OPTIONS.build), dynamic, path)
        self.assertNotIn(str(OPTIONS.build), (self.lib / "pkgconfig" / "shmem-ft.pc").read_text())

    def test_oshrun_finds_what_it_loads_into_mpirun(self):
        done = subprocess.run([self.bin / "oshrun", "--launcher", "mpirun", "-n", "1", "true"], env=self.environment, capture_output=True,
                              text=True, check=False)
        self.assertIn("without calling shmem_init", done.stderr)
        self.assertNotIn("launcher_door", done.stderr)

    def test_oshcc_shared(self):
        run("oshcc", "-O2", "-o", self.program, OPTIONS.program, env=self.environment)
        self.assert_runs(shared=True)

    def test_oshcc_static(self):
        run("oshcc", "--shmem-static", "-O2", "-o", self.program, OPTIONS.program, env=self.environment)
        self.assert_runs(shared=False)

    def test_oshcxx(self):
        # In the compiler's own C++, in C++17, which has no std::span, and in C++20.
        source = pathlib.Path(self.folder.name) / "program.cpp"
        source.write_text(CXX_PROGRAM)
        for standard in ([], ["-std=c++17"], ["-std=c++20"]):
            run("oshc++", "-Wall", "-Wextra", "-Werror", *standard, "-o", self.program, source, env=self.environment)
            self.assert_runs(shared=True)

    def assert_fixed_addresses(self):
        self.assertRegex(run("readelf", "--file-header", self.program), r"Type: +EXEC")

    def test_pkg_config_shared(self):
        run("cc", "-o", self.program, OPTIONS.program, *self.pkg_config("--cflags", "--libs"))
        self.assert_fixed_addresses()
        self.assert_runs(shared=True)

    def test_pkg_config_makes_libraries(self):
        # -no-pie, which programs are linked with, would make no library of it.
        library = pathlib.Path(self.folder.name) / "libuser.so"
        flags = self.pkg_config("--cflags", "--libs", package="shmem-ft-library")
        run("cc", "-shared", "-fPIC", "-o", library, OPTIONS.program, *flags)
        self.assertRegex(run("readelf", "--file-header", library), r"Type: +DYN")

    def test_pkg_config_static(self):
        run("cc", "-o", self.program, OPTIONS.program, *self.pkg_config("--static", "--cflags", "--libs"))
        self.assert_fixed_addresses()
        self.assert_runs(shared=False)

    def test_the_size(self):
        # Debug information is what makes it large; the static library keeps it, for who links it.
        sizes = {str(path): path.stat().st_size for path in self.prefix.rglob("*") if path.is_file() and not path.is_symlink()}
        self.assertLess(sum(sizes.values()), INSTALLED_BYTES_MAX, sorted(sizes.items(), key=lambda item: -item[1])[:5])

    def test_every_call_has_a_page_with_an_example(self):
        header = (self.include / "shmem_ft.h").read_text()
        calls = set(re.findall(r"^\w[\w ]*[ *](shmem_\w+)\(.*\);", header, re.M)) | {"SHMEM_FT_ROLLBACK_POINT"}
        self.assertGreater(len(calls), 11)
        for call in sorted(calls):
            page = self.man / "man3" / f"{call}.3"
            self.assertTrue(page.exists(), f"no page for {call}")
            text = page.read_text()
            if text.startswith(".so "):
                text = (self.man / text.split()[1]).read_text()
            self.assertIn(call, text)
            example = re.search(r"^\.SH EXAMPLE\n\.nf\n(.*?)^\.fi", text, re.M | re.S)
            self.assertIsNotNone(example, f"{page} has no example")
            with self.subTest(page=page.name):
                source = pathlib.Path(self.folder.name) / "example.c"
                source.write_text(example[1].replace("\\e", "\\"))
                run("oshcc", "-Wall", "-Wextra", "-Werror", "-o", self.program, source, env=self.environment)
                run(self.bin / "oshrun", "-n", "2", "--spares", "1", self.program, env=self.environment)

    def test_lines_name_documents_that_are_there(self):
        for words in (["config"], ["lab", "--help"]):
            said = re.findall(r"[^\s(]*docs/[\w-]+\.md", " ".join(run(self.bin / "shmem-ft", *words).split()))
            self.assertTrue(said, words)
            for path in said:
                self.assertTrue(pathlib.Path(path).is_absolute() and pathlib.Path(path).exists(), path)
        # Of the library itself: linked with something that has MPI's name, it warns of spares.
        source = pathlib.Path(self.folder.name) / "mpi.c"
        source.write_text("#include <shmem.h>\nint MPI_Init(void) { return 0; }\nint main(void) { shmem_init(); shmem_finalize(); }\n")
        run("oshcc", "-rdynamic", "-o", self.program, source, env=self.environment)
        said = run(self.bin / "oshrun", "-n", "2", "--spares", "1", self.program, env=self.environment)
        path = re.search(r"\((/\S*docs/launchers\.md)\)", said)
        self.assertIsNotNone(path, said)
        self.assertTrue(pathlib.Path(path[1]).exists(), said)

    def test_mpirun_as_the_document_says(self):
        text = (self.doc / "docs" / "launchers.md").read_text()
        block = re.search(r"^    (SHMEM_FT_SPARES=1 setarch.*\\\n.*)$", text, re.M)[1]
        command = block.replace("\\\n", " ").replace("./program arguments", str(self.program))
        if os.geteuid() == 0:
            command = command.replace("mpirun", "mpirun --allow-run-as-root")  # so it says
        run("oshcc", "-O2", "-o", self.program, OPTIONS.program, env=self.environment)
        self.assertEqual(run("sh", "-c", command, env=self.environment).count(" sweeps, "), 4)

    def test_the_version(self):
        source = pathlib.Path(self.folder.name) / "version.c"
        source.write_text(
            "#include <shmem_ft.h>\n#include <stdio.h>\n#if SHMEM_FT_VERSION < 100\n#error old\n#endif\n"
            'int main(void) { printf("%s %d.%d.%d\\n", SHMEM_FT_VERSION_STRING, SHMEM_FT_VERSION_MAJOR, SHMEM_FT_VERSION_MINOR, '
            "SHMEM_FT_VERSION_PATCH); }\n"
        )
        run("oshcc", "-o", self.program, source, env=self.environment)
        self.assertEqual(run(self.program).split(), [OPTIONS.version, OPTIONS.version])


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("build", "program", "version", "prefix", "bindir", "includedir", "libdir", "datadir", "mandir"):
        parser.add_argument(f"--{option}", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
