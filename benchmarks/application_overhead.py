"""What do copies cost the application between its checkpoints?

Whole programs (jacobi1d and the kernels of apps/kernels), compiled with -O2 and with -O3 -march=native, run in turn without
copies (SHMEM_FT_BACKUP_MODE=none) and with them. checkpoint_time.c divides the time of each run into checkpoints and the
rest; the rest of a run with copies is compared with that of the run without beside it. A checkpoint that leaves something
behind which makes the program itself slower (vector registers in use, cold caches, pages to be mapped anew) shows here
and in no measurement of checkpoints.

    application_overhead.py BUILD [--programs jacobi1d,gups ...] [--runs N] [--json FILE]
    application_overhead.py BUILD --small --most 1.5     a test: short runs, exit code 1 if a rest is that much longer

The mode `swept` is one without copies whose checkpoints move as much memory as --sweep says, for nothing: it shows what
cold caches alone cost the steps that follow, whoever made them so.

Printed are medians over the pairs of runs: seconds by the clock of the slowest PE, and the processor seconds of all PEs'
threads, which other programs on the machine disturb less.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PES = 2
WITHOUT = "none"
SWEPT = "swept"
FLAGS = {"O2": ["-O2"], "O3-native": ["-O3", "-march=native"]}

# Program: source, arguments, and arguments of a short run.
PROGRAMS = {
    "jacobi1d": ("jacobi1d.c", "--thesis", "--cells 200000 --steps 1600 --halo 200"),
    "gups": ("kernels/gups.c", "--log2-words 23 --batches 20", "--log2-words 18 --batches 8"),
    "hash_table": ("kernels/hash_table.c", "--keys 1000000 --draws 12000000 --batches 20",
                   "--keys 50000 --draws 600000 --batches 8"),
    "isx": ("kernels/isx.c", "--keys 8000000 --rounds 12", "--keys 500000 --rounds 8"),
    "matmul": ("kernels/matmul.c", "--size 1600", "--size 400"),
    "stencil2d": ("kernels/stencil2d.c", "--cells 2048 --steps 1000 --interval 50",
                  "--cells 512 --steps 800 --interval 100"),
}


def compile_program(build, folder, name, flags):
    program = pathlib.Path(folder) / f"{name}-{'-'.join(flags).replace('=', '')}"
    command = [build / "bin/oshcc", *flags, "-DFAULT_TOLERANT", f"-I{ROOT}", ROOT / "apps" / PROGRAMS[name][0],
               "-o", program, "-lm"]
    subprocess.run(command, check=True)
    return program


class Jobs:
    """Runs programs; all of a program must come to the same result."""

    def __init__(self, build, folder, sweep_mib):
        self._sweep_mib = sweep_mib
        self._build, self._folder = build, pathlib.Path(folder)
        self._timer = build / "benchmarks/libbench_checkpoint_time.so"
        self._results = {}

    def run(self, name, program, arguments, mode):
        """`name` says what has one result: program and flags."""
        report = self._folder / "report"
        report.unlink(missing_ok=True)
        environment = {**os.environ, "SHMEM_FT_BACKUP_MODE": WITHOUT if mode == SWEPT else mode,
                       "CHECKPOINT_TIME_REPORT": str(report),
                       "CHECKPOINT_TIME_SWEEP_MIB": str(self._sweep_mib if mode == SWEPT else 0)}
        command = [self._build / "bin/oshrun", "-n", str(PES), "-x", f"LD_PRELOAD={self._timer}", program, *arguments]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=600, check=False)
        rows = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
        if done.returncode != 0 or len(rows) != PES:
            sys.exit(f"application_overhead: error: {name} with {mode} ended with {done.returncode}, {len(rows)} reports")
        result = [line for line in done.stdout.splitlines() if line.startswith("result")]
        if self._results.setdefault(name, result) != result:
            sys.exit(f"application_overhead: error: {name} with {mode} comes to another result: {result}")
        return {
            "rest_s": max(row["rest_s"] for row in rows),
            "rest_processor_s": sum(row["rest_processor_s"] for row in rows),
            "rest_faults": sum(row["rest_faults"] for row in rows),
            "first_s": max(row["first_s"] for row in rows),
            "checkpoints_s": max(row["checkpoints_s"] for row in rows),
            "checkpoints": rows[0]["checkpoints"],
        }


def measure(jobs, name, programs, arguments, modes, runs):
    """{mode: [run, ...]}. Every other round goes the other way, so that what grows over time favours nobody."""
    samples = {mode: [] for mode in modes}
    for number in range(runs):
        for mode in modes if number % 2 == 0 else modes[::-1]:
            samples[mode].append(jobs.run(name, programs[mode], arguments, mode))
    return samples


def ratio(samples, mode, key):
    return statistics.median(one[key] / other[key] for one, other in zip(samples[mode], samples[WITHOUT]))


def rows_of(name, flags, samples):
    for mode, runs in samples.items():
        row = {"program": name, "flags": flags, "mode": mode}
        row |= {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        row |= {f"{key}_ratio": ratio(samples, mode, key) for key in ("rest_s", "rest_processor_s")}
        # Disturbances only ever add time, so of many short runs the shortest ones are compared.
        least = {of: min(run["rest_processor_s"] for run in samples[of]) for of in (mode, WITHOUT)}
        yield row | {"least_ratio": least[mode] / least[WITHOUT]}


HEAD = f"{'program':<12}{'flags':<11}{'copies':<8}{'rest s':>9}{'ratio':>7}{'cpu s':>9}{'ratio':>7}{'least':>7}" \
       f"{'faults':>8}{'checkpoints':>13}{'first s':>9}{'others s':>10}"


def line_of(row):
    return (f"{row['program']:<12}{row['flags']:<11}{row['mode']:<8}{row['rest_s']:>9.3f}{row['rest_s_ratio']:>7.3f}"
            f"{row['rest_processor_s']:>9.3f}{row['rest_processor_s_ratio']:>7.3f}{row['least_ratio']:>7.3f}"
            f"{row['rest_faults']:>8.0f}{row['checkpoints'] + 1:>13.0f}{row['first_s']:>9.3f}{row['checkpoints_s']:>10.3f}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="some of them, separated by commas")
    parser.add_argument("--flags", default=",".join(FLAGS), help="likewise")
    parser.add_argument("--modes", default="double,single", help="likewise")
    parser.add_argument("--sweep", type=int, default=64, metavar="MIB", help="what a checkpoint of the mode swept copies")
    parser.add_argument("--runs", type=int, default=5, help="of each mode, in turn")
    parser.add_argument("--small", action="store_true", help="short runs")
    parser.add_argument("--most", type=float, help="exit code 1 if a rest takes more than that many times as long")
    parser.add_argument("--slow-with-copies", action="store_true",
                        help="the control of the test: with copies a program that was compiled with -O0; "
                             "exit code 0 if that is found")
    parser.add_argument("--json", type=pathlib.Path, help="where to leave the numbers")
    return parser.parse_args()


def main():
    options = parse_arguments()
    modes = [WITHOUT, *options.modes.split(",")]
    build = options.build.resolve()
    table = []
    print(HEAD, flush=True)
    folder = tempfile.mkdtemp()
    try:
        jobs = Jobs(build, folder, options.sweep)
        for name in options.programs.split(","):
            arguments = PROGRAMS[name][2 if options.small else 1].split()
            for flags in options.flags.split(","):
                program = compile_program(build, folder, name, FLAGS[flags])
                other = compile_program(build, folder, name, ["-O0"]) if options.slow_with_copies else program
                programs = {mode: program if mode == WITHOUT else other for mode in modes}
                for row in rows_of(name, flags, measure(jobs, f"{name} ({flags})", programs, arguments, modes, options.runs)):
                    table.append(row)
                    print(line_of(row), flush=True)
    finally:
        shutil.rmtree(folder)
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n")
    slow = [row for row in table if options.most and row["least_ratio"] > options.most]
    for row in slow:
        print(f"application_overhead: error: {row['program']} ({row['flags']}) takes {row['least_ratio']:.2f} times as long "
              f"between the checkpoints of mode {row['mode']}", file=sys.stderr)
    return int(bool(slow) != options.slow_with_copies)


if __name__ == "__main__":
    sys.exit(main())
