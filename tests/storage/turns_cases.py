"""Only so many nodes write at once (SHMEM_FT_STORE_NODES): in turn, behind a failure, behind a death."""

import os

from jobs_bench import check, check_right, results

JACOBI = ["jacobi1d", "--cells", "6000", "--steps", "480", "--halo", "16", "--pace", "60"]
NODES = {"SHMEM_FT_PRETEND_NODES": "3", "SHMEM_FT_STORE_NODES": "1", "SHMEM_FT_STORE_INTERVAL": "4"}


def written(bench, number):
    """For each PE of a complete version, when its file was written last, and its bytes without holes."""
    files = [os.stat(os.path.join(bench.version(number), name))
             for name in sorted(os.listdir(bench.version(number))) if name.startswith("pe-")]
    return [(file.st_mtime, 512 * file.st_blocks) for file in files]


def in_turn(bench):
    """Each file takes its time, by its size, and the next one is not begun before."""
    rate = 1 << 20
    expected = results(bench.run("-n", "3", JACOBI))
    check_right(bench.run("-n", "3", JACOBI, **bench.store(**NODES, SHMEM_FT_STORE_RATE=str(rate))), expected)
    check(bench.complete(), "nothing was stored")
    bench.check_stored()
    for number in bench.complete():
        files = written(bench, number)
        check(len(files) == 3, f"version {number} has {len(files)} files")
        for (before, _), (behind, size) in zip(files, files[1:]):
            least = 0.5 * size / rate  # pieces of a block of the disk count as one
            check(least > 0.05 and behind - before >= least,
                  f"version {number}: a file of {size} bytes was there {behind - before:.3f} s behind the one of the node "
                  f"before, and takes at least {least:.3f}")


def behind_a_failure(bench):
    """The first PE cannot write its first file: nobody waits for it beyond the next version that is due."""
    expected = results(bench.run("-n", "3", JACOBI))
    outcome = bench.run("-n", "3", JACOBI, SHMEM_FT_FAULTS="fail ENOSPC process 0 at call_store_write visit 1",
                        **bench.store(**NODES))
    check_right(outcome, expected)
    check("is not stored" in outcome.stderr, "no file failed", outcome)
    check(len(bench.complete()) == 2, f"complete: {bench.complete()}", outcome)
    bench.check_stored()


def behind_a_death(bench):
    """Of a PE in the middle of its file, which its substitute writes, and of one that waits."""
    expected = results(bench.run("-n", "3", JACOBI))
    for schedule in ("kill pe 0 at store_block visit 2", "kill pe 2 at checkpoint_enter visit 6",
                     "kill pe 1 at store_begin visit 1"):
        outcome = bench.run("-n", "3", "--spares", "3", JACOBI, SHMEM_FT_FAULTS=schedule,
                            **bench.store(**NODES, SHMEM_FT_STORE_RATE=str(1 << 20)))
        check_right(outcome, expected)
        check(bench.complete(), f"nothing was stored: {schedule}", outcome)
        bench.check_stored()
        bench.shmem_ft("remove", bench.folder)


CASES = {"in-turn": in_turn, "behind-a-failure": behind_a_failure, "behind-a-death": behind_a_death}
