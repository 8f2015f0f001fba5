"""The live proof's pure parts: mixes, figures, policies; and the reading of its tables."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contrib.bench.adloader import curves, metrics, policies, report, workload
from contrib.bench.adloader.actuator import Actuator, Group, Watched


def steady(samples_per_s: float, begin_s: float, end_s: float, kind: str = "jpeg") -> Any:
    """A job whose batches of ten come evenly."""
    count = round((end_s - begin_s) * samples_per_s / 10)
    moments = [begin_s + n * (end_s - begin_s) / count for n in range(count + 1)]
    batches = [(at_s, 10 * (n + 1)) for n, at_s in enumerate(moments)]
    return metrics.Trained(kind=kind, submit_s=0.0, batches=batches)


def machine() -> Any:
    """Two cores; jpeg needs cores, records needs workers, compute needs nothing."""
    shapes: dict[str, Callable[[float, int], float]] = {
        "jpeg": lambda cores, _: 100 * cores,
        "records": lambda _, workers: 60.0 * workers,
        "compute": lambda *_: 100.0,
    }
    grid = [(s, w) for s in curves.SHARES for w in curves.WORKERS]
    tables = {
        kind: curves.Table({point: shape(*point) for point in grid})
        for kind, shape in shapes.items()
    }
    return policies.Machine(2, tables)


@pytest.mark.parametrize("name", workload.MIXES)
def test_same_seed_same_jobs(name: str) -> None:
    """A mix is a function of its seed; every job arrives no earlier than the one before."""
    mix = workload.MIXES[name]
    assert mix(3) == mix(3)
    arrivals = [job.submit_s for job in mix(3)]
    assert arrivals == sorted(arrivals)


def test_seeds_differ_in_order_not_in_kinds() -> None:
    """Another seed has the same kinds of jobs in another order."""
    orders = {tuple(job.kind for job in workload.mixed(seed)) for seed in range(6)}
    assert len(orders) > 1
    assert len({tuple(sorted(order)) for order in orders}) == 1


def test_rate_is_between_first_and_last_batch() -> None:
    """What starting costs is no part of a job's rate, and the first batch's samples neither."""
    assert steady(50, 7, 17).samples_per_s == pytest.approx(50)


def test_window_is_while_three_train() -> None:
    """The aggregate counts only what was trained while the node was loaded."""
    jobs = [steady(100, 0, 10), steady(10, 2, 20), steady(20, 4, 12), steady(40, 11, 30)]
    assert metrics.window(jobs) == (4, 12)
    begun = steady(100, 0, 10).samples_in(4, 12)
    assert begun == pytest.approx(600, abs=10)
    assert metrics.aggregate(jobs) == pytest.approx((600 + 80 + 160 + 40) / 8, rel=0.1)


def test_worst_job_is_told_by_its_ratio_to_even() -> None:
    """Twice as fast in the mean may still be worse for one: that one is the figure."""
    even = [steady(50, 0, 20), steady(50, 0, 20), steady(50, 0, 20)]
    other = [steady(150, 0, 10), steady(100, 0, 10), steady(45, 0, 20)]
    told = metrics.figures(other, [even])
    assert told["worst_job_ratio"] == pytest.approx(0.9, rel=0.01)
    assert told["mean_job_ratio"] == pytest.approx((3 + 2 + 0.9) / 3, rel=0.01)
    assert told["makespan_s"] == 20


def test_tables_are_read_between_shares_but_never_above_measured_workers() -> None:
    """Shares in between by straight lines, worker counts in between as the next fewer."""
    machine_ = machine()
    assert machine_.tables["jpeg"].at(1.25, 3) == pytest.approx(125)
    assert machine_.tables["records"].at(1.0, 7) == 240
    assert machine_.tables["compute"].best(0.5) == (100, 1)


def test_whole_rounds_are_timed() -> None:
    """Four workers deliver four batches at once: half a burst does not change the rate."""
    burst = [(float(n // 4), 8 * n) for n in range(27)]
    assert curves.steady_rate(burst, 4) == pytest.approx(32)


def test_every_division_deals_all_units() -> None:
    """The search leaves none out: as many as there are ways to cut a line of eight units."""
    every = list(policies.divisions(8, 4))
    assert len(every) == len(set(every)) == 35
    assert all(sum(division) == 8 and min(division) >= 1 for division in every)


@pytest.mark.parametrize("name", policies.POLICIES)
def test_no_policy_deals_more_cores_than_there_are(name: str) -> None:
    """Whatever runs, the grants fit the machine, and each job has one."""
    rule = policies.POLICIES[name](machine())
    for kinds in (("jpeg",), ("jpeg", "records"), ("compute", "jpeg", "jpeg", "records")):
        grants = rule(kinds)
        assert len(grants) == len(kinds)
        assert sum(grant.cores for grant in grants) <= 2 + 1e-9
        assert all(grant.cores > 0 and grant.workers >= 1 for grant in grants)


@pytest.mark.parametrize("name", ["best_samples", "best_ratios"])
def test_search_gives_cores_to_who_needs_them(name: str) -> None:
    """The decoding job gets what the others cannot use; nobody is below his even share."""
    kinds = ("compute", "jpeg", "records")
    compute, jpeg, records = policies.POLICIES[name](machine())(kinds)
    assert (compute.cores, jpeg.cores, records.cores) == (0.25, 1.5, 0.25)
    assert records.workers == max(curves.WORKERS)


def test_even_split_is_even() -> None:
    """Equal cores and workers, divided anew among those that run."""
    rule = policies.POLICIES["even"](machine())
    assert {(grant.cores, grant.workers) for grant in rule(("jpeg",) * 4)} == {(0.5, 2)}
    assert {(grant.cores, grant.workers) for grant in rule(("jpeg", "compute"))} == {(1.0, 4)}


def test_report_has_every_policy_and_tells_what_was_missed() -> None:
    """Keys by policy; a target that is missed is said to be missed."""

    def row(policy: str, rate: float, end_s: float) -> dict[str, Any]:
        job = steady(rate, 1, end_s)
        jobs = [{"kind": "jpeg", "submit_s": 0.0, "batches": job.batches}] * 3
        return {"mix": "mixed", "seed": 1, "policy": policy, "jobs": jobs, "emulated": True}

    rows = [row("even", 50, 21), row("dlqueue_warm", 100, 11), row("dlqueue_cold", 55, 20)]
    told = report.result(rows)
    for policy in ("even", "dlqueue_warm", "dlqueue_cold"):
        keys = {"samples_per_s", "makespan_s", "worst_job_ratio", "repeats", "spread"}
        assert keys <= set(told["figures"][policy])
    met = {one["what"]: one["met"] for one in told["wanted"]}
    assert met["dlqueue_warm: samples_per_s to the even split's, at least"]
    assert not met["dlqueue_cold: samples_per_s to the even split's, at least"]
    assert not met["dlqueue_cold: makespan_s to the even split's, at most"]


def test_nothing_is_divided_while_no_job_runs(tmp_path: Path) -> None:
    """The last job has ended and the next has not begun: the rule is not asked."""
    watched = Watched("jpeg", Group(tmp_path / "gone"), tmp_path, tmp_path / "log")
    held = Actuator(policies.even(policies.Machine(2, {})))
    held.jobs, held.seen = [watched], [(watched, "jpeg")]
    held.look()
    assert held.seen == []
