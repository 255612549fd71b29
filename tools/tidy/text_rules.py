"""Rules about single files: lengths, calls with a better replacement, left-over markers, paths of a machine."""

import ast
import pathlib
import re

from functions import find_functions
from layering import layer_of
from source_tree import C_SUFFIXES, CPP_SUFFIXES, Finding, line_of

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

LIBRARY = {"base", "transport", "symheap", "backup", "recovery", "ops", "api", "start", "process"}
OURS = LIBRARY | {"tools", "tests", "benchmarks"}
ALL = OURS | {"apps", "include"}

_STEADY = "CLOCK_MONOTONIC (base/clock.hpp)"
_WAIT = "wait for an event: a doorbell, a file descriptor with a timeout, a process's end"
_CONVERT = "std::from_chars or strtol, which tell when the text is no number"
_RANDOM = "a generator with a seed that is printed, so that a failing run can be repeated"

# (layers, what is banned as a call, what to use instead)
BANNED_CALLS = [
    (LIBRARY, "getenv secure_getenv setenv putenv unsetenv", "a row in base/config.def"),
    (ALL, "strcpy strcat strncpy strncat sprintf vsprintf gets", "std::string, snprintf or memcpy with a known length"),
    (LIBRARY | {"tools"}, "atoi atol atoll atof", _CONVERT),
    (ALL, "strtok alloca tmpnam mktemp", "something that is safe with threads and sizes"),
    (LIBRARY | {"tools"}, "system popen", "posix_spawn or fork and exec with an argument vector"),
    (OURS, "rand srand rand_r drand48", _RANDOM),
    (OURS - {"benchmarks"}, "sleep usleep nanosleep clock_nanosleep", _WAIT),
    (LIBRARY | {"tools"}, "gettimeofday", _STEADY),
    (LIBRARY, "printf puts putchar", "report.hpp; standard output belongs to the application"),
]

# (layers, regular expression, what to use instead)
BANNED_TEXT = [
    (LIBRARY, r"#\s*include\s*<(?:iostream|fstream|sstream|ostream|istream)>", "snprintf and report.hpp"),
    (LIBRARY, r"#\s*include\s*<(?:fmt/|CLI/|nlohmann/|toml\+\+)", "what the standard library has: the library links little"),
    (LIBRARY, r"\bstd::(?:cout|cerr|clog|cin)\b", "report.hpp"),
    (OURS, r"\bthis_thread::sleep_(?:for|until)\b", _WAIT),
    (LIBRARY | {"tools"}, r"\b(?:system_clock|high_resolution_clock|CLOCK_REALTIME)\b", _STEADY),
    (OURS, r"\brandom_device\b", _RANDOM),
    (ALL, r"\busing\s+namespace\s+std\b", "the names that are used"),
    (LIBRARY, r"\bvolatile\b", "std::atomic"),
    (LIBRARY, r"<xxh\w*\.h>", "base/checksum.hpp, which cleans up behind it"),
]

# Where a banned call is right, and why.
ALLOWED = {
    ("base/config.cpp", "getenv"): "the one place that reads the environment",
    ("base/checksum.cpp", "<xxhash.h>"): "the one place that calls it",
    ("base/checksum.cpp", "<xxh_x86dispatch.h>"): "the one place that calls it",
    ("base/toml.hpp", "#include <toml++"): "files that users write or read, once in a job",
    ("shmem_ft/start/bootstrap.cpp", "getenv"): "PMIX_RANK is the launcher's to set, not a setting of ours",
    ("shmem_ft/start/member_mark.cpp", "getenv"): "the mark of a member, and what the launcher has set, are no settings",
    ("shmem_ft/start/member_mark.cpp", "setenv"): "it marks the environment for programs that this one starts",
    ("transport/shm/wait.cpp", "nanosleep"): "variables that are watched have no event: others store to them",
    ("base/raw_memory.hpp", "volatile"): "reads and writes memory that others may change meanwhile",
    ("shmem_ft/ops/copy.cpp", "volatile"): "an instruction whose outputs are not looked at",
    ("tools/oshrun/process_tree.cpp", "nanosleep"): "processes that are not children have no event before pidfds",
    ("tests/tools/fake_pe.cpp", "nanosleep"): "plays a program that computes for a while",
    ("tests/tools/instrumented.c", "nanosleep"): "a step that takes long enough to be looked at",
    ("shmem_ft/ops/locks.cpp", "nanosleep"): "a word on another node is asked for, which rings no bell",
    ("tools/oshrun/agent_start.cpp", "nanosleep"): "a name that somebody has bound but does not listen at yet has no event",
    ("tests/conformance/progress.c", "nanosleep"): "a PE that is late; any lateness will do",
    ("tests/startup/random.c", "nanosleep"): "a PE that is late; any lateness will do",
    ("tests/conformance/check.h", "nanosleep"): "a PE that is late; any lateness will do",
    ("tests/startup/random.c", "usleep"): "a PE that is late; any lateness will do",
    ("tests/ops/collectives_test.cpp", "this_thread::sleep_for"): "a PE that is late; any lateness will do",
    ("tests/ops/p2p_test.cpp", "this_thread::sleep_for"): "a PE that is late; any lateness will do",
    ("tests/ops/reductions_test.cpp", "this_thread::sleep_for"): "a PE that is late; any lateness will do",
}

# A name of the language before the name means a call; any other word there means a declaration.
_BEFORE_A_CALL = {"return", "else", "do", "case", "throw", "co_return", "co_await", "and", "or", "not"}


def check_file_lengths(tree):
    for path in tree.with_suffix(C_SUFFIXES | CPP_SUFFIXES | {".py", ".build"}):
        lines = tree.text(path).count("\n")
        if lines > FILE_LINES_MAX:
            yield Finding(path, lines, f"{lines} lines, more than {FILE_LINES_MAX}: divide it")


def check_function_lengths(tree):
    for path in tree.with_suffix(C_SUFFIXES | CPP_SUFFIXES):
        for function in find_functions(tree.code(path)):
            yield from _too_long(path, function.first_line, function.name, function.lines)
    for path in tree.with_suffix({".py"}):
        for node in ast.walk(ast.parse(tree.text(path))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from _too_long(path, node.lineno, node.name, node.end_lineno - node.lineno + 1)


def _too_long(path, line, name, lines):
    if lines > FUNCTION_LINES_MAX:
        yield Finding(path, line, f"function {name} has {lines} lines, more than {FUNCTION_LINES_MAX}: divide it")


def check_banned(tree):
    for path in tree.with_suffix(C_SUFFIXES | CPP_SUFFIXES):
        layer, code = layer_of(path), tree.code(path)
        for layers, names, instead in BANNED_CALLS:
            if layer in layers:
                for name in names.split():
                    if (path, name) not in ALLOWED:
                        yield from _find_calls(path, code, name, instead)
        for layers, pattern, instead in BANNED_TEXT:
            if layer in layers:
                for match in re.finditer(pattern, code):
                    if (path, match[0]) not in ALLOWED:
                        yield Finding(path, line_of(code, match.start()), f"no {match[0]} here: use {instead}")


def _find_calls(path, code, name, instead):
    for match in re.finditer(rf"(?:\bstd\s*::\s*|(?<![\w:]\s)(?<!\w)::\s*|\b){name}\s*\(", code):
        before = re.search(r"(\w+|->|::|\.|\S)\s*$", code[max(0, match.start() - 80) : match.start()])
        token = before[1] if before else ""
        is_member_or_declaration = token in {".", "->", "::"} or (
            re.fullmatch(r"[A-Za-z_]\w*", token) and token not in _BEFORE_A_CALL
        )
        if not is_member_or_declaration:
            yield Finding(path, line_of(code, match.start()), f"no {name}() here: use {instead}")


# In two parts, so that this file and its tests do not fall under their own rule.
MARKERS = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b")


def check_markers(tree):
    for path in tree.files:
        for match in MARKERS.finditer(tree.text(path)):
            yield Finding(path, line_of(tree.text(path), match.start()), f"left-over {match[0]}: do it or delete it")


# A user named "me" is nobody: an example.
MACHINE_PATHS = re.compile(r"(?<![\w.$}\-/])/(?:work|root|home(?!/me/)|mnt|media|Users)/\w")


def check_machine_paths(tree):
    for path in tree.files:
        text = tree.text(path)
        for match in MACHINE_PATHS.finditer(text):
            yield Finding(path, line_of(text, match.start()), f"'{match[0]}...': a path of one machine")
        at = text.find(f"{tree.root}/")
        if at >= 0:
            yield Finding(path, line_of(text, at), f"'{tree.root}/': a path of one machine")


def check_guards(tree):
    for path in tree.with_suffix({".hpp", ".h"}, generated=True):
        is_public = path.startswith("include/") or path.endswith(".h")
        if is_public and not re.search(r"^#ifndef (\w+)\n#define \1$", tree.text(path), re.M):
            yield Finding(path, 1, "a header for users has an include guard (#ifndef NAME, #define NAME)")
        if not is_public and not re.search(r"^#pragma once$", tree.text(path), re.M):
            yield Finding(path, 1, "a header of the inside begins with #pragma once")


def check_listed(tree):
    """Every source file is named in the meson.build of its folder or of one above it."""
    literals = {}
    for path in tree.files:
        if pathlib.PurePosixPath(path).name == "meson.build":
            folder = pathlib.PurePosixPath(path).parent
            words = set(re.findall(r"'([^'\n]*)'", tree.text(path)))
            # A loop writes name + '_test.cpp'.
            tails = {word for word in words if word.endswith((".c", ".cpp"))}
            literals[folder] = words | {word + tail for word in words for tail in tails}
    for path in tree.with_suffix({".c", ".cpp"}):
        if not _is_listed(pathlib.PurePosixPath(path), literals):
            yield Finding(path, 1, "no meson.build lists it")


def _is_listed(path, literals):
    for folder in path.parents:
        inside = path.relative_to(folder)
        names = literals.get(folder, set())
        if inside.as_posix() in names or inside.with_suffix("").as_posix() in names:
            return True
    return False
