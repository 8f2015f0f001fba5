"""Which nodes are not there, from one change to the next: failed, or closed for the time being."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter


@dataclass(frozen=True, slots=True, order=True)
class NodeEvent:
    """One node fails, or is there again."""

    when_s: float
    node: int
    fails: bool


@dataclass(frozen=True, slots=True)
class Closing:
    """The nodes that take no jobs from a time on, as a set; those that run there end."""

    when_s: float
    nodes: int


@dataclass(frozen=True, slots=True)
class NodeChange:
    """From a time on: the nodes that take no jobs, and those that failed at that time."""

    when_s: float
    out: int
    failed: int


def node_changes(events: Iterable[NodeEvent], closings: Iterable[Closing]) -> Iterator[NodeChange]:
    """All changes by time."""
    down = closed = 0
    both: Iterator[NodeEvent | Closing] = merge(events, closings, key=attrgetter("when_s"))
    for event in both:
        failed = 0
        if isinstance(event, Closing):
            closed = event.nodes
        else:
            down ^= 1 << event.node
            failed = event.fails << event.node
        yield NodeChange(event.when_s, down | closed, failed)
