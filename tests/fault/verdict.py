"""Judges the outcome of a run with kills against the result of a run without.

Exactly two ends are right: the fault-free result with exit code 0, or one named error with another exit code and no
wrong result. The error is right only where the library promises nothing; `excuses` works out from the events whether
that was so. It errs on the side of excusing only by the resolution of the events, never by the kind of the failure.
The text of the error has to give one of these reasons, and may name only PEs that have died, and how they did.
"""

import dataclasses
import re
import signal

from placement import groups_of, has_parity, holders_at, keepers, parity_of

RECOVERED = "recovered"
UNTOUCHED = "nothing to repair"
NAMED_ERROR = "named error"
WRONG = "WRONG"
HANG = "HANG"
FAILED = (WRONG, HANG)

BEFORE_FIRST = "a PE died before the first commit"
AFTER_LAST = "a PE died after the last commit"
NO_SPARE = "more deaths than spares"
UNPROTECTED = "a PE died between an initialisation block and the checkpoint after it"
PARTNERS = "partners died at once"
NO_COPIES = "no copies are kept"

# What the named error says, and the reasons that it may have.
TEXTS = [
    (r"no spare left to take over|no spare has come", (NO_SPARE,)),
    (r"before the first checkpoint was committed|before shmem_init was complete", (BEFORE_FIRST,)),
    (r"the data is lost", (PARTNERS,)),
    (r"no copies are kept", (NO_COPIES,)),
    (r"was initialised after the last checkpoint", (UNPROTECTED,)),
    (r"after the last shmem_checkpoint_all|^oshrun: PE \d+ (was killed|exited|ended)", (AFTER_LAST,)),
]
HUNG = 3  # SHMEM_FT_HUNG


@dataclasses.dataclass(frozen=True)
class Reference:
    """Of the run without kills."""

    results: list
    last_version: int
    run_ms: float  # from the first commit to the last


@dataclasses.dataclass(frozen=True)
class Rules:
    # Versions v such that a death between the commits of v and v + 1 ends the job rightly: an initialisation block
    # lies there.
    unprotected_after: tuple = ()
    nodes: int = 0  # pretended ones; in a job on one node no number of deaths at one moment is too many
    # SHMEM_FT_INTERVAL goes by time: how many versions there are differs from run to run.
    is_timed: bool = False


@dataclasses.dataclass(frozen=True)
class Verdict:
    kind: str
    why: str

    @property
    def failed(self) -> bool:
        return self.kind in FAILED


def _first_commits(events) -> dict:
    """Version -> earliest end of its checkpoint on any PE; rolled-back versions are never committed twice."""
    commits: dict = {}
    for event in events:
        if event.is_commit():
            commits[event.value] = min(commits.get(event.value, event.end_ns), event.end_ns)
    return commits


def _entered(events, version) -> int:
    """When the last of those that tell of it came to this version's checkpoint; 0: nobody tells. It was committed later,
    but maybe before the first end of it: PEs that have seen the commit still bring their copies up to date."""
    return max((event.begin_ns for event in events if event.is_commit() and event.value == version), default=0)


def _repairs(events) -> list:
    """When the job was whole again: per PE the end of its last restart or re-protection, as (begin, end)."""
    return [(e.begin_ns, e.end_ns) for e in events if e.kind == "span" and e.text in ("restart", "protect")]


def _deaths_seen(outcome) -> list:
    """(time, pe) of every process that died before its time, as the job itself noticed it, else as we sent it."""
    seen: dict = {}
    for event in outcome.events:
        if event.kind == "failure_seen":
            rank = event.value  # event.rank is who reported it
            seen[rank] = min(seen.get(rank, (event.begin_ns, event.pe)), (event.begin_ns, event.pe))
    for death in outcome.deaths:
        seen.setdefault(death.rank, (death.time_ns, death.pe))
    return sorted(seen.values())


def excuses(scenario, outcome, reference: Reference, rules: Rules) -> list:
    """The reasons why this job may rightly have ended with an error."""
    commits = _first_commits(outcome.events)
    deaths = _deaths_seen(outcome)
    sent = [death.time_ns for death in outcome.deaths]
    # A victim lives on for a while: until the next step (SIGUSR2), or until the kernel gets round to it.
    last_ns = max(sent + [death.sent_ns for death in outcome.deaths] + [time for time, _ in deaths], default=0)
    found = []
    if not commits or (sent and min(sent) <= min(commits.values())):
        found.append(BEFORE_FIRST)
    if rules.is_timed:
        # The programs print behind their last call, and PE 0 does it.
        is_after_last = bool(outcome.results()) or any(pe == 0 for _, pe in deaths)
    else:
        entered_ns = _entered(outcome.events, reference.last_version) or outcome.ended_ns
        is_after_last = entered_ns <= last_ns + 2_000_000
    if sent and is_after_last:
        found.append(AFTER_LAST)
    if deaths and scenario.mode == "none":
        found.append(NO_COPIES)
    if len(deaths) > scenario.spares:
        found.append(NO_SPARE)
    for version in rules.unprotected_after:
        begin = commits.get(version)
        end = commits.get(version + 1, outcome.ended_ns)
        # A death shortly before the commit may be noticed after it only.
        if begin is not None and any(begin - 5_000_000 <= time <= end + 5_000_000
                                     for time in sent + [time for time, _ in deaths]):
            found.append(UNPROTECTED)
    if rules.nodes < 2:
        return found  # the node has the copies of all its PEs
    if _died_with_nodes_of_keepers(scenario, outcome, rules, deaths):
        found.append(PARTNERS)
    return found


def _died_with_nodes_of_keepers(scenario, outcome, rules: Rules, deaths: list) -> bool:
    """Whether a PE has died, and all PEs of the nodes that kept a copy of it, and the job was not whole again in between;
    and no spare was left on those nodes either, which would have taken over there. With a single copy the PE need not have
    died: it has none of its own."""
    repairs = _repairs(outcome.events)
    dead_ranks = {death.rank for death in outcome.deaths}
    dead_ranks |= {event.value for event in outcome.events if event.kind == "failure_seen"}
    alive = [rank for rank in range(scenario.pes + scenario.spares) if rank not in dead_ranks]

    def were_at_once(one: int, other: int) -> bool:
        first, second = min(one, other), max(one, other)
        return not any(first < end <= second and begin >= first - 1 for begin, end in repairs)

    def is_lost(node: int, gone: set, holders: list) -> bool:
        return not any(rank % rules.nodes == node for rank in alive) and \
            all(other in gone for other, rank in enumerate(holders) if rank % rules.nodes == node)

    for time, pe in deaths:
        together = [(other_time, other) for other_time, other in deaths if were_at_once(time, other_time)]
        gone = {other for _, other in together}
        for at, _ in together:
            holders = holders_at(outcome.events, scenario.pes, at)
            if has_parity(scenario.pes, rules.nodes, scenario.mode):
                lost = [is_lost(rank % rules.nodes, gone, holders) for rank in holders]
                # When all PEs have died, what was agreed on has to be read on all nodes.
                if _is_any_group_lost(scenario, rules, lost) or (len(gone) >= scenario.pes and any(lost)):
                    return True
                continue
            who = keepers(holders, rules.nodes, scenario.mode)
            for lost in range(scenario.pes) if scenario.mode == "single" else [pe]:
                nodes = {holders[keeper] % rules.nodes for keeper in who[lost]}
                if any(rank % rules.nodes in nodes for rank in alive):
                    continue
                if lost >= 0 and all(other in gone for other, rank in enumerate(holders) if rank % rules.nodes in nodes):
                    return True
    return False


def _is_any_group_lost(scenario, rules: Rules, lost: list) -> bool:
    for group in groups_of(scenario.pes, rules.nodes, scenario.mode):
        if sum(lost[pe] for pe in group) > min(parity_of(scenario.mode)[1], len(group) - 1):
            return True
    return False


def starved(scenario, outcome) -> list:
    """Events of processes that were ended for standing still although nobody had stopped them. With a bound as short as
    that of a scenario with stops it is enough that the machine had no time for them."""
    stopped = {death.rank for death in outcome.deaths if death.signal == signal.SIGSTOP}
    return [event for event in outcome.events if event.kind == "failure_seen" and event.code >> 16 == HUNG
            and event.value not in stopped and scenario.hang_timeout_ms]


def _signals_by_rank(scenario, outcome) -> dict:
    signals: dict = {}
    for death in outcome.deaths:
        signals.setdefault(death.rank, set()).add(death.signal)
    for event in starved(scenario, outcome):
        signals.setdefault(event.value, set()).add(signal.SIGSTOP)
    return signals


def _unasked_failure(scenario, outcome) -> str:
    """A process that the job has found dead or hung although nobody did it any harm; empty: there is none."""
    signals = _signals_by_rank(scenario, outcome)
    for event in outcome.events:
        if event.kind != "failure_seen":
            continue
        sent = signals.get(event.value, set())
        if not sent:
            return f"process {event.value} failed (status {event.code:#x}), and nobody has harmed it"
        if event.code >> 16 == HUNG and signal.SIGSTOP not in sent:
            return f"process {event.value} was ended for standing still, and nobody has stopped it"
    return ""


def _signals_by_pe(scenario, outcome) -> dict:
    """What was sent to whoever was that PE."""
    by_rank = _signals_by_rank(scenario, outcome)
    signals: dict = {}
    for death in outcome.deaths:
        signals.setdefault(death.pe, set()).add(death.signal)
    for event in starved(scenario, outcome):
        signals.setdefault(event.pe, set()).add(signal.SIGSTOP)
    for event in outcome.events:  # a spare may have been taken while the signal was on its way
        if event.kind == "pe_taken" and event.rank in by_rank:
            signals.setdefault(event.pe, set()).update(by_rank[event.rank])
    return signals


def _fits(how: str, sent: set) -> bool:
    """Whether a process that got these signals may have ended like this."""
    by_signal = re.search(r"signal (\d+)", how)
    if by_signal:
        number = int(by_signal.group(1))
        return number in sent or (number == signal.SIGKILL and signal.SIGSTOP in sent)
    by_exit = re.search(r"with code (\d+)", how)
    if by_exit:
        return int(by_exit.group(1)) == 3 and bool(sent & {signal.SIGUSR1, signal.SIGUSR2})
    if how == "hung":
        return signal.SIGSTOP in sent
    return True  # the system did not tell


def false_text(line: str, scenario, outcome, reasons: list) -> str:
    """What is untrue in the named error; empty: nothing."""
    signals = _signals_by_pe(scenario, outcome)
    named = re.findall(r"PE (\d+) failed(?: \(((?:[^()]|\([^()]*\))*)\))?", line)
    named += re.findall(r"^oshrun: PE (\d+) ((?:was killed|exited|ended) .*)$", line)
    for pe, how in named:
        if int(pe) not in signals:
            return f"PE {pe} has not failed"
        if not _fits(how, signals[int(pe)]):
            return f"PE {pe} has not failed like that"
    for pattern, right in TEXTS:
        if re.search(pattern, line):
            return "" if set(right) & set(reasons) else "that is not the reason"
    return "it gives no reason that could be right"


def judge(scenario, outcome, reference: Reference, rules: Rules = Rules()) -> Verdict:
    if outcome.hung:
        return Verdict(HANG, "; ".join(outcome.leftovers) or "oshrun did not end")
    if outcome.leftovers:
        return Verdict(WRONG, "; ".join(outcome.leftovers))
    if outcome.sanitizer_reports():
        return Verdict(WRONG, outcome.sanitizer_reports()[0])
    results = outcome.results()
    # What is printed after the last checkpoint may be printed twice, but never differently.
    if not set(results) <= set(reference.results):
        return Verdict(WRONG, f"result {results} instead of {reference.results}")
    if outcome.exit_code == 0:
        if set(results) != set(reference.results):
            return Verdict(WRONG, f"exit code 0, but results are missing: {results}")
        unasked = _unasked_failure(scenario, outcome)
        if unasked:
            return Verdict(WRONG, unasked)
        recovered = any(event.kind == "span" and event.text == "restart" for event in outcome.events)
        return Verdict(RECOVERED, "") if recovered else Verdict(UNTOUCHED, "")
    reasons = excuses(scenario, outcome, reference, rules)
    errors = outcome.errors()
    if not errors:
        return Verdict(WRONG, f"exit code {outcome.exit_code} without an error message")
    if not reasons:
        return Verdict(WRONG, f"exit code {outcome.exit_code} without need: {errors[0]}")
    untrue = false_text(errors[0], scenario, outcome, reasons)
    if untrue:
        return Verdict(WRONG, f"{untrue} ({', '.join(reasons)}): {errors[0]}")
    return Verdict(NAMED_ERROR, f"{reasons[0]}: {errors[0]}")
