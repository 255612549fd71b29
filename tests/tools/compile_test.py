"""oshcc and oshc++ as a user has them: real programs, compiled, linked and run; and what shmem-ft says of them."""

import json
import os
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

HELLO = """
#include <shmem.h>
#include <stdio.h>
long symmetric;
int main(void) {
    shmem_init();
    shmem_long_p(&symmetric, 41 + shmem_my_pe(), (shmem_my_pe() + 1) % shmem_n_pes());
    shmem_barrier_all();
    printf("%ld\\n", symmetric);
    shmem_finalize();
    return 0;
}
"""

GLOBALS = """
#include <cstdio>
#include <vector>
#include <shmem_ft.h>
double table[1000];
std::vector<int> numbers;
FILE *log_file;
FILE *own_file SHMEM_FT_PRIVATE;
struct Node { Node *next; } nodes[4];
void (*action)();
const char *title = "x";
int main() { std::fprintf(stdout, "%zu", numbers.size()); return static_cast<int>(table[0]); }
"""

LAZY = """
#include <dlfcn.h>
#include <pthread.h>
#include <mutex>
#include <shmem_ft.h>
int number();
int lazy() {
    static int *own SHMEM_FT_PRIVATE = new int(number());
    static int *plain = new int(number());
    return *own + *plain;
}
pthread_once_t c_flag = PTHREAD_ONCE_INIT;
std::once_flag cxx_flag;
struct { int size; std::once_flag flag; } flags;
void (*found)();
int main() {
    try {
        found = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "abort"));
        return lazy() + flags.size;
    } catch (int code) {
        return code;
    }
}
int number() { throw 3; }
"""


def tool(name, *arguments, cwd=None, env=None):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SHMEM_", "SMA_", "OSHC"))}
    return subprocess.run([name, *arguments], cwd=cwd, env={**environment, **(env or {})}, capture_output=True, text=True,
                          timeout=120)


class InFolder(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(prefix="oshcc-test-")
        self.folder = self._folder.name
        self.write("hello.c", HELLO)

    def tearDown(self):
        self._folder.cleanup()

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def good(self, name, *arguments, **options):
        result = tool(name, *arguments, cwd=self.folder, **options)
        self.assertEqual(result.returncode, 0, f"{name} {arguments}: {result.stderr}")
        return result

    def is_pie(self, name):
        header = self.good("readelf", "-h", name).stdout
        return "DYN" in header.partition("Type:")[2].splitlines()[0]

    def check_runs(self, name):
        result = self.good("oshrun", "-n", "2", "./" + name)
        self.assertEqual((sorted(result.stdout.split()), result.stderr), (["41", "42"], ""))


class Compiling(InFolder):
    def test_one_step(self):
        self.good("oshcc", "-O2", "-Wall", "-Werror", "hello.c", "-o", "hello")
        self.assertFalse(self.is_pie("hello"))
        self.check_runs("hello")

    def test_two_steps(self):
        self.good("oshcc", "-std=gnu11", "-c", "hello.c", "-MMD", "-MF", "hello.d")
        self.assertTrue(os.path.exists(os.path.join(self.folder, "hello.d")))
        self.good("oshcc", "-o", "hello", "hello.o", "-lm")
        self.check_runs("hello")

    def test_position_independent(self):
        self.good("oshcc", "-fPIE", "-pie", "hello.c", "-o", "hello")
        self.assertTrue(self.is_pie("hello"))
        self.check_runs("hello")

    def test_static_library(self):
        for options in [["--shmem-static"], ["--shmem-static", "-pie", "-fPIE"]]:
            self.good("oshcc", *options, "hello.c", "-o", "hello")
            self.assertNotIn("libshmem_ft", self.good("readelf", "-d", "hello").stdout)
            self.check_runs("hello")

    def test_cxx(self):
        self.write("hello.cpp", HELLO.replace("<stdio.h>", "<cstdio>"))
        for standard in ["c++14", "c++20"]:
            self.good("oshc++", f"-std={standard}", "hello.cpp", "-o", "hello")
            self.check_runs("hello")
        self.good("oshc++", "-c", "hello.cpp")
        self.good("oshc++", "--shmem-static", "hello.o", "-o", "hello")
        self.check_runs("hello")

    def test_shared_object_and_preprocessing(self):
        self.write("part.c", "#include <shmem.h>\nint me(void) { return shmem_my_pe(); }\n")
        self.good("oshcc", "-shared", "-fPIC", "part.c", "-o", "libpart.so")
        self.assertIn("shmem_my_pe", self.good("oshcc", "-E", "part.c").stdout)
        self.good("oshcc", "-S", "part.c")

    def test_names_with_blanks(self):
        self.write("a file.c", HELLO)
        self.good("oshcc", "-DTEXT=\"a b\"", "a file.c", "-o", "a program")
        self.check_runs("a program")

    def test_errors_are_the_compilers(self):
        self.write("broken.c", "int main(void) { return undeclared; }")
        result = tool("oshcc", "broken.c", cwd=self.folder)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("undeclared", result.stderr)

    def test_show(self):
        shown = self.good("oshcc", "--showme", "hello.c").stdout
        self.assertIn("-lshmem_ft", shown)
        self.assertNotIn("-lshmem_ft", self.good("oshcc", "-show", "-c", "hello.c").stdout)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "a.out")))

    def test_other_compilers(self):
        shown = self.good("oshcc", "-show", "-c", "hello.c", env={"OSHCC_CC": "ccache other-cc -m64"}).stdout
        self.assertTrue(shown.startswith("ccache other-cc -m64 "))
        shown = self.good("oshc++", "-show", "-c", "hello.c", env={"OSHCXX_CXX": "other-c++"}).stdout
        self.assertTrue(shown.startswith("other-c++ "))
        result = tool("oshcc", "hello.c", cwd=self.folder, env={"OSHCC_CC": "no-such-compiler"})
        self.assertEqual(result.returncode, 127)
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertIn("no-such-compiler (OSHCC_CC names another one)", result.stderr)

    def test_questions_to_the_compiler(self):
        self.assertEqual(self.good("oshcc", "-dumpmachine").stderr, "")
        self.good("oshcc", "--version")
        self.assertTrue(self.good("oshcc", "--help").stdout.startswith("Usage: oshcc"))

    def test_fully_static_is_refused(self):
        result = tool("oshcc", "-static", "hello.c", cwd=self.folder)
        self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1))
        self.assertIn("--shmem-static", result.stderr)


STRAY = """
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <stdlib.h>
double cosh(double);
struct Node { struct Node *next; long number; };
struct Field { long n; double *cells; struct { struct Node *nodes[2]; } inner; } field;
struct Node *list;
char **words;
double (*function)(double);
long number = 4300000;
double pi = 3.14;
const char *text = "constant";
void *right;
static int *mine SHMEM_FT_PRIVATE;
int main(int argc, char **argv) {
    shmem_init();
    field.cells = malloc(100);
    words = argv;
    function = cosh;
    right = &field;
    mine = malloc(sizeof *mine);
    list = shmem_malloc(sizeof *list);
    list->next = malloc(sizeof *list);
    long *numbers = shmem_malloc(1000000 * sizeof *numbers);
    for (long i = 0; i < 1000000; i++) {
        numbers[i] = 8 * i; /* every place where a block of malloc can begin, and none of them is meant */
    }
    shmem_checkpoint_all();
    shmem_checkpoint_all();
    printf("%d %d %s %ld %f %p\\n", argc, mine != NULL, text, number, pi, right);
    shmem_finalize();
    return 0;
}
"""


class StrayPointers(InFolder):
    """Saved pointers that lead out of symmetric memory are named at a checkpoint, once, and nothing else is."""

    def said(self, mode):
        result = self.good("oshrun", "-n", "2", "./stray", env={"SHMEM_FT_CHECK": mode})
        # DW.ref...: the C++ run-time library's own, in a program that has the library inside.
        return [line for line in result.stderr.splitlines() if "PE 1: " in line and "DW.ref." not in line]

    def test_each_kind(self):
        self.write("stray.c", STRAY)
        for way in (["-no-pie"], ["-pie"], ["--shmem-static"]):
            with self.subTest(way=way):
                self.good("oshcc", "-Wall", "-Werror", *way, "stray.c", "-o", "stray", "-lm")
                self.assertEqual(self.said("off"), [])
                for mode in ("warn", "abort"):  # abort as well: a program may set such a word anew
                    lines = sorted(self.said(mode))
                    self.assertEqual(len(lines), 4, lines)
                    start = r"shmem-ft: PE 1: shmem_checkpoint_all: "
                    end = r": that is not restored with it, .*SHMEM_FT_PRIVATE \(.*docs/what-may-live-where\.md\)$"
                    for line, what in zip(lines, (
                        r"field \+ 8 is saved and holds 0x\w+, which leads into private memory .*",
                        r"function is saved and holds 0x\w+, which leads into the shared library libm\.so\.6",
                        r"the block of the symmetric heap at 0x\w+, of list, \+ 0 is saved and holds 0x\w+, which leads into private .*",
                        r"words is saved and holds 0x\w+, which leads into the stack",
                    )):
                        self.assertRegex(line, "^" + start + what + end)

    def test_globals_follows_structs(self):
        self.write("stray.c", STRAY)
        self.good("oshcc", "-g", "stray.c", "-o", "stray", "-lm")
        warnings = self.good("shmem-ft", "globals", "stray").stdout.partition("To be looked at:")[2]
        self.assertRegex(warnings, r"  field: .*; members: cells, inner\.nodes\[\]->next")
        self.assertRegex(warnings, r"  list: Node \*: .*; members: ->next\n")


class Globals(InFolder):
    def test_what_is_saved(self):
        self.write("globals.cpp", GLOBALS)
        self.good("oshc++", "-g", "globals.cpp", "-o", "globals")
        text = self.good("shmem-ft", "globals", "globals").stdout
        self.assertIn("at fixed addresses", text)
        saved, _, rest = text.partition("Left out:")
        left_out, _, warnings = rest.partition("To be looked at:")
        for size, name in [("8000", "table"), ("24", "numbers"), ("8", "log_file"), ("32", "nodes")]:
            self.assertRegex(saved, rf"{size}  {name} ")
        self.assertNotIn("own_file", saved)
        self.assertRegex(left_out, "8  shmem_ft_private .*SHMEM_FT_PRIVATE")
        self.assertRegex(left_out, "8  stdout ")
        self.assertIn("numbers: std::vector:", warnings)
        self.assertIn("log_file: FILE *:", warnings)
        self.assertIn("nodes: Node *:", warnings)
        for name in ["own_file", "action", "title", "table"]:
            self.assertNotIn(f"  {name}:", warnings)

    def test_what_belongs_to_the_loader_or_to_private_variables(self):
        self.write("lazy.cpp", LAZY)
        self.good("oshc++", "-g", "-fPIE", "lazy.cpp", "-o", "lazy", "-lpthread")
        text = self.good("shmem-ft", "globals", "lazy").stdout
        saved, _, rest = text.partition("Left out:")
        left_out, _, warnings = rest.partition("To be looked at:")
        self.assertRegex(left_out, r"8  DW.ref.__gxx_personality_v0, address of __gxx_personality_v0 .*shared library")
        self.assertRegex(left_out, r"8  guard variable for lazy\(\)::own .*SHMEM_FT_PRIVATE has been initialised")
        self.assertRegex(saved, r"8  guard variable for lazy\(\)::plain ")
        for name in ["DW.ref.__gxx_personality_v0", "::own"]:
            self.assertNotIn(name, saved)
        for name in ["c_flag", "cxx_flag", "flags"]:
            self.assertRegex(warnings, rf"  {name}: says what has been done once")
        self.assertRegex(warnings, "  found: pointer to a function: .*dlsym")
        self.good("strip", "lazy")
        self.assertIn("cannot be told what says whether", self.good("shmem-ft", "globals", "lazy").stdout)

    @unittest.skipIf(
        os.environ.get("SFT_SANITIZE", "none") != "none", "a sanitizer links start-up code that has debug information"
    )
    def test_without_debug_information(self):
        self.good("oshcc", "hello.c", "-o", "hello")
        if os.environ.get("SFT_SANITIZE", "none") == "none":  # the sanitizer's part of a program has some
            self.assertIn("compile with -g", self.good("shmem-ft", "globals", "hello").stdout)
        self.good("strip", "hello")
        self.assertIn("stripped", self.good("shmem-ft", "globals", "hello").stdout)

    def test_no_programs(self):
        self.write("text", "text")
        for name in ["text", "nonexistent", "."]:
            result = tool("shmem-ft", "globals", name, cwd=self.folder)
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (1, 1), result.stderr)
            self.assertIn(name, result.stderr)


class Plan(unittest.TestCase):
    def test_hosts_and_racks(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "racks.toml")
            with open(path, "w", encoding="utf-8") as file:
                file.write('[[rack]]\nname = "r1"\nhosts = ["n[1-2]"]\n[[rack]]\nname = "r2"\nhosts = ["n[3-4]"]\n')
            words = ["plan", "--hosts", "n[1-4]:2", "--spares", "4", "--map-by", "node", "--topology", path]
            text = tool("shmem-ft", *words)
            facts = json.loads(tool("shmem-ft", *words, "--json").stdout)
        self.assertEqual((text.returncode, text.stderr), (0, ""))
        self.assertIn("4 PEs and 4 spares on 4 hosts\n", text.stdout)
        self.assertIn("  n2   r1   1   6      3\n", text.stdout)
        self.assertEqual([host["copies_of_pes"] for host in facts["hosts"]], [[2], [3], [0], [1]])
        self.assertEqual(facts["hosts"][3]["domains"], {"rack": "r2"})
        self.assertEqual([loss["survived"] for loss in facts["losses"] if loss["what"] == "rack"], [1])

    def test_a_loss_and_a_drawing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "racks.toml")
            svg = os.path.join(folder, "plan.svg")
            with open(path, "w", encoding="utf-8") as file:
                file.write('[[rack]]\nname = "r1"\nhosts = ["n[1-2]"]\n[[rack]]\nname = "r2"\nhosts = ["n[3-6]"]\n')
            words = ["plan", "--hosts", "n[1-6]:2", "--spares", "6", "--map-by", "node", "--topology", path]
            text = tool("shmem-ft", *words, "--lost", "rack=r1", "--svg", svg)
            facts = json.loads(tool("shmem-ft", *words, "--lost", "n[1-2]", "--json").stdout)
            drawing = xml.etree.ElementTree.parse(svg).getroot()
            printed = tool("shmem-ft", *words, "--lost", "n[1-2]", "--svg", "-")
            self.assertEqual(xml.etree.ElementTree.tostring(drawing),
                             xml.etree.ElementTree.tostring(xml.etree.ElementTree.fromstring(printed.stdout)))
            fatal = tool("shmem-ft", *words, "--lost", "n2,n[3-5]")
        self.assertEqual((text.returncode, text.stderr), (0, ""))
        self.assertIn("6 PEs and 6 spares on 6 hosts\n", text.stdout)
        self.assertIn("\nafter the loss of rack=r1: 6 PEs and 2 spares on 4 hosts\n", text.stdout)
        self.assertEqual(facts["after_loss"]["hosts"][0]["pes"], [])
        self.assertEqual(sorted(pe for host in facts["after_loss"]["hosts"] for pe in host["pes"]), list(range(6)))
        hosts = [item for item in drawing.iter() if item.get("class") == "host"]
        self.assertEqual(len(hosts), 6)
        self.assertIn("\nthe loss of n2,n[3-5] is not survived: PE 1 and all its copies are there\n", fatal.stdout)

    def test_mistakes_get_one_line(self):
        for words, line in ((["plan"], "plan: on which hosts?"),
                            (["plan", "nobody"], "plan: 'nobody' is no running job of this user on this node"),
                            (["plan", "1", "--hosts", "n"], "plan: --hosts, -n, --spares, --spare-nodes, --map-by: a job that runs has its hosts"),
                            (["plan", "1", "--spares", "0"], "plan: --hosts, -n, --spares, --spare-nodes, --map-by: a job that runs"),
                            (["plan", "--hosts", "n:2", "--lost", "m"], "plan: --lost: no host of the job is in 'm'"),
                            (["plan", "--hosts", "n:2", "--lost", "rack=r"], "plan: --lost: the topology has no level 'rack'"),
                            (["plan", "--hosts", "n:2", "--lost", "n["], "plan: --lost n[: 'n[' is not NAME"),
                            (["plan", "--hosts", "n:2", "--svg", "/nowhere/x"], "plan: --svg: /nowhere/x cannot be written: No such"), (["plan", "--hosts", "n[1-"], "plan: --host n[1-: 'n[1-' is not NAME"),
                            (["plan", "--hosts", "n", "--spares", "1"], "plan: --spares: 1 spare"),
                            (["plan", "--hosts", "n", "--topology", "/nowhere"], "plan: /nowhere: cannot be read: "),
                            (["plan", "--hosts", "n:2", "--mtbf", "often"], "plan: --mtbf: 'often' is no number of days above 0"),
                            (["plan", "--hosts", "n:2", "--mtbf", "rack=9"], "plan: --mtbf: the topology has no level 'rack'"),
                            (["plan", "--hosts", "n:2", "--run", "9"], "plan: --run: how often is a host lost?"),
                            (["plan", "--hosts", "n", "--backup", "x"], "plan: SHMEM_FT_BACKUP_MODE=x: not one of ")):
            result = tool("shmem-ft", *words)
            self.assertEqual(result.returncode, 2, words)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            self.assertTrue(result.stderr.startswith(f"shmem-ft: error: {line}"), result.stderr)


class Config(unittest.TestCase):
    def test_every_value_has_an_origin(self):
        text = tool("shmem-ft", "config", env={"SMA_SYMMETRIC_SIZE": "1G", "SHMEM_FT_BACKUP_MODE": "single"}).stdout
        self.assertIn("SHMEM_SYMMETRIC_SIZE = 1G\n    from SMA_SYMMETRIC_SIZE in the environment\n", text)
        self.assertIn("SHMEM_FT_BACKUP_MODE = single\n    from SHMEM_FT_BACKUP_MODE in the environment\n", text)
        self.assertIn("SHMEM_FT_SPARES = 0\n    the default\n", text)

    def test_bad_values(self):
        result = tool("shmem-ft", "config", env={"SHMEM_FT_BACKUP_MODE": "tripple"})
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr,
                         "shmem-ft: error: SHMEM_FT_BACKUP_MODE=tripple: not one of none, single, double, "
                         "replica:K with K from 1 to 8, xor:G with G from 2 to 32, rs:K+M with M from 1 to 4 and "
                         "K+M up to 32\n")

    @unittest.skipIf("thread" in os.environ.get("SFT_SANITIZE", ""), "the heap lies elsewhere in such a build")
    def test_the_document_is_up_to_date(self):
        written = tool("shmem-ft", "config", "--markdown", env={"SHMEM_DEBUG": "1"}).stdout
        path = os.path.join(os.environ["SFT_SOURCE_DIR"], "docs", "config.md")
        with open(path) as file:
            self.assertEqual(file.read(), written, "run: shmem-ft config --markdown > docs/config.md")


class CommandLine(unittest.TestCase):
    def test_wrong_words(self):
        for arguments, culprit in [([], "no command given"), (["confg"], "did you mean config?"), (["x"], "x: no such"),
                                   (["config", "--mark"], "--mark"), (["globals"], "no program given"),
                                   (["globals", "a", "b"], "b: "), (["info", "x"], "x: ")]:
            result = tool("shmem-ft", *arguments)
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1), (arguments, result.stderr))
            self.assertIn(culprit, result.stderr)

    def test_help_and_version(self):
        for arguments in [["--help"], ["config", "--help"], ["globals", "-h"]]:
            self.assertTrue(tool("shmem-ft", *arguments).stdout.startswith("Usage: shmem-ft"), arguments)
        self.assertRegex(tool("shmem-ft", "version").stdout, r"^shmem-ft \d+\.\d+\.\d+\n$")


class Info(unittest.TestCase):
    def test_text(self):
        text = tool("shmem-ft", "info", env={"SMA_SYMMETRIC_SIZE": "3.1M"}).stdout
        self.assertRegex(text, r"^shmem-ft \d+\.\d+\.\d+, OpenSHMEM 1\.6\n")
        for part in ("compiler", "optimization", "pmix", "shm ", "launcher", "kernel",
                     "SHMEM_SYMMETRIC_SIZE = 3250586 (environment: SMA_SYMMETRIC_SIZE)", "SHMEM_DEBUG = unset (default)"):
            self.assertIn(part, text)

    def test_json(self):
        facts = json.loads(tool("shmem-ft", "info", "--json", env={"SHMEM_FT_CHECK": "warn"}).stdout)
        self.assertRegex(facts["version"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(facts["specification"], "1.6")
        self.assertRegex(facts["build"]["dependencies"]["pmix"], r"^\d+\.")
        self.assertGreater(facts["system"]["memory_bytes"], 0)
        folder = os.path.join(os.environ["SFT_BUILD_DIR"], "transport")
        for fabric in ("ucx", "ofi"):
            is_built = os.path.exists(os.path.join(folder, fabric, f"transport_{fabric}.so"))
            self.assertEqual(fabric in facts["transports"], is_built)
        self.assertIn("SHMEM_FT_GUARD_PORTS=sign", facts["security"]["shared nodes"])
        guarded = json.loads(tool("shmem-ft", "info", "--json", env={"SHMEM_FT_GUARD_PORTS": "sign"}).stdout)
        self.assertEqual(guarded["security"]["shared nodes"], "safe: connections are signed")
        rows = {row["name"]: row for row in facts["settings"]}
        described = tool("shmem-ft", "config").stdout
        self.assertEqual(set(rows), set(re.findall(r"^(SHMEM_\w+) = ", described, re.MULTILINE)))
        self.assertEqual((rows["SHMEM_FT_CHECK"]["value"], rows["SHMEM_FT_CHECK"]["origin"]), ("warn", "environment"))
        self.assertEqual((rows["SHMEM_FT_SPARES"]["value"], rows["SHMEM_FT_SPARES"]["origin"]), ("0", "default"))

    def test_a_bad_setting_is_one_line(self):
        result = tool("shmem-ft", "info", env={"SHMEM_SYMMETRIC_SIZE": "20 cows"})
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertIn("SHMEM_SYMMETRIC_SIZE=20 cows: not a number from 0", result.stderr)

    def test_the_name_of_other_libraries(self):
        with tempfile.TemporaryDirectory() as folder:
            link = os.path.join(folder, "shmem_info")
            os.symlink(os.path.join(os.environ["SFT_BUILD_DIR"], "bin", "shmem-ft"), link)
            result = subprocess.run([link, "--json"], capture_output=True, text=True, check=False, timeout=60)
            self.assertIn("settings", json.loads(result.stdout))


if __name__ == "__main__":
    unittest.main(verbosity=2)
