"""Shared by tests of service: examples and helpers."""

from slurm_ext.advisor.sharing.terms import SharingDecision
from slurm_ext.core.records import Mode


def shares(mode: Mode, share: bool = True) -> SharingDecision:
    """A decision of sharing."""
    return SharingDecision(mode=mode, share=share, why="", floor=0.8)


PRIOR_NAMES = ("accel", "wall", "cpu")
