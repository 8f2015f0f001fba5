"""Usage that halves with time, as Slurm's PriorityDecayHalfLife has it."""

from math import exp, log


class Usage:
    """Units x seconds of one user, decayed; exact between two changes of what is in use."""

    def __init__(self, half_life_s: float) -> None:
        self._rate = log(2) / half_life_s if half_life_s else 0.0  # 0: never decays
        self._had, self._units, self._at_s = 0.0, 0.0, 0.0

    def at(self, now_s: float) -> float:
        """Unit-seconds at a time that is not before the last change."""
        since = now_s - self._at_s
        if not self._rate:
            return self._had + self._units * since
        left = exp(-self._rate * since)
        return self._had * left + self._units * (1 - left) / self._rate

    def hold(self, units: float, now_s: float) -> None:
        """So many units more are in use from now on; fewer where negative."""
        self._had, self._at_s = self.at(now_s), now_s
        self._units += units
