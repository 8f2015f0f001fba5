"""Learning sharing from counters: unseen families, wrong solo speeds, calibrated, exported."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from slurm_ext.core.errors import ModelError
from slurm_ext.core.gpu_sharing import SoloProfile
from slurm_ext.model.slowdown.features import CounterColumn
from slurm_ext.training.slowdown.counter_export import difference, export
from slurm_ext.training.slowdown.feature_plans import plan
from slurm_ext.training.slowdown.fit_counter_model import CounterPlan, fit, fitted
from slurm_ext.training.slowdown.reference_speed import PairExample, references

PLAN = CounterPlan(
    device="v100",
    columns=(CounterColumn("util"), CounterColumn("kernel_us", 20.0)),
    views=(("util",), ("util", "kernel_us")),
)


def job(family: str, size: int) -> SoloProfile:
    """Load and kernels' length grow with the batch, from a family's own start."""
    start = {"a": 10, "b": 20, "c": 30, "d": 40, "e": 50}[family]
    util = start + 8.0 * size
    return SoloProfile(key=f"{family}{size}", features={"util": util, "kernel_us": util**1.2})


def truth(a: SoloProfile, b: SoloProfile) -> float:
    """Time slices: beyond the whole device each waits for the other."""
    own, other = a.features["util"] / 100, b.features["util"] / 100
    return float(1.0 / (1.0 + 0.9 * own**0.3 * other))


def table(families: str, *, noise: float = 0.01) -> list[PairExample]:
    """Both directions of every pair of two jobs a family."""
    rng = np.random.default_rng(0)
    every = [(name, job(name, size)) for name in families for size in (0, 2)]
    return [
        PairExample(
            job=a,
            beside=b,
            speed=truth(a, b) * float(np.exp(rng.normal(0, noise))),
            family=name,
            beside_family=other,
        )
        for (name, a), (other, b) in product(every, every)
    ]


def test_an_unseen_family_is_foretold() -> None:
    """Within 0.03 of the truth on average, and inside the bounds."""
    model = fit(table("abde"), PLAN)
    asked = [(job("c", size), job(other, 1)) for size in (0, 1, 2) for other in "abde"]
    told, true = model.speeds(asked), np.array([truth(a, b) for a, b in asked])
    assert np.abs(told.mean - true).mean() < 0.03
    assert ((told.low <= true) & (true <= told.high)).mean() >= 0.8


def test_names_are_no_feature() -> None:
    """Jobs never met are told alike whatever they are called."""
    model = fit(table("abde"), PLAN)
    one, other = (SoloProfile(key=key, features=job("c", 0).features) for key in ("x", "y"))
    assert model.speed(one, job("a", 0)) == model.speed(other, job("a", 0))


def test_shuffled_speeds_teach_nothing() -> None:
    """What is learnt is learnt from the counters: without their order the error is the mean's."""
    rows = table("abde")
    speeds = np.random.default_rng(1).permutation([row.speed for row in rows])
    mixed = [replace(row, speed=float(at)) for row, at in zip(rows, speeds, strict=True)]
    asked = [(job("c", 0), job(other, 1)) for other in "abde"]
    true = np.array([truth(a, b) for a, b in asked])
    right, wrong = (
        np.abs(fitted(each, PLAN).speeds(asked).mean - true).mean() for each in (rows, mixed)
    )
    assert right < 0.5 * wrong


def test_a_wrong_solo_speed_is_seen_and_stays_with_its_job() -> None:
    """Faster beside gentle companions than alone: the solo was slow; others learn nothing of it."""
    rows = [
        replace(row, speed=row.speed * 1.3) if row.family == "b" else row for row in table("abcde")
    ]
    found = references(rows)
    assert 1.05 < found["b0"] < 1.35
    assert {found[key] for key in ("a0", "c0", "e2")} == {1.0}
    model = fitted(rows, PLAN)
    twin = SoloProfile(key="new", features=job("b", 0).features)
    assert model.speed(job("b", 0), job("c", 0)).mean > 1.04 * model.speed(twin, job("c", 0)).mean


def test_nothing_to_learn_from_is_said() -> None:
    """No pair, no counter, or counters that never differ."""
    rows = table("ab")
    bare = [replace(row, job=SoloProfile(key="x"), beside=SoloProfile(key="y")) for row in rows]
    flat = [replace(row, job=job("a", 0), beside=job("a", 0)) for row in rows]
    for none in ([], bare, flat):
        with pytest.raises(ModelError, match="nothing to learn from"):
            fit(none, PLAN)


def test_rows_that_are_no_speed_are_not_learnt_from() -> None:
    """Zero, negative, infinite and not a number are left."""
    rows = table("ab")
    bad = [replace(rows[0], speed=at) for at in (0.0, -1.0, float("inf"), float("nan"))]
    asked = [(job("a", 1), job("b", 1))]
    assert fit(rows, PLAN).speeds(asked).mean == fit([*rows, *bad], PLAN).speeds(asked).mean


def test_export_refuses_what_does_not_read_back() -> None:
    """The packed model answers as the fitted one, or there is none."""
    model = fit(table("abd"), PLAN)
    assert difference(model, model) == 0
    assert export(model)["columns"] == [["util", None, None], ["kernel_us", 20.0, None]]
    other = replace(model, top=float("nan"))
    with pytest.raises(ModelError, match="not exported"):
        export(other)


def test_a_plan_takes_what_most_jobs_have() -> None:
    """Counters of few jobs, or always the same, are not looked at; none at all is no plan."""
    jobs = [
        {"gpu_util": 0.1 * n, "gpu_mem_util": 0.5, **({"gpu_sm_active": 0.2} if n < 2 else {})}
        for n in range(6)
    ]
    found = plan(jobs, "H200")
    assert found is not None
    assert [one.name for one in found.columns] == ["gpu_util"]
    assert plan([{}, {}], "H200") is None
    counted = [{"perf_instructions": 1e9 + n, "perf_cycles": 2e9} for n in range(4)]
    on_cpu = plan(counted, "cpu")
    assert on_cpu is not None
    assert on_cpu.columns[0].per == "perf_cycles"
