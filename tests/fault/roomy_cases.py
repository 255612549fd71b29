"""What is not needed is not done: for memory that nobody uses, per pair of processes, and in checkpoints of which nothing is wrong."""

import pathlib
import struct
import tempfile

from bench import check, check_success

POINTS = ["replicate_middle", "update_middle", "replicate_end"]


def killed_at(point, **env):
    def case(bench):
        expected = bench.run(3, 0, "roomy", **env)
        check(expected.exit_code == 0 and len(expected.results()) == 3, "the run without a death failed", expected)
        for pe in (0, 2):
            outcome = bench.run(3, 1, "roomy", SHMEM_FT_FAULTS=f"kill pe {pe} at {point} visit 6", **env)
            check_success(outcome, expected.results())
            check(any(event.kind == "pe_taken" for event in outcome.events), "nobody has died", outcome)

    return case


# docs/fault-lab.md, base/faults/fault_visits.hpp
CALL_OPEN_MEMORY, CALL_MAP_MEMORY, MESSAGE_SEND, COMMIT_DECIDED, FIRST_COUNTER = 810, 820, 700, 160, 32


def visits(bench, pes, points, name, *arguments):
    """Of the process that is there most often; and the run."""
    with tempfile.TemporaryDirectory(prefix="shmem-ft-visits-") as folder:
        outcome = bench.run(pes, 0, name, *arguments, SHMEM_FT_FAULT_VISITS=f"{folder}/visits")
        check(outcome.exit_code == 0 and outcome.results(), "the run failed", outcome)
        contents = [pathlib.Path(folder, f"visits.{rank}").read_bytes() for rank in range(pes)]
    return max(sum(struct.unpack_from("=I", counters, FIRST_COUNTER + 4 * point)[0] for point in points)
               for counters in contents), outcome


def mapped_together(bench):
    """A process opens and maps as much in a large job as in a small one: the memory of the others all at once."""
    few, _ = visits(bench, 2, (CALL_OPEN_MEMORY, CALL_MAP_MEMORY), "scarce")
    many, outcome = visits(bench, 24, (CALL_OPEN_MEMORY, CALL_MAP_MEMORY), "scarce")
    check(0 < many <= few + 1, f"{few} calls among 2 PEs, {many} among 24", outcome)


def silent_checkpoints(bench):
    """On one node checkpoints send no message: what a process sends is for the start and the end of the job."""
    pes, rounds, more = 4, 20, 200
    program = ["jacobi1d", "--cells", "4000", "--halo", "16", "--steps"]
    few, _ = visits(bench, pes, [MESSAGE_SEND], *program, str(16 * rounds))
    many, outcome = visits(bench, pes, [MESSAGE_SEND], *program, str(16 * more))
    commits, _ = visits(bench, pes, [COMMIT_DECIDED], *program, str(16 * more))
    check(commits > 20, f"only {commits} checkpoints", outcome)
    check(0 < many <= few + pes, f"{few} messages with few checkpoints, {many} with {commits}", outcome)


def pointed(bench):
    """Objects that come and go at one address, written through shmem_ptr only: SHMEM_FT_TRACKING=check finds what a copy lacks."""
    env = {"SHMEM_SYMMETRIC_SIZE": "64M"}
    expected = bench.run(2, 0, "pointed", SHMEM_FT_TRACKING="off", **env)
    check(expected.exit_code == 0 and len(expected.results()) == 2, "the run that compares failed", expected)
    check_success(bench.run(2, 0, "pointed", SHMEM_FT_TRACKING="check", **env), expected.results())


CASES = {f"roomy-{point}": killed_at(point) for point in POINTS}
CASES["roomy-two-nodes"] = killed_at("replicate_middle", SHMEM_FT_PRETEND_NODES="2")
CASES["roomy-single-copy"] = killed_at("replicate_end", SHMEM_FT_BACKUP_MODE="single")
CASES["mapped-together"] = mapped_together
CASES["silent-checkpoints"] = silent_checkpoints
CASES["pointed"] = pointed
