"""Facts of records, as the probe and the node leave them, and the advice that rests on them."""

import copy
import random
from dataclasses import replace
from typing import Any

import pytest

from contrib.bench.advice.ranks import RankedJob, ranked_record
from contrib.bench.advice.training import Job, record
from slurm_ext.core.advice.from_record import advice_of, facts_of

RANKED = RankedJob(comm=1.6, buckets=10, nodes=2, node_cores=8)
STARVED = Job(workers=1, sleep_s=0.012, cpu_s=0.001, step_s=0.04)


@pytest.fixture(scope="module")
def starved() -> dict[str, Any]:
    """The record of a training whose one worker sleeps."""
    return record(STARVED, random.Random(1))


def test_the_facts_are_those_of_the_run(starved: dict[str, Any]) -> None:
    """Parts of a step, costs of a worker and the loop's length, all from one record."""
    facts = facts_of(starved)
    assert facts is not None
    assert facts.loader is not None
    assert facts.loader.workers == 1
    assert facts.loader.wall_s == pytest.approx(8 * 0.013, rel=0.1)
    assert facts.step_s == pytest.approx(8 * 0.013, rel=0.1)
    assert facts.loop_s == pytest.approx(0.04, rel=0.1)
    assert facts.measured_s == pytest.approx(STARVED.lasts_s, rel=0.1)


def test_the_advice_tells_seconds_of_the_run(starved: dict[str, Any]) -> None:
    """More than half of 45 s goes away with three workers."""
    first = advice_of(starved)[0]
    assert (first["word"], first["action"]) == ("data", "more_workers")
    assert 20 < first["removable_s"] < 35
    assert first["option"] == f"DataLoader(num_workers={first['value']})"


def test_the_option_is_the_frameworks(starved: dict[str, Any]) -> None:
    """A program that imported Lightning sets workers where Lightning makes its loader."""
    other = copy.deepcopy(starved)
    other["probe"]["summaries"][0]["frameworks"] = ["pytorch_lightning"]
    assert "LightningDataModule" in advice_of(other)[0]["option"]


def test_an_iterable_dataset_keeps_its_workers(starved: dict[str, Any]) -> None:
    """Each further worker would read all of its data again."""
    other = copy.deepcopy(starved)
    other["probe"]["summaries"][0]["loaders"][0]["style"] = "iterable"
    assert advice_of(other) == []


@pytest.mark.parametrize("probe", [None, {"summaries": []}, {"summaries": [{"loaders": []}]}])
def test_nothing_measured_is_nothing_said(starved: dict[str, Any], probe: Any) -> None:
    """A record without a training has no advice, and no fault of it ends in an error."""
    assert advice_of({**starved, "probe": probe}) == []


def test_an_older_record_lacks_fields_and_keeps_its_advice(starved: dict[str, Any]) -> None:
    """A probe of before told neither first waits nor percentiles nor communication."""
    older = copy.deepcopy(starved)
    summary = older["probe"]["summaries"][0]
    del summary["communication"], summary["frameworks"]
    for phase in summary["loaders"][0]["phases"]:
        for name in ("first_wait_s", "fetch_p50_s", "fetch_p99_s"):
            del phase[name]
    assert [one["action"] for one in advice_of(older)] == ["more_workers"]


def test_ranks_of_a_node_share_its_cores() -> None:
    """Two ranks on a node of 64 have room for 32 each: those of one node count, not the job's."""
    both, apart = (
        facts_of(ranked_record(replace(RANKED, nodes=nodes), random.Random(1))) for nodes in (1, 2)
    )
    assert both is not None
    assert apart is not None
    assert (both.room_cores, apart.room_cores) == (32.0, 64.0)


def test_ranks_of_two_nodes_that_fit_one(starved: dict[str, Any]) -> None:
    """The slow link is told with its condition: one node has the cores for all ranks."""
    del starved
    apart = ranked_record(RANKED, random.Random(1))
    assert advice_of(apart, apart["beside"])[0]["action"] == "one_node"
    apart["host"]["cores"] = 3
    assert "one_node" not in {one["action"] for one in advice_of(apart, apart["beside"])}
