"""Training: judged by later runs, promoted whole or not at all, never against its incumbent."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurm_ext.core.errors import ModelError
from slurm_ext.core.unsupported_loader import UnsupportedLoader
from slurm_ext.history.store.names import STORED_LEVELS
from slurm_ext.history.views.columns import TRAINING_COLUMNS
from slurm_ext.model import artifact_store
from slurm_ext.model.throughput import artifact as throughput_artifact
from slurm_ext.model.throughput.features import PriorInput
from slurm_ext.training.scaling.history_runs import rows
from slurm_ext.training.throughput import challenge as throughput_challenge
from slurm_ext.training.throughput.challenge import FEWEST, challenge
from slurm_ext.training.throughput.dataset import Example, examples, split
from slurm_ext.training.throughput.fit import difference, fit, matrix, weights_of
from slurm_ext.training.throughput.scoring import naive, score, widened


def row(number: int, rng: random.Random, *, noise: float = 0.1) -> tuple[Any, ...]:
    """A run of one of 4 users with one of 3 programs, whose costs depend on both."""
    user, kind = rng.randrange(4), rng.randrange(3)
    wall = 0.002 * 3**kind * (1 + user) * rng.lognormvariate(0, noise)
    accel = 500 * 2**kind * rng.lognormvariate(0, noise)
    workers = rng.choice([1, 2, 4])
    values: dict[str, Any] = dict.fromkeys(TRAINING_COLUMNS)
    values |= {
        "end_s": 1e9 + number,
        "elapsed_s": 60.0,
        "state": "COMPLETED",
        "user": f"user{user}",
        "partition": "gpu",
        "key_kind": 1000 + kind,
        "key_user_name": 2000 + user,
        "key_script": 3000 + 10 * user + kind,
        "samples_per_s": min(accel, workers / wall) * 0.95,
        "workers": workers,
        "cores": 8.0,
        "batch_size": 32.0,
        "accel_samples_per_s": accel,
        "fetch_wall_s": wall,
        "fetch_cpu_s": wall * 0.3,
        "emulated": 0,
        "gpus": 1,
    }
    return tuple(values[name] for name in TRAINING_COLUMNS)


def history(count: int, seed: int = 1, noise: float = 0.1) -> list[Example]:
    """Examples of `count` such runs."""
    rng = random.Random(seed)
    rows_by_end = [row(n, rng, noise=noise) for n in range(count)]
    return examples(rows_by_end[::-1], TRAINING_COLUMNS)


@pytest.fixture(scope="module")
def every() -> list[Example]:
    """Enough runs to learn from."""
    return history(400)


def test_no_run_is_judged_by_an_older_one(every: list[Example]) -> None:
    """Every test run ended after every run that the fit or its widths saw; none is in two parts."""
    parts = split(every)
    assert parts.train[-1].end_s <= parts.calibrate[0].end_s
    assert parts.calibrate[-1].end_s <= parts.test[0].end_s
    assert len(parts.train) + len(parts.calibrate) + len(parts.test) == len(every)


def test_the_prior_beats_the_naive_median_on_later_runs(every: list[Example]) -> None:
    """What programs and users share is learnt, and the interval holds about nine in ten."""
    parts = split(every)
    weights = widened(fit(parts.train, 0, lambda *_: None)[0], parts.calibrate)
    ours = score(weights, parts.test)
    assert ours["mae"] < 0.5 * naive(parts.train, parts.test)["mae"]
    assert 0.8 <= ours["coverage90"] <= 1


def test_the_same_data_and_seed_give_the_same_model(every: list[Example], tmp_path: Path) -> None:
    """A training can be repeated to the last bit; another seed gives another model."""
    names = [challenge(every, tmp_path / str(n), seed=n // 2).model for n in range(3)]
    assert names[0] is not None
    assert names[0] == names[1] != names[2]


def test_a_first_model_is_promoted_and_answers_as_it_was_fitted(
    every: list[Example], tmp_path: Path
) -> None:
    """models/current leads to an artifact that loads and gives the scored answers."""
    report = challenge(every, tmp_path)
    assert report.promoted
    current = artifact_store.current(tmp_path)
    assert current is not None
    loaded = throughput_artifact.load(current)
    assert loaded.name == report.model
    assert report.scores is not None
    assert score(dict(loaded.weights), split(every).test) == report.scores["ours"]
    prior = loaded.prior(every[-1].known)
    assert abs(prior.accel.log_mean - every[-1].targets[0]) < 1


def test_a_challenger_that_is_no_better_leaves_the_incumbent_alone(
    every: list[Example], tmp_path: Path
) -> None:
    """Training again on the same runs does not swap the model, and says why."""
    first = challenge(every, tmp_path)
    again = challenge(every, tmp_path)
    assert not again.promoted
    assert "serving" in again.why
    assert (tmp_path / "current").readlink() == Path(str(first.model))


def test_too_few_runs_are_said_and_change_nothing(tmp_path: Path) -> None:
    """Below the minimum there is a reason, no model and no folder."""
    report = challenge(history(FEWEST - 1), tmp_path / "models")
    assert not report.promoted
    assert str(FEWEST) in report.why
    assert not (tmp_path / "models").exists()


def test_noise_is_not_promoted(tmp_path: Path) -> None:
    """Where names tell nothing, the naive median stays unbeaten and nothing serves."""
    rng = random.Random(5)
    shuffled = history(200)
    targets = [one.targets for one in shuffled]
    rng.shuffle(targets)
    every = [
        Example(one.end_s, one.known, target) for one, target in zip(shuffled, targets, strict=True)
    ]
    report = challenge(every, tmp_path)
    assert not report.promoted
    assert artifact_store.current(tmp_path) is None


def test_a_damaged_incumbent_is_replaced(every: list[Example], tmp_path: Path) -> None:
    """A model that cannot be read serves nobody and does not stand in the way."""
    first = challenge(every, tmp_path)
    (tmp_path / str(first.model) / "weights.npz").write_bytes(b"torn")
    report = challenge(every, tmp_path, seed=1)
    assert report.promoted
    assert report.model != first.model


def test_what_model_does_not_reproduce_is_not_exported(
    every: list[Example], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were the shipped forward pass to differ from the fitted network, nothing would change."""
    monkeypatch.setattr(throughput_challenge, "difference", lambda *_: 1e-3)
    with pytest.raises(ModelError, match="not promoted"):
        challenge(every, tmp_path)
    assert artifact_store.current(tmp_path) is None


def test_torch_and_model_agree_to_rounding(every: list[Example]) -> None:
    """The numpy forward pass is the fitted network, whatever the inputs."""
    weights, network = fit(every[:100], 3, lambda *_: None)
    wild = np.random.default_rng(0).normal(0, 10, (50, matrix(every[:1]).shape[1]))
    assert difference(network, weights, wild) < 1e-9


def test_rows_come_out_as_the_features_of_a_submission(every: list[Example]) -> None:
    """Training sees user, partition, GPUs and keys: what a submission shows, nothing measured."""
    known = every[0].known
    assert known.user is not None
    assert known.user.startswith("user")
    assert known.gpus == 1
    assert set(known.keys) == set(STORED_LEVELS)


@pytest.mark.parametrize("name", ["samples_per_s", "fetch_wall_s", "batch_size", "end_s"])
@pytest.mark.parametrize("value", [None, 0.0, -1.0, float("nan")])
def test_a_row_without_a_measurement_is_left_out(name: str, value: float | None) -> None:
    """One odd row of an import does not end a training."""
    rows = [row(number, random.Random(number)) for number in range(3)]
    odd = list(rows[1])
    odd[TRAINING_COLUMNS.index(name)] = value
    assert len(examples([rows[0], odd, rows[2]], TRAINING_COLUMNS)) == 2


@pytest.mark.parametrize("name", ["batch_size", "cores"])
def test_a_row_of_absurd_sizes_ends_no_training(name: str) -> None:
    """One user's claim of a batch, or cores, next to nothing is left out wherever runs teach."""
    odd = list(_growing("ada", 0, 1))
    odd[TRAINING_COLUMNS.index("end_s")] = 2e9
    sound, odd[TRAINING_COLUMNS.index(name)] = tuple(odd), 1e-300
    assert len(examples([odd, sound], TRAINING_COLUMNS)) == 1
    assert rows([odd, _growing("ada", 0, 2)], TRAINING_COLUMNS) == []


def test_runs_whose_curve_is_ignored_teach_nothing() -> None:
    """A loop that read ahead into memory shows neither others nor itself how fast it trains."""
    flagged = [list(_growing("ada", 0, gpus)) for gpus in (1, 2)]
    for one in flagged:
        one[TRAINING_COLUMNS.index("end_s")] = 2e9
    assert len(examples(flagged, TRAINING_COLUMNS)) == len(rows(flagged, TRAINING_COLUMNS)) == 2
    for one in flagged:
        one[TRAINING_COLUMNS.index("doubt")] = UnsupportedLoader.CLOCKS_DISAGREE
    assert (examples(flagged, TRAINING_COLUMNS), rows(flagged, TRAINING_COLUMNS)) == ([], [])


def test_the_report_is_json(every: list[Example], tmp_path: Path) -> None:
    """Every figure of a report can be printed as one JSON object."""
    report = challenge(every, tmp_path)
    assert json.loads(json.dumps(report.scores)) == report.scores


def test_one_users_runs_are_a_third_of_the_prior_at_most(every: list[Example]) -> None:
    """However many: an absurd user's claims move a stranger's prior as far as a third of it."""
    honest = every[:60]
    claim = replace(every[0], known=PriorInput(user="mallory", keys={}), targets=(50.0, 9.0, 9.0))
    for count in (100, 1000):
        weights = weights_of([*honest, *[claim] * count])
        assert weights[len(honest) :].sum() <= weights.sum() / 3 + 1e-9
    means = fit([*honest, *[claim] * 300], 0, lambda *_: None)[0]["shift"]
    assert means[0] <= honest[0].targets[0] + 0.34 * 50.0


def test_growth_with_gpus_is_of_nobody_alone() -> None:
    """Of a user with many trainings, the newest as many as the others' allow."""
    table = [
        _growing(user, number, gpus)
        for user, count in (("mallory", 20), ("ada", 2), ("bob", 3))
        for number in range(count)
        for gpus in (1, 2)
    ]
    kept = {row.model for row in rows(table[::-1], TRAINING_COLUMNS)}
    assert kept == {"118", "119", "200", "201", "301", "302"}


def _growing(user: str, number: int, gpus: int) -> tuple[object, ...]:
    key = {"mallory": 100, "ada": 200, "bob": 300}[user] + number
    named = dict.fromkeys(TRAINING_COLUMNS) | {
        "user": user,
        "key_script": key,
        "samples_per_s": 90.0,
        "accel_samples_per_s": 100.0,
        "fetch_wall_s": 0.01,
        "fetch_cpu_s": 0.01,
        "batch_size": 32.0,
        "cores": 4.0,
        "workers": 4,
        "gpus": gpus,
        "ranks": gpus,
        "nodes": 1,
        "gpu_model": "T4",
        "emulated": 0,
    }
    return tuple(named[name] for name in TRAINING_COLUMNS)
