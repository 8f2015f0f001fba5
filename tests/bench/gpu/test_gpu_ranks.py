"""Gains of ranks on one GPU, from what the ranks say of their steps."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from contrib.bench.gpu.here import Here
from contrib.bench.gpu.report import Report
from contrib.bench.gpu.rows import ranks
from tests.bench.gpu.gpu_here import here


def _perfect(
    _here: Here, number: int, _seconds: float, _env: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Ranks that fill each other's gaps until the GPU is full."""
    for share in ranks.SHARES:
        for held in (False, True)[: 2 if number > 1 else 1]:
            kernel_s, host_s = share, 1 - share
            own_s = kernel_s / number if held else kernel_s
            step_s = max(host_s + own_s, number * own_s)
            found = {"share": share, "held": held, "ranks": number, "steps": 10}
            found |= {"wall_s": 10 * step_s, "kernel_s": kernel_s, "host_s": host_s}
            yield found | {"reduction_s": 0.001 * number, "shared": number < 4}


def test_gains_are_over_one_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as much at 43 % busy, nothing at 95 %; without MPS that is named."""
    monkeypatch.setattr(ranks, "_launched", _perfect)
    report = Report()
    ranks.measure(here(tmp_path), report)
    found = {name: one["value"] for name, one in report.figures().items()}
    assert found["gain_43_2"] == pytest.approx(2.0)
    assert found["gain_held_43_2"] == pytest.approx(1 / (0.57 + 0.215))
    assert found["gain_95_4"] == pytest.approx(1 / 0.95)
    assert found["error_43_2"] == pytest.approx(0.57 + 0.43 * 1.43 - 1)  # a closed queue's
    assert (found["picked_95"], found["one_rank_again"]) == (1, 1.0)
    assert "ranks take turns" in report.absent["MPS"]
    assert found["reduction_3"] == pytest.approx(0.003)
    assert report.facts["gradients of 3 ranks"] == "shared memory, by a file of /dev/shm"
    assert report.facts["gradients of 4 ranks"].startswith("gloo")
