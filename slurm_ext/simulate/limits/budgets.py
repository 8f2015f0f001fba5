"""Sums of what runs and of what is submitted, as limits count them; one object a replay."""

from collections.abc import Sequence
from math import inf

from slurm_ext.simulate.limits.claims import Claim, MinutesTest
from slurm_ext.simulate.limits.meters import Metering, MinuteMeters

FREE = Claim()


class Budgets:
    """Sums of one replay. Jobs are numbers, claims are by job."""

    def __init__(
        self,
        claims: Sequence[Claim],
        of: Sequence[int],
        counters: int,
        *,
        half_lives_s: Sequence[float] = (),
        metering: Metering | None = None,
        limit_s: Sequence[float] = (),
    ) -> None:
        """`of`: the place in `claims` of each job's claim; the rest: where minutes are counted."""
        self.claims, self.of = claims, of
        self.now_s = 0.0
        self.period_s = metering.period_s if metering and half_lives_s else inf
        self._sums = [0] * counters
        self._meters, self._limit_s = MinuteMeters(half_lives_s), limit_s
        self._until: dict[int, float] = {}  # running jobs: the ends of their time limits

    def blocker(self, claim: int) -> int | None:
        """The counter that keeps jobs of a claim back now; None: they may start.

        A meter that has no minutes left is a number below 0.
        """
        for test in self.claims[claim].starts:
            if self._sums[test.counter] + test.adds > test.most:
                return test.counter
        for minutes in self.claims[claim].minutes:
            if self._used_up(minutes) or self._unsafe(minutes):
                return ~minutes.meter
        return None

    def refusal(self, job: int) -> str:
        """The reason for which sbatch refuses the job now; empty: it takes it."""
        for test in self.claims[self.of[job]].submits:
            if self._sums[test.counter] + test.adds > test.most:
                return test.why
        return ""

    def exhausted(self, job: int) -> str:
        """The used-up minutes for which Slurm ends a running job; empty: it may go on."""
        minutes = self.claims[self.of[job]].minutes
        return next((test.why for test in minutes if test.ends and self._used_up(test)), "")

    def submitted(self, job: int, times: int = 1) -> None:
        """Count a job from now on; with -1, no more."""
        for counter, adds in self.claims[self.of[job]].submitted:
            self._sums[counter] += adds * times

    def runs(self, job: int, times: int = 1) -> Sequence[tuple[int, int]]:
        """Count a job as running from now on; with -1, no more. Says what has changed."""
        claim = self.claims[self.of[job]]
        for counter, adds in claim.running:
            self._sums[counter] += adds * times
        if not claim.metered:
            return claim.running
        if times > 0:
            self._until[job] = self.now_s + self._limit_s[job]
        for meter, adds in claim.metered:
            self._meters.hold(meter, adds * times, self._until[job], self.now_s, claim.usage_factor)
        return [*claim.running, *((~meter, adds) for meter, adds in claim.metered)]

    def _used_up(self, test: MinutesTest) -> bool:
        return test.past and self._meters.used_s(test.meter, self.now_s) >= test.most_s

    def _unsafe(self, test: MinutesTest) -> bool:
        """True if the job might need minutes that others have had, or may still have."""
        if not test.asks_s:
            return False
        had_s = self._meters.used_s(test.meter, self.now_s) if test.past else 0.0
        return had_s + self._meters.to_come_s(test.meter, self.now_s) + test.asks_s > test.most_s


def unlimited(jobs: int) -> Budgets:
    """Without limits."""
    return Budgets((FREE,), [0] * jobs, 0)
