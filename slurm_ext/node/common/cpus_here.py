"""CPUs of a job on this node, by the list for all its nodes that slurmd gives to each one."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ITEM = re.compile(r"(?:[^,\[\]]|\[[^\]]*\])+")


def cpus_here(env: Mapping[str, str]) -> int | None:
    """This node's entry of a list such as `4(x2),2`; None if it is anything else.

    The list is in the order of the job's nodes. A node that is not among them has their mean.
    """
    counts = _counts(env.get("SLURM_JOB_CPUS_PER_NODE", ""))
    if not counts:
        return None
    place = 0 if len({count for count, _ in counts}) == 1 else _place(env)
    for count, times in counts:
        if place < times:
            return count
        place -= times
    nodes = sum([times for _, times in counts])
    return sum([count * times for count, times in counts]) // max(1, nodes)


def _counts(listed: str) -> list[tuple[int, int]]:
    """CPUs, and on how many nodes in sequence; nothing where the list is none."""
    counts = []
    for item in listed.split(","):
        count, _, times = item.partition("(x")
        times = times.rstrip(")") or "1"
        if not (count.isdecimal() and times.isdecimal() and len(count + times) < 12):
            return []
        counts.append((int(count), int(times)))
    return counts


def _place(env: Mapping[str, str]) -> float:
    """Place of this node among the job's, from 0; infinite where it is not among them."""
    listed = env.get("SLURM_JOB_NODELIST") or env.get("SLURM_NODELIST") or ""
    names = (name for item in _ITEM.findall(listed) for name in _names(item))
    own = env.get("SLURMD_NODENAME")
    return next((place for place, name in enumerate(names) if name == own), float("inf"))


def _names(item: str) -> Iterator[str]:
    """Names of one item of a host list. Twin of slurm/hostlist, which no hook can import."""
    before, bracket, rest = item.partition("[")
    if not bracket:
        yield item
        return
    inside, _, after = rest.partition("]")
    for span in inside.split(","):
        for number in _numbers(span):
            for tail in _names(after):
                yield before + number + tail


def _numbers(span: str) -> Iterator[str]:
    """Numbers of a range: 08-10 is 08, 09, 10."""
    first, _, last = span.partition("-")
    if not (first.isdecimal() and last.isdecimal()):
        yield span
        return
    for number in range(int(first), int(last) + 1):
        yield str(number).zfill(len(first))
