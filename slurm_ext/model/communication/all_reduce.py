"""Cost of all-reduces that start while gradients are still computed (alpha-beta model). Pure.

A bucket's all-reduce starts when its last gradient is ready and the one before it is done. It takes
a latency and its bytes at the link's rate. What ends after the last gradient is exposed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log

_KIB = 1024
USUAL_LATENCY_S = {"gloo": 1e-3, "nccl": 1e-4}
"""Assumed of a backend until runs with several bucket sizes tell it."""
_OTHER_LATENCY_S = 5e-4
_LATENCIES = 13  # that are tried, up to SPAN times the usual one either way
_SPAN = 30.0
_TRUST = 0.01  # squared relative error that a latency e times the usual one has to save
_LEAST_RATE, _MOST_RATE = 1e4, 1e13
_HALVINGS = 40


@dataclass(frozen=True, slots=True)
class Link:
    """One all-reduce among all ranks: its latency, and its bytes of gradients a second."""

    latency_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Gradient:
    """Gradients that are ready together, and seconds from then to the end of the backward pass."""

    size_bytes: float
    before_end_s: float


@dataclass(frozen=True, slots=True)
class ExposedRun:
    """Exposed seconds of a synchronised pass that were measured with these buckets."""

    buckets: Sequence[Gradient]
    exposed_s: float


def buckets_of(gradients: Sequence[Gradient], caps_kib: Sequence[float]) -> list[Gradient]:
    """Buckets that torch builds: each closes at its cap, the last of which holds for the rest."""
    buckets: list[Gradient] = []
    size_bytes = 0.0
    for gradient in gradients:
        size_bytes += gradient.size_bytes
        if size_bytes >= _KIB * caps_kib[min(len(buckets), len(caps_kib) - 1)]:
            buckets.append(Gradient(size_bytes, gradient.before_end_s))
            size_bytes = 0.0
    if size_bytes:
        buckets.append(Gradient(size_bytes, gradients[-1].before_end_s))
    return buckets


def as_built(gradients: Sequence[Gradient], sizes: Sequence[float]) -> list[Gradient]:
    """Buckets of the sizes that a run had: each is ready with the gradient that fills it."""
    ends = list(accumulate(gradient.size_bytes for gradient in gradients))
    buckets, place = [], 0
    for size, end in zip(sizes, accumulate(sizes), strict=True):
        while place < len(ends) - 1 and ends[place] < end:
            place += 1
        buckets.append(Gradient(size, gradients[place].before_end_s))
    return buckets


def exposed_s(buckets: Sequence[Gradient], link: Link) -> float:
    """Seconds from the last gradient to the end of the last all-reduce."""
    done_s = -float("inf")
    for bucket in buckets:
        done_s = max(done_s, -bucket.before_end_s)
        done_s += link.latency_s + bucket.size_bytes / link.bytes_per_s
    return max(0.0, done_s)


def fitted_link(runs: Sequence[ExposedRun], backend: str | None) -> Link | None:
    """The link that explains the runs best; its latency is the usual one where they do not tell.

    None where no rate explains them: nothing was exposed.
    """
    usual_s = USUAL_LATENCY_S.get(backend or "", _OTHER_LATENCY_S)
    measured = [run for run in runs if run.exposed_s > 0 and run.buckets]
    if not measured:
        return None
    half = (
        _LATENCIES // 2 if len(measured) > 1 else 0
    )  # one kind of buckets does not tell two figures
    stride = log(_SPAN) / (_LATENCIES // 2)
    links = [_with_rate(measured, usual_s * exp(stride * step)) for step in range(-half, half + 1)]
    return min(links, key=lambda link: _misfit(measured, link, usual_s))


def _with_rate(runs: Sequence[ExposedRun], latency_s: float) -> Link:
    """The rate at which relative errors add up to nothing; exposed time falls as it grows."""
    low, high = log(_LEAST_RATE), log(_MOST_RATE)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        errors = _errors(runs, Link(latency_s, exp(middle)))
        low, high = (middle, high) if sum(errors) > 0 else (low, middle)
    return Link(latency_s, exp(high))


def _errors(runs: Sequence[ExposedRun], link: Link) -> list[float]:
    return [exposed_s(run.buckets, link) / run.exposed_s - 1 for run in runs]


def _misfit(runs: Sequence[ExposedRun], link: Link, usual_s: float) -> float:
    far = log(link.latency_s / usual_s)
    return sum([error**2 for error in _errors(runs, link)]) + _TRUST * far**2
