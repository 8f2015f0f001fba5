"""The proof of slow nodes: streams have what they say, and alarms are counted as they are."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from contrib.bench.slow_nodes import detectors, records
from contrib.bench.slow_nodes.__main__ import _judged, _pooled
from contrib.bench.slow_nodes.rank_windows import ranks_right
from contrib.bench.throughput.tables import NAME
from slurm_ext.core.errors import InputError
from tests.bench.test_throughput import HEAD

NOISE = np.random.default_rng(0).normal(0, 0.02, 500)


def tables(folder: Path, clusters: tuple[str, ...]) -> Path:
    """Ten batches of a model on each cluster; the second one is 5 % slower, one row 10 %."""
    lines = [HEAD]
    for cluster in clusters:
        for batch in range(1, 12):
            slower = {"dgx-ext": 1.05}.get(cluster, 1.0) * (1.05 if batch == 11 else 1.0)
            slower = 1.05 if cluster == "dgx" and batch == 11 else slower
            rate = 100.0 * batch / slower
            lines.append(f"bert,{cluster},placements,1,1,1,{batch},{batch / rate},0,{rate}")
    (folder / NAME).write_bytes(gzip.compress("\n".join(lines).encode()))
    return folder


def test_noise_is_what_repetitions_differ_by(tmp_path: Path) -> None:
    """A cluster that is slower as a whole is no noise."""
    noise = records.published_noise(tables(tmp_path, ("dgx", "dgx-ext")))
    assert len(noise) == 11
    assert np.abs(noise).max() < 1e-9
    with pytest.raises(InputError, match="dgx-ext"):
        records.published_noise(tables(tmp_path, ("dgx",)))


def test_an_injected_node_is_slower_from_its_moment_on() -> None:
    """All of its runs, and no other node's."""
    dice = np.random.default_rng(1)
    jobs = records.made_up(dice, nodes=4, days=10, a_day=20, users=5)
    injected = records.Injected("n2", 5 * records.DAY_S, 0.15)
    plain, slow = (
        records.on_nodes(np.random.default_rng(2), jobs, NOISE, 4, some)
        for some in ([], [injected])
    )
    for one, other in zip(plain, slow, strict=True):
        hit = one.unit == "n2" and one.at_s >= injected.from_s
        assert one.log_rate - other.log_rate == pytest.approx(np.log(1.15) if hit else 0)


def test_a_slow_node_raises_an_alarm_and_a_healthy_one_does_not() -> None:
    """By ours; jobs until then are counted on the slow node alone."""
    dice = np.random.default_rng(3)
    jobs = records.made_up(dice, nodes=8, days=30, a_day=10, users=6)
    injected = records.Injected("n2", 15 * records.DAY_S, 0.15)
    runs = records.on_nodes(dice, jobs, NOISE, 8, [injected])
    judged = _judged(runs, detectors.ours(runs), injected)
    assert judged["false"] == 0
    assert 3 <= judged["jobs"] <= 20 < judged["jobs_left"]


def test_the_plain_mean_sees_a_slow_node_too() -> None:
    """Else it were no baseline."""
    jobs = [(float(at), "u", "t") for at in range(2000)]
    injected = records.Injected("n1", 1000.0, 0.3)
    runs = records.on_nodes(np.random.default_rng(3), jobs, NOISE / 9, 8, [injected])
    assert injected.node in {one.node for one in detectors.mean_per_node(runs)}


def test_what_was_never_found_is_not_found_late() -> None:
    """It counts as a miss, and has no number of jobs."""
    trial = {"jobs_left": 50, "false": 1, "node_days": 500.0}
    pooled = _pooled([{**trial, "jobs": 5}, {**trial, "jobs": None}, {**trial, "jobs": 30}])
    assert pooled["found_in_20"] == pytest.approx(1 / 3)
    assert pooled["never"] == 1
    assert pooled["false_per_1000_node_days"] == pytest.approx(2.0)


def test_most_kinds_of_straggling_are_told_right() -> None:
    """More of them than by the longest mean."""
    found = ranks_right(np.random.default_rng(1), NOISE, 60)
    assert found["right"] > max(0.8, found["baselines"]["longest_mean"])
