#!/usr/bin/env python3
"""`meson install` leaves a tree with which programs are compiled, linked in every documented way, and run.

The tree is installed below a temporary folder and so used at another place than the configured prefix: what is installed
must find its parts relative to itself.
"""

import argparse
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

OPTIONS = None


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
        run("meson", "install", "-C", OPTIONS.build, "--no-rebuild", "--quiet", "--destdir", root)
        cls.prefix = root / OPTIONS.prefix.lstrip("/")
        cls.bin = cls.prefix / OPTIONS.bindir
        cls.lib = cls.prefix / OPTIONS.libdir
        cls.include = cls.prefix / OPTIONS.includedir
        cls.program = root / "program"
        # A user's shell, not one in which a build tree comes first.
        os.environ.pop("LD_LIBRARY_PATH", None)  # Meson points it at the build tree
        cls.environment = {**os.environ, "PATH": f"{cls.bin}:/usr/local/bin:/usr/bin:/bin"}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def pkg_config(self, *arguments):
        environment = {**self.environment, "PKG_CONFIG_PATH": str(self.lib / "pkgconfig")}
        output = run(
            "pkg-config", f"--define-variable=prefix={self.prefix}", *arguments, "shmem-ft", env=environment
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
            *(self.include / name for name in ("shmem.h", "shmemx.h", "pshmem.h", "shmem_ft.h")),
            *(self.include / "mpp" / name for name in ("shmem.h", "shmemx.h")),
            self.lib / "pkgconfig" / "shmem-ft.pc",
        ]
        self.assertEqual([str(path) for path in wanted if not path.exists()], [])

    def test_nothing_of_the_build_tree(self):
        self.assertFalse((self.bin / "uninstalled").exists())
        for path in [self.lib / "libshmem_ft.so", *self.bin.iterdir()]:
            dynamic = run("readelf", "--dynamic", path)
            self.assertNotIn(str(OPTIONS.build), dynamic, path)
        self.assertNotIn(str(OPTIONS.build), (self.lib / "pkgconfig" / "shmem-ft.pc").read_text())

    def test_oshcc_shared(self):
        run("oshcc", "-O2", "-o", self.program, OPTIONS.program, env=self.environment)
        self.assert_runs(shared=True)

    def test_oshcc_static(self):
        run("oshcc", "--shmem-static", "-O2", "-o", self.program, OPTIONS.program, env=self.environment)
        self.assert_runs(shared=False)

    def test_oshcxx(self):
        source = pathlib.Path(self.folder.name) / "program.cpp"
        source.write_text('#include <cstdio>\n#include <shmem.h>\nint main() { shmem_init(); std::puts("x"); shmem_finalize(); }\n')
        run("oshc++", "-std=c++17", "-o", self.program, source, env=self.environment)
        self.assert_runs(shared=True)

    def test_pkg_config_shared(self):
        flags = [*self.pkg_config("--cflags", "--libs"), f"-Wl,-rpath,{self.lib}"]
        run("cc", "-o", self.program, OPTIONS.program, *flags)
        self.assert_runs(shared=True)

    def test_pkg_config_static(self):
        flags = self.pkg_config("--static", "--cflags", "--libs")
        flags = [str(self.lib / "libshmem_ft.a") if flag == "-lshmem_ft" else flag for flag in flags]
        run("cc", "-o", self.program, OPTIONS.program, *flags)
        self.assert_runs(shared=False)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("build", "program", "prefix", "bindir", "includedir", "libdir"):
        parser.add_argument(f"--{option}", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
