#!/usr/bin/env python3
"""Each rule of tidy finds what it is for in a small bad tree, and nothing in a good one."""

import contextlib
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools" / "tidy"))

import built_rules  # noqa: E402
import doc_rules  # noqa: E402
import functions  # noqa: E402
import layering  # noqa: E402
import source_tree  # noqa: E402
import text_rules  # noqa: E402

MARKER = "FIX" + "ME"


@contextlib.contextmanager
def tree_of(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        yield source_tree.SourceTree(folder)


def found(rule, files):
    with tree_of(files) as tree:
        return [str(finding) for finding in rule(tree)]


class Base(unittest.TestCase):
    def assert_one(self, findings, *parts):
        self.assertEqual(len(findings), 1, findings)
        for part in parts:
            self.assertIn(part, findings[0])


class Layering(Base):
    def test_downwards_is_allowed(self):
        files = {
            "base/ids.hpp": "#pragma once\n",
            "symheap/heap.hpp": '#include "base/ids.hpp"\n',
            "shmem_ft/ops/rma.cpp": '#include "symheap/heap.hpp"\n#include <vector>\n',
            "shmem_ft/process/runtime.cpp": '#include "shmem_ft/ops/rma.cpp"\n',
        }
        self.assertEqual(found(layering.check_layering, files), [])

    def test_upwards_is_not(self):
        files = {"backup/store.hpp": "", "shmem_ft/ops/rma.cpp": '\n#include "backup/store.hpp"\n'}
        self.assert_one(found(layering.check_layering, files), "shmem_ft/ops/rma.cpp:2:", "ops must not include backup")

    def test_every_folder_is_in_the_table(self):
        self.assert_one(found(layering.check_layering, {"novelty/a.cpp": ""}), "'novelty' is not in the table")

    def test_paths_begin_at_the_root(self):
        files = {"symheap/heap.hpp": "", "symheap/heap.cpp": '#include "heap.hpp"\n'}
        self.assert_one(found(layering.check_layering, files), "no path from the root")

    def test_own_headers_are_quoted(self):
        files = {"symheap/heap.hpp": "", "symheap/heap.cpp": "#include <symheap/heap.hpp>\n"}
        self.assert_one(found(layering.check_layering, files), "is ours")

    def test_apps_see_the_public_headers_only(self):
        files = {
            "include/shmem.h": "",
            "base/ids.hpp": "",
            "apps/good.c": "#include <shmem.h>\n",
            "apps/bad.c": '#include "base/ids.hpp"\n',
        }
        self.assert_one(found(layering.check_layering, files), "apps/bad.c:1:", "apps must not include base")

    def test_engine_does_not_see_the_public_headers(self):
        files = {"include/shmem.h": "", "shmem_ft/ops/rma.cpp": "#include <shmem.h>\n"}
        self.assert_one(found(layering.check_layering, files), "ops must not include include")

    def test_an_edge_that_nobody_uses(self):
        files = {"base/ids.hpp": "", "include/shmem.h": "", "apps/a.c": "#include <shmem.h>\n",
                 "symheap/heap.cpp": '#include "base/ids.hpp"\n'}
        unused = found(layering.check_unused_edges, files)
        self.assertTrue(any("benchmarks includes nothing of include" in line for line in unused))
        self.assertFalse(any("symheap includes nothing of base" in line or "apps includes" in line for line in unused))

    def test_commented_include_does_not_count(self):
        files = {"backup/store.hpp": "", "shmem_ft/ops/a.cpp": '/*\n#include "backup/store.hpp"\n*/\n'}
        self.assertEqual(found(layering.check_layering, files), [])


class Lengths(Base):
    def test_long_file(self):
        text = "int a;\n" * (text_rules.FILE_LINES_MAX + 1)
        self.assert_one(found(text_rules.check_file_lengths, {"tools/a.cpp": text}), "501 lines")

    def test_generated_headers_may_be_long(self):
        self.assertEqual(found(text_rules.check_file_lengths, {"include/shmem.h": "int a;\n" * 3000}), [])

    def test_long_function(self):
        body = "    work();\n" * text_rules.FUNCTION_LINES_MAX
        text = f"namespace sft {{\nvoid short_one() {{\n}}\n\nvoid Heap::grow(int n) {{\n{body}}}\n}}\n"
        self.assert_one(found(text_rules.check_function_lengths, {"symheap/a.cpp": text}), "a.cpp:5:", "Heap::grow has 72")

    def test_long_python_function(self):
        text = "def f():\n" + "    work()\n" * 80
        self.assert_one(found(text_rules.check_function_lengths, {"tools/a.py": text}), "function f has 81 lines")


class Functions(unittest.TestCase):
    def names(self, code):
        return [
            (function.name, function.lines)
            for function in functions.find_functions(source_tree.without_comments_and_strings(code))
        ]

    def test_constructor_with_braced_members(self):
        code = "Heap::Heap(int a) : a_{a}, b_{f(a)} {\n    g();\n}\n"
        self.assertEqual(self.names(code), [("Heap::Heap", 3)])

    def test_types_and_variables_are_no_functions(self):
        code = "struct Pair {\n    int a;\n};\nconstexpr int kTable[] = {f(1), 2};\nenum class E { a };\n"
        self.assertEqual(self.names(code), [])

    def test_macros_that_stand_alone(self):
        self.assertEqual(self.names("FOR_ALL(DEFINE)\n\nint f() {\n}\nTEST(A, B) {\n    g();\n}\n"), [("f", 2), ("TEST", 3)])

    def test_members_templates_and_lambdas(self):
        code = (
            "template <class T>\nclass Box {\npublic:\n    int get() const {\n        return a;\n    }\n};\n"
            "template <class F>\nvoid each(F f) {\n    run([&](int i) {\n        f(i);\n    });\n}\n"
        )
        self.assertEqual(self.names(code), [("get", 3), ("each", 6)])

    def test_braces_in_strings_comments_and_macros(self):
        code = 'void f() {\n    g("}");  // }\n    h(\'}\');\n}\n#define M {\\\n  {\nvoid k(A a = {}) {\n}\n'
        self.assertEqual(self.names(code), [("f", 4), ("k", 2)])


class Banned(Base):
    def check(self, path, text):
        return found(text_rules.check_banned, {path: text})

    def test_call_and_its_replacement(self):
        self.assert_one(self.check("symheap/a.cpp", 'auto* x = std::getenv("A");\n'), "getenv()", "config.def")
        self.assert_one(self.check("symheap/a.cpp", 'auto* x = ::getenv("A");\n'), "getenv()")

    def test_the_one_place_is_allowed(self):
        self.assertEqual(self.check("base/config.cpp", 'auto* x = std::getenv("A");\n'), [])

    def test_strings_and_comments_do_not_count(self):
        self.assertEqual(self.check("symheap/a.cpp", '// getenv("A")\nlog("sprintf(");\n'), [])

    def test_members_and_declarations_do_not_count(self):
        self.assertEqual(self.check("tools/a.cpp", "launcher.system(1);\nSleep sleep(own);\nvoid Box::sleep(int);\n"), [])

    def test_other_names_do_not_count(self):
        self.assertEqual(self.check("tools/a.cpp", "my_getenv(1); snprintf(b, n, t); file_system(1);\n"), [])

    def test_streams_in_the_library(self):
        self.assert_one(self.check("backup/a.cpp", "#include <iostream>\n"), "iostream")
        self.assertEqual(self.check("tools/a.cpp", "#include <iostream>\n"), [])

    def test_one_place_calls_the_checksum_library(self):
        self.assert_one(self.check("backup/a.cpp", "#include <xxhash.h>\n"), "xxhash.h", "checksum.hpp")

    def test_sleeping_tests(self):
        text = "void t() { std::this_thread::sleep_for(1s); return usleep(3); }\n"
        self.assertEqual(len(self.check("tests/base/a.cpp", text)), 2)


class Texts(Base):
    def test_marker(self):
        self.assert_one(found(text_rules.check_markers, {"docs/a.md": f"a\nb {MARKER}: c\n"}), "docs/a.md:2:")
        self.assertEqual(found(text_rules.check_markers, {"tools/a.cpp": 'mkstemp("/tmp/XXXXXX");\n'}), [])

    def test_machine_path(self):
        self.assert_one(found(text_rules.check_machine_paths, {"docs/a.md": "see /ho" + "me/anne/x\n"}), "one machine")
        self.assertEqual(found(text_rules.check_machine_paths, {"docs/a.md": "$HOME/work/x and src/home/y\n"}), [])
        self.assertEqual(found(text_rules.check_machine_paths, {".git": "gitdir: /ho" + "me/anne/x\n"}), [])

    def test_guards(self):
        self.assert_one(found(text_rules.check_guards, {"tools/a.hpp": "int a;\n"}), "#pragma once")
        self.assert_one(found(text_rules.check_guards, {"include/a.h": "int a;\n"}), "include guard")
        good = {"tools/a.hpp": "// Why.\n#pragma once\n", "include/a.h": "#ifndef A_H\n#define A_H\n#endif\n"}
        self.assertEqual(found(text_rules.check_guards, good), [])

    def test_unlisted_file(self):
        files = {
            "symheap/meson.build": "sft_sources += files('heap.cpp')\n",
            "symheap/heap.cpp": "",
            "symheap/forgotten.cpp": "",
            "apps/meson.build": "foreach n : ['hello']\nexecutable(n, n + '.c')\nendforeach\n",
            "apps/hello.c": "",
            "tools/meson.build": "files('common/text.cpp')\n",
            "tools/common/text.cpp": "",
            "tests/meson.build": "foreach n : ['heap']\nexecutable(n, n + '_test.cpp')\nendforeach\n",
            "tests/heap_test.cpp": "",
        }
        self.assert_one(found(text_rules.check_listed, files), "symheap/forgotten.cpp")

    def test_builds_are_no_sources(self):
        files = {"out/meson-private/x.txt": "", "out/a.md": MARKER, "build.md": ""}
        with tree_of(files) as tree:
            self.assertEqual(tree.files, ["build.md"])


class Documents(Base):
    def test_dead_link(self):
        files = {"docs/a.md": "[b](b.md), [c](../c.md#part), [d](https://d.org/x), [e](e.md)\n", "docs/b.md": "", "c.md": ""}
        self.assert_one(found(doc_rules.check_links, files), "docs/a.md:1:", "e.md")

    def test_file_that_is_gone(self):
        files = {"base/a.hpp": "// Why: base/b.hpp, tools/c.hpp, docs/d.md.\n", "base/b.hpp": "// x86/y.hpp\n", "tools/e.py": ""}
        files["base/tools/c.hpp"] = ""
        self.assertEqual(found(doc_rules.check_links, files), [])  # there is no folder docs, whose files could be missing
        files["docs/f.md"] = "`base/a.hpp`\n"
        self.assert_one(found(doc_rules.check_links, files), "base/a.hpp:1:", "docs/d.md")

    def test_shown_program(self):
        files = {"apps/hello.c": "/* What. */\nint a;\n", "README.md": "# X\n```c\nint a;\n```\n"}
        self.assertEqual(found(doc_rules.check_shown_program, files), [])
        files["README.md"] = "# X\n```c\nint b;\n```\n"
        self.assert_one(found(doc_rules.check_shown_program, files), "README.md:2:", "apps/hello.c")


class Built(Base):
    def compile(self, folder, code, *flags):
        source, out = pathlib.Path(folder) / "a.cpp", pathlib.Path(folder) / "a.out"
        source.write_text(code)
        subprocess.run(["g++", "-std=c++20", "-fPIC", *flags, str(source), "-o", str(out)], check=True)
        return out

    def test_writable_globals(self):
        code = (
            "int& kept() { static int value; return value; }\nint loose = 3;\nint nought;\nconst int kFixed = 4;\n"
            'extern const char* const kName = "x";\n'
            '__attribute__((section("shmem_ft_private"))) int known = 5;\nthread_local int own = 6;\n'
        )
        with tempfile.TemporaryDirectory() as folder:
            findings = [str(item) for item in built_rules.check_private_globals(self.compile(folder, code, "-c"))]
        self.assertEqual(len(findings), 3, findings)
        for name in ("kept()::value", "loose", "nought"):
            self.assertTrue(any(f" {name} is writable" in finding for finding in findings), findings)

    def test_exports(self):
        code = 'extern "C" void shmem_init() {}\nextern "C" void start_pes() {}\nnamespace sft { void leak() {} }\n'
        with tempfile.TemporaryDirectory() as folder:
            findings = [str(item) for item in built_rules.check_exports(self.compile(folder, code, "-shared"))]
        self.assert_one(findings, "sft::leak()")

    def test_layout(self):
        files = {".clang-format": "BasedOnStyle: Google\n", "tools/a.cpp": "int  a;\n", "tools/b.cpp": "int b;\n"}
        self.assert_one(found(built_rules.check_layout, files), "tools/a.cpp:1:", "clang-format -i")

    def test_header_that_needs_another(self):
        files = {
            "tools/good.hpp": "#pragma once\n#include <string>\nstd::string f();\n",
            "tools/shown.hpp": "#pragma once\nstd::string h();\n",
            "tools/shown.cpp": '// Why.\n#include "tools/shown.hpp"\n',
            "tools/bad.hpp": "#pragma once\nstd::string f();\n",
        }
        self.assert_one(found(lambda tree: built_rules.check_headers(tree, []), files), "tools/bad.hpp", "compile alone")
        files = {"tools/bad.hpp": "std::string g();\n", "tools/bad.cpp": '#include <string>\n#include "tools/bad.hpp"\n'}
        self.assert_one(found(lambda tree: built_rules.check_headers(tree, []), files), "tools/bad.hpp", "compile alone")


class Program(unittest.TestCase):
    def test_exit_code_says_whether_there_are_findings(self):
        tidy = [sys.executable, str(ROOT / "tools" / "tidy" / "tidy.py")]
        with tree_of({"docs/a.md": MARKER}) as tree:
            bad = subprocess.run([*tidy, "--root", str(tree.root), "markers"], capture_output=True, text=True, check=False)
        self.assertEqual(bad.returncode, 1)
        self.assertIn("docs/a.md:1: ", bad.stdout)
        with tree_of({"docs/a.md": "fine\n"}) as tree:
            good = subprocess.run([*tidy, "--root", str(tree.root), "markers"], capture_output=True, text=True, check=False)
        self.assertEqual((good.returncode, good.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
