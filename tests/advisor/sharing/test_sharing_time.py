"""Slurmctld waits for the answer: what cannot be predicted in time is not shared, and kept."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from slurm_ext.advisor.sharing.memory import THINKS, SharingMemory
from slurm_ext.advisor.sharing.serving_slowdown import SlowdownSnapshot
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile
from slurm_ext.core.settings.document import Settings
from tests.advisor.sharing.test_sharing import ADAS, SNAPSHOT, SOLOS, Table, memory, thought, why

THINK_S = THINKS * Settings()["advisor.deadline_ms"] / 1000
OTHERS = tuple(replace(ADAS, job=str(20 + n), key=f"kind{n}") for n in range(16))
NEW = {one.key or "": replace(SOLOS["kind"], key=one.key or "") for one in OTHERS}


class Slow(Table):
    """Takes its time over each pair that it has not predicted yet."""

    def __init__(self, cost_s: float) -> None:
        self.now_s, self.cost_s, self.asked = 0.0, cost_s, set[tuple[str, str]]()

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """As Table's."""
        pair = (job.key, beside[0].key)
        self.now_s += 0.0 if pair in self.asked else self.cost_s
        self.asked.add(pair)
        return super().speed(job, beside, device)


def remembering(slow: Slow) -> SharingMemory:
    """Sixteen jobs that nobody has predicted yet share GPUs."""
    held = memory(*OTHERS, snapshot=SlowdownSnapshot(slowdowns=slow, solos={**SOLOS, **NEW}))
    held._clock = lambda: slow.now_s
    return held


def test_sixteen_quick_partners_are_all_looked_at() -> None:
    """As many as there may be, where each takes a millisecond at most."""
    slow = Slow(THINK_S / 40)
    found = thought(remembering(slow))
    assert found is not None
    assert found.share
    assert len(found.partners) == 16
    assert slow.now_s < THINK_S


def test_what_takes_too_long_leaves_the_gpu_whole() -> None:
    """No longer than the time there is, and one pair more; the next submission goes on there."""
    slow = Slow(THINK_S / 8)
    held = remembering(slow)
    assert "no time to predict" in why(held)
    assert slow.now_s <= THINK_S * 1.25
    answers = []
    for _ in range(8):
        found = thought(held)
        assert found is not None
        answers.append(found.share)
    assert answers[-1]


def test_time_that_is_over_before_the_first_is_no_verdict() -> None:
    """A machine that stands still shares nothing on no evidence."""
    ticks: Iterator[float] = iter([0.0, THINK_S, THINK_S])
    held = memory(ADAS, snapshot=SNAPSHOT)
    held._clock = lambda: next(ticks)
    assert "no time to predict" in why(held)
    assert SharingMemory()._clock() == pytest.approx(SharingMemory()._clock(), abs=60)
