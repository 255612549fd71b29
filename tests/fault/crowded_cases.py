"""No memory for another copy: the checkpoint says so on all PEs, the version before stays, and nobody is killed for it."""

import contextlib
import os
import re
import uuid

from bench import Bench, Launcher, check, check_error, check_success

HEAP = {"SHMEM_SYMMETRIC_SIZE": "128M"}
LINE = r"shmem-ft: warning: no checkpoint: the copies of the (\d+) PEs on node (\d+) take .* more, and .* may be taken \((.*)\); (.*)"
GROUPS = "/sys/fs/cgroup"
PACE = "120"  # while there is room for now, PEs ask ten times a second at most


def refused(outcome):
    return [int(step) for step in re.findall(r"^no room at (\d+)$", outcome.stdout, re.M)]


def told(outcome):
    return [re.fullmatch(LINE, line).groups() for line in outcome.stderr.splitlines() if "no checkpoint" in line]


def peaceful(bench, pes, *sizes):
    outcome = bench.run(pes, 0, "crowded", *sizes, **HEAP)
    check(outcome.exit_code == 0 and len(outcome.results()) == pes and not refused(outcome), "the run with room failed", outcome)
    return outcome.results()


def never_room(limit, **env):
    def case(bench):
        outcome = bench.run(3, 0, "crowded", "20", SHMEM_FT_MEMORY_LIMIT=limit, **HEAP, **env)
        check_success(outcome, peaceful(bench, 3, "20"))
        check(refused(outcome) == list(range(13)), f"no room at {refused(outcome)}", outcome)
        lines = told(outcome)
        check(len(lines) == 1 and lines[0][3] == "there is none to go back to", f"told {lines}", outcome)

    return case


def room_for_a_while(bench):
    """Whoever dies after the last version that found room goes back to that, and gets the same result."""
    expected = peaceful(bench, 3, "10", "60")
    limited = {"SHMEM_FT_MEMORY_LIMIT": "400M", **HEAP}
    outcome = bench.run(3, 0, "crowded", "10", "60", PACE, **limited)
    check_success(outcome, expected)
    check(refused(outcome) == list(range(7, 13)), f"no room at {refused(outcome)}", outcome)
    check([line[3] for line in told(outcome)] == ["version 7 stays"], f"told {told(outcome)}", outcome)
    for point in ("checkpoint_enter visit 10", "checkpoint_leave visit 5", "replicate_middle visit 6"):
        outcome = bench.run(3, 1, "crowded", "10", "60", PACE, SHMEM_FT_FAULTS=f"kill pe 1 at {point}", **limited)
        check_success(outcome, expected)
        check(any(event.kind == "pe_taken" for event in outcome.events), "nobody has died", outcome)
        check(refused(outcome)[-6:] == list(range(7, 13)), f"no room at {refused(outcome)}", outcome)


def death_while_asking(bench):
    """PEs that hear of the death instead of the answer are in the same recovery as those that have heard it."""
    expected = peaceful(bench, 4, "10")
    # PE 0 asks, and tells one after the other: at its fourth visit the first one in the second checkpoint.
    for who in ("pe 2 at room_asked visit 3", "pe 2 at room_told visit 3", "pe 0 at room_asked visit 3", "pe 0 at room_told visit 4",
                "pe 0 at room_told visit 5"):
        outcome = bench.run(4, 1, "crowded", "10", "0", PACE, SHMEM_FT_MEMORY_LIMIT="160M", SHMEM_FT_FAULTS=f"kill {who}", **HEAP)
        check_success(outcome, expected)
        check(any(event.kind == "pe_taken" for event in outcome.events), "nobody has died", outcome)


@contextlib.contextmanager
def control_group(limit):
    """Version 1 or 2, whichever bounds memory here. Yields None where none can be made."""
    base = next((path for path in (f"{GROUPS}/memory", GROUPS)
                 if os.path.exists(f"{path}/memory.limit_in_bytes") or os.path.exists(f"{path}/cgroup.controllers")), None)
    folder = f"{base}/shmem-ft-test-{uuid.uuid4().hex[:12]}"
    try:
        os.mkdir(folder)
    except OSError:
        yield None
        return
    try:
        file = next((name for name in ("memory.limit_in_bytes", "memory.max") if os.path.exists(f"{folder}/{name}")), None)
        if file:
            with open(f"{folder}/{file}", "w", encoding="ascii") as limit_file:
                limit_file.write(limit)
        yield folder if file else None
    finally:
        os.rmdir(folder)


class GroupLauncher(Launcher):
    """In a control group from the start."""

    def __init__(self, oshrun, group):
        super().__init__(oshrun)
        self.group = group

    def command(self, shape, events, program):
        words = super().command(shape, events, program)
        return ["sh", "-c", f'echo $$ > {self.group}/cgroup.procs; exec "$0" "$@"', *words]


def in_a_group_of(limit, judge):
    """Two PEs that use 60 MiB each."""
    def case(bench):
        expected = peaceful(bench, 2, "60")
        with control_group(limit) as group:
            if group is None:
                print("skipped: no control group of memory can be made here")
                return
            crowded = Bench(GroupLauncher(bench.launcher.oshrun, group), bench.programs, bench.timeout_s)
            judge(crowded.run(2, 0, "crowded", "60", **HEAP), expected, os.path.basename(group))

    return case


def refused_in(outcome, expected, group):
    """Where the kernel would kill somebody in the first checkpoint."""
    check_success(outcome, expected)
    check(refused(outcome) == list(range(13)), f"no room at {refused(outcome)}", outcome)
    check([group in line[2] for line in told(outcome)] == [True], f"told {told(outcome)}", outcome)


def killed_in(outcome, _, group):
    """The symmetric memory itself does not fit: the end says what the signal was for.

    What the PEs share is given back with the last of them, until when the kernel may go on to oshrun, which is in the group too.
    """
    check_error(outcome, r"killed by signal 9|oshrun: was killed while the job ran")
    check(re.search(rf"^oshrun: warning: the kernel has killed \d+ process(es)? of the control group /\S*{group} for want of memory",
                    outcome.stderr, re.M), "no word of memory", outcome)


CASES = {
    "no-room": never_room("150M"),
    "no-room-single-copy": never_room("100M", SHMEM_FT_BACKUP_MODE="single"),
    "no-room-two-nodes": never_room("70M", SHMEM_FT_PRETEND_NODES="2"),
    "no-room-any-more": room_for_a_while,
    "death-while-asking-for-room": death_while_asking,
    "no-room-in-a-group": in_a_group_of("260M", refused_in),
    "killed-for-want-of-memory": in_a_group_of("60M", killed_in),
}
