"""What torch's iterators say as they start is said as without the probe, from the same line."""

from pathlib import Path

import pytest

from tests.probe.conftest import Environment, Python

PINNED = """
import torch
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.arange(64))
for number in (0, 1):
    loader = DataLoader(data, batch_size=4, num_workers=number, pin_memory=True)
    for _ in range(2):
        print(sum(int(batch.sum()) for batch, in loader))
"""


@pytest.mark.parametrize("more", [{}, {"DLQUEUE_NUM_WORKERS": "2"}], ids=["watched", "moved"])
def test_a_warning_of_torchs_names_torchs_own_line(
    environment: Environment, python: Python, tmp_path: Path, more: dict[str, str]
) -> None:
    """`pin_memory` without an accelerator warns as an iterator is made, as in any debug run."""
    plain = python(["-c", PINNED], environment(None))
    watched = python(["-c", PINNED], environment(tmp_path / "run", **more))
    assert (watched.stdout, watched.stderr) == (plain.stdout, plain.stderr)
    assert "pin_memory" in plain.stderr
