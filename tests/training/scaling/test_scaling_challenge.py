"""What a site's own runs teach about growing with GPUs, and whether that serves."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_ext.core.records import LoaderRun
from slurm_ext.history.views.columns import TRAINING_COLUMNS
from slurm_ext.model.artifact_store import current
from slurm_ext.model.scaling.artifact import load
from slurm_ext.model.scaling.multi_gpu_estimate import gpus_and_nodes, measurement_of
from slurm_ext.training.scaling.challenge import FEWEST, challenge
from slurm_ext.training.scaling.history_runs import rows

PLACES = ((1, 1), (2, 1), (4, 1), (8, 2), (16, 4))  # GPUs, nodes
SLOW_NETWORK = 3.0  # steps more, on any training here that spans nodes


def run(gpus: int, nodes: int, rate: float) -> LoaderRun:
    """A run with one rank a GPU; `rate`: samples/s of one rank."""
    values: dict[str, Any] = {
        "samples_per_s": 0.9 * rate,
        "workers": 4,
        "cores": 4.0,
        "batch_size": 32.0,
        "accel_samples_per_s": rate,
        "fetch_wall_s": 0.1 / rate,
        "fetch_cpu_s": 0.05 / rate,
        "main_cpu_s": 0.0001,
        "gpus": gpus // nodes,
        "nodes": nodes,
        "ranks": gpus,
        "gpu_model": "NVIDIA T4",
    }
    return LoaderRun(**values)


def history(trainings: int) -> Iterator[list[Any]]:
    """Rows of trainings that all lose the same part of their step to a slow network."""
    rng = np.random.default_rng(5)
    for training in range(trainings):
        alone = 100.0 * 3**training
        for gpus, nodes in PLACES:
            step = 1 + (SLOW_NETWORK if nodes > 1 else 0.02 * (gpus > 1))
            row = asdict(run(gpus, nodes, alone / step * rng.lognormal(0, 0.02)))
            row |= {"end_s": 1e9, "elapsed_s": 9.0, "state": "COMPLETED", "user": "u"}
            row["key_script"] = training
            yield [row.get(name) for name in TRAINING_COLUMNS]


def test_where_a_run_ran_is_told_or_not_known() -> None:
    """Older records do not say how many nodes their GPUs were on."""
    assert gpus_and_nodes(run(8, 2, 100.0)) == (8, 2)
    assert gpus_and_nodes(replace(run(1, 1, 100.0), nodes=None)) == (1, 1)
    assert measurement_of(replace(run(4, 1, 100.0), nodes=None)) is None
    assert measurement_of(replace(run(4, 1, 100.0), gpus=0)) is None


def test_only_trainings_at_several_counts_show_growth() -> None:
    """One number of GPUs teaches nothing here; runs without numbers are passed over."""
    table = [*history(2)]
    first = [row for row in table if row[TRAINING_COLUMNS.index("key_script")] == 0]
    assert rows(first[:1], TRAINING_COLUMNS) == []
    torn = [
        None if name == "fetch_wall_s" else value
        for name, value in zip(TRAINING_COLUMNS, first[0], strict=True)
    ]
    assert len(rows([*first, torn], TRAINING_COLUMNS)) == len(PLACES)
    assert {one.cluster for one in rows(table, TRAINING_COLUMNS)} == {"NVIDIA T4"}


def test_of_each_config_the_newest_run_counts() -> None:
    """A training that runs every night on one GPU does not push out what it did on others."""
    table = [*history(1)]
    nights = [table[0] for _ in range(200)]
    found = rows([*nights, *table[::-1]], TRAINING_COLUMNS)
    assert {(one.measured.config.gpus, one.measured.config.nodes) for one in found} == {*PLACES}
    assert len(found) == len(PLACES)


def test_too_few_trainings_are_not_learnt_from(tmp_path: Path) -> None:
    """The report says how many there are and how many are needed; nothing is written."""
    report = challenge(rows(history(FEWEST - 1), TRAINING_COLUMNS), tmp_path)
    assert not report.promoted
    assert str(FEWEST) in report.why
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_all_feel_is_foretold_to_the_next(tmp_path: Path) -> None:
    """What several trainings lost over nodes is known of one that ran on a single GPU only."""
    report = challenge(rows(history(FEWEST + 1), TRAINING_COLUMNS), tmp_path)
    assert report.promoted, report.why
    assert report.scores is not None
    ours, physics = (report.scores[name]["median_error"] for name in ("ours", "physics"))
    assert ours < 0.75 * physics
    folder = current(tmp_path / "scaling")
    assert folder is not None
    assert folder.name == report.model
    assert len(load(folder).models) == FEWEST + 1


def test_learning_twice_writes_once(tmp_path: Path) -> None:
    """The same history gives the same artifact, and the second training finds it there."""
    table = rows(history(FEWEST), TRAINING_COLUMNS)
    assert challenge(table, tmp_path) == challenge(table, tmp_path)
    names = [one.name for one in (tmp_path / "scaling").iterdir()]
    assert len(names) == 2


@pytest.mark.parametrize("rate", [0.0, -1.0])
def test_impossible_rates_are_passed_over(rate: float) -> None:
    """A row that cannot be a measurement is no evidence, whoever wrote it."""
    bad = asdict(run(1, 1, 100.0)) | {"accel_samples_per_s": rate, "key_script": 0}
    assert rows([[bad.get(name) for name in TRAINING_COLUMNS]], TRAINING_COLUMNS) == []
