"""What goes wrong in one run of the campaign, drawn from a seed: a scenario is a list of kills, and of stops.

A stop for ever is a kill in slow motion: the library ends a process that has stood still for SHMEM_FT_HANG_TIMEOUT,
which is short in such a scenario. A short stop is no failure and nothing may come of it but a delay.

The same seed gives the same scenario on every machine: times are parts of a run's length or short distances from an
event of the job (a commit, a failure noticed, a PE taken). It cannot give the same run to the last microsecond, because
real processes are killed at real times; but repeated runs land in the same phase.
"""

import dataclasses
import random
import signal

# How a process fails, with weights. SIGUSR1 and SIGUSR2 are understood by the programs in apps/: _exit(3) at once,
# and exit(3) at the next step.
KINDS = [(signal.SIGKILL, 6), (signal.SIGSEGV, 3), (signal.SIGABRT, 1), (signal.SIGUSR1, 2), (signal.SIGUSR2, 2),
         (signal.SIGSTOP, 2)]

# With a stop for ever; with short stops only the default, a minute, cannot be reached.
SHORT_HANG_TIMEOUT_MS = 300


@dataclasses.dataclass(frozen=True)
class Kill:
    trigger: str  # "commit", "checkpoint", "failure_seen", "pe_taken", "restarted", "now"
    part: float  # of the length of a run without kills, after the trigger
    delay_ms: float  # on top of that; for "checkpoint": relative to the expected moment, may be negative
    victim: str  # "pe" or "spare"
    number: int  # the PE, or which of the sleeping spares
    signal: int
    nth: int = 1  # "checkpoint": that many commits after the first one
    stop_ms: float = 0.0  # not 0: a short stop, SIGCONT follows after that time

    @property
    def is_failure(self) -> bool:
        return self.stop_ms == 0.0

    @property
    def is_stop_for_ever(self) -> bool:
        return self.signal == signal.SIGSTOP and self.is_failure

    def __str__(self) -> str:
        nth = f" {self.nth}" if self.trigger == "checkpoint" else ""
        when = f"{self.trigger}{nth} + {self.part:.2f} run {self.delay_ms:+.1f} ms"
        name = signal.Signals(self.signal).name + ("" if self.is_failure else f" of {self.stop_ms:.0f} ms")
        return f"{name} to {self.victim} {self.number}: {when}"


@dataclasses.dataclass(frozen=True)
class Scenario:
    pes: int
    spares: int
    mode: str  # SHMEM_FT_BACKUP_MODE
    kills: tuple

    @property
    def hang_timeout_ms(self) -> int:
        """0: the default."""
        return SHORT_HANG_TIMEOUT_MS if any(kill.is_stop_for_ever for kill in self.kills) else 0

    def __str__(self) -> str:
        return f"{self.pes} PEs + {self.spares}, {self.mode}: " + "; ".join(str(kill) for kill in self.kills)


def are_partners(a: int, b: int, pes: int) -> bool:
    """One of them holds the other's copy on one node: the next PE does, round the ring. (verdict.py knows of nodes.)"""
    return (a - b) % pes == 1 or (b - a) % pes == 1


def _kind(rng: random.Random) -> int:
    return rng.choices([kind for kind, _ in KINDS], [weight for _, weight in KINDS])[0]


def _first_kill(rng: random.Random, pes: int, latest: float = 1.0) -> Kill:
    pe = rng.randrange(pes)
    how = rng.random()
    if how < 0.5:
        return Kill("commit", rng.uniform(0.0, latest), 0.0, "pe", pe, _kind(rng))
    # Around the next commit: some milliseconds before it ends to just after.
    return Kill("checkpoint", 0.0, rng.uniform(-3.0, 0.5), "pe", pe, _kind(rng), nth=rng.randrange(1, 12))


def _apart_from(rng: random.Random, pe: int, pes: int) -> int:
    """A PE that is no partner of pe; pe itself (its substitute dies) where there is none."""
    others = [other for other in range(pes) if other != pe and not are_partners(pe, other, pes)]
    return rng.choice(others) if others else pe


def _single(rng, pes, spares):
    return [_first_kill(rng, pes)]


def _two_at_once(rng, pes, spares):
    first = _first_kill(rng, pes)
    return [first, Kill("now", 0.0, 0.0, "pe", _apart_from(rng, first.number, pes), _kind(rng))]


def _one_after_another(rng, pes, spares):
    kills = [_first_kill(rng, pes, 0.5)]
    for _ in range(spares - 1):
        kills.append(Kill("restarted", rng.uniform(0.0, 0.3), 1.0, "pe", rng.randrange(pes), _kind(rng)))
    return kills


def _during_recovery(rng, pes, spares):
    """Another PE, or the substitute, dies while the first death is being repaired."""
    first = _first_kill(rng, pes)
    if rng.random() < 0.5:
        return [first, Kill("pe_taken", 0.0, rng.uniform(0.0, 3.0), "pe", first.number, signal.SIGKILL)]
    other = _apart_from(rng, first.number, pes)
    return [first, Kill("failure_seen", 0.0, rng.uniform(0.0, 6.0), "pe", other, signal.SIGKILL)]


def _sleeping_spare(rng, pes, spares):
    spare = Kill("commit", rng.uniform(0.0, 0.5), 0.0, "spare", rng.randrange(spares),
                 rng.choices([signal.SIGKILL, signal.SIGSTOP], [3, 1])[0])
    if spares == 1:
        return [spare]
    return [spare, Kill("now", rng.uniform(0.0, 0.3), 0.0, "pe", rng.randrange(pes), _kind(rng))]


def _short_stop(rng, pes, spares):
    """One or two processes stand still for a moment; in half of the runs a PE dies, perhaps meanwhile."""
    kills = []
    for _ in range(rng.randint(1, 2)):
        victim = ("spare", rng.randrange(spares)) if rng.random() < 0.2 else ("pe", rng.randrange(pes))
        kills.append(Kill("commit", rng.uniform(0.0, 0.6), 0.0, *victim, signal.SIGSTOP, stop_ms=rng.uniform(50, 150)))
    if rng.random() < 0.5:
        how = rng.choice([kind for kind, _ in KINDS if kind != signal.SIGSTOP])
        kills.append(Kill("now", 0.0, rng.uniform(0.0, 200.0), "pe", rng.randrange(pes), how))
    return kills


def _anything(rng, pes, spares):
    """No rule is kept: partners may die together and spares may run out, so this may rightly end in an error."""
    kills = [_first_kill(rng, pes)]
    for _ in range(rng.randint(1, 3)):
        trigger = rng.choice(["now", "failure_seen", "pe_taken", "restarted"])
        kills.append(Kill(trigger, 0.0, rng.uniform(0.0, 4.0), "pe", rng.randrange(pes), _kind(rng)))
    return kills


# What happens, its weight, and the spares that it takes.
SHAPES = [(_single, 8, 1), (_two_at_once, 3, 2), (_one_after_another, 3, 2), (_during_recovery, 4, 2),
          (_sleeping_spare, 2, 1), (_short_stop, 3, 1), (_anything, 3, 1)]


def draw_burst(seed: int) -> Scenario:
    """Any number of PEs at one moment, all of them included; half of the time some that took over as well."""
    rng = random.Random(seed)
    pes = rng.randint(3, 6)
    first = _first_kill(rng, pes)
    first = dataclasses.replace(first, signal=signal.SIGKILL)
    kills = [first]
    others = [pe for pe in range(pes) if pe != first.number]
    rng.shuffle(others)
    for pe in others[: rng.randint(0, pes - 1)]:
        kills.append(Kill("now", 0.0, 0.0, "pe", pe, signal.SIGKILL))
    if rng.random() < 0.5:
        trigger = rng.choice(["failure_seen", "pe_taken", "restarted"])
        kills.append(Kill(trigger, 0.0, rng.uniform(0.0, 6.0), "pe", rng.randrange(pes), signal.SIGKILL))
        for _ in range(rng.randint(0, pes - 1)):
            kills.append(Kill("now", 0.0, 0.0, "pe", rng.randrange(pes), signal.SIGKILL))
    mode = "single" if rng.random() < 0.3 else "double"
    return Scenario(pes, len(kills) + rng.randint(0, 2), mode, tuple(kills))


def draw(seed: int) -> Scenario:
    rng = random.Random(seed)
    pes = rng.choice([3, 4, 4, 5])
    shape, _, spares_min = rng.choices(SHAPES, [weight for _, weight, _ in SHAPES])[0]
    spares = rng.randint(spares_min, 3)
    draw_of_mode = rng.random()
    mode = "none" if draw_of_mode < 0.04 else "single" if draw_of_mode < 0.34 else "double"
    return Scenario(pes, spares, mode, tuple(shape(rng, pes, spares)))
