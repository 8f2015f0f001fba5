"""Time before a pass that is the training's: its data was made in it, or the loop computed."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import Subset, TensorDataset

from slurm_ext.probe.passes.device_tail import DeviceTail
from slurm_ext.probe.passes.gathering import Evaluations, Gathering
from tests.probe.loader_frame import Numbers

TENSOR = torch.zeros(8, 4)
NONE = Evaluations(0.0, 0.0)


def data() -> Any:
    """A data set that was made just now."""
    return Numbers(lambda _: 0, 8)


def one_pass(worked_s: float = 0.0, **more: Any) -> Any:
    """A pass that began at 16 s or ended at 10 s, with steps."""
    numbers = {"steps": 4, "ended_at": 10.0, "stepped_at": 9.5, "last": 0.0, "aside_s": 0.0}
    own = {"began": 16.0, "worked_since": lambda _: worked_s, "tail": DeviceTail()}
    return SimpleNamespace(**{**numbers, **own, **more})


def before(
    first: Any,
    second: Any,
    evaluations: Evaluations = NONE,
    worked_s: float = 0.0,
    **former: Any,
) -> float:
    """Seconds before a pass over the second data, whose start took one, after the first's."""
    gathering, ended = Gathering(), one_pass(**former)
    assert gathering.before(ended, first, 0.0, None, NONE) == 0
    return gathering.before(one_pass(worked_s), second, 1.0, ended, evaluations)


def test_new_data_was_made_before_its_pass() -> None:
    """From the former pass's end, or its last step, validations left out."""
    assert before(data(), data()) == 5
    assert before(data(), data(), stepped_at=12.0) == 3
    assert before(data(), data(), Evaluations(2.0, 11.0)) == 3
    assert before(data(), data(), Evaluations(9.0, 11.0)) == 0
    assert before(data(), data(), ended_at=0.0, stepped_at=0.0, last=11.0) == 4
    assert before(TensorDataset(TENSOR), TensorDataset(TENSOR.clone())) == 5


SAME = data()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (SAME, SAME),
        (Subset(SAME, [0, 1]), Subset(SAME, [2, 3])),
        (TensorDataset(TENSOR), TensorDataset(TENSOR)),
        ([1, 2], [3, 4]),
    ],
    ids=lambda one: type(one).__name__,
)
def test_over_the_same_data_only_computing_counts(first: Any, second: Any) -> None:
    """Less what the pass's start took, and at most the time between; nobody knows of lists."""
    assert before(first, second) == 0
    assert before(first, second, worked_s=3.5) == 2.5
    assert before(first, second, worked_s=60.0) == 5
    assert before(first, second, Evaluations(0.0, 9.0), worked_s=3.5) == 2.5


def test_a_validation_between_two_passes_is_none_of_the_training() -> None:
    """Nor is what else was computed in that time: nobody can part the two."""
    assert before(SAME, SAME, Evaluations(0.0, 11.0), worked_s=3.5) == 0
    assert before(SAME, SAME, Evaluations(2.0, 11.0), worked_s=3.5) == 0


def test_only_a_training_gathers() -> None:
    """After a pass without steps, or another loader's batches."""
    assert before(data(), data(), steps=0) == 0
    gathering, former = Gathering(), one_pass()
    gathering.before(former, data(), 0.0, None, NONE)
    assert gathering.before(one_pass(), data(), 1.0, one_pass(), NONE) == 0
