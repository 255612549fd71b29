"""Which PE keeps the shadow of which, worked out from the events of a job on pretended nodes (process r on node r mod
K), independently of the library: nodes that hold PEs form a ring in the order of their numbers, and the i-th PE of a
node keeps with the i-th of the next one; with a single copy, PEs that are not alone on their node with the next there.
"""


def holders_at(events, pes: int, time_ns: int) -> list:
    """The processes that are the PEs at that time, by PE."""
    holders = list(range(pes))
    for event in sorted(events, key=lambda event: event.begin_ns):
        if event.kind == "pe_taken" and event.begin_ns <= time_ns and 0 <= event.pe < pes:
            holders[event.pe] = event.rank
    return holders


def keepers(holders: list, nodes: int, keeps_near: bool) -> list:
    """The PE that keeps the shadow, by PE."""
    by_node: dict = {}
    for pe, rank in enumerate(holders):
        by_node.setdefault(rank % nodes if nodes else 0, []).append(pe)
    groups = [by_node[node] for node in sorted(by_node)]
    if len(groups) == 1:
        return [(pe + 1) % len(holders) for pe in range(len(holders))]
    found = [0] * len(holders)
    for at, group in enumerate(groups):
        for place, pe in enumerate(group):
            ring = group if keeps_near and len(group) > 1 else groups[(at + 1) % len(groups)]
            found[pe] = ring[(place + (1 if ring is group else 0)) % len(ring)]
    return found


def are_partners(first: int, second: int, placement: list) -> bool:
    return placement[first] == second or placement[second] == first
