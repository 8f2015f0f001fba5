"""The proof of `recommend --nodes`: its truth is measured, its questions can be answered."""

import gzip
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from contrib.bench.recommend import choosers, gradients, oracle, trials
from contrib.bench.recommend.__main__ import _scores
from contrib.bench.recommend.measured import SIZES, Measured, Place
from contrib.bench.recommend.tables import Question, question
from contrib.bench.throughput.tables import NAME
from slurm_ext.model.scaling.model import ScalingMeasurement, TrainingConfig
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.training.scaling.rows import ScalingRow

SPEED = {"T4": 100.0, "RTX2080Ti": 150.0, "A100": 400.0}


def rows(model: str = "bert") -> list[ScalingRow]:
    """A training that loses a tenth of its speed with each doubling of GPUs."""
    return [
        ScalingRow(
            model=model,
            cluster=gpu,
            measured=ScalingMeasurement(
                config=TrainingConfig(
                    gpus=size * nodes, nodes=nodes, local_batch=batch, placement=(size,) * nodes
                ),
                samples_per_s=SPEED[gpu] * size * nodes * 0.9 ** np.log2(size * nodes),
            ),
        )
        for gpu, sizes in SIZES.items()
        for size in sizes
        for nodes in (1, 2, 3)
        for batch in (8.0, 16.0)
    ]


@pytest.fixture(scope="module")
def asked() -> list[Question]:
    """Some questions."""
    dice = np.random.default_rng(1)
    return [question(dice, {"bert": Measured(rows())}) for _ in range(30)]


def test_a_rate_is_a_measured_one() -> None:
    """At a measured batch as it is, between two on the line of logs, outside of them unknown."""
    place = Place("T4", 1, 1)
    both = [
        ScalingRow(
            model="m",
            cluster="T4",
            measured=ScalingMeasurement(
                config=TrainingConfig(gpus=1, nodes=1, local_batch=batch), samples_per_s=rate
            ),
        )
        for batch, rate in ((4.0, 10.0), (16.0, 40.0))
    ]
    found = Measured(both)
    assert found.rate(place, 4.0) == pytest.approx(10)
    assert found.rate(place, 8.0) == pytest.approx(20)
    assert found.rate(place, 3.0) is None
    assert found.rate(Place("T4", 1, 2), 4.0) is None


def test_every_question_has_an_answer(asked: list[Question]) -> None:
    """Some shape meets the deadline, the measured one is in the table, prices differ."""
    for one in asked:
        assert (f"{one.here.each}x{one.here.gpu}", 1) in one.truth
        assert 0 < one.cheapest() < float("inf")
        assert len({node.gpu for node in one.table}) > 1
    assert len({one.goal.deadline_s for one in asked}) == len(asked)


def _cheapest(one: Question) -> tuple[str, int]:
    """The shape that costs least within the deadline, by its true rates."""
    inside = [shape for shape in one.truth if one.time_s(*shape) <= (one.goal.deadline_s or 0)]
    return min((one.cost(*shape), shape) for shape in inside)[1]


def test_who_knows_the_truth_has_the_full_score(asked: list[Question]) -> None:
    """And the baselines choose shapes of the table, without being given the truth."""
    best = [_cheapest(one) for one in asked]
    assert _scores(asked, best)["near"] == _scores(asked, best)["deadline_met"] == 1.0
    for choose in choosers.BASELINES.values():
        chosen = [choose(one) for one in asked]
        assert all(shape in one.truth for one, shape in zip(asked, chosen, strict=True))
        assert _scores(asked, chosen)["near"] <= 1.0


def test_a_missed_deadline_is_never_near_the_optimum(asked: list[Question]) -> None:
    """However cheap it was."""
    slowest = [max((one.time_s(*shape), shape) for shape in one.truth)[1] for one in asked]
    scores = _scores(asked, slowest)
    assert scores["near"] <= scores["deadline_met"] < 1.0


def by_others() -> choosers.Learned:
    """Another model's rates, which the questions' model has, too; nothing of scaling."""
    return choosers.learned(None, choosers.gpu_rates([*rows("bert"), *rows("yolo")], "bert"))


def test_an_oracle_knows_one_factor(asked: list[Question]) -> None:
    """With the true scaling and a gain that another model has alike, each rate is the true one."""
    truth = Measured(rows())
    for one in asked[:5]:
        for shape in oracle.true_scaling(one, by_others(), truth):
            true = one.truth[shape.node.name, shape.nodes]
            assert shape.samples_per_s == pytest.approx(true)
        assert oracle.missed([one], [oracle.true_scaling(one, by_others(), truth)], same_gpu=True)


def test_the_true_gain_takes_the_place_of_the_predicted_one(asked: list[Question]) -> None:
    """Where others gained nothing, the oracle's rates elsewhere are those of who knows better."""
    wrong = choosers.Learned(None, lambda here, there: LogNormal(0.0, 0.1))
    truth = Measured(rows())
    for one in asked[:5]:
        known = {(s.node.name, s.nodes): s for s in oracle.true_gain(one, by_others(), truth)}
        for shape in oracle.true_gain(one, wrong, truth):
            same = known[shape.node.name, shape.nodes]
            assert shape.samples_per_s == pytest.approx(same.samples_per_s, rel=0.02)


def test_a_trial_reveals_one_shape_and_never_the_same_twice(asked: list[Question]) -> None:
    """Choices are of the table; trials are counted, at most one more each time."""
    for one in asked[:5]:
        found = list(trials.choices(one, by_others()))
        assert len(found) == trials.MOST + 1
        assert all(chosen in one.truth for chosen, _ in found)
        counts = [count for _, count in found]
        assert counts[0] == 0
        assert all(after - before in (0, 1) for before, after in pairwise(counts))


def test_nothing_is_learned_from_the_model_itself() -> None:
    """Only other models' rates on one GPU."""
    both = [*rows("bert"), *rows("yolo")]
    assert {one.user for one in choosers.gpu_rates(both, "bert")} == {"yolo"}


def test_what_a_byte_took_is_never_the_models_own(tmp_path: Path) -> None:
    """Medians of even layouts on the kinds of GPU that are asked about, by the model's bytes."""
    lines = [
        "model,cluster,placement,num_nodes,num_gpus,local_bsz,samples_per_s,sync_time",
        "bert,aws,44,2,8,4,10,0.44",
        "bert,aws,44,2,8,8,10,0.88",
        "bert,aws,44,2,8,12,10,8.8",
        "bert,aws,43,2,7,8,10,9",
        "bert,azure,44,2,8,8,10,9",
        "ncf,aws,,2,8,8,10,0.01",
    ]
    with gzip.open(tmp_path / NAME, "wt") as file:
        file.write("\n".join(lines))
    found = gradients.sent(tmp_path)
    assert {one.training for one in found} == {"bert", "ncf"}
    (bert,) = gradients.gradients(found, "ncf").others
    assert (bert.gpu, bert.ranks, bert.nodes) == ("T4", 8, 2)
    assert bert.seconds == pytest.approx(0.88 / gradients.BYTES["bert"])


def test_what_is_revealed_is_what_was_measured(asked: list[Question]) -> None:
    """One run; or one of each GPU in the table."""
    for one in asked:
        (here,) = choosers.revealed(one, each=False)
        assert here.samples_per_s * here.gpus == pytest.approx(
            one.truth[f"{one.here.each}x{one.here.gpu}", 1]
        )
        each = list(choosers.revealed(one, each=True))
        assert {run.gpu_model for run in each} == {node.gpu for node in one.table}
        assert here in each
