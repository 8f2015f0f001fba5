"""Plans for gradient buckets: what is tried, what stays, what is left alone, and why."""

from dataclasses import replace
from typing import Any

import pytest

from slurm_ext.core.records import SyncRun
from slurm_ext.policy.buckets import KEEP, BucketPlan, plan_buckets
from tests.builders import MIB, SYNCHRONISED

MIN_GAIN = 0.05
FIRST = SYNCHRONISED


def run(**changes: Any) -> SyncRun:
    """The first run, changed."""
    return replace(FIRST, **changes)


def tried(step_s: float, caps: str = "4096", exposed_s: float = 0.041) -> SyncRun:
    """A run with other buckets."""
    sizes = (4.0 * MIB,) * 8
    return run(step_s=step_s, caps=caps, exposed_s=exposed_s, bucket_bytes=sizes)


def plan(*runs: SyncRun, nodes: int | None = None, min_gain: float = MIN_GAIN) -> BucketPlan:
    """For the next run; the newest first."""
    return plan_buckets(runs, nodes, min_gain)


def test_after_one_run_the_best_sizes_are_tried() -> None:
    """By the model: 240 of 281 exposed ms can be hidden."""
    found = plan(FIRST)
    assert found.change
    assert not found.measured
    assert (found.signature, found.ranks, found.caps) == ("3f0c9a51be77", 2, "4096")
    assert found.after_s == pytest.approx(0.76, abs=0.005)
    assert found.reason == "28% of its step waits for gradients"
    assert plan(FIRST, min_gain=0.4).reason == "other bucket sizes would make it 32% faster at most"


def test_without_a_run_nothing_is_planned() -> None:
    """Nor by runs on other numbers of nodes."""
    assert not plan().change
    assert not plan(FIRST, nodes=2).change
    assert plan(FIRST, nodes=1).change


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"user_caps": True}, "its program sets its own bucket size"),
        ({"comm_hook": "bf16"}, "its program has a communication hook of its own"),
        ({"left_alone": "it has unused ones"}, "it has unused ones"),
        ({"ranks": 1}, "it has one rank"),
        ({"waiting": 0.2}, "it waits for data 20% of the time"),
        ({"exposed_s": 0.0}, "nothing of its communication is exposed"),
    ],
)
def test_what_is_left_alone(changes: dict[str, Any], why: str) -> None:
    """With its reason."""
    found = plan(run(**changes))
    assert (found.change, found.reason) == (False, why)


def test_sizes_stay_while_they_gain_more_than_three_per_cent() -> None:
    """Against the median of the runs without: first ones, and those of the control group."""
    usual = [run(step_s=step_s) for step_s in (1.01, 0.99, 1.0)]
    kept = plan(tried(0.9), *usual)
    assert kept.change
    assert kept.measured
    assert (kept.caps, kept.before_s, kept.after_s) == ("4096", 1.0, 0.9)
    edge = 1 / (1 + KEEP)
    assert plan(tried(edge - 1e-6), *usual).measured
    assert not plan(tried(edge + 1e-6), *usual).measured


def test_sizes_that_do_not_gain_are_dropped_and_others_tried_once() -> None:
    """What was tried teaches the link; the same sizes are never tried again."""
    second = plan(tried(1.0, exposed_s=0.25), FIRST)
    assert second.caps != "4096"
    other = run(step_s=0.99, caps="8192", exposed_s=0.25, bucket_bytes=(8.0 * MIB,) * 4)
    found = plan(other, tried(1.0, exposed_s=0.25), FIRST)
    assert (found.change, found.reason) == (
        False,
        "2 other bucket sizes made it less than 3% faster",
    )


def test_sizes_that_were_good_and_are_no_longer_are_dropped() -> None:
    """The newest eight of each kind count."""
    old = [tried(0.8)] * 8
    new = [tried(1.0)] * 8
    assert plan(*old, FIRST).measured
    assert not plan(*new, *old, FIRST).measured


def test_the_faster_of_two_kinds_stays() -> None:
    """Whichever was tried first."""
    found = plan(tried(0.9), run(step_s=0.85, caps="8192"), FIRST)
    assert found.caps == "8192"


@pytest.mark.parametrize(
    "changes",
    [{"signature": "0" * 12}, {"ranks": 4}, {"accelerator": "V100"}, {"backend": "nccl"}],
)
def test_other_models_ranks_and_gpus_are_not_compared(changes: dict[str, Any]) -> None:
    """A run of the other kind has to be measured first; its own first run is all that counts."""
    found = plan(run(**changes), tried(0.5), FIRST)
    assert (found.change, found.measured) == (True, False)
    assert found.signature == run(**changes).signature
    assert found.ranks == run(**changes).ranks


@pytest.mark.parametrize(
    "changes",
    [{"batch_size": 16.0}, {"data_key": 8}, {"syncs": 0.5}],
    ids=lambda one: next(iter(one)),
)
def test_batches_of_other_work_gain_nothing(changes: dict[str, Any]) -> None:
    """A smaller batch, shorter samples or gradients that are added up make a batch faster alone."""
    assert not plan(replace(tried(0.5), **changes), FIRST, FIRST).measured
    assert plan(
        replace(tried(0.5), syncs=0.99), FIRST, FIRST
    ).measured  # one left out by its scaler


def test_sizes_that_gain_are_kept_though_its_batches_grew() -> None:
    """Runs with larger batches are held to one of their own with torch's buckets, which is next."""
    larger = [replace(tried(1.7, caps), batch_size=64.0) for caps in ("8192", "4096")]
    assert plan(*larger, FIRST, FIRST).reason == ("no run of it with torch's own buckets is known")
    assert plan(run(batch_size=64.0, step_s=2.0), *larger, FIRST).measured


def test_nothing_is_known_without_a_run_with_torchs_own_buckets() -> None:
    """None of the control group is left, or they had sizes of the program's own."""
    own = run(user_caps=True)
    assert plan(tried(0.8), own).reason == "no run of it with torch's own buckets is known"


def test_a_rank_that_did_not_agree_is_remembered() -> None:
    """For eight runs: its others wait for it half a minute each time."""
    refused = run(left_alone="its ranks do not agree on buckets")
    assert not plan(*[FIRST] * 7, refused).change
    assert plan(*[FIRST] * 8, refused).change


def test_the_newest_run_says_what_the_evidence_is_of() -> None:
    """So that a prediction from it can be scaled to the buckets that a job will have."""
    assert plan(FIRST).newest_s == 1.0
    assert plan(tried(0.9), FIRST).newest_s == 0.9
    assert plan(FIRST, tried(0.9)).newest_s == 1.0
