"""Indices are drawn when they would be as written, where drawing may depend on the training."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, Sampler

from slurm_ext.probe.workers.drawn_ahead import DrawnAhead
from tests.probe.conftest import Environment, Python

BY_THE_LOOP = """
import torch
from torch.utils.data import DataLoader, Dataset, Sampler
class Numbers(Dataset):
    def __len__(self): return 480
    def __getitem__(self, index): return index
class ByLoss(Sampler):
    def __init__(self): self.losses = torch.ones(480)
    def __len__(self): return 480
    def __iter__(self):
        for _ in range(480): yield int(torch.multinomial(self.losses, 1))
torch.manual_seed(1 << 40)
sampler = ByLoss()
for _ in range(2):
    for batch in DataLoader(Numbers(), batch_size=16, sampler=sampler, num_workers=2):
        sampler.losses[batch] *= 0.5
print(sampler.losses.tolist())
"""


@pytest.fixture(scope="module")
def as_written(environment: Environment, python: Python) -> str:
    """Weights of a sampler that the loop changes, after a training without dlqueue."""
    return python(["-c", BY_THE_LOOP], environment(None)).stdout


@pytest.mark.parametrize("workers", [1, 3, 6])
def test_other_workers_draw_from_a_sampler_of_its_own_kind_when_the_users_would(
    environment: Environment, python: Python, tmp_path: Any, as_written: str, workers: int
) -> None:
    """Fewer draw no later, more no earlier: the loop had changed the weights just as far."""
    env = environment(tmp_path / "run", DLQUEUE_NUM_WORKERS=str(workers))
    done = python(["-c", BY_THE_LOOP], env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == as_written


class Listed(Sampler[int]):
    """Gives a list that nobody else has, as most samplers of libraries do."""

    def __iter__(self) -> Any:
        return iter(torch.randperm(8).tolist())


class Drawn(Listed):
    """Draws each index when it is asked for."""

    def __iter__(self) -> Any:
        for _ in range(8):
            yield int(torch.randint(8, (1,)))


@pytest.mark.parametrize(("sampler", "expected"), [(Listed(), False), (Drawn(), True)])
def test_a_list_that_stands_is_drawn_as_far_as_its_workers_need(
    sampler: Any, expected: bool
) -> None:
    """It is seen once the first index is drawn, and for each pass anew."""
    gate = SimpleNamespace(own=2, drawing=None)
    iterator = SimpleNamespace(_dlqueue_open=SimpleNamespace(gate=gate), _send_idx=0)
    ahead = DrawnAhead()
    for _ in range(2):
        iterator._send_idx, iterator._sampler_iter = 0, iter(BatchSampler(sampler, 2, False))
        assert ahead.as_written(iterator)
        next(iterator._sampler_iter)
        iterator._send_idx = 1
        assert ahead.as_written(iterator) is expected
    gate.own = 0
    assert not ahead.as_written(iterator)
