"""shmem_ft_on_version: handlers are told of each version, in order, on survivors and in substitutes. shmem_ft_include:
private memory comes back with it."""

import re

from bench import check, check_error, check_success

PES = 4


def results(made, restores):
    return [f"result versions PE {pe} made {made} committed {made} restores {restores}" for pe in range(PES)]


def told(made, restores=(1, 1, 1, 1), spares=1, **env):
    def case(bench):
        outcome = bench.run(PES, spares, "versions", **env)
        check_success(outcome, outcome.results())
        found = sorted(outcome.results())
        expected = [results(made, count)[pe] for pe, count in enumerate(restores)]
        check(found == expected, f"told {found}", outcome)

    return case


# 20 steps, the call at the end, and the first call behind each recovery.
CASES = {
    "versions-told": told(22),
    "versions-told-between-nodes": told(22, SHMEM_FT_PRETEND_NODES="2"),
    "versions-told-where-due": told(8, SHMEM_FT_INTERVAL="3"),
    # Nothing comes of version 5, whose number the next one has.
    "versions-told-of-none": told(23, (2, 1, 2, 2), 2, SHMEM_FT_FAULTS="kill pe 3 at replicate_end visit 5"),
}


def refused(event, version, when):
    def case(bench):
        outcome = bench.run(PES, 1, "versions", "--refuse", str(event), "--at", str(version))
        check_error(outcome, rf"PE 2: a handler of shmem_ft_on_version returned 7 {when} version {version}$")
        check(not outcome.results(), "a result", outcome)
        check(len(re.findall("a handler of", outcome.stderr)) == 1, "said more than once", outcome)

    return case


CASES |= {
    "versions-refused-before": refused(1, 9, "before"),
    "versions-refused-after": refused(2, 9, "after"),
    "versions-refused-restored": refused(3, 10, "after going back to"),
}


def right_on_all(program, *words, **env):
    def case(bench):
        outcome = bench.run(PES, 2, program, *words, **env)
        check_success(outcome, outcome.results())
        expected = [f"result {program} PE {pe} right" for pe in range(PES)]
        check(sorted(outcome.results()) == expected, f"told {outcome.results()}", outcome)

    return case


def included_inside(bench):
    outcome = bench.run(PES, 2, "included", "--inside")
    check_error(outcome, r"PE 1: \d+ bytes of private memory in 4 pieces belong to the version, and this substitute has "
                         r"included \d+ in 3: call shmem_ft_include outside of the block of shmem_ft_algo_init$")
    check(not outcome.results(), "a result", outcome)


def scratch_outside(bench):
    outcome = bench.run(PES, 2, "scratch", "--outside")
    check_error(outcome, r"PE \d: shmem_ft_exclude was given 160000 bytes at 0x[0-9a-f]+, which do not lie inside of one "
                         r"symmetric object$")
    check(not outcome.results(), "a result", outcome)


CASES |= {
    "scratch": right_on_all("scratch"),
    "scratch-tracked": right_on_all("scratch", SHMEM_FT_TRACKING="on"),
    "scratch-single": right_on_all("scratch", SHMEM_FT_BACKUP_MODE="single"),
    "scratch-between-nodes": right_on_all("scratch", SHMEM_FT_PRETEND_NODES="2"),
    "scratch-of-replicas": right_on_all("scratch", SHMEM_FT_PRETEND_NODES="3", SHMEM_FT_BACKUP_MODE="replica:2"),
    "scratch-checked": right_on_all("scratch", SHMEM_FT_CHECK="abort", SHMEM_FT_TRACKING="check"),
    "scratch-beyond-the-object": scratch_outside,
    "included": right_on_all("included"),
    "included-between-nodes": right_on_all("included", SHMEM_FT_PRETEND_NODES="2"),
    "included-where-due": right_on_all("included", SHMEM_FT_INTERVAL="3"),
    "included-checked": right_on_all("included", SHMEM_FT_CHECK="abort", SHMEM_FT_TRACKING="check"),
    "included-late": right_on_all("included", "--late"),
    "included-too-large": right_on_all("included", "--large"),
    "included-where-no-substitute-comes": included_inside,
}
