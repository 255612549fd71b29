"""The fault laboratory on real jobs: what recovers, and that each kind of failure is found and can be repeated."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

BIN = os.path.join(os.environ["SFT_BUILD_DIR"], "bin")
JACOBI = [os.environ["JACOBI1D"], "--cells", "3000", "--steps", "160", "--halo", "16"]
SAME = ["--ignore", "^recomputed"]
FAULTY = os.environ["LAB_FAULTY"]
SANITIZERS = ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")
IS_SANITIZED = os.environ.get("SFT_SANITIZE", "none") != "none"
APPENDS = """
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <stdlib.h>
long step;
int main(int argc, char **argv) {
    shmem_init();
    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_JUMP, NULL, NULL);
    if (SHMEM_FT_ROLLBACK_POINT()) {
        int *pes, *status;
        size_t count;
        shmem_query_fault(&pes, &status, &count);
        shmem_restart_pes(pes, count);
        shmem_barrier_all();
    }
    while (step < 12) {
        step++;
        if (shmem_my_pe() == 0) {
            FILE *file = fopen(argv[argc - 1], "a");
            fprintf(file, "step %ld\\n", step);
            fclose(file);
        }
        shmem_checkpoint_all();
    }
    if (shmem_my_pe() == 0) printf("%ld steps\\n", step);
    shmem_finalize();
    return 0;
}
"""
CAUSES = """
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <stdlib.h>
long step, sum;
long *cells;
int main(void) {
    shmem_init();
    cells = malloc(sizeof *cells);
    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_JUMP, NULL, NULL);
    if (SHMEM_FT_ROLLBACK_POINT()) {
        int *pes, *status;
        size_t count;
        shmem_query_fault(&pes, &status, &count);
        shmem_restart_pes(pes, count);
        shmem_barrier_all();
    }
    while (step < 12) {
        shmem_checkpoint_all();
        sum += rand() % 1000;
        step++;
    }
    shmem_checkpoint_all();
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &sum, 1);
    shmem_checkpoint_all();
    if (shmem_my_pe() == 0) printf("sum %ld %d\\n", sum, cells != NULL);
    shmem_finalize();
    return 0;
}
"""
# Wrong only if somebody dies between the two barriers of a step: a survivor then jumps out of the second one with `part` in
# its hands. Whoever dies in the library, in the checkpoint or behind it, is met at the first barrier.
IN_OWN_CODE = """
#include <shmem.h>
#include <shmem_ft.h>
#include <stdio.h>
#include <unistd.h>
long step, sum, whole;
static long part SHMEM_FT_PRIVATE;
int main(void) {
    shmem_init();
    shmem_ft_on_fault(SHMEM_FT_ON_FAULT_JUMP, NULL, NULL);
    if (SHMEM_FT_ROLLBACK_POINT()) shmem_ft_recover();
    while (step < 12) {
        shmem_checkpoint_all();
        shmem_barrier_all();
        part += step + 1;
        usleep(30000);
        shmem_barrier_all();
        sum += part;
        part = 0;
        step++;
    }
    shmem_checkpoint_all();
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &whole, &sum, 1);
    shmem_checkpoint_all();
    if (shmem_my_pe() == 0) printf("sum %ld\\n", whole);
    shmem_finalize();
    return 0;
}
"""
# Seconds that a job without faults takes at most. A sanitizer makes jobs several times as slow.
LONG_S = "20" if IS_SANITIZED else "8"


def run_lab(*words, **variables):
    return subprocess.run(
        [os.path.join(BIN, "shmem-ft"), "lab", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, **variables},
    )


class LabTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        if IS_SANITIZED:
            # Who is ended by a sanitizer is replaced like anybody else, and the laboratory throws away what it said.
            reports = self.path("sanitizer")
            changed = {name: f"{os.environ.get(name, '')}:log_path={reports}" for name in SANITIZERS}
            patch = unittest.mock.patch.dict(os.environ, changed)
            patch.start()
            self.addCleanup(patch.stop)

    def tearDown(self):
        for name in os.listdir(self.folder.name):
            if name.startswith("sanitizer"):
                self.fail(self.read(self.path(name)))

    def path(self, name, text=None):
        path = os.path.join(self.folder.name, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def schedule(self, text, *words):
        """The report of one run with this schedule."""
        report = self.path("report.json")
        result = run_lab("--schedule", self.path("schedule", text), "--json", report, *words)
        with open(report, encoding="utf-8") as file:
            (run,) = json.load(file)["runs"]
        return result, run

    def test_a_random_campaign_recovers(self):
        report = self.path("report.json")
        result = run_lab("--seed", "100", "--runs", "12", "--jobs", "2", "--json", report, *SAME, *JACOBI)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        with open(report, encoding="utf-8") as file:
            runs = json.load(file)["runs"]
        self.assertEqual(len(runs), 13)  # and the probe
        self.assertEqual([run["seed"] for run in runs[1:]], list(range(100, 112)))
        # Which faults a seed draws changes with every new fault point, and those before the first commit and after
        # the last checkpoint are excused: how many recover is luck, that some do is not.
        recovered = [run for run in runs if run["class"] == "recovered"]
        self.assertGreaterEqual(len(recovered), 3, result.stdout)
        self.assertTrue(any(run["recoveries"] > 0 for run in recovered))

    def test_the_same_seed_gives_the_same_schedules(self):
        schedules = []
        for _ in range(2):
            result = run_lab("--seed", "5", "--runs", "3", *SAME, *JACOBI)
            schedules.append(sorted(re.findall(r"^run \d+ seed (\d+): .*? s\) (.*)$", result.stdout, re.M)))
        self.assertEqual(len(schedules[0]), 3)
        self.assertEqual(schedules[0], schedules[1])

    def test_a_death_in_the_middle_of_a_copy(self):
        result, run = self.schedule("kill pe 2 at replicate_middle visit 4\n", *SAME, *JACOBI)
        self.assertEqual((result.returncode, run["class"]), (0, "recovered"), result.stdout + result.stderr)
        self.assertEqual([(fault["process"], fault["pe"]) for fault in run["faults"]], [(2, 2)])

    def test_a_second_death_inside_the_recovery(self):
        text = "kill pe 2 at replicate_middle visit 4; kill substitute at restore_middle"
        result, run = self.schedule(text, *SAME, *JACOBI)
        self.assertEqual((result.returncode, run["class"]), (0, "recovered"), result.stdout + result.stderr)
        self.assertEqual(len(run["faults"]), 2)

    def test_a_second_death_in_the_repeated_start_up(self):
        text = "kill pe 2 at replicate_middle visit 4; kill substitute at replay_call visit 2"
        result, run = self.schedule(text, *SAME, *JACOBI)
        self.assertEqual((result.returncode, run["class"]), (0, "recovered"), result.stdout + result.stderr)
        self.assertEqual([fault["phase"] for fault in run["faults"]], ["running", "replay"])
        self.assertIn("[fault 2 in the replay]", result.stdout)
        phases = run["phases"]
        self.assertEqual(sorted(span["pe"] for span in phases if span["phase"] == "start-up"), [0, 1, 2, 3])
        self.assertEqual([span["pe"] for span in phases if span["phase"] == "replay"], [2])
        self.assertTrue(all(span["begin_ns"] < span["end_ns"] for span in phases))

    def test_a_death_in_the_start_up_is_excused(self):
        for point in ("startup_call visit 2", "record_close"):
            result, run = self.schedule(f"kill pe 1 at {point}", *SAME, *JACOBI)
            self.assertEqual((result.returncode, run["class"]), (0, "named error, excused"), result.stdout)
            self.assertEqual([fault["phase"] for fault in run["faults"]], ["start-up"])
            self.assertIn("[fault 1 in the start-up]", result.stdout)

    def test_a_process_that_is_stopped_and_goes_on(self):
        result, run = self.schedule("stop 200 ms pe 1 at replicate_begin visit 3", *SAME, *JACOBI)
        self.assertEqual((result.returncode, run["class"]), (0, "recovered"), result.stdout + result.stderr)

    def test_a_bit_that_flips_while_the_copies_are_in_use(self):
        # The rollback of the same version finds and mends it.
        for flip in ("local of pe 1 at replicate_middle", "shadow of pe 1 at replicate_end"):
            text = f"flip {flip} visit 4; kill pe 3 at replicated visit 4"
            result, run = self.schedule(text, *SAME, *JACOBI)
            self.assertEqual((result.returncode, run["class"]), (0, "recovered"), result.stdout + result.stderr)
            self.assertEqual(len(run["faults"]), 2, result.stdout + result.stderr)

    def test_what_is_beyond_the_protection_is_excused(self):
        at_once = "kill pe 1 at update_end visit 4; kill pe 2 at update_end visit 4"
        apart = {"SHMEM_FT_PRETEND_NODES": "4"}  # else the node has their copies
        for text, env, right in (("kill pe 1 at replicate_begin", {}, "named error, excused"),
                                 (at_once, apart, "named error, excused"), (at_once, {}, "recovered")):
            with unittest.mock.patch.dict(os.environ, env):
                result, run = self.schedule(text, *SAME, *JACOBI)
            self.assertEqual((result.returncode, run["class"]), (0, right), result.stdout)

    def test_nothing_happens_where_nobody_comes(self):
        result, run = self.schedule("kill pe 1 at replicate_begin visit 999", *SAME, *JACOBI)
        self.assertEqual((result.returncode, run["class"]), (0, "nothing happened"), result.stdout)

    def test_a_process_that_is_stopped_for_ever_is_a_hang(self):
        keep = self.path("kept")
        words = ("--timeout", LONG_S, "--keep", keep, *SAME, *JACOBI)
        # Otherwise the library would end it.
        with unittest.mock.patch.dict(os.environ, {"SHMEM_FT_HANG_TIMEOUT": "0"}):
            result, run = self.schedule("stop pe 1 at replicate_begin visit 3", *words)
        self.assertEqual((result.returncode, run["class"]), (1, "HANG"), result.stdout)
        # Between the request and the stop another thread of the process may still pass a point.
        self.assertRegex(run["why"], r"process 1 \(PE 1\) at (replicate_begin|message_\w+)")
        self.assertIn("fault:", self.read(keep, "run-1", "stderr"))

    def read(self, *parts):
        with open(os.path.join(*parts), encoding="utf-8") as file:
            return file.read()

    def test_a_wrong_answer_is_found_and_can_be_repeated(self):
        # The program keeps a number outside of symmetric memory, which no recovery brings back.
        result, run = self.schedule("kill pe 1 at replicate_begin visit 6", FAULTY)
        self.assertEqual((result.returncode, run["class"]), (1, "WRONG ANSWER"), result.stdout)
        command = re.search(r"repeat it: (.*)", result.stdout)[1]
        repeated = subprocess.run(
            ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
        wrong = re.search(r"printed '(.*)', which", run["why"])[1]
        self.assertIn(wrong, repeated.stdout.splitlines())

    def test_a_death_in_code_of_the_program(self):
        # Not at a point of the library: some milliseconds after one, between two checkpoints.
        text = "kill pe 1 at checkpoint_leave visit 3 after 15 ms"
        result, run = self.schedule(text, *SAME, *JACOBI, "--pace", "40")
        self.assertEqual((result.returncode, run["class"]), (0, "recovered"), result.stdout + result.stderr)
        self.assertEqual([(fault["process"], fault["pe"]) for fault in run["faults"]], [(1, 1)])
        self.assertEqual(run["faults"][0]["entry"], "kill pe 1 at checkpoint_leave visit 3 after 15000 us")

    def test_what_is_wrong_in_the_programs_own_code_only_is_found(self):
        source, program = self.path("own.c", IN_OWN_CODE), self.path("own")
        subprocess.run([os.path.join(BIN, "oshcc"), "-O1", "-o", program, source], check=True, timeout=60)
        words = ["-n", "3", "--spares", "1"]
        for point in ("replicate_middle", "replicated", "update_end", "checkpoint_leave"):
            result, run = self.schedule(f"kill pe 1 at {point} visit 5", *words, program)
            self.assertEqual((result.returncode, run["class"]), (0, "recovered"), point + result.stdout + result.stderr)
        report = self.path("report.json")
        result = run_lab("--seed", "1", "--runs", "16", "--jobs", "2", "--json", report, *words, program)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        with open(report, encoding="utf-8") as file:
            wrong = [run for run in json.load(file)["runs"] if run["class"] == "WRONG ANSWER"]
        self.assertTrue(wrong)
        # Who dies on its way into a checkpoint may leave others behind in the barrier before it, whose `part` is not added yet.
        found = re.compile(" after | at (checkpoint_enter|arrived) ")
        for run in wrong:
            self.assertTrue(any(found.search(fault["entry"]) for fault in run["faults"]), run)
        self.assertTrue(any(" after " in fault["entry"] for run in wrong for fault in run["faults"]))

    def test_files_that_are_named_are_compared(self):
        log = os.path.join(os.environ["SFT_BUILD_DIR"], "apps", "append_log")
        words = ["-n", "2", "--spares", "1", "--file", "{folder}/log.0", "--file", "{folder}/log.1"]
        result, run = self.schedule("kill pe 1 at replicate_begin visit 6", *words, log, "--path", "{folder}/log")
        self.assertEqual((result.returncode, run["class"]), (0, "recovered"), result.stdout + result.stderr)
        # The same but for the recovery: the standard output is that of the run without faults, the file is not.
        source, program = self.path("appends.c", APPENDS), self.path("appends")
        subprocess.run([os.path.join(BIN, "oshcc"), "-O1", "-o", program, source], check=True, timeout=60)
        words = ["-n", "2", "--spares", "1", "--file", "{folder}/lines"]
        result, run = self.schedule("kill pe 1 at replicate_begin visit 6", *words, program, "{folder}/lines")
        self.assertEqual((result.returncode, run["class"]), (1, "WRONG ANSWER"), result.stdout + result.stderr)
        self.assertRegex(run["why"], r"the file \{folder\}/lines differs from byte \d+ on \(\d+ bytes instead of \d+\)")
        self.assertIn("a file opened with", result.stdout)
        self.assertEqual(run_lab("--file", "x", program).returncode, 2)

    def test_causes_of_a_wrong_answer_are_named(self):
        source, program = self.path("causes.c", CAUSES), self.path("causes")
        subprocess.run([os.path.join(BIN, "oshcc"), "-O1", "-o", program, source], check=True, timeout=60)
        result, run = self.schedule("kill pe 1 at replicate_begin visit 6", "-n", "2", "--spares", "1", program)
        self.assertEqual((result.returncode, run["class"]), (1, "WRONG ANSWER"), result.stdout)
        causes = result.stdout.partition("likely causes of wrong answers:\n")[2]
        self.assertRegex(causes, r"  - cells is saved and holds 0x\w+, which leads into private memory")
        self.assertIn("  - the program calls rand, which keeps its state in a library", causes)
        self.assertIn("local variable", causes)
        self.assertNotIn("strtok", causes)
        # Not where nothing was wrong.
        result, _ = self.schedule("kill pe 1 at replicate_begin visit 99", "-n", "2", "--spares", "1", program)
        self.assertNotIn("likely causes", result.stdout)

    def test_lines_that_always_differ_are_named(self):
        result = run_lab("--", FAULTY, "pid")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--ignore such lines", result.stderr)

    def test_a_program_that_fails_by_itself_is_refused(self):
        result = run_lab("--", "./no-such-program")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"^shmem-ft: error: ./no-such-program ends with 127 without any fault: ")
        result = run_lab("--schedule", self.path("bad", "kill pe 1 at replicate_begn"), *JACOBI)
        self.assertEqual(result.returncode, 2)
        self.assertIn("did you mean replicate_begin?", result.stderr)

    def test_a_bad_schedule_is_refused_before_anything_starts(self):
        result = subprocess.run(
            [os.path.join(BIN, "oshrun"), "-n", "2", *JACOBI],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "SHMEM_FT_FAULTS": "kill pe 2 at replicate_begn"},
        )
        self.assertEqual(result.returncode, 2)
        self.assertEqual(
            result.stderr,
            "oshrun: SHMEM_FT_FAULTS: entry 1 'kill pe 2 at replicate_begn': 'replicate_begn' is no fault point; did you mean "
            "replicate_begin?\n",
        )
        self.assertEqual(result.stdout, "")

    def test_the_documented_table_is_the_library_s(self):
        written = subprocess.run(
            [os.path.join(BIN, "shmem-ft"), "points", "--markdown"], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        text = self.read(os.environ["SFT_SOURCE_DIR"], "docs", "fault-lab.md")
        self.assertIn(written, text, "put the output of `shmem-ft points --markdown` into docs/fault-lab.md")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
