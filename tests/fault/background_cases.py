"""Checkpoints that are made while the program goes on: what is written meanwhile is in none of them."""

from bench import check, check_success

PES = 3
SPARSE = ("--part", "20", "--pages", "4000", "--steps", "24")


def results(bench, *words):
    outcome = bench.run(PES, 0, "background", *words)
    check(outcome.exit_code == 0 and len(outcome.results()) == PES, "the run without a death failed", outcome)
    return outcome.results()


def survives(faults, *words, spares=2, **env):
    """One job for each schedule."""

    def case(bench):
        expected = results(bench, *words)
        for schedule in faults:
            outcome = bench.run(PES, spares, "background", *words, SHMEM_FT_FAULTS=schedule, **env)
            check_success(outcome, expected)
            died = outcome.stderr.count("took over after")
            check(died == schedule.count("kill") + schedule.count("exit"), f"{died} have died of: {schedule}", outcome)

    return case


def killed(*visits, pe=1):
    return [f"kill pe {pe} at checkpoint_enter visit {visit}" for visit in visits]


def same_without_deaths(bench):
    """However the program waits, and whatever kind of checkpoint is in between."""
    expected = results(bench, *SPARSE)
    for words in (("--wait", "1"), ("--wait", "2"), ("--wait", "2", "--mixed")):
        check_success(bench.run(PES, 0, "background", *SPARSE, *words), expected)


def made_in_the_call(bench):
    """A PE that gets no memory for it: nobody goes on in the background, and the job does."""
    expected = results(bench)
    made = 0
    for visit in range(1, 9):  # the last file that a process makes is this one
        fault = f"fail EMFILE pe 1 at call_make_memory visit {visit}"
        outcome = bench.run(PES, 1, "background", SHMEM_FT_FAULTS=fault + "; kill pe 2 at update_middle visit 9")
        if "are made in shmem_ft_checkpoint_nb itself" in outcome.stderr:
            made += 1
            check_success(outcome, expected)
    check(made == 1, f"{made} jobs have said that it is made in the call", outcome)


HELD = {"SHMEM_FT_BACKGROUND": "protect"}
BIG = ("--pages", "3000", "--steps", "16")  # a dozen chunks of the heap


def own_handler(bench):
    """Who takes SIGSEGV holds nobody up any more, says so once, and everybody copies from then on."""
    for words in ((), ("--handler", "5")):
        outcome = bench.run(PES, 1, "background", *words, SHMEM_FT_FAULTS="kill pe 2 at checkpoint_enter visit 12", **HELD)
        check_success(outcome, results(bench))
        said = outcome.stderr.count("of PE 1 has a handler of its own for SIGSEGV")
        check(said == (1 if words else 0), f"it was said {said} times", outcome)


def held_on_one_node_only(bench):
    """Elsewhere the call copies, and says so once."""
    outcome = bench.run(PES, 0, "background", SHMEM_FT_PRETEND_NODES="3", **HELD)
    check_success(outcome, results(bench))
    said = outcome.stderr.count("is for jobs on one node")
    check(said == 1, f"it was said {said} times", outcome)


CASES = {
    # The same where writers wait for what has not been copied yet; deaths of those for whom others wait, too.
    "background-held": survives(killed(7, 8, 9) + killed(12, 13, pe=2), *BIG, **HELD),
    "background-held-tracked": survives(killed(7, 12, 13), *SPARSE, "--mixed", SHMEM_FT_TRACKING="check", **HELD),
    "background-held-named": survives(killed(9, 14), *SPARSE, SHMEM_FT_TRACKING="on", **HELD),
    "background-held-owner-dies": survives(
        [f"kill pe {pe} at {point} visit {visit}" for pe in (0, 1) for visit in (3, 6)
         for point in ("still_begin", "still_middle", "still_end", "background_begin", "replicate_begin")], *BIG, **HELD),
    "background-held-number-again": survives(
        ["kill pe 2 at still_middle visit 6; kill pe 1 at replicate_end visit 9"], *SPARSE, "--mixed", SHMEM_FT_TRACKING="on",
        **HELD),
    "background-held-exit": survives(
        [f"exit 1 pe {pe} at {point} visit 7" for pe in (1, 2) for point in ("still_middle", "replicate_middle")],
        *SPARSE, "--wait", "2", **HELD),
    "background-held-own-handler": own_handler,
    "background-held-between-nodes": held_on_one_node_only,
    "background-same": same_without_deaths,
    "background-made-in-the-call": made_in_the_call,
    # What the program writes to at once, and nobody waits: PE 1 comes to the next checkpoint, and the one before counts.
    "background-cut": survives(killed(7, 8, 9, 10) + killed(12, 13, pe=2)),
    "background-cut-between-nodes": survives(killed(7, 8, 9), SHMEM_FT_PRETEND_NODES="3"),
    "background-tracked": survives(killed(7, 12, 13, 14), *SPARSE, "--mixed", SHMEM_FT_TRACKING="check"),
    # A version that fails, and its number is that of one made in the call.
    "background-number-again": survives(
        ["kill pe 1 at replicate_middle visit 8; kill pe 0 at checkpoint_enter visit 11",
         "kill pe 2 at still_end visit 6; kill pe 1 at replicate_end visit 9"], *SPARSE, "--mixed", SHMEM_FT_TRACKING="on"),
    "background-single-copy": survives(killed(7, 8), SHMEM_FT_BACKUP_MODE="single"),
    "background-replicas": survives(killed(7, 8), SHMEM_FT_PRETEND_NODES="3", SHMEM_FT_BACKUP_MODE="replica:2"),
    "background-parity": survives(killed(7, 8), SHMEM_FT_PRETEND_NODES="3", SHMEM_FT_BACKUP_MODE="xor:3"),
    # The thread that makes the version ends the process, while the program's goes on for a moment.
    "background-exit": survives(
        [f"exit 1 pe {pe} at {point} visit {visit}" for pe in (1, 2) for visit in (7, 10)
         for point in ("replicate_middle", "background_end")], *SPARSE, "--wait", "2"),
}
