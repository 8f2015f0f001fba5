"""Ranks that the others of a job waited for, in `explain`: a node's fault, or the loader's."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def stragglers_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """`{kind, rank, node, cost}` of the last start of a job, from the record of each of its nodes.

    `cost`: share of a step that others waited; null where no ranks timed their steps together.
    """
    from slurm_ext.core.stalls.stragglers import Straggling, stragglers, windows_of

    last = max((run["restart"] for run in runs), default=0)
    mine = [run for run in runs if run["restart"] == last]
    summaries = [
        (run["node"], one) for run in mine for one in (run["probe"] or {}).get("summaries") or ()
    ]
    said = stragglers(windows_of(one for _, one in summaries))
    if said.kind is Straggling.UNKNOWN:
        return None
    nodes = (node for node, one in summaries if one.get("rank") == said.rank)
    node = next(nodes, None) if said.rank is not None else None
    return {"kind": said.kind.value, "rank": said.rank, "node": node, "cost": said.cost}


def lines(told: Mapping[str, Any]) -> Iterable[str]:
    """One line where somebody was waited for."""
    from slurm_ext.report.formatting import percent

    waited = f"the others waited {percent(told['cost'])} of a step"
    if told["kind"] == "fixed":
        yield (
            f"ranks:    rank {told['rank']} on {told['node']} was always the slowest ({waited}):"
            " its node or GPU, not the loader; `dlqueue doctor` compares nodes"
        )
    elif told["kind"] == "moving":
        yield (
            f"ranks:    now this rank, now that was the slowest ({waited}): the loader, not a node"
        )
