"""Large static arrays of which little is used cost little, and come back with their zeros."""

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


CALL_OPEN_MEMORY, CALL_MAP_MEMORY, FIRST_COUNTER = 810, 820, 32  # docs/fault-lab.md, base/faults/fault_visits.hpp


def memory_calls(bench, pes):
    """Of the process that makes most."""
    with tempfile.TemporaryDirectory(prefix="shmem-ft-visits-") as folder:
        outcome = bench.run(pes, 0, "scarce", SHMEM_FT_FAULT_VISITS=f"{folder}/visits")
        check(outcome.exit_code == 0 and len(outcome.results()) == pes, "the run failed", outcome)
        contents = [pathlib.Path(folder, f"visits.{rank}").read_bytes() for rank in range(pes)]
    return max(sum(struct.unpack_from("=I", counters, FIRST_COUNTER + 4 * point)[0]
                   for point in (CALL_OPEN_MEMORY, CALL_MAP_MEMORY)) for counters in contents), outcome


def mapped_together(bench):
    """A process opens and maps as much in a large job as in a small one: the memory of the others all at once."""
    few, _ = memory_calls(bench, 2)
    many, outcome = memory_calls(bench, 24)
    check(0 < many <= few + 1, f"{few} calls among 2 PEs, {many} among 24", outcome)


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
CASES["pointed"] = pointed
