"""Which nodes sizes go to: whole nodes to who needs several, the rest packed; few are moved. Pure.

Sizes are parts of a node, each a divisor of the next larger one, or whole nodes (elastic.sizes_of):
whatever sums to no more than there is finds a place, if need be by moving smaller jobs.
"""

from collections.abc import Mapping

from slurm_ext.core.errors import InputError

Places = dict[str, dict[int, int]]  # job -> node -> GPUs there


def place(
    sizes: Mapping[str, int], held: Mapping[str, Mapping[int, int]], nodes: int, per_node: int
) -> Places:
    """GPUs by node for every job; a job that keeps its size stays unless others need the place.

    Raises InputError where sizes are more than there is, or are no sizes.
    """
    if sum(sizes.values()) > nodes * per_node:
        raise InputError("placement", f"{sum(sizes.values())} GPUs of {nodes * per_node}")
    if any(size < 1 or (size > per_node and size % per_node) for size in sizes.values()):
        raise InputError("placement", f"expected parts of a node or whole nodes: {dict(sizes)}")
    board = _Board(nodes, per_node)
    for job, size in sizes.items():
        there = held.get(job, {})
        exists = all(0 <= node < nodes for node in there)
        if exists and sum(there.values()) == size and len(there) == -(-size // per_node):
            board.put(job, there)
    waiting = {job: size for job, size in sizes.items() if job not in board.placed}
    _whole(waiting, board)
    _parts(waiting, board)
    return board.placed


class _Board:
    """Jobs on their nodes, and free GPUs."""

    def __init__(self, nodes: int, per_node: int) -> None:
        self.per_node = per_node
        self.placed: Places = {}
        self.free = [per_node] * nodes

    def put(self, job: str, there: Mapping[int, int]) -> None:
        self.placed[job] = dict(there)
        for node, count in there.items():
            self.free[node] -= count

    def take(self, job: str) -> int:
        there = self.placed.pop(job)
        for node, count in there.items():
            self.free[node] += count
        return sum(there.values())

    def parts_on(self, node: int) -> list[str]:
        """Jobs that have a part of this node."""
        return [
            job
            for job, there in self.placed.items()
            if there.get(node, 0) and sum(there.values()) < self.per_node
        ]


def _whole(waiting: dict[str, int], board: _Board) -> None:
    """Jobs of whole nodes; nodes with the least on them are cleared if there are too few."""
    jobs = [job for job, size in waiting.items() if size >= board.per_node]
    needed = sum(waiting[job] // board.per_node for job in jobs)
    empty = [node for node, free in enumerate(board.free) if free == board.per_node]
    partly = [node for node, free in enumerate(board.free) if 0 < free < board.per_node]
    full = [node for node, free in enumerate(board.free) if free == 0 and board.parts_on(node)]
    for node in (*sorted(partly, key=lambda node: -board.free[node]), *full):
        if len(empty) >= needed:
            break
        for job in board.parts_on(node):
            waiting[job] = board.take(job)
        empty.append(node)
    for job in jobs:
        count = waiting.pop(job) // board.per_node
        board.put(job, dict.fromkeys(empty[:count], board.per_node))
        empty = empty[count:]


def _parts(waiting: dict[str, int], board: _Board) -> None:
    """Jobs of parts, the largest first, each where it leaves the least."""
    while waiting:
        job = min(waiting, key=lambda job: (-waiting[job], job))
        size = waiting[job]
        fitting = [node for node, free in enumerate(board.free) if free >= size]
        if not fitting:
            waiting |= _cleared(size, board)
            continue
        node = min(fitting, key=lambda node: (board.free[node], node))
        board.put(job, {node: waiting.pop(job)})


def _cleared(size: int, board: _Board) -> dict[str, int]:
    """Smaller jobs, taken off the node that needs the fewest of them to go."""
    partly = [node for node, free in enumerate(board.free) if 0 < free < size]
    partly = [node for node in partly if board.parts_on(node)]
    if not partly:
        raise InputError("placement", f"no place for {size} GPUs: sizes do not divide each other")
    node = max(partly, key=lambda node: (board.free[node], -node))
    moved = {}
    for job in sorted(board.parts_on(node), key=lambda job: (board.placed[job][node], job)):
        if board.free[node] >= size or board.placed[job][node] >= size:
            break
        moved[job] = board.take(job)
    if not moved:
        raise InputError("placement", f"no place for {size} GPUs: sizes do not divide each other")
    return moved
