"""What does the record of the start-up cost?

bench_startup, a start-up that communicates all the time, runs in turn with the record and without it
(SHMEM_FT_STARTUP_RECORD=0). Printed are the medians of both, of the pairs' ratio, and the memory that the record takes.

    startup.py BUILD [--pes N] [--rounds N] [--runs N] [--json FILE]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess


def run(build, options, record):
    environment = {**os.environ, "SHMEM_FT_STARTUP_RECORD": record}
    words = [build / "bin/oshrun", "-n", str(options.pes), build / "benchmarks/bench_startup", str(options.rounds)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=600)
    if done.stderr:
        raise SystemExit(f"startup.py: {done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--pes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20000)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    pairs = [(run(options.build, options, "64M"), run(options.build, options, "0")) for _ in range(options.runs)]
    with_record = [pair[0]["startup_s"] for pair in pairs]
    without = [pair[1]["startup_s"] for pair in pairs]
    ratio = statistics.median(a / b for a, b in zip(with_record, without))
    result = {"pes": options.pes, "rounds": options.rounds, "with_s": statistics.median(with_record),
              "without_s": statistics.median(without), "ratio": ratio,
              "checkpoint_with_s": statistics.median(pair[0]["checkpoint_s"] for pair in pairs),
              "checkpoint_without_s": statistics.median(pair[1]["checkpoint_s"] for pair in pairs)}
    print(f"{options.pes} PEs, {options.rounds} rounds of 9 calls: {result['with_s']:.3f} s with the record, "
          f"{result['without_s']:.3f} s without, ratio {ratio:.3f}; first checkpoint "
          f"{result['checkpoint_with_s'] * 1e3:.1f} and {result['checkpoint_without_s'] * 1e3:.1f} ms")
    if options.json:
        options.json.write_text(json.dumps(result), encoding="ascii")


if __name__ == "__main__":
    main()
