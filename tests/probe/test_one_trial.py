"""A loader with one worker is tried once: later passes begin with all their workers."""

from types import SimpleNamespace
from typing import Any

import pytest

from slurm_ext.probe.streams.dealing import Streams
from slurm_ext.probe.streams.verdict import settle
from slurm_ext.probe.streams.watch import CLEAN, KEEPS_STATE


@pytest.mark.parametrize(
    ("draws_matter", "finding", "trusted"),
    [(False, CLEAN, True), (True, CLEAN, False), (False, KEEPS_STATE, False)],
)
def test_a_loader_that_went_well_is_trusted(
    draws_matter: bool, finding: float, trusted: bool
) -> None:
    """Where draws matter each pass is tried, as batches are made again; so is what keeps state."""
    known: list[bool] = []
    meter = SimpleNamespace(trust=lambda: known.append(True))
    made = SimpleNamespace(findings=lambda: [finding])
    current: Any = SimpleNamespace(meter=meter, made=made, elsewhere=False, over=False)
    session: Any = SimpleNamespace(safely=lambda call: call(), left=lambda _: 0)
    streams = Streams(1, draws_matter)
    gate = SimpleNamespace(planned=4, limit=1, first=1)
    opened = SimpleNamespace(gate=gate)
    settle(session, SimpleNamespace(_dlqueue_streams=streams, _dlqueue_open=opened), current)
    streams.decide()
    assert (known == [True]) == trusted
    assert streams.free == (finding == CLEAN)
