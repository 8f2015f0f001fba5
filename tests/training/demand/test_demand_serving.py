"""What the energy loop recorded becomes the model that it asks, or persistence serves."""

from pathlib import Path

import numpy as np
import pytest

from slurm_ext.control.energy.demand_forecast import forecast, serving
from slurm_ext.model.demand.model import DAY, SLOT_S, WEEK
from slurm_ext.model.demand.series import FOLDER, NOBODY, RecordedDemand, read
from slurm_ext.training.demand.challenge import challenge_pools

pytest.importorskip("lightgbm")


def record(state_dir: Path, needs: list[int]) -> Path:
    """A pool's file, as the loop writes it."""
    path = state_dir / FOLDER / "demand-gpu.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{at * SLOT_S},{need},99\n" for at, need in enumerate(needs)))
    return path


def test_a_rhythm_is_promoted_and_served_and_given_up_when_it_ends(tmp_path: Path) -> None:
    """`models/demand/gpu/current` serves the loop; where persistence wins later it is gone."""
    noise = np.random.default_rng(0).integers(0, 3, 4 * WEEK)
    path = record(tmp_path, [30 + 20 * (at % DAY > 72) + int(n) for at, n in enumerate(noise)])
    (told,) = challenge_pools(tmp_path)
    assert told.promoted, told.why
    assert told.details == {"pool": "gpu"}
    series = read(path)
    needed = series.need
    model = serving(tmp_path, "gpu")
    morning = len(needed) // DAY * DAY - DAY + 70  # twenty minutes before the rise
    seen = forecast(
        RecordedDemand(series.first, needed[:morning], needed[:morning], [NOBODY] * morning),
        model,
        level=0.9,
        history_h=24,
    )
    assert seen.by == "learned"
    assert 50 <= seen.peak < 60
    walk = np.cumsum(np.random.default_rng(3).normal(0, 1, 3 * WEEK))
    record(tmp_path, [int(200 + step) for step in walk])
    (told,) = challenge_pools(tmp_path)
    assert not told.promoted
    assert serving(tmp_path, "gpu") is None


def test_no_record_teaches_nothing(tmp_path: Path) -> None:
    """A site without the loop."""
    assert challenge_pools(tmp_path) == []
