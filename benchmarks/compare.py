"""How do single operations on a node compare with Debian's Open MPI OpenSHMEM, in the same run?

Builds node_latency.c with both libraries and runs them in turn, so that whatever disturbs the machine disturbs both.
Prints the medians of the runs; without Open MPI's compiler wrapper only ours.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).with_name("node_latency.c")


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
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TMPDIR": folder}


def main(build: pathlib.Path, repeats: int) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        ours = [build / "bin/oshrun", "-n", "2", build / "benchmarks/bench_node_latency"]
        libraries = {"shmem_ft": (ours, dict(os.environ)), "shmem_ft_none": (ours, {**os.environ, "SHMEM_FT_BACKUP_MODE": "none"})}
        wrapper, launcher = open_mpi("oshcc", "--showme:version"), open_mpi("oshrun", "--version")
        if wrapper and launcher:
            program = pathlib.Path(folder) / "node_latency_openmpi"
            subprocess.run([wrapper, "-O2", SOURCE, "-o", program], check=True)
            libraries["open_mpi"] = ([launcher, "-n", "2", program], open_mpi_environment(folder))
        samples = {name: [] for name in libraries}
        for _ in range(repeats):
            for name, (command, environment) in libraries.items():
                samples[name].append(run(command, environment))
    rows = []
    for key in samples["shmem_ft"][0]:
        row = {"operation": key[0], "bytes": key[1]}
        for name, runs in samples.items():
            values = [values[key] for values in runs if key in values]
            row[name + "_ns"] = statistics.median(values) if values else None
        rows.append(row)
    return rows


def print_table(rows: list[dict]) -> None:
    names = [name for name in rows[0] if name.endswith("_ns")]
    print(f"{'operation':<16}{'bytes':>9}" + "".join(f"{name:>18}" for name in names) + f"{'ratio':>9}")
    for row in rows:
        cells = "".join(f"{row[name]:>18.1f}" if row[name] is not None else f"{'-':>18}" for name in names)
        other = row.get("open_mpi_ns")
        ratio = f"{other / row['shmem_ft_ns']:>9.2f}" if other else f"{'-':>9}"
        print(f"{row['operation']:<16}{row['bytes']:>9}{cells}{ratio}")


if __name__ == "__main__":
    result = main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
    print_table(result)
    pathlib.Path(sys.argv[3]).write_text(json.dumps(result, indent=1) + "\n")
