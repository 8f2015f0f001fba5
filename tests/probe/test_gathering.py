"""Time before a pass that counts as the training's: its data was made in it."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import Subset, TensorDataset

from slurm_ext.probe.passes.gathering import Gathering
from tests.probe.loader_frame import Numbers

TENSOR = torch.zeros(8, 4)


def data() -> Any:
    """A data set that was made just now."""
    return Numbers(lambda _: 0, 8)


def one_pass(**more: Any) -> Any:
    """A pass that ended at 10 s, with steps."""
    numbers = {"steps": 4, "ended_at": 10.0, "stepped_at": 9.5, "last": 0.0, "aside_s": 0.0}
    return SimpleNamespace(**{**numbers, **more})


def gathered(first: Any, second: Any, aside_s: float = 0.0, **former: Any) -> float:
    """Seconds before a pass over the second data that begins at 15 s, after one over the first."""
    gathering, before = Gathering(), one_pass(**former)
    assert gathering.before(before, first, 1.0, None, 0.0) == 0
    return gathering.before(one_pass(), second, 15.0, before, aside_s)


def test_new_data_was_made_before_its_pass() -> None:
    """From the former pass's end, or its last step, validations left out."""
    assert gathered(data(), data()) == 5
    assert gathered(data(), data(), stepped_at=12.0) == 3
    assert gathered(data(), data(), aside_s=2.0) == 3
    assert gathered(data(), data(), aside_s=9.0) == 0
    assert gathered(data(), data(), ended_at=0.0, stepped_at=0.0, last=11.0) == 4
    assert gathered(TensorDataset(TENSOR), TensorDataset(TENSOR.clone())) == 5


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
def test_other_parts_of_the_same_data_were_not_made(first: Any, second: Any) -> None:
    """Between two passes over them lies a validation, or a saving; nobody knows of lists."""
    assert gathered(first, second) == 0


def test_only_a_training_gathers() -> None:
    """After a pass without steps, or another loader's batches."""
    assert gathered(data(), data(), steps=0) == 0
    gathering, former = Gathering(), one_pass()
    first, second = data(), data()
    gathering.before(former, first, 1.0, None, 0.0)
    assert gathering.before(one_pass(), second, 15.0, one_pass(), 0.0) == 0
