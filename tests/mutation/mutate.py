#!/usr/bin/env python3
"""Runs mutants of the decision code against the unit tests and the simulator, and says which nobody has noticed.

    mutate.py --programs build/tests/mutation --seeds 20000 --jobs 2 --results mutants.log
    mutate.py --programs build/tests/mutation --sample 40 --seeds 2000 --share-min 95   # what script/test does
    mutate.py --programs build/tests/mutation --only 123,124 --verbose

A mutant is found when a test fails, a checker of the simulator objects, too little happens in its jobs, an assertion
of the library ends a program, or a program crashes, asks for too much memory or takes far longer than without. --results takes up where an earlier run has ended.
tests/mutation/equivalent.txt lists the mutants that change nothing that matters, with the reason.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent
MEMORY_MAX = 4 << 30
WALL_PER_CPU = 30  # on a machine that has much else to do


def limits(seconds):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def steps_of(programs, seeds):
    """The cheapest first: most are found by them. One step: what runs, and for how many seconds of a processor at most,
    which is more than ten times what it needs without a mutant."""
    steps = [("membership", [programs / "membership_mutants", "--gtest_brief=1", "--gtest_filter=-*Soak*"], 3),
             ("recovery", [programs / "recovery_mutants", "--gtest_brief=1"], 3)]
    first = 1
    for last in sorted({min(300, seeds), min(2000, seeds), seeds}):
        command = [programs / "sim_mutants", "--first", str(first), "--seeds", str(last - first + 1), "--failures-max", "1"]
        steps.append((f"sim {first}..{last}", command, 4 + (last - first) / 75))
        # Of these, one in nine is a job for it.
        steps.append((f"sim {first}..{last} of node memory", [*command, "--node-memory"], 4 + (last - first) / 300))
        steps.append((f"sim {first}..{last} of ready words", [*command, "--ready-words"], 4 + (last - first) / 100))
        first = last + 1
    steps[3:3] = [("soak", [programs / "membership_mutants", "--gtest_brief=1", "--gtest_filter=*Soak*"], 15)]
    return steps


def run(mutant, steps):
    environment = dict(os.environ, SFT_MUTANT=str(mutant))
    for name, command, seconds in steps:
        try:
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", timeout=WALL_PER_CPU * seconds,
                                  preexec_fn=lambda limit=seconds: limits(limit), check=False)
        except subprocess.TimeoutExpired:
            return f"{name}: takes too long"
        if done.returncode == -signal.SIGXCPU:
            return f"{name}: takes too long"
        if done.returncode != 0:
            lines = [line for line in done.stdout.splitlines()
                     if line.startswith("seed") or "Failure" in line or "too little" in line or "what()" in line
                     or "defect of the library" in line]
            return f"{name}: " + (lines[0] if lines else f"exit {done.returncode}")[:160]
    return ""


def key_of(mutant):
    """Survives that lines move: the text of the line and of the part that is changed."""
    return " | ".join((mutant["file"], mutant["function"], mutant["kind"] + (" " + mutant["change"]).rstrip(),
                       mutant["source"], mutant["what"]))


def read_equivalents():
    known = {}
    for line in (FOLDER / "equivalent.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            key, _, reason = line.rpartition(" => ")
            known[key] = reason
    return known


def sample_of(mutants, n):
    """Spread evenly over everything."""
    return [mutants[(2 * i + 1) * len(mutants) // (2 * n)] for i in range(n)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="build/tests/mutation")
    parser.add_argument("--seeds", type=int, default=20000, help="of the simulator, per mutant")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int, default=0, help="so many of them, spread evenly")
    parser.add_argument("--only", default="", help="numbers, with commas")
    parser.add_argument("--results", type=pathlib.Path, help="what is known is not run again; new results are added")
    parser.add_argument("--share-min", type=float, default=0, help="percent that must be found")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no more mutants after that time")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    mutants = [json.loads(line) for line in (args.programs / "mutants.json").read_text().splitlines()]
    equivalents = read_equivalents()
    n_all = len(mutants)
    mutants = [mutant for mutant in mutants if key_of(mutant) not in equivalents]
    if args.only:
        numbers = {int(number) for number in args.only.split(",")}
        mutants = [mutant for mutant in mutants if mutant["id"] in numbers]
    if args.sample:
        mutants = sample_of(mutants, min(args.sample, len(mutants)))
    steps = steps_of(args.programs.resolve(), args.seeds)
    begin = time.monotonic()
    if found := run(0, steps):
        sys.exit(f"mutate: error: without any mutant: {found}")
    found_by = {}
    if args.results and args.results.exists():
        found_by = dict(json.loads(line) for line in args.results.read_text().splitlines())
    todo = [mutant for mutant in mutants if key_of(mutant) + f" #{mutant['id']}" not in found_by]
    log = args.results.open("a") if args.results else None

    def one(mutant):
        if time.monotonic() - begin > 60 * args.minutes:
            return mutant, None
        return mutant, run(mutant["id"], steps)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for mutant, found in pool.map(one, todo):
            if found is None:
                continue
            key = key_of(mutant) + f" #{mutant['id']}"
            found_by[key] = found
            if log:
                log.write(json.dumps([key, found]) + "\n")
                log.flush()
            if args.verbose:
                print(f"{mutant['id']}: {found or 'NOT FOUND'}", flush=True)
    done = [mutant for mutant in mutants if key_of(mutant) + f" #{mutant['id']}" in found_by]
    survivors = [mutant for mutant in done if not found_by[key_of(mutant) + f" #{mutant['id']}"]]
    for mutant in survivors:
        print(f"not found: {mutant['id']} {mutant['file']}:{mutant['line']} {mutant['kind']} {mutant['change']}: "
              f"{mutant['what']}\n    {key_of(mutant)}")
    share = 100 * (1 - len(survivors) / max(len(done), 1))
    print(f"{len(done)} of {n_all} mutants run ({len(equivalents)} entries of equivalent ones left out): "
          f"{len(done) - len(survivors)} found, {share:.1f} %, in {time.monotonic() - begin:.0f} s")
    sys.exit(0 if share >= args.share_min and done else 1)


if __name__ == "__main__":
    main()
