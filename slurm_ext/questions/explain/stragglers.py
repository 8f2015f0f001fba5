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
        (run["node"], summary)
        for run in mine
        for summary in (run["probe"] or {}).get("summaries") or ()
    ]
    straggling = stragglers(windows_of(summary for _, summary in summaries))
    if straggling.kind is Straggling.UNKNOWN:
        return None
    nodes = (node for node, summary in summaries if summary.get("rank") == straggling.rank)
    node = next(nodes, None) if straggling.rank is not None else None
    return {
        "kind": straggling.kind.value,
        "rank": straggling.rank,
        "node": node,
        "cost": straggling.cost,
    }


def lines(straggling: Mapping[str, Any]) -> Iterable[str]:
    """One line where somebody was waited for."""
    from slurm_ext.report.formatting import percent

    waited = f"the others waited {percent(straggling['cost'])} of a step"
    if straggling["kind"] == "fixed":
        yield (
            f"ranks:    rank {straggling['rank']} on {straggling['node']} was always the slowest"
            f" ({waited}): its node or GPU, not the loader; `dlqueue doctor` compares nodes"
        )
    elif straggling["kind"] == "moving":
        yield (
            f"ranks:    now this rank, now that was the slowest ({waited}): the loader, not a node"
        )
