"""Cases about teams, contexts, locks and signals that live through deaths (handles.c). cases.py runs them."""

import random
import time

from bench import await_commit, await_repair, check, check_success, kill_pes

# Steps of handles.c: handles have come (0), been replaced (2), locks are held (4), handles have gone (7, 8).
CHANGES = [0, 2, 4, 7, 8]


def dies(deaths, pes=4, action="return", **env):
    """deaths: STEP.PE.ROUND each."""
    def case(bench):
        expected = bench.run(pes, 0, "handles")
        check(expected.exit_code == 0 and len(expected.results()) == pes, "the run without a death failed", expected)
        check(all(line.endswith(" 1") for line in expected.results()), "a lock stays taken", expected)
        outcome = bench.run(pes, len(deaths), "handles", "--die", ",".join(deaths), "--action", action, **env)
        check_success(outcome, expected.results())
        taken = [event for event in outcome.events if event.kind == "pe_taken"]
        check(len(taken) == len(deaths), f"{len(taken)} of {len(deaths)} deaths took place", outcome)

    return case


def at_any_time(seed, pes=4, deaths=3):
    """From outside, at times that are drawn, one after the other."""
    def case(bench):
        expected = bench.run(pes, 0, "handles")
        chance = random.Random(seed)
        job = bench.job(pes, deaths, "handles", "--action", "jump", "--pace", "15")
        await_commit(job, 1)
        for _ in range(deaths):
            time.sleep(chance.uniform(0.0, 0.05))
            kill_pes(job, [chance.randrange(pes)])
            await_repair(job)
        check_success(job.finish(), expected.results())

    return case


CASES = {
    "handles-everybody-once": dies([f"{step}.{(at + 3) % 4}.0" for at, step in enumerate(CHANGES)]),
    "handles-with-jumps": dies([f"{step}.{(at + 1) % 4}.0" for at, step in enumerate(CHANGES)], action="jump"),
    "handles-lock-holders": dies(["4.1.0", "4.3.0", "4.1.1", "5.3.0"]),
    "handles-one-after-the-other": dies(["2.0.0", "2.2.1", "7.1.0", "7.3.1"]),
    "handles-substitute-dies-again": dies(["2.1.0", "2.1.1", "2.1.2", "4.3.0", "4.3.1"], action="jump"),
    "handles-five-pes": dies(["0.4.0", "2.3.0", "8.0.0", "8.2.0"], pes=5, SHMEM_FT_BACKUP_MODE="single"),
    "handles-any-time": at_any_time(1),
}
