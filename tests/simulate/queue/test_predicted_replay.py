"""Replays that foretell as they go: who knows nothing more than before decides as before."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.policy.queue.order import rule_of
from slurm_ext.simulate.queue.cluster import Cluster
from slurm_ext.simulate.queue.engine import replay
from slurm_ext.simulate.trace.columns import Trace
from tests.simulate.traces import trace_of

ROWS = st.lists(
    st.tuples(st.integers(0, 500), st.integers(1, 300), st.sampled_from([1, 2, 8, 16])),
    min_size=1,
    max_size=40,
)
NODES = Cluster(nodes=2, gpus_per_node=8)


class Fixed:
    """Tells what it was given; may say later what it says of whom from then on."""

    def __init__(self, trace: Trace, later: dict[float, dict[int, float]] | None = None) -> None:
        self.trace, self.later = trace, dict(later or {})
        self.heard: list[tuple[str, int, float]] = []

    def submitted(self, jobs: Sequence[int], now_s: float) -> Sequence[float]:
        """Each its estimate in the trace."""
        self.heard += [("submitted", job, now_s) for job in jobs]
        return [float(self.trace.estimate_s[job]) for job in jobs]

    def started(self, job: int, now_s: float) -> None:
        """Written down."""
        self.heard.append(("started", job, now_s))

    def ended(self, job: int, now_s: float) -> None:
        """Written down."""
        self.heard.append(("ended", job, now_s))

    def revised(self, now_s: float) -> Iterator[tuple[int, float]]:
        """What was to be said by now."""
        for since_s in [since_s for since_s in self.later if since_s <= now_s]:
            yield from self.later.pop(since_s).items()


@given(rows=ROWS, seed=st.integers(0, 99), text=st.sampled_from(["qssf", "qssf+backfill+ageing"]))
@settings(deadline=None, max_examples=60)
def test_fixed_estimates_give_the_replay_of_before(
    rows: list[tuple[int, int, int]], seed: int, text: str
) -> None:
    """Job by job, start by start; and all that happens is heard, in the order of time."""
    trace = trace_of(sorted(rows))
    guess = np.random.default_rng(seed).lognormal(sigma=2.0, size=len(trace))
    trace = replace(trace, estimate_s=trace.duration_s * guess)
    rule, fixed = rule_of(text), Fixed(trace)
    before, inside = replay(trace, NODES, rule), replay(trace, NODES, rule, predictor=fixed)
    assert inside.start_s.tolist() == before.start_s.tolist()
    assert inside.end_s.tolist() == before.end_s.tolist()
    assert inside.figures() == before.figures()
    assert len(fixed.heard) == 3 * len(trace)
    assert [now_s for *_, now_s in fixed.heard] == sorted(now_s for *_, now_s in fixed.heard)


@pytest.mark.parametrize("many", [0, 600])
def test_who_is_thought_short_later_goes_first_from_then_on(many: int) -> None:
    """Also from behind the part of the queue that backfill looks at."""
    rows = [(0, 100, 16), (1, 50, 16), (2, 50, 16), *((3, 1, 16) for _ in range(many))]
    trace = trace_of(rows)
    trace = replace(trace, estimate_s=np.array([100.0, 1e5, 2e5, *(1e4,) * many]))
    late = Fixed(trace, {100.0: {2: 1.0}})
    ends = replay(trace, NODES, rule_of("qssf+backfill"), predictor=late)
    assert ends.start_s[:3].tolist() == [0.0, 150.0 + many, 100.0]
