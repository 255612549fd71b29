"""How many instructions does one operation take, and is that more than it was?

Runs instructions.c under callgrind. With --limits the numbers are compared with a file of limits, and the exit status is
1 if one is exceeded; --write makes that file. Counts depend on the compiler and its options, not on the machine's load.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

LOOPS = 1000  # of instructions.c
SLACK = 2     # instructions that a limit allows above what was measured


def measure(oshrun: str, program: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        command = [oshrun, "-n", "1", "valgrind", "--tool=callgrind", "--collect-atstart=no",
                   f"--callgrind-out-file={folder}/counts", program]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if result.returncode != 0:
            sys.exit(f"instructions.py: error: {' '.join(command)} failed:\n{result.stdout}{result.stderr}")
        counts: dict[str, float] = {}
        # The second round is what counts; files are numbered in the order of the dumps.
        for file in sorted(pathlib.Path(folder).glob("counts.*"), key=lambda path: int(path.suffix[1:])):
            text = file.read_text(encoding="utf-8")
            name = re.search(r"^desc: Trigger: Client Request: (\w+)$", text, re.MULTILINE)
            total = re.search(r"^totals: (\d+)$", text, re.MULTILINE)
            if name and total:
                counts[name[1]] = int(total[1]) / LOOPS
    if "empty" not in counts:
        sys.exit("instructions.py: error: callgrind wrote no counts")
    empty = counts.pop("empty")
    return {name: round(count - empty, 1) for name, count in counts.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oshrun", required=True)
    parser.add_argument("--limits", type=pathlib.Path, help="JSON file: operation -> most instructions")
    parser.add_argument("--write", action="store_true", help="make the file of limits from what is measured now")
    parser.add_argument("program", help="benchmarks/bench_instructions of the build")
    options = parser.parse_args()
    counts = measure(options.oshrun, options.program)
    if options.write:
        limits = {name: int(count) + SLACK for name, count in counts.items()}
        options.limits.write_text(json.dumps(limits, indent=1) + "\n", encoding="utf-8")
    limits = json.loads(options.limits.read_text(encoding="utf-8")) if options.limits else {}
    print(f"{'operation':<18}{'instructions':>14}{'limit':>8}")
    for name, count in counts.items():
        print(f"{name:<18}{count:>14.1f}{limits.get(name, '-'):>8}")
    wrong = [f"{name} takes {count} instructions, more than {limits[name]}"
             for name, count in counts.items() if name in limits and count > limits[name]]
    wrong += [f"{name} has no limit, or is not measured" for name in limits.keys() ^ counts.keys() if limits]
    for line in wrong:
        print(f"instructions.py: {line}: a hot path has become longer; if that is meant, --write new limits")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
