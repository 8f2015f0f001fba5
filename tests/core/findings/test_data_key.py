"""The number that stands for a training's data in evidence."""

from typing import Any

import numpy as np
import pytest

from slurm_ext.core.findings.data_key import data_key

LOADER: dict[str, Any] = {"dataset": "CIFAR10", "length": 50_000, "batch_size": 128}


def test_the_same_data_has_the_same_number_in_every_release() -> None:
    """Histories hold it, in columns of float32 too, where it stays exact."""
    key = data_key(**LOADER)
    assert key == 0x4A414F
    assert 0 < key < 1 << 24
    assert int(np.float32(key)) == key


@pytest.mark.parametrize(
    "changes", [{"dataset": "CIFAR100"}, {"length": 1000}, {"length": None}, {"batch_size": 32}]
)
def test_other_data_has_another_number(changes: dict[str, Any]) -> None:
    """Class, length and batch size each count."""
    assert data_key(**(LOADER | changes)) != data_key(**LOADER)


def test_data_of_no_name_has_no_number() -> None:
    """Nothing is said to be the same that nobody knows; any text is a name."""
    assert data_key(None, 3, 1) is None
    assert data_key("") is None
    assert data_key("\udc80") is not None
