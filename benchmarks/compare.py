"""How do single operations on a node compare with Debian's Open MPI OpenSHMEM, in the same run?

Builds node_operations.c with both libraries and runs them in turn, so that whatever disturbs the machine disturbs both.
Prints the medians of the runs, what fault tolerance costs (the same library without copies), and how barriers grow
with the number of PEs. Without Open MPI's compiler wrapper only ours.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).with_name("node_operations.c")
OURS, NO_COPIES, THEIRS = "shmem_ft", "no_copies", "open_mpi"
PES = (2, 4, 8, 16, 32)


def run(command: list, environment: dict) -> dict[tuple[str, int], float]:
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            timeout=300, check=False).stdout
    rows = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return {(row["operation"], row["bytes"]): row["ns"] for row in rows}


def open_mpi(name: str, version_option: str) -> str | None:
    """Open MPI's tool of that name, which is called like ours: the first one on the path that says whose it is."""
    for folder in os.environ["PATH"].split(os.pathsep):
        tool = pathlib.Path(folder) / name
        if os.access(tool, os.X_OK):
            answer = subprocess.run([tool, version_option], capture_output=True, check=False)
            if any(own in answer.stdout for own in (b"Open SHMEM", b"OpenRTE")):
                return str(tool)
    return None


def open_mpi_environment(folder: str) -> dict:
    # Its memory hooks crash in shmem_finalize on Debian 12; the first setting switches them off.
    return {**os.environ, "OMPI_MCA_memory": "^patcher", "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "TMPDIR": folder}


class Libraries:
    """How node_operations is run with each of them: name -> (command for a number of PEs, environment)."""

    def __init__(self, build: pathlib.Path, folder: str):
        ours = [build / "bin/oshrun"], [build / "benchmarks/bench_node_operations"], []
        self._commands = {OURS: (*ours, dict(os.environ)),
                          NO_COPIES: (*ours, {**os.environ, "SHMEM_FT_BACKUP_MODE": "none"})}
        wrapper, launcher = open_mpi("oshcc", "--showme:version"), open_mpi("oshrun", "--version")
        if wrapper and launcher:
            program = pathlib.Path(folder) / "node_operations_openmpi"
            subprocess.run([wrapper, "-O2", SOURCE, "-o", program], check=True)
            self._commands[THEIRS] = ([launcher], [program], [], open_mpi_environment(folder))

    def names(self) -> list[str]:
        return list(self._commands)

    def measure(self, name: str, pes: int, what: str, batches: int) -> dict[tuple[str, int], float]:
        launcher, program, options, environment = self._commands[name]
        return run([*launcher, "-n", str(pes), *options, *program, what, str(batches)], environment)


def medians(samples: dict[str, list[dict]]) -> list[dict]:
    rows = []
    for key in samples[OURS][0]:
        row = {"operation": key[0], "bytes": key[1]}
        for name, runs in samples.items():
            values = [values[key] for values in runs if key in values]
            row[name + "_ns"] = statistics.median(values) if values else None
        # Paired: each run of theirs with the run of ours beside it.
        pairs = [theirs[key] / ours[key] for ours, theirs in zip(samples[OURS], samples.get(THEIRS, []))
                 if key in ours and key in theirs]
        row["ratio"] = statistics.median(pairs) if pairs else None
        rows.append(row)
    return rows


def print_table(rows: list[dict]) -> None:
    names = [name for name in rows[0] if name.endswith("_ns")]
    print(f"{'operation':<18}{'bytes':>9}" + "".join(f"{name:>15}" for name in names) + f"{'ratio':>9}")
    for row in rows:
        cells = "".join(f"{row[name]:>15.1f}" if row[name] is not None else f"{'-':>15}" for name in names)
        ratio = f"{row['ratio']:>9.2f}" if row["ratio"] else f"{'-':>9}"
        print(f"{row['operation']:<18}{row['bytes']:>9}{cells}{ratio}")


def print_summary(rows: list[dict]) -> None:
    cost = statistics.geometric_mean(row[OURS + "_ns"] / row[NO_COPIES + "_ns"] for row in rows)
    print(f"with copies / without, geometric mean of {len(rows)} rows: {cost:.3f}")
    compared = [row for row in rows if row["ratio"]]
    if compared:
        mean = statistics.geometric_mean(row["ratio"] for row in compared)
        slower = [f"{row['operation']} {row['bytes']} ({row['ratio']:.2f})" for row in compared if row["ratio"] < 1]
        print(f"faster than Open MPI, geometric mean of {len(compared)} rows: {mean:.2f} times")
        print(f"slower rows: {', '.join(slower) or 'none'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=5, help="of each library, in turn")
    parser.add_argument("--batches", type=int, default=11, help="in each run, of which the best counts")
    parser.add_argument("--json", type=pathlib.Path, help="where to leave the numbers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        libraries = Libraries(options.build, folder)
        samples = {name: [] for name in libraries.names()}
        for _ in range(options.runs):
            for name, runs in samples.items():
                runs.append(libraries.measure(name, 2, "all", options.batches))
        rows = medians(samples)
        print_table(rows)
        print_summary(rows)
        growth = []
        for pes in PES:
            runs = {name: [libraries.measure(name, pes, "barrier", 5)] for name in libraries.names()}
            growth += [{**row, "pes": pes} for row in medians(runs)]
        print(f"\nshmem_barrier_all on {os.cpu_count()} processors, us")
        for row in growth:
            cells = "".join(f"{row[name + '_ns'] / 1e3:>15.2f}" if row[name + "_ns"] else f"{'-':>15}" for name in samples)
            print(f"{row['pes']:>3} PEs" + cells)
    if options.json:
        options.json.write_text(json.dumps({"operations": rows, "barrier": growth}, indent=1) + "\n")


if __name__ == "__main__":
    main()
