"""Rules that need a compiler or what it made: headers that compile alone, symbols of the libraries, the layout."""

import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from source_tree import C_SUFFIXES, CPP_SUFFIXES, Finding

# Names that programs written for older versions of the specification link against; each also with a p in front.
LEGACY_NAMES = {
    "start_pes", "my_pe", "num_pes", "_my_pe", "_num_pes", "shmalloc", "shfree", "shrealloc", "shmemalign",
}  # fmt: skip

# Writable data that is not ours to move, and why a rollback does no harm to it.
JUSTIFIED = re.compile(
    r"^(?:DW\.ref\."  # the compiler's pointers to exception handling routines: constant, written by the linker
    # Boost's count of cores, set before main and only a hint for spinning; the second is its guard variable.
    r"|_ZN5boost12interprocess9ipcdetail15num_core_holderILi0EE9num_coresE"
    r"|_ZGVN5boost12interprocess9ipcdetail15num_core_holderILi0EE9num_coresE)"
)

WRITABLE_SECTION = re.compile(r"^(?:\.data(?!\.rel\.ro)|\.bss|\.gnu\.linkonce\.[db]\.|COMMON|\*COM\*)")


def check_private_globals(archive):
    """The library linked statically must not leave anything of its own among the program's globals."""
    output = _run(["nm", "--format=sysv", "--defined-only", archive])
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) < 7:
            continue
        name, section = cells[0], cells[6]
        if WRITABLE_SECTION.match(section) and not JUSTIFIED.match(name):
            yield Finding(
                pathlib.Path(archive).name,
                0,
                f"{_demangled(name)} is writable data in {section}; a rollback would change it: make it a member of the "
                "runtime, or mark it SFT_LIBRARY_STATE",
            )


def check_exports(library):
    output = _run(["nm", "--dynamic", "--defined-only", "--format=posix", library])
    names = {line.split()[0].split("@")[0] for line in output.splitlines() if line.strip()}
    if not any(name.startswith("shmem_") for name in names):
        yield Finding(pathlib.Path(library).name, 0, "exports no shmem_ routine at all")
    for name in sorted(names):
        if not re.match(r"p?shmemx?_\w+$", name) and name.removeprefix("p") not in LEGACY_NAMES:
            yield Finding(
                pathlib.Path(library).name, 0, f"exports {_demangled(name)}, which is no part of the interface"
            )


def _demangled(name):
    return _run(["c++filt", name]).strip()


def _run(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def check_layout(tree):
    """clang-format would change nothing."""
    files = tree.with_suffix(C_SUFFIXES | CPP_SUFFIXES)
    if not files:
        return
    result = subprocess.run(
        ["clang-format", "--dry-run", "-Werror", "--ferror-limit=1", *files],
        cwd=tree.root,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    for match in re.finditer(r"^(.+?):(\d+):\d+: error: ", result.stderr, re.M):
        yield Finding(match[1], int(match[2]), f"not laid out as .clang-format says: clang-format -i {match[1]}")
    if result.returncode != 0 and not re.search(r": error: ", result.stderr):
        yield Finding(".clang-format", 0, result.stderr.strip())


C_FLAGS = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-I."]
CPP_FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-Iinclude", "-I."]
CPP_FLAGS += ['-DSFT_VERSION="0"']  # as bin/meson.build defines it


def is_compiled_alone_by_builds(tree, header):
    """Its source of the same name begins with it."""
    source = header.removesuffix(".hpp") + ".cpp"
    first = re.search(r"^#include .*$", tree.text(source), re.M) if source in tree.files else None
    return first is not None and first[0] == f'#include "{header}"'


def check_headers(tree, include_flags):
    """Every header compiles alone; the public ones as C and as C++.

    Builds that compile each source by itself show it of most; here are the others.
    """
    jobs = []
    for path in tree.with_suffix({".hpp"}):
        if not is_compiled_alone_by_builds(tree, path):
            jobs.append((path, "g++", [*CPP_FLAGS, *include_flags]))
    for path in tree.with_suffix({".h"}, generated=True):
        jobs.append((path, "gcc", C_FLAGS if path.startswith("include/") else ["-D_GNU_SOURCE", *C_FLAGS]))
        if path.startswith("include/"):
            jobs.append((path, "g++", ["-std=c++11", "-pedantic", *CPP_FLAGS[1:]]))
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        numbered = [(tree.root, scratch, number, *job) for number, job in enumerate(jobs)]
        for finding in pool.map(lambda job: _compile_alone(*job), numbered):
            if finding:
                yield finding


def _compile_alone(root, scratch, number, header, compiler, flags):
    # An object file rather than -fsyntax-only, because ccache remembers those and the second run costs nothing.
    suffix = ".cpp" if compiler == "g++" else ".c"
    source = pathlib.Path(scratch) / f"{number}{suffix}"
    source.write_text(f'#include "{header}"\n')
    cache = ["ccache"] if shutil.which("ccache") else []
    # Run in the root, so that messages and the cache's keys have paths from there.
    command = [*cache, compiler, *flags, "-c", str(source), "-o", f"{source}.o"]
    result = subprocess.run(command, cwd=root, stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode == 0:
        return None
    lines = [line for line in result.stderr.splitlines() if "error" in line] or result.stderr.splitlines() or ["?"]
    return Finding(header, 1, f"does not compile alone ({compiler} {flags[0]}): {lines[0]}")
