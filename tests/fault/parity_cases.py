"""Jobs on several nodes whose PEs keep parity in groups: what a group survives, and deaths in the middle of it."""

from bench import JACOBI, check, check_success, jacobi_results, nodes_lost


def parity_dies_at(point, spares, mode="rs:3+2"):
    """A PE dies, with its node where there are only two spares, and in the recovery, or in the checkpoint, one of another
    node does at that point."""

    def case(bench):
        expected = jacobi_results(bench, 5)
        setting = {"SHMEM_FT_PRETEND_NODES": "5", "SHMEM_FT_BACKUP_MODE": mode,
                   "SHMEM_FT_FAULTS": f"kill pe 2 at checkpoint_enter visit 5; kill pe 0 at {point}"}
        outcome = bench.job(5, spares, "jacobi1d", *JACOBI, **setting).finish()
        check_success(outcome, expected)
        check(f"kill pe 0 at {point} (" in outcome.stderr, "nobody has come to that point", outcome)

    return case


def left_torn(bench):
    """A PE dies while its local copy follows a commit, on a node without a spare: a neighbour there makes the copy whole, and the
    substitute reads it from another node."""
    expected = jacobi_results(bench, 4)
    setting = {"SHMEM_FT_PRETEND_NODES": "2", "SHMEM_FT_BACKUP_MODE": "xor:2",
               "SHMEM_FT_FAULTS": "kill pe 1 at update_middle visit 4"}
    outcome = bench.job(4, 1, "jacobi1d", *JACOBI, **setting).finish()
    check_success(outcome, expected)
    check("process 4 on pretended node 0 took over" in outcome.stderr, "it has not moved", outcome)


def parity_told(bench):
    """Nodes on which there can be no groups, or only smaller ones; the result is right in any case."""
    for pes, nodes, mode, text in ((5, 2, "xor:4", "each PE has a copy on another node instead, as with double"),
                                   (6, 3, "rs:6+2", "the PEs are on too few nodes for groups of 8; there are some of 3")):
        expected = jacobi_results(bench, pes)
        setting = {"SHMEM_FT_PRETEND_NODES": str(nodes), "SHMEM_FT_BACKUP_MODE": mode,
                   "SHMEM_FT_FAULTS": "kill pe 1 at checkpoint_leave visit 3"}
        outcome = bench.job(pes, nodes, "jacobi1d", *JACOBI, **setting).finish()
        check_success(outcome, expected)
        check(text in outcome.stderr, f"not told: {text}", outcome)


CASES = {
    # Then a process of a node that has spares: it has what it needs there.
    "parity": nodes_lost("xor:5", 1, [4]),
    "parity-lost": nodes_lost("xor:5", 2, [], r"PEs? 1\b.*keep parity of each other.*the data is lost"),
    "parity-two": nodes_lost("rs:3+2", 2, [4]),
    "parity-ofi": nodes_lost("rs:3+2", 2, [4], SHMEM_TRANSPORT="ofi"),
    "parity-dies-folding": parity_dies_at("parity_fold visit 200", 2),
    "parity-dies-updating": parity_dies_at("update_middle visit 4", 2),
    "parity-dies-making-anew": parity_dies_at("parity_anew", 2),
    "parity-dies-restoring": parity_dies_at("restore_begin", 10),
    "parity-left-torn": left_torn,
    "parity-told": parity_told,
}
