"""Which PEs keep the shadows of which, worked out from the events of a job on pretended nodes (process r on node r mod
K), independently of the library: nodes that hold PEs form a ring in the order of their numbers, and the i-th PE of a
node keeps with the i-th of the next one, or of the next N (replica:N); with a single copy, PEs that are not alone on
their node with the next there.
"""


def holders_at(events, pes: int, time_ns: int) -> list:
    """The processes that are the PEs at that time, by PE."""
    holders = list(range(pes))
    for event in sorted(events, key=lambda event: event.begin_ns):
        if event.kind == "pe_taken" and event.begin_ns <= time_ns and 0 <= event.pe < pes:
            holders[event.pe] = event.rank
    return holders


def partners_in(mode: str) -> int:
    """How many keep a copy of each PE, by SHMEM_FT_BACKUP_MODE, as far as there are nodes."""
    return int(mode.partition("replica:")[2] or 1)


def parity_of(mode: str) -> tuple:
    """The most PEs of a group, and how many losses of members it survives; (0, 0): the mode keeps copies."""
    kind, _, sizes = mode.partition(":")
    if kind == "xor":
        return int(sizes), 1
    if kind == "rs":
        data, _, parity = sizes.partition("+")
        return int(data) + int(parity), int(parity)
    return 0, 0


def groups_of(pes: int, nodes: int, mode: str) -> list:
    """The members of each group that keeps parity: the PEs, node by node, are dealt out to the groups in turn, of which
    there are as many as PEs on the fullest node, or as the size asks for."""
    by_node: dict = {}
    for pe in range(pes):
        by_node.setdefault(pe % nodes, []).append(pe)
    size, _ = parity_of(mode)
    n_groups = max([-(-pes // size)] + [len(there) for there in by_node.values()])
    found: list = [[] for _ in range(n_groups)]
    for place, pe in enumerate(pe for node in sorted(by_node) for pe in by_node[node]):
        found[place % n_groups].append(pe)
    return found


def has_parity(pes: int, nodes: int, mode: str) -> bool:
    """Not on one node, and not if more than half of the PEs are on one: they keep copies, then."""
    return parity_of(mode)[0] > 0 and nodes > 1 and pes > 1 and min(map(len, groups_of(pes, nodes, mode))) > 1


def keepers(holders: list, nodes: int, mode: str) -> list:
    """The PEs that keep a shadow, by PE, the nearest first."""
    by_node: dict = {}
    for pe, rank in enumerate(holders):
        by_node.setdefault(rank % nodes if nodes else 0, []).append(pe)
    groups = [by_node[node] for node in sorted(by_node)]
    if len(groups) == 1:
        return [[(pe + 1) % len(holders)] for pe in range(len(holders))]
    found: list = [[] for _ in holders]
    for at, group in enumerate(groups):
        for place, pe in enumerate(group):
            if mode == "single" and len(group) > 1:
                found[pe] = [group[(place + 1) % len(group)]]
                continue
            for step in range(1, min(partners_in(mode), len(groups) - 1) + 1):
                ring = groups[(at + step) % len(groups)]
                found[pe].append(ring[place % len(ring)])
    return found
