"""Laws of the loader policy: within limits, never predicted worse, settled after one decision."""

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.core.records import (
    Decision,
    Shape,
    ShapeLimits,
)
from slurm_ext.policy.loader import MIN_GAIN, TARGET, decide
from tests.policy.loader_cases import from_run, low, mean, shape


@dataclass(frozen=True)
class Case:
    """A training, what it asked for, and what its site allows."""

    accel_s: float
    wall: float
    share: float
    ran_workers: int
    cpus: int
    workers: int
    most_cpus: int
    node_cores: int
    mem_gib: int | None
    may: str

    @property
    def limits(self) -> ShapeLimits:
        """What the policy has to stay within."""
        mem = None if self.mem_gib is None else self.mem_gib << 30
        return ShapeLimits(
            max_cpus_per_task=self.most_cpus, node_cores=self.node_cores, mem_bytes=mem
        )


STEPS = st.floats(1e-3, 0.1)

CASES = st.builds(
    Case,
    accel_s=STEPS,
    wall=STEPS,
    share=st.floats(0.01, 1.0),
    ran_workers=st.integers(0, 8),
    cpus=st.integers(1, 24),
    workers=st.integers(0, 12),
    most_cpus=st.integers(1, 64),
    node_cores=st.integers(1, 64),
    mem_gib=st.none() | st.integers(1, 16),
    may=st.sampled_from(["never", "grow", "any"]),
)

RSS = 300 << 20


def decided(case: Case, before: Shape | None = None) -> Decision:
    """The decision of a case, from its own shape or from another."""
    ask = from_run(
        accel=1 / case.accel_s,
        wall=case.wall,
        cpu=case.wall * case.share,
        workers=case.ran_workers,
        node=case.node_cores,
    )
    start = before or shape(case.cpus, case.workers)
    return decide(start, ask, case.limits, may_change_cpus=case.may, worker_rss_bytes=RSS)


@given(CASES)
def test_a_change_stays_within_every_limit(case: Case) -> None:
    """CPUs within partition and node, or as written; workers within memory and the site's most."""
    told, limits = decided(case), case.limits
    if told.action == "leave":
        assert told.after == told.before
        return
    after = told.after
    if after.cpus_per_task != told.before.cpus_per_task:
        assert after.cpus_per_task <= min(limits.max_cpus_per_task, limits.node_cores)
    assert after.num_workers <= limits.max_workers
    if limits.mem_bytes is not None:
        assert after.num_workers * RSS <= limits.mem_bytes


@given(CASES)
def test_cpus_move_only_as_the_site_allows(case: Case) -> None:
    """Never: kept. Grow: never fewer."""
    told = decided(case)
    if case.may == "never":
        assert told.after.cpus_per_task == told.before.cpus_per_task
    if case.may == "grow":
        assert told.after.cpus_per_task >= told.before.cpus_per_task


@given(CASES)
def test_a_job_with_workers_keeps_one(case: Case) -> None:
    """The probe takes no loader home: none is an answer for a job that has none as written."""
    assert decided(case).after.num_workers >= min(1, case.workers)


@given(CASES)
def test_no_change_is_predicted_to_lose_throughput(case: Case) -> None:
    """With fewer CPUs at least `target` of the rate as written; else a real gain."""
    told = decided(case)
    if told.action == "leave":
        return
    gain = mean(told.predicted_after) / mean(told.predicted_before) - 1
    if told.after.cpus_per_task < told.before.cpus_per_task:
        assert gain >= TARGET - 1
    else:
        assert gain >= MIN_GAIN


@given(CASES)
def test_deciding_again_changes_nothing(case: Case) -> None:
    """A job resubmitted as it was changed is fine: no creeping from decision to decision."""
    first = decided(case)
    again = decided(case, before=first.after)
    assert again.after == first.after


@given(CASES)
def test_looser_limits_never_promise_less(case: Case) -> None:
    """With more cores on offer the changed job's lower bound does not fall below the target."""
    if case.may == "never":
        return
    tight, loose = decided(case), decided(replace(case, most_cpus=64))
    if tight.action == loose.action == "change":
        assert low(loose.predicted_after) >= TARGET * low(tight.predicted_after)


@given(CASES)
def test_every_decision_has_a_reason_of_one_clause(case: Case) -> None:
    """What is told fits one line and holds no jargon of ours."""
    reason = decided(case).reason
    assert 10 < len(reason) < 90
    assert "\n" not in reason
    assert "bound" not in reason
