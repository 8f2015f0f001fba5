"""Check of `doctor`: nodes on which the same trainings take longer than on others."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from slurm_ext.cli.doctor.finding import OK, WARN, Finding
from slurm_ext.core.errors import DlqueueError
from slurm_ext.core.settings.document import Settings

if TYPE_CHECKING:
    from slurm_ext.model.node_speed.slow import UnitSpeeds

DAYS = 30  # of runs: an older change is no news
MOST_RUNS = 5_000  # a second of work
MOST_NAMED = 5


def speeds(settings: Settings) -> Iterator[Finding]:
    """One finding on all nodes; none where there is no history to compare them by."""
    from slurm_ext.history.store.store import open_history
    from slurm_ext.history.views.speed_rows import speed_rows
    from slurm_ext.report.sections.node_speeds import by_node

    path = settings.state_dir / "history.db"
    if not path.exists():
        return
    try:
        with open_history(path, read_only=True) as history:
            since_s = time.time() - DAYS * 86400
            nodes = by_node(speed_rows(history, since_s=since_s, most=MOST_RUNS))
    except DlqueueError:
        return  # the check of the history says why
    yield from slow_nodes(nodes)


def slow_nodes(nodes: "UnitSpeeds") -> Iterator[Finding]:
    """Name the slow nodes with their evidence."""
    from slurm_ext.report.formatting import counted, moment, percent
    from slurm_ext.report.sections.node_speeds import excluding

    if not nodes.slow:
        state = f"none of {len(nodes.units)} compared" if nodes.units else "too few runs to compare"
        yield Finding("slow nodes", OK, state)
        return
    named = "; ".join(
        f"{change.unit}: a step takes {percent(change.slower)} longer ({percent(change.low)} to"
        f" {percent(change.high)}) since {moment(change.since_s or 0.0)},"
        f" {counted(change.runs, 'run')} of {counted(change.users, 'user')}"
        for change in nodes.slow[:MOST_NAMED]
    )
    yield Finding("slow nodes", WARN, named, excluding(nodes.slow))
