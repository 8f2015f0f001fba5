"""Sums of what runs and of what is submitted, as limits count them; one object a replay."""

from collections.abc import Sequence

from slurm_ext.simulate.limits.claims import Claim

FREE = Claim()


class Budgets:
    """Sums of one replay. Jobs are numbers, claims are by job."""

    def __init__(self, claims: Sequence[Claim], of: Sequence[int], counters: int) -> None:
        """`of`: the place in `claims` of each job's claim."""
        self.claims, self.of = claims, of
        self._sums = [0] * counters

    def blocker(self, claim: int) -> int | None:
        """The counter that keeps jobs of a claim back now; None: they may start."""
        for test in self.claims[claim].starts:
            if self._sums[test.counter] + test.adds > test.most:
                return test.counter
        return None

    def refusal(self, job: int) -> str:
        """The reason for which sbatch refuses the job now; empty: it takes it."""
        for test in self.claims[self.of[job]].submits:
            if self._sums[test.counter] + test.adds > test.most:
                return test.why
        return ""

    def submitted(self, job: int, times: int = 1) -> None:
        """Count a job from now on; with -1, no more."""
        for counter, adds in self.claims[self.of[job]].submitted:
            self._sums[counter] += adds * times

    def runs(self, job: int, times: int = 1) -> Sequence[tuple[int, int]]:
        """Count a job as running from now on; with -1, no more. Says what has changed."""
        changed = self.claims[self.of[job]].running
        for counter, adds in changed:
            self._sums[counter] += adds * times
        return changed


def unlimited(jobs: int) -> Budgets:
    """Without limits."""
    return Budgets((FREE,), [0] * jobs, 0)
