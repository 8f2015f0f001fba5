"""Ranks of one world that read the same batches: their samples are one sample each. Pure.

Ranks of a pipeline, and those that hold parts of each layer, read one batch together; the probe's
marks of their first batches are equal. So are those of data-parallel ranks that make their data up,
or were all given one seed: these process each sample once more. They are told apart by the ranks
over which gradients are averaged (`data_ranks`: by DDP or FSDP, or a sampler's shares), and by
marks that differ between some ranks and not others, which no such data has. Ranks on other nodes
are taken to be as those here.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

_Json = Mapping[str, Any]
_SHARED = "samples", "fetch_samples"


def share_of_each(members: Sequence[tuple[_Json, _Json]], world: int) -> float:
    """The part of a rank's samples that no other rank has; `members`: of one world, on one node."""
    known = [summary["data_ranks"] for summary, _ in members if summary.get("data_ranks")]
    if world < 2 or len(members) < 2 or len(known) < len(members):
        return 1.0  # processes in no group train alone
    groups, data_ranks = _groups(members), float(max(known))
    read = sum(_copies(group) for group in groups)
    if data_ranks >= world:
        sizes = {len(group) for group in groups}
        return len(groups) / len(members) if len(groups) > 1 and len(sizes) == 1 else 1.0
    return min(1.0, max(read / len(members), data_ranks / world))


def _groups(members: Sequence[tuple[_Json, _Json]]) -> list[list[_Json]]:
    """Summaries of the ranks that read the same; one without marks is alone."""
    marks = [tuple(loader.get("first_batches") or ()) for _, loader in members]
    fewest = min((len(one) for one in marks if one), default=0)
    groups: dict[Any, list[_Json]] = {}
    for number, ((summary, _), own) in enumerate(zip(members, marks, strict=True)):
        groups.setdefault(own[:fewest] or number, []).append(summary)
    return list(groups.values())


def _copies(group: Sequence[_Json]) -> int:
    """Worlds that read the same: each of them has a rank of every number once."""
    return max(Counter(summary.get("rank") for summary in group).values())


def with_share(loader: _Json, share: float) -> _Json:
    """The loader with so much of its samples; it itself where they are all its own."""
    if share == 1:
        return loader
    return {**loader, "phases": [_part(phase, share) for phase in loader["phases"]]}


def _part(phase: _Json, share: float) -> _Json:
    return {**phase, **{name: phase[name] * share for name in _SHARED if phase.get(name)}}
