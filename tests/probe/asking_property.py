"""Run under the probe by test_probe_tuning.py: any loader whose tuner asks for anything, any time.

The tuner's own measuring is switched off; what it can ask of its loader is asked at random: more
workers within the pass, fewer, back to the training process and out again.
"""

# ruff: noqa: T201 - its output is its answer

import os
import sys
from typing import Any

import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from tests.probe.order_property import Numbers, _expected

SAME = "SAME_EXAMPLES" in os.environ


def _ask(iterator: Any, count: int) -> None:
    """As the pass's tuner would, between two batches."""
    current, session = iterator.__dict__["_dlqueue"], sys.modules["_dlqueue_probe.process"]
    if current.knob is not None:
        session.ProbeState.session.knob.ask(current, count)
        current.meter.tuner.count = count


@settings(
    max_examples=6 if SAME else 60,
    deadline=None,
    database=None,
    derandomize=SAME,
    phases=[Phase.generate],
)
@given(data=st.data())
def test(data: st.DataObject) -> None:
    """Every sample once and in the order that the sampler gave, whatever is asked for."""
    workers = data.draw(st.sampled_from([0, 0, 1, 2]))
    length, size = data.draw(st.integers(40, 120)), data.draw(st.integers(1, 5))
    drop_last, seed = data.draw(st.booleans()), data.draw(st.integers(0, 1000))
    persistent = data.draw(st.booleans()) and workers > 0
    shuffle = data.draw(st.booleans()) and not persistent  # `_expected` draws a seed each epoch
    breaks_at = data.draw(st.none() | st.integers(0, length - 1)) if workers == 0 else None
    least = 0 if workers == 0 else 1
    asked = data.draw(st.dictionaries(st.integers(0, 30), st.integers(least, 4), max_size=5))
    loader = DataLoader(
        Numbers(length, breaks_at, data.draw(st.booleans())),
        batch_size=size,
        shuffle=shuffle,
        drop_last=drop_last,
        num_workers=workers,
        persistent_workers=persistent,
        generator=torch.Generator().manual_seed(seed),
    )
    for expected in _expected(length, size, shuffle, drop_last, seed):
        seen = []
        iterator = iter(loader)
        if "_dlqueue" in iterator.__dict__ and iterator.__dict__["_dlqueue"] is not None:
            iterator.__dict__["_dlqueue"].tune_at = 1 << 62
        for count, batch in enumerate(iterator):
            if count in asked:
                _ask(iterator, asked[count])
            seen.append(batch.tolist())
        assert seen == expected


if __name__ == "__main__":
    test()
    print("held")
