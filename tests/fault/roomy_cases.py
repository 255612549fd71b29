"""Large static arrays of which little is used cost little, and come back with their zeros."""

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


CASES = {f"roomy-{point}": killed_at(point) for point in POINTS}
CASES["roomy-two-nodes"] = killed_at("replicate_middle", SHMEM_FT_PRETEND_NODES="2")
CASES["roomy-single-copy"] = killed_at("replicate_end", SHMEM_FT_BACKUP_MODE="single")
