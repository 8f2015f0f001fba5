"""Marks of first batches: equal for the same content, and nothing but reading."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler

from slurm_ext.probe.counters.marks import mark, share_of
from tests.probe.loader_frame import Numbers

LARGE = torch.arange(60_000.0).reshape(4, 3, 50, 100)


def changed(at: int) -> Any:
    """The large batch with a piece of a thousand numbers that differ."""
    other = LARGE.clone()
    other.view(-1)[at : at + 1000] += 1
    return other


def test_the_same_content_has_the_same_mark() -> None:
    """Wherever it lies, and whatever holds it."""
    batch = {"image": LARGE, "label": [1, 2, 3, 4]}
    same = {"image": LARGE.clone(), "label": [1, 2, 3, 4]}
    assert mark(batch, None) == mark(same, None) is not None
    assert mark((LARGE.numpy(), "text"), None) == mark((LARGE.numpy().copy(), "text"), None)
    assert mark(LARGE.permute(0, 2, 3, 1), None) is not None


@pytest.mark.parametrize("at", [0, 20_000, 59_000])
def test_other_content_has_another_mark(at: int) -> None:
    """Anywhere in a large tensor; a label, a shape and a share of the sampler count, too."""
    assert mark(LARGE, None) != mark(changed(at), None)
    assert mark((LARGE, 1), None) != mark((LARGE, 2), None)
    assert mark(LARGE, None) != mark(LARGE.reshape(2, 6, 50, 100), None)
    assert mark(LARGE, (2, 0)) != mark(LARGE, (2, 1))


@pytest.mark.parametrize(
    "batch",
    [
        torch.zeros(0, 3),
        torch.zeros(2, 3, device="meta"),
        torch.zeros(3).expand(8, 3),
        torch.eye(3).to_sparse(),
        SimpleNamespace(x=LARGE),
        [],
        None,
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_what_cannot_be_read_has_no_mark(batch: Any) -> None:
    """Not in the host's memory, not in one piece, nothing, or of the user's own kind."""
    assert mark(batch, None) is None


def test_marking_leaves_no_trace() -> None:
    """No operation of torch's runs, and no random number is drawn."""
    before, batch = torch.get_rng_state(), [LARGE, {"label": torch.zeros(4)}]
    with torch.profiler.profile() as watched:
        mark(batch, None)
    assert [event.key for event in watched.key_averages() if event.key.startswith("aten::")] == []
    assert torch.equal(before, torch.get_rng_state())


def test_a_samplers_share_is_known() -> None:
    """Torch's, and those of libraries that deal batches; a sampler of one share deals nothing."""
    data = Numbers(lambda _: 0, 8)
    for shares, expected in ((2, (2, 1)), (1, None)):
        sampler: Any = DistributedSampler(data, num_replicas=shares, rank=shares - 1)
        assert share_of(DataLoader(data, sampler=sampler)) == expected
    dealt = SimpleNamespace(num_processes=4, process_index=3)
    assert share_of(SimpleNamespace(batch_sampler=dealt)) == (4, 3)
    assert share_of(DataLoader(data, shuffle=True)) is None
