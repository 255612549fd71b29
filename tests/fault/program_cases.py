"""Cases about programs as users write them: teams of threads in which nothing may jump, exceptions, what the loader has put
among the globals, a fault that nobody repairs, a defect of the library, and the first program of the README. cases.py runs them."""

import os
import re
import subprocess

from bench import check, check_error, check_success

NO_WAY_OUT = "cannot be left by a jump"


def was_replaced(outcome):
    check(any(event.kind == "pe_taken" for event in outcome.events), "nobody was replaced", outcome)


# --- jumps and threads ---


def regions(runtime, threads="3"):
    """A fault in a team of threads, of which only the first has a rollback point: said once by each PE, and nobody jumps."""
    def case(bench):
        name = f"regions_{runtime}"
        if runtime != "threads" and not os.path.exists(os.path.join(bench.programs, "tests", "fault", name)):
            print(f"      {name} is not part of this build (a sanitizer does not know OpenMP)")
            return
        expected = bench.run(4, 0, name, "--threads", threads)
        check(expected.exit_code == 0 and len(expected.results()) == 4, "the run without a death failed", expected)
        check(NO_WAY_OUT not in expected.stderr, "told without a fault", expected)
        outcome = bench.run(4, 1, name, "--kill", "--threads", threads)
        check_success(outcome, expected.results())
        was_replaced(outcome)
        told = sorted(re.findall(rf"PE (\d): .*{NO_WAY_OUT}", outcome.stderr))
        check(told == ["0", "2", "3"], f"told by PEs {told}", outcome)

    return case


def throws_in(call, *words):
    def case(bench):
        expected = bench.run(4, 0, "throwing", "none", *words)
        check(expected.exit_code == 0 and len(expected.results()) == 4, "the run without a death failed", expected)
        outcome = bench.run(4, 1, "throwing", call, *words)
        check_success(outcome, expected.results())
        was_replaced(outcome)

    return case


# --- what is not the program's ---

LOADED = [f"result {pe} {15 * (pe + 1)}" for pe in range(4)]


def loaded(bench):
    outcome = bench.run(4, 1, "loaded")
    check_success(outcome, LOADED)
    was_replaced(outcome)


def loaded_at_other_addresses(bench):
    """Straight by mpirun, so libraries are loaded elsewhere in each process."""
    if os.environ.get("SFT_SANITIZE", "none") != "none":
        print("      a sanitizer wants addresses of its own")
        return
    with open("/proc/sys/kernel/randomize_va_space", encoding="ascii") as setting:
        if setting.read().strip() == "0":
            print("      this system does not randomise addresses")
            return
    env = {name: value for name, value in os.environ.items() if not name.startswith("SHMEM_FT_JOB")}
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    words = ["mpirun.openmpi", *as_root, "--oversubscribe", "--enable-recovery", "-x", "SHMEM_FT_SPARES", "-n", "5",
             bench.path("loaded")]
    result = subprocess.run(words, env=env | {"SHMEM_FT_SPARES": "1"}, capture_output=True, text=True,
                            timeout=bench.timeout_s, check=False)
    lines = sorted(line for line in result.stdout.splitlines() if line.startswith("result "))
    if lines != LOADED:
        raise AssertionError(f"results {lines}: {result.stdout}{result.stderr}")


# --- the rest ---


def pending_is_told(bench):
    """By each PE, with where it is, once the fault has been pending for ten seconds."""
    outcome = bench.run(3, 1, "pending")
    check_success(outcome, [f"result pending {pe} 3" for pe in range(3)])
    told = dict(re.findall(r"warning: PE (\d): PE 1 has failed and nobody has recovered for 10 s: (.*)", outcome.stderr))
    check(re.match(r"it is in its own code; \d+ calls have met .* shmem_long_atomic_fetch$", told.get("0", "")),
          f"PE 0 tells {told.get('0')}", outcome)
    check(told.get("2") == "it waits for the others in shmem_restart_pes", f"PE 2 tells {told.get('2')}", outcome)
    check(outcome.stderr.count("for 10 s") <= 3, "told more than once", outcome)


def locked_memory_is_told(bench):
    if os.geteuid() != 0:
        print("      only root may lock that much memory")
        return
    outcome = bench.run(2, 0, "locked", SHMEM_SYMMETRIC_SIZE="8M")
    check_success(outcome, ["result 0", "result 1"])
    check(outcome.stderr.count("mlockall(MCL_FUTURE)") == 1, "it is not told once", outcome)
    check("mlockall" not in bench.run(2, 0, "hello").stderr, "told without a reason", outcome)


def first_program(bench):
    """The program of the README: the same output with a death in the middle of its loop, whoever dies."""
    calm = bench.run(4, 0, "hello")
    check(calm.exit_code == 0 and len(calm.stdout.splitlines()) == 4, "the run without a death failed", calm)
    for moment in ("pe 0 at checkpoint_leave", "pe 2 at replicate_begin"):
        outcome = bench.run(4, 1, "hello", SHMEM_FT_FAULTS=f"kill {moment} visit 200")
        check(outcome.exit_code == 0, f"exit code {outcome.exit_code}", outcome)
        check(sorted(outcome.stdout.splitlines()) == sorted(calm.stdout.splitlines()), "another output", outcome)
        was_replaced(outcome)


def defect(*options):
    """An assertion that fails ends the job by one line: nobody recovers from it, as a substitute would meet the same."""
    def case(bench):
        outcome = bench.run(4, 1, "defect", *options)
        check_error(outcome, r"^oshrun: defect of the library, please report: \S*defect\.cpp:\d+: at < 3$")
        check(outcome.exit_code == 70, f"exit code {outcome.exit_code}", outcome)
        check(len(outcome.errors()) == 1, f"{len(outcome.errors())} lines of errors", outcome)
        check(not outcome.results(), "a result", outcome)

    return case


CASES = {
    "defect": defect(),
    "defect-in-a-thread": defect("--thread"),
    "regions-gcc": regions("gcc"),
    "regions-gcc-of-one": regions("gcc", "1"),
    "regions-llvm": regions("llvm"),
    "regions-llvm-of-one": regions("llvm", "1"),
    "regions-threads": regions("threads"),
    "throws-in-reduce": throws_in("reduce"),
    "throws-in-wait": throws_in("wait"),
    "throws-in-checkpoint": throws_in("checkpoint"),
    "throws-in-wait-nb": throws_in("wait", "nb"),
    "throws-in-checkpoint-nb": throws_in("checkpoint", "nb"),
    "loaded": loaded,
    "loaded-at-other-addresses": loaded_at_other_addresses,
    "pending-is-told": pending_is_told,
    "locked-memory-is-told": locked_memory_is_told,
    "first-program": first_program,
}
