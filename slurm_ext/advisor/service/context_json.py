"""A submission's DecisionContext as JSON, for people's commands, and read back.

Schema: evidence ({level: [LoaderRun]}), prior ({accel, wall, cpu: [log_mean, log_sd]} or null),
rules (as bounds.Rules, or null), factor, factor_beside, and receives (cores, GPU model, log_mean
and log_sd of each kind of machine). The runs are the user's own; what other users' runs say is in
the prior, as ranges.
"""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from math import isfinite
from typing import Any

from slurm_ext.advisor.evidence.alike import of_its_kind
from slurm_ext.advisor.evidence.summary import only, prior_of_others
from slurm_ext.advisor.limits.bounds import PartitionRules
from slurm_ext.advisor.pipeline.context import DecisionContext
from slurm_ext.core.records import OWN_LEVELS, Level, LoaderRun, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.model.throughput.estimate import Prior
from slurm_ext.model.throughput.inversion import LogNormal
from slurm_ext.slurm.records import JobAllowance

_NEEDED = {one.name for one in fields(LoaderRun) if one.default is MISSING}
_BELIEFS = ("accel", "wall", "cpu")


def context_json(known: DecisionContext, job: Submission) -> dict[str, Any]:
    """The document's `known`."""
    prior = prior_of_others(of_its_kind(known.evidence, job), known.prior, OWN_LEVELS)
    return {
        "evidence": {
            level.value: [_finite(asdict(run)) for run in runs]
            for level, runs in only(known.evidence, OWN_LEVELS).items()
        },
        "prior": None
        if prior is None
        else {name: _pair(getattr(prior, name)) for name in _BELIEFS},
        "rules": None if known.rules is None else asdict(known.rules),
        "factor": known.factor,
        "factor_beside": known.factor_beside,
        "receives": [[*machine, *_pair(seconds)] for machine, seconds in known.receives],
    }


def context_from_json(settings: Settings, told: Mapping[str, Any]) -> DecisionContext:
    """The same, read back. Raises KeyError, TypeError or ValueError where it is not that."""
    rules, prior = told["rules"], told["prior"]
    return DecisionContext(
        settings=settings,
        evidence={
            Level(level): [LoaderRun(**run) for run in runs]
            for level, runs in told["evidence"].items()
        },
        prior=prior and Prior(**{name: LogNormal(*map(float, prior[name])) for name in _BELIEFS}),
        rules=rules
        and PartitionRules(**{**rules, "allowance": JobAllowance(**rules["allowance"])}),
        factor=float(told["factor"]),
        factor_beside=float(told.get("factor_beside", 1.0)),
        receives=tuple(
            ((cores, model), LogNormal(float(mean), float(sd)))
            for cores, model, mean, sd in told.get("receives", ())
        ),
    )


def _finite(run: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity, which a number too large for the advisor's columns becomes.

    Where a number has to be, nothing (and so a run that is not believed) stands for it.
    """
    lost = {name for name, value in run.items() if isinstance(value, float) and not isfinite(value)}
    return {**run, **{name: 0.0 if name in _NEEDED else None for name in lost}}


def _pair(belief: LogNormal) -> list[float]:
    return [belief.log_mean, belief.log_sd]
