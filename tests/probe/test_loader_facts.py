"""Facts by which the summary describes a loader."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

from slurm_ext.probe.inspection import description

DATA = TensorDataset(torch.arange(12))


@pytest.mark.parametrize(
    ("size", "told"), [(4, 4), (np.int64(4), 4), (True, None), ("4", None), (np.ones(3), None)]
)
def test_any_size_of_a_samplers_batches_can_be_written(size: Any, told: int | None) -> None:
    """A summary holds numbers that JSON knows, and none for what is no number."""
    sampler = BatchSampler(SequentialSampler(DATA), 4, False)
    sampler.batch_size = size
    loader = DataLoader(DATA, batch_sampler=sampler)
    facts = description.facts_of(loader, torch.utils.data.dataloader)
    assert json.loads(json.dumps(facts))["batch_size"] == told


def test_a_loader_without_batches_has_no_size_of_them() -> None:
    """Samples that come one by one are told as such."""
    facts = description.facts_of(DataLoader(DATA, batch_size=None), torch.utils.data.dataloader)
    assert facts["batch_size"] is None
