"""Exposed communication of traced steps: communication under which nothing is computed. Pure.

The events are those of the profiler's trace (`traceEvents`), whose times are microseconds. On a GPU
they are kernels: NCCL's against all others (as Holistic Trace Analysis counts). On CPUs they are a
process group's collectives against operators that call no other one: a hook that waits for a
collective lies inside an operator, and an operator's own parts say whether it computes.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, Dict, Iterable, Iterator, Mapping, NamedTuple, Sequence

MARK = "dlqueue step"
HIDDEN = "hidden"  # communication under which something is computed
OTHER = "other exchanges"
_KINDS = {
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "allreduce": "all-reduce",
}
_GROUPS = ("gloo:", "mpi:", "ucc:", "nccl:")  # collectives of a process group, begin to end
_CALL = "c10d::"  # the operator that asks for one of them
_ASK = (_CALL, "_c10d_functional::", "record_param_comms")
_US = 1e-6

Event = Mapping[str, Any]
Seconds = Dict[str, float]


class Span(NamedTuple):
    """One event, in microseconds; `kind`: of a collective."""

    start: float
    end: float
    kind: str = ""


def by_step(events: Iterable[Event]) -> list[Seconds]:
    """Seconds of each marked step: exposed by kind of collective, and HIDDEN."""
    timed = [event for event in events if event.get("ph") == "X"]
    steps = sorted(_span(one) for one in timed if _is_mark(one))
    sent, busy = _told_apart([one for one in timed if one.get("name") != MARK])
    joined = _joined(busy)
    found: list[Seconds] = [{HIDDEN: 0.0} for _ in steps]
    for span in _one_after_another(sent):
        for number, part in _parts(span, steps):
            hidden = _shared(joined, part)
            row = found[number]
            row[HIDDEN] += hidden * _US
            row[span.kind] = row.get(span.kind, 0.0) + (part.end - part.start - hidden) * _US
    return found


def _is_mark(event: Event) -> bool:
    """True for a step by the process's own clock; a GPU repeats the mark among its kernels."""
    return event.get("name") == MARK and event.get("cat") == "user_annotation"


def _span(event: Event, kind: str = "") -> Span:
    return Span(event["ts"], event["ts"] + event["dur"], kind)


def _told_apart(events: Sequence[Event]) -> tuple[list[Span], list[Span]]:
    """Communication, and computing."""
    kernels = [one for one in events if one.get("cat") == "kernel"]
    if kernels:
        sent = [one for one in kernels if "nccl" in one["name"].lower()]
        busy = [_span(one) for one in kernels if "nccl" not in one["name"].lower()]
    else:
        operators = [one for one in events if one.get("cat") == "cpu_op"]
        groups = [one for one in events if one["name"].startswith(_GROUPS)]
        return list(_from_their_calls(groups, operators)), list(_leaves(operators))
    return [_span(one, _kind(one["name"])) for one in sent], busy


def _from_their_calls(groups: Iterable[Event], operators: Iterable[Event]) -> Iterator[Span]:
    """Collectives from the call on: until its thread has a core, the caller waits for it, too.

    Gloo reduces and scatters by an all-reduce: the call has the name that the program used.
    """
    calls = sorted((one for one in operators if one["name"].startswith(_CALL)), key=_start)
    for group in sorted(groups, key=_start):
        span = _span(group, _kind(group["name"]))
        if calls and calls[0]["ts"] <= span.start:
            call = calls.pop(0)
            named = _kind(call["name"])
            span = Span(call["ts"], span.end, span.kind if named == OTHER else named)
        yield span


def _start(event: Event) -> float:
    return float(event["ts"])


def _kind(name: str) -> str:
    plain = name.lower().replace("_", "")
    return next((kind for part, kind in _KINDS.items() if part in plain), OTHER)


def _leaves(operators: Sequence[Event]) -> Iterator[Span]:
    """Operators that call no other one, collectives and calls for them left out."""
    order = sorted(operators, key=lambda one: (str(one["tid"]), one["ts"], -one["dur"]))
    for one, following in zip(order, [*order[1:], None]):
        calls = following is not None and following["tid"] == one["tid"]
        if calls and following is not None and following["ts"] < one["ts"] + one["dur"]:
            continue
        if not one["name"].startswith((*_GROUPS, *_ASK)):
            yield _span(one)


def _joined(spans: Iterable[Span]) -> list[Span]:
    """The time that any of them covers, in order."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


def _one_after_another(spans: Iterable[Span]) -> Iterator[Span]:
    """Spans without what an earlier one covers: two collectives at a time are one wait."""
    reached = float("-inf")
    for span in sorted(spans):
        if span.end > reached:
            yield Span(max(span.start, reached), span.end, span.kind)
            reached = span.end


def _parts(span: Span, steps: Sequence[Span]) -> Iterator[tuple[int, Span]]:
    """The steps that a span lies in, each with its part."""
    number = max(0, bisect_left(steps, Span(span.start, span.start)) - 1)
    while number < len(steps) and steps[number].start < span.end:
        start, end = max(span.start, steps[number].start), min(span.end, steps[number].end)
        if start < end:
            yield number, Span(start, end)
        number += 1


def _shared(joined: Sequence[Span], part: Span) -> float:
    """The time of a part that spans in order cover."""
    at = max(0, bisect_left(joined, Span(part.start, part.start)) - 1)
    covered = 0.0
    while at < len(joined) and joined[at].start < part.end:
        covered += max(0.0, min(joined[at].end, part.end) - max(joined[at].start, part.start))
        at += 1
    return covered
