"""Steps that a CUDA graph replays are counted; torch's class of graphs stands in for a GPU's."""

import types
from typing import Any

import pytest
import torch

from slurm_ext.probe.counters import steps


class Graph:
    """Records and replays without a GPU."""

    def capture_end(self) -> str:
        """As torch's."""
        return "ended"

    def replay(self) -> str:
        """As torch's."""
        return "replayed"


class Capture:
    """True while the stream records."""

    now = False


@pytest.fixture
def after_step(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The hook that torch gets, and the list that it counts into."""
    counted: list[Any] = []
    hooks: list[Any] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: Capture.now)
    monkeypatch.setattr(torch.cuda.graphs, "CUDAGraph", Graph)
    for name in ("capture_end", "replay"):
        monkeypatch.setattr(Graph, name, getattr(Graph, name))  # to be put back
    module = types.SimpleNamespace(register_optimizer_step_post_hook=hooks.append)
    steps.hook(module, lambda optimiser, _: counted.append(optimiser))
    return hooks[0], counted


def test_each_replay_is_a_step(after_step: Any) -> None:
    """The recorded one is none; a graph without an optimiser has none; answers stay torch's."""
    hook, counted = after_step
    weights = [torch.nn.Parameter(torch.zeros(1))]
    one, two = torch.optim.SGD(weights, 0.1), torch.optim.SGD(weights, 0.1)
    hook(one)
    assert counted == [one]
    Capture.now = True
    hook(one)
    hook(two)
    Capture.now = False
    whole, forward = Graph(), Graph()
    assert whole.capture_end() == forward.capture_end() == "ended"
    assert counted == [one]
    assert whole.replay() == forward.replay() == "replayed"
    assert counted == [one, one, two]
    counted.clear()
    del two  # what is gone makes no step
    whole.replay()
    assert counted == [one]
