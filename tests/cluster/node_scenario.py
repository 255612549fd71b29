"""What goes wrong in one run of the campaign of nodes, drawn from a seed.

The job has 8 processes on 4 hosts, rank r on host r mod 4: the PEs first, then the spares. node0 has the launcher and is
never lost: it is the one host that a job depends on (docs/launchers.md).

The same seed gives the same scenario everywhere, with real times.
"""

import dataclasses
import random

HOSTS = 4
PROCESSES = 8
# SHMEM_FT_NODE_TIMEOUT and SHMEM_FT_HANG_TIMEOUT of the jobs.
BOUND_MS = 500


@dataclasses.dataclass(frozen=True)
class Step:
    what: str  # "lose", "close", "process", "daemon", "cut", "down", "blink", "freeze", "stop"
    target: int  # a host, or for "process" and "stop" a PE
    trigger: str  # "commit": after the first one; "restarted": after the last blow was repaired; "seen"; "now"
    part: float = 0.0  # of the length of a run without kills
    delay_ms: float = 0.0
    hold_ms: float = 0.0  # "blink", "freeze": until it is undone

    def __str__(self) -> str:
        hold = f" for {self.hold_ms:.0f} ms" if self.hold_ms else ""
        return f"{self.what} {self.target}{hold}: {self.trigger} + {self.part:.2f} run {self.delay_ms:+.1f} ms"


@dataclasses.dataclass(frozen=True)
class Scenario:
    pes: int
    mode: str  # SHMEM_FT_BACKUP_MODE
    steps: tuple

    @property
    def spares(self) -> int:
        return PROCESSES - self.pes

    def __str__(self) -> str:
        return f"{self.pes} PEs + {self.spares}, {self.mode}: " + "; ".join(str(step) for step in self.steps)


def _host(rng) -> int:
    return rng.randrange(1, HOSTS)


def _loss(rng) -> str:
    return rng.choices(["lose", "close"], [3, 1])[0]


def _one_host(rng, pes):
    return [Step(_loss(rng), _host(rng), "commit", rng.uniform(0.0, 0.9), rng.uniform(0.0, 5.0))]


def _two_hosts(rng, pes):
    """One after the other, the second when the first has been repaired."""
    first, second = rng.sample(range(1, HOSTS), 2)
    return [Step(_loss(rng), first, "commit", rng.uniform(0.0, 0.4)),
            Step(_loss(rng), second, "restarted", rng.uniform(0.0, 0.3), rng.uniform(0.0, 20.0))]


def _in_recovery(rng, pes):
    """A process dies while the loss of a host is being repaired."""
    host = _host(rng)
    others = [pe for pe in range(pes) if pe % HOSTS != host]
    return [Step(_loss(rng), host, "commit", rng.uniform(0.0, 0.8)),
            Step("process", rng.choice(others), "seen", 0.0, rng.uniform(0.0, 30.0))]


def _one_process(rng, pes):
    return [Step("process", rng.randrange(pes), "commit", rng.uniform(0.0, 0.9), rng.uniform(0.0, 5.0))]


def _daemon(rng, pes):
    return [Step("daemon", _host(rng), "commit", rng.uniform(0.0, 0.8))]


def _cut(rng, pes):
    return [Step(rng.choice(["cut", "cut", "down"]), _host(rng), "commit", rng.uniform(0.0, 0.8))]


def _blink(rng, pes):
    """A link that is cut for less than the bound: nothing may come of it but a delay."""
    return [Step("blink", _host(rng), "commit", rng.uniform(0.0, 0.8), hold_ms=rng.uniform(20.0, BOUND_MS / 3))]


def _freeze(rng, pes):
    """A host that stands still for longer than the bound, is declared lost, and wakes up."""
    return [Step("freeze", _host(rng), "commit", rng.uniform(0.0, 0.5), hold_ms=rng.uniform(2.5, 4.0) * BOUND_MS)]


def _stop(rng, pes):
    """A PE that stands still for ever."""
    return [Step("stop", rng.randrange(pes), "commit", rng.uniform(0.0, 0.8))]


# What happens, and its weight.
SHAPES = [(_one_host, 6), (_two_hosts, 4), (_in_recovery, 3), (_one_process, 3), (_daemon, 2), (_cut, 3), (_blink, 1),
          (_freeze, 2), (_stop, 1)]


def draw(seed: int) -> Scenario:
    rng = random.Random(seed)
    shape, _ = rng.choices(SHAPES, [weight for _, weight in SHAPES])[0]
    pes = 4 if shape is _two_hosts else rng.choice([4, 4, 5, 6])
    mode = "single" if rng.random() < 0.15 else "double"
    return Scenario(pes, mode, tuple(shape(rng, pes)))


def draw_at_once(seed: int, n_hosts: int, mode: str = "") -> Scenario:
    """So many hosts at one moment, or the later ones while the loss of the first is noticed or repaired; each PE has copies
    on as many others, or what the mode says."""
    rng = random.Random(seed)
    hosts = rng.sample(range(1, HOSTS), n_hosts)
    longest_ms = rng.choice([0.0, 20.0, BOUND_MS, 2.0 * BOUND_MS])
    steps = [Step(_loss(rng), hosts[0], "commit", rng.uniform(0.0, 0.9), rng.uniform(0.0, 5.0))]
    steps += [Step(_loss(rng), host, "now", delay_ms=rng.uniform(0.0, longest_ms)) for host in hosts[1:]]
    return Scenario(4, mode or f"replica:{n_hosts}", tuple(steps))
