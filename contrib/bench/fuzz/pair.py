"""A pair: two ends of a pipeline, from a hostile text at one to a decision at the other.

A file for each pair has `PAIR = Pair(name=..., about=..., run=run)`, and its name stands in PAIRS
of `__main__.py`. `run` tries the inputs and counts; it never raises for what an input does:

def run(inputs: int, random: Random) -> Tried:
    tried = Tried()
    for _ in range(inputs):
        text = mutated_text(random.choice(SEEDS), random)
        with tried.one(text):  # counts the input; an exception is a traceback
            ...
        if still_waiting:
            tried.add("stuck", text, "the spool does not get empty")
    return tried
"""

import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

TRACEBACK, STUCK, STRANGER = "tracebacks", "stuck", "strangers"
KINDS = (TRACEBACK, STUCK, STRANGER)
"""Kinds of findings: an exception that nobody expects, a pipeline that takes nothing any more, and
an input that changes another user's decision."""
MOST_KEPT = 20  # findings that are kept with their input
_MOST_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that did harm: it becomes an example in the tests."""

    kind: str
    what: str
    given: str


@dataclass(slots=True)
class Tried:
    """Counts of a pair's inputs and findings."""

    inputs: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    @contextmanager
    def one(self, given: object, many: int = 1) -> Iterator[None]:
        """Count an input (or `many`); whatever the block raises is a finding."""
        self.inputs += many
        try:
            yield
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            self.add(TRACEBACK, given, f"{error!r:.300} at {last.filename}:{last.lineno}")

    def add(self, kind: str, given: object, what: str) -> None:
        """Count a finding; keep it with its input unless many are kept."""
        self.counts[kind] += 1
        if what not in {finding.what for finding in self.findings}:
            self.findings = [*self.findings, Finding(kind, what, str(given)[:_MOST_CHARS])]
            self.findings = self.findings[:MOST_KEPT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A pipeline under test."""

    name: str  # such as record
    about: str  # record → ingest → refresh → train
    share: float  # of the inputs: a pipeline that ends in a training has fewer of them
    run: Callable[[int, Random], Tried]
