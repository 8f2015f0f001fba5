"""The decision on one submission's gradient buckets: its mode, and the variable that tells the job.

Wherever the mode is not off, the job measures when its gradients are ready; in mode act, and unless
the control group has it, it also gets the sizes of the plan.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from slurm_ext.advisor.limits.eligible import mode_of
from slurm_ext.core.records import Decision, Mode, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.policy.buckets import BucketPlan

VARIABLE = "DLQUEUE_BUCKETS"
_MEASURE = "measure"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketDecision:
    """The plan for one submission, under its mode; the ledger keeps it."""

    mode: Mode
    plan: BucketPlan

    @property
    def acts(self) -> bool:
        """True if the job gets the plan's sizes, unless the control group has it."""
        return self.plan.change and self.mode is Mode.ACT

    def variable(self, *, holdout: bool) -> dict[str, str]:
        """The job's DLQUEUE_BUCKETS, as the probe reads it."""
        plan = self.plan
        text = f"{plan.signature}:{plan.ranks}:{plan.caps}"
        return {VARIABLE: text if self.acts and not holdout else _MEASURE}

    def as_json(self, *, done: bool) -> dict[str, Any]:
        """For the ledger; `done`: whether the job was really asked to have them."""
        body = {name: value for name, value in asdict(self.plan).items() if name != "newest_s"}
        return {"v": 1, "mode": self.mode.value, **body, "gain": self.plan.gain, "done": done}

    def of_its_run(self, decision: Decision, *, holdout: bool) -> Decision:
        """The decision with predictions of a run with the buckets that this job will have."""
        plan = self.plan
        step_s = plan.after_s if self.acts and not holdout else plan.before_s
        if not (plan.change and plan.newest_s > 0 and step_s > 0):
            return decision
        before, after = decision.predicted_before, decision.predicted_after
        factor = plan.newest_s / step_s
        return replace(
            decision,
            predicted_before=before and before.times(factor),
            predicted_after=after and after.times(factor),
        )


def decide_buckets(job: Submission, plan: BucketPlan, settings: Settings) -> BucketDecision | None:
    """The decision; None where the mode is off. A job in a reservation is advised, not edited."""
    mode = mode_of(job, settings, "communication.mode")
    if mode is Mode.ACT and job.reservation is not None:
        mode = Mode.ADVISE
    return None if mode is Mode.OFF else BucketDecision(mode=mode, plan=plan)
