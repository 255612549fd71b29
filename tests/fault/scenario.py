"""What goes wrong in one run of the campaign, drawn from a seed: a scenario is a list of kills.

The same seed gives the same scenario. It cannot give the same run to the last microsecond: real processes are killed
at real times. Most times are therefore counted from an event of the job (a commit, a failure noticed, a PE taken),
which lands repeated runs in the same phase.
"""

import dataclasses
import random
import signal

# How a process fails, with weights. SIGUSR1 and SIGUSR2 are understood by the programs in apps/: _exit(3) at once,
# and exit(3) at the next step.
KINDS = [(signal.SIGKILL, 6), (signal.SIGSEGV, 3), (signal.SIGABRT, 1), (signal.SIGUSR1, 2), (signal.SIGUSR2, 2)]


@dataclasses.dataclass(frozen=True)
class Kill:
    trigger: str  # "commit", "checkpoint", "failure_seen", "pe_taken", "restarted", "now"
    delay_ms: float  # after the trigger; for "checkpoint": relative to the expected moment
    victim: str  # "pe" or "spare"
    number: int  # the PE, or which of the sleeping spares
    signal: int
    nth: int = 1  # "checkpoint": that many commits after the first one

    def __str__(self) -> str:
        nth = f" {self.nth}" if self.trigger == "checkpoint" else ""
        name = signal.Signals(self.signal).name
        return f"{name} to {self.victim} {self.number} {self.delay_ms:.1f} ms after {self.trigger}{nth}"


@dataclasses.dataclass(frozen=True)
class Scenario:
    pes: int
    spares: int
    mode: str  # SHMEM_FT_BACKUP_MODE
    kills: tuple

    def __str__(self) -> str:
        return f"{self.pes} PEs + {self.spares}, {self.mode}: " + "; ".join(str(kill) for kill in self.kills)


def are_partners(a: int, b: int, pes: int) -> bool:
    """One of them holds the other's copy: the next PE does, round the ring."""
    return (a - b) % pes == 1 or (b - a) % pes == 1


def _kind(rng: random.Random) -> int:
    return rng.choices([kind for kind, _ in KINDS], [weight for _, weight in KINDS])[0]


def _first_kill(rng: random.Random, pes: int, run_ms: float) -> Kill:
    pe = rng.randrange(pes)
    how = rng.random()
    if how < 0.5:
        return Kill("commit", rng.uniform(0.0, run_ms), "pe", pe, _kind(rng))
    # Around the next commit: some milliseconds before it ends to just after.
    return Kill("checkpoint", rng.uniform(-3.0, 0.5), "pe", pe, _kind(rng), nth=rng.randrange(1, 12))


def _apart_from(rng: random.Random, pe: int, pes: int) -> int:
    """A PE that is no partner of pe; pe itself (its substitute dies) where there is none."""
    others = [other for other in range(pes) if other != pe and not are_partners(pe, other, pes)]
    return rng.choice(others) if others else pe


def _single(rng, pes, run_ms, spares):
    return [_first_kill(rng, pes, run_ms)]


def _two_at_once(rng, pes, run_ms, spares):
    first = _first_kill(rng, pes, run_ms)
    return [first, Kill("now", 0.0, "pe", _apart_from(rng, first.number, pes), _kind(rng))]


def _one_after_another(rng, pes, run_ms, spares):
    kills = [_first_kill(rng, pes, run_ms / 2)]
    for _ in range(spares - 1):
        kills.append(Kill("restarted", rng.uniform(1.0, run_ms / 3), "pe", rng.randrange(pes), _kind(rng)))
    return kills


def _during_recovery(rng, pes, run_ms, spares):
    """Another PE, or the substitute, dies while the first death is being repaired."""
    first = _first_kill(rng, pes, run_ms)
    if rng.random() < 0.5:
        return [first, Kill("pe_taken", rng.uniform(0.0, 3.0), "pe", first.number, signal.SIGKILL)]
    other = _apart_from(rng, first.number, pes)
    return [first, Kill("failure_seen", rng.uniform(0.0, 6.0), "pe", other, signal.SIGKILL)]


def _sleeping_spare(rng, pes, run_ms, spares):
    spare = Kill("commit", rng.uniform(0.0, run_ms / 2), "spare", rng.randrange(spares), signal.SIGKILL)
    if spares == 1:
        return [spare]
    return [spare, Kill("now", rng.uniform(0.0, run_ms / 3), "pe", rng.randrange(pes), _kind(rng))]


def draw(seed: int, run_ms: float) -> Scenario:
    """run_ms: how long a fault-free run computes between its first commit and its end."""
    rng = random.Random(seed)
    pes = rng.choice([3, 4, 4, 5])
    shapes = [(_single, 8, 1), (_two_at_once, 3, 2), (_one_after_another, 3, 2), (_during_recovery, 4, 2), (_sleeping_spare, 2, 1)]
    shape, _, spares_min = rng.choices(shapes, [weight for _, weight, _ in shapes])[0]
    spares = rng.randint(spares_min, 3)
    mode = "single" if rng.random() < 0.3 else "double"
    return Scenario(pes, spares, mode, tuple(shape(rng, pes, run_ms, spares)))
