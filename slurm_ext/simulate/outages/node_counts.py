"""Nodes of partitions over time, from a file: CSV time, partition, nodes.

From each time on so many of the partition's nodes take jobs, the first ones; jobs on the others run
to their end, as on drained nodes. Before its first line a partition has all its nodes; without a
partition the line is of the whole cluster. A node of several partitions is there if each of them
that the file names has it.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from itertools import islice
from pathlib import Path

from slurm_ext.core.errors import InputError, unreadable
from slurm_ext.simulate.outages.node_change import Closing
from slurm_ext.simulate.planning.levels import members, set_of
from slurm_ext.simulate.trace.columns import Trace
from slurm_ext.simulate.trace.row import count
from slurm_ext.simulate.trace.times import Clock

COLUMNS = ("time", "partition", "nodes")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCount:
    """One line; the time is the trace's own."""

    line: int
    when_s: float
    partition: str
    nodes: int


def read_node_counts(path: Path, zone: tzinfo) -> list[NodeCount]:
    """The lines by time. Raises InputError, naming the line and the column."""
    clock, line, counts = Clock(zone), 1, list[NodeCount]()
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, restval="")
            if not set(COLUMNS) <= set(reader.fieldnames or ()):
                raise InputError(str(path), f"expected the columns {', '.join(COLUMNS)}", line=1)
            for row in reader:
                line = reader.line_num
                counts.append(
                    NodeCount(
                        line=line,
                        when_s=clock.seconds(row["time"]),
                        partition=row["partition"].strip(),
                        nodes=count(row["nodes"], "nodes"),
                    )
                )
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable(str(path), error) from None
    except ValueError as error:
        raise InputError(str(path), str(error), line=line) from None
    if not counts:
        raise InputError(str(path), "has no line beside its header")
    return sorted(counts, key=lambda row: row.when_s)


def check_counts(counts: Sequence[NodeCount], partitions: Mapping[str, int], path: Path) -> None:
    """Raise InputError for a partition that is not there, or has fewer nodes."""
    for row in counts:
        nodes = partitions.get(row.partition)
        if nodes is None:
            names = ", ".join(name or "(none)" for name in partitions)
            why = f"no partition {row.partition!r}: there are {names}"
            raise InputError(str(path), why, line=row.line)
        if row.nodes > nodes.bit_count():
            why = f"nodes is {row.nodes}: {row.partition or 'the cluster'} has {nodes.bit_count()}"
            raise InputError(str(path), why, line=row.line)


def outside(counts: Sequence[NodeCount], trace: Trace, path: Path) -> Iterator[str]:
    """A note of lines that are not of the trace's time. Raises InputError where none is.

    One line a partition before that time says enough: it is true of all of it.
    """
    first_s = trace.first_s
    last_s = first_s + float((trace.submit_s + trace.duration_s).max())  # if no job waits
    before = sum(row.when_s < first_s for row in counts)
    after = sum(row.when_s > last_s for row in counts)
    changes = len({row.partition for row in counts}) < len(counts)
    if after == len(counts) or (before == len(counts) and changes):
        lines = f"its own are {counts[0].when_s:.0f} to {counts[-1].when_s:.0f}"
        why = f"no line is within the trace's time, {first_s:.0f} to {last_s:.0f} s; {lines}"
        raise InputError(str(path), f"{why} (dates as Unix time): times as in {trace.source}")
    if before or after:
        yield f"lines of {path.name} before the trace's time: {before}, after it: {after}"


def closings(
    counts: Sequence[NodeCount], partitions: Mapping[str, int], first_s: float
) -> Iterator[Closing]:
    """The nodes of a pool that take no jobs; seconds since `first_s` of the trace's time."""
    closed: dict[str, int] = {}
    for row in counts:
        nodes = partitions.get(row.partition)
        if nodes is None:
            continue  # of another virtual cluster
        closed[row.partition] = nodes ^ set_of(islice(members(nodes), row.nodes))
        together = 0
        for some in closed.values():
            together |= some
        yield Closing(max(0.0, row.when_s - first_s), together)
