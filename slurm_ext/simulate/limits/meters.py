"""Minutes of TRES that jobs have had, as GrpTRESMins counts them: they halve as fair share does."""

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_ext.simulate.limits.usage import Usage

DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Metering:
    """A site's PriorityDecayHalfLife, PriorityCalcPeriod and AccountingStorageEnforce.

    `safe`: a job starts only if it can run up to its time limit; else it may start, and is ended
    once the minutes are used up.
    """

    half_life_s: float = 7 * DAY_S
    period_s: float = 300.0
    safe: bool = False


class MinuteMeters:
    """MinuteMeters of one replay, by number."""

    def __init__(self, half_lives_s: Sequence[float]) -> None:
        """`half_lives_s`: of each; 0: never decays."""
        self._used = [Usage(seconds) for seconds in half_lives_s]
        self._held = [0.0] * len(half_lives_s)  # TRES of running jobs
        self._until = [0.0] * len(half_lives_s)  # sum of TRES x the ends of their time limits

    def hold(
        self, meter: int, adds: int, until_s: float, now_s: float, factor: float = 1.0
    ) -> None:
        """So much of the TRES more is in use from now on, until a time limit; less if negative.

        `factor`: of what counts as used and of what time limits leave, as UsageFactor has it.
        """
        counted = adds * factor
        self._used[meter].hold(counted, now_s)
        self._held[meter] += counted
        self._until[meter] += counted * until_s

    def used_s(self, meter: int, now_s: float) -> float:
        """TRES-seconds that jobs have had."""
        return self._used[meter].at(now_s)

    def to_come_s(self, meter: int, now_s: float) -> float:
        """TRES-seconds that those who run may still have, within their time limits."""
        return self._until[meter] - self._held[meter] * now_s
