"""What trainings teach about the next one: transfer, calibration, export."""

import json
from dataclasses import replace
from functools import cache
from math import log
from pathlib import Path

import numpy as np
import pytest

from slurm_ext.core.errors import InputError, ModelError
from slurm_ext.model.scaling.artifact import ABOUT, ARRAYS, load, serialize
from slurm_ext.model.scaling.family import Family
from slurm_ext.model.scaling.model import ScalingMeasurement, TrainingConfig, fit
from slurm_ext.model.scaling.terms import columns, log_step
from slurm_ext.training.challenger import reproduces
from slurm_ext.training.promotion import install, promote
from slurm_ext.training.scaling.challenge import difference
from slurm_ext.training.scaling.fit import learn, without
from slurm_ext.training.scaling.interval_calibration import trained
from slurm_ext.training.scaling.rows import ScalingRow, by_pair, drawn, others, structured

MODELS = {"alpha": (0.05, 0.0), "beta": (0.5, -1.0), "gamma": (2.0, 1.0)}  # step s, fixed share
CLUSTERS = {"fast": -3.0, "slow": 0.5, "slower": 1.0}  # log network step over two nodes
CONFIGS = [
    TrainingConfig(gpus=gpus, nodes=nodes, local_batch=batch)
    for gpus, nodes in ((1, 1), (2, 1), (4, 1), (2, 2), (4, 2), (8, 2), (4, 4), (16, 4))
    for batch in (8.0, 16.0, 32.0, 64.0)
]


def points(model: str, cluster: str, noise: float = 0.02) -> list[ScalingMeasurement]:
    """A training's measurements: the terms, times log-normal noise."""
    step, fixed = MODELS[model]
    across = CLUSTERS[cluster]
    terms = np.array((log(step), fixed, 0.03, across - 1.0, 0.4, across, 0.3, 0.3, 0.0, 0.0, -0.5))
    at = columns(CONFIGS)
    seed = [*model.encode(), *cluster.encode()]
    off = np.random.default_rng(seed).normal(0, noise, len(at))
    rates = np.exp(np.log(at[:, 1]) + at[:, 0] - log_step(terms, at, log(8.0)) + off)
    return [
        ScalingMeasurement(config=c, samples_per_s=float(r))
        for c, r in zip(CONFIGS, rates, strict=True)
    ]


def rows(*, but: tuple[str, str] | None = None) -> list[ScalingRow]:
    """Every training but one."""
    return [
        ScalingRow(model=model, cluster=cluster, measured=one)
        for model in MODELS
        for cluster in CLUSTERS
        if (model, cluster) != but
        for one in points(model, cluster)
    ]


@cache
def family() -> Family:
    """Learnt once for all tests; gamma on the slowest cluster is what it has not seen."""
    return trained(rows(but=("gamma", "slower")))


def test_kin_foretell_what_was_not_measured() -> None:
    """From two batches on one GPU, a known cluster's network is foretold far better than usual."""
    mine = points("gamma", "slower")
    truth = np.array([one.samples_per_s for one in mine])
    errors = []
    for prior in (family().prior(model="gamma", cluster="slower"), None):
        told, _, _ = fit(mine[:2], prior).rates(CONFIGS)
        errors.append(float(np.median(np.abs(told / truth - 1))))
    assert errors[0] < 0.5 * errors[1]


def test_unknown_names_are_answered_too() -> None:
    """A model and a cluster that nobody has seen get the common prior, and an interval."""
    prior = family().prior(model="new", cluster="elsewhere")
    rate, interval = fit(points("beta", "slow")[:6], prior).rate(CONFIGS[-1])
    assert 0 < interval.low < rate < interval.high


def test_intervals_hold_nine_in_ten_of_the_unseen() -> None:
    """On a training that was not learnt from, at least eight in ten rows fall inside."""
    mine = points("gamma", "slower")
    prior = family().prior(model="gamma", cluster="slower")
    inside = []
    for seed in range(4):
        seen = drawn(mine, 6, seed)
        left = [mine[place] for place in others(mine, seen)]
        _, low, high = fit([mine[place] for place in seen], prior).rates([o.config for o in left])
        measured = np.array([one.samples_per_s for one in left])
        inside.append(((low <= measured) & (measured <= high)).mean())
    assert np.mean(inside) > 0.8


def test_what_is_left_out_is_not_known() -> None:
    """Without a model, nothing of its rows is left and its name is a stranger's."""
    less = without(family(), model="alpha")
    assert len(less.at) < len(family().at)
    alpha, stranger = (less.term_prior(model=name, cluster="fast") for name in ("alpha", "new"))
    assert alpha.means == pytest.approx(stranger.means)
    assert alpha.log_batch0 is stranger.log_batch0 is None


def test_one_training_alone_can_be_learnt_from() -> None:
    """The first training of a site is a family, with usual widths; nobody can be held out."""
    only = [row for row in rows() if (row.model, row.cluster) == ("alpha", "fast")]
    told = fit(points("alpha", "fast")[:2], trained(only).prior(model="alpha", cluster="fast"))
    assert told.rate(CONFIGS[3])[0] > 0


def test_nothing_to_learn_from_is_said() -> None:
    """No rows, no family; and the last training cannot be left out."""
    with pytest.raises(InputError, match="at least one"):
        learn([])
    only = learn([row for row in rows() if (row.model, row.cluster) == ("alpha", "fast")])
    with pytest.raises(InputError, match="none is left"):
        without(only, model="alpha")


def test_learning_is_the_same_each_time() -> None:
    """Two learnings from the same rows, in another order, answer the same."""
    some = [row for row in rows() if row.cluster != "slower"]
    one, other = learn(some), learn(sorted(some, key=lambda row: row.model, reverse=True))
    assert difference(one, other) < 1e-9


def test_structured_points_are_the_profilers_first() -> None:
    """One GPU's two ends of the batch come first; no config twice, nor one that is not there."""
    mine = points("alpha", "fast")
    chosen = [mine[place].config for place in structured(mine, 6)]
    assert [(c.gpus, c.local_batch) for c in chosen[:2]] == [(1, 8.0), (1, 64.0)]
    assert {c.nodes for c in chosen} == {1, 2, 4}
    assert len(set(structured(mine[:5], 12))) == 5


def test_a_revealed_config_is_not_asked_for_again() -> None:
    """A second measurement of a revealed config is neither drawn nor asked."""
    twice = [*points("alpha", "fast"), *points("alpha", "fast")]
    seen = drawn(twice, 20, 3)
    configs = {twice[place].config for place in seen}
    assert len(configs) == 20
    assert not configs & {twice[place].config for place in others(twice, seen)}
    assert len(drawn(twice, 99, 3)) == len(CONFIGS)


def test_pairs_keep_their_rows() -> None:
    """Rows are grouped by model and cluster, none lost."""
    assert sum(len(mine) for mine in by_pair(rows()).values()) == len(rows())


CHECK = reproduces(lambda folder: difference(load(folder), family()))


def test_an_exported_family_answers_the_same(tmp_path: Path) -> None:
    """What is read back foretells what was learnt."""
    name = promote(tmp_path, "scaling", serialize(family()), CHECK)
    assert difference(load(tmp_path / name), family()) < 1e-9


def test_a_family_that_does_not_read_back_serves_nobody(tmp_path: Path) -> None:
    """One that model/ would not reproduce is not promoted."""
    other = replace(family(), noise_sd=2 * family().noise_sd)
    with pytest.raises(ModelError, match="not promoted"):
        promote(tmp_path, "scaling", serialize(other), CHECK)
    assert list(tmp_path.iterdir()) == []


def changed(data: bytes, key: str, value: object) -> bytes:
    """The JSON with another value, as of a release that gave it no checksum."""
    body = json.loads(data)
    del body["sha256"]
    return json.dumps({**body, key: value}).encode()


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (ARRAYS, lambda data: data[:-9]),
        (ARRAYS, lambda _: b""),
        (ABOUT, lambda _: b"{"),
        (ABOUT, lambda _: b"[]"),
        (ABOUT, lambda data: changed(data, "format", 99)),
        (ABOUT, lambda data: changed(data, "terms", [])),
        (ABOUT, lambda data: changed(data, "noise_sd", None)),
    ],
)
def test_a_damaged_family_is_named(tmp_path: Path, name: str, damage: object) -> None:
    """Torn, empty, foreign or of another version: the file is named, nothing is guessed."""
    install(tmp_path, "scaling", serialize(family()))
    path = tmp_path / "scaling" / name
    assert callable(damage)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ModelError, match=name):
        load(tmp_path / "scaling")
