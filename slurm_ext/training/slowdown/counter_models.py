"""Fits counter models from a site's pairs and the counters of its jobs alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from statistics import median

from slurm_ext.core.errors import ModelError
from slurm_ext.core.gpu_sharing import CorunMeasurement, SoloProfile
from slurm_ext.model.slowdown.counter_model import CounterModel
from slurm_ext.model.slowdown.model import CPU, CounterModels
from slurm_ext.model.slowdown.pair_measurement import is_usable
from slurm_ext.training.slowdown.counter_export import export
from slurm_ext.training.slowdown.feature_plans import plan
from slurm_ext.training.slowdown.fit_counter_model import fit
from slurm_ext.training.slowdown.reference_speed import PairExample

FEWEST_PAIRS, FEWEST_JOBS = 30, 6
MOST_PAIRS = 400  # the newest: calibrating costs their cube, for every family left out
FAMILIES = 8  # jobs are dealt into so many; each is left out in turn


def fit_counter_models(
    pairs: Sequence[CorunMeasurement], solos: Mapping[str, SoloProfile]
) -> CounterModels | None:
    """Fit a model for CPUs and one for the GPU with most pairs; None if neither is possible."""
    models = {
        on_cpu: model
        for on_cpu in (True, False)
        if (model := _model(_of_kind(pairs, on_cpu=on_cpu), solos))
    }
    return CounterModels(models) if models else None


def _of_kind(pairs: Sequence[CorunMeasurement], *, on_cpu: bool) -> list[CorunMeasurement]:
    kind = [
        pair
        for pair in pairs
        if is_usable(pair) and len(pair.partners) == 1 and (pair.device == CPU) == on_cpu
    ]
    devices = Counter(pair.device for pair in kind).most_common(1)
    return [pair for pair in kind if pair.device == devices[0][0]]


def _model(
    pairs: Sequence[CorunMeasurement], solos: Mapping[str, SoloProfile]
) -> CounterModel | None:
    rows = _paired(pairs, solos)
    jobs = {solo.key: solo.features for row in rows for solo in (row.job, row.beside)}
    if len(rows) < FEWEST_PAIRS or len(jobs) < FEWEST_JOBS:
        return None
    counter_plan = plan(list(jobs.values()), pairs[0].device)
    if counter_plan is None:
        return None
    try:
        model = fit(rows, counter_plan)
        export(model)
    except ModelError:
        return None  # counters do not differ: the prior of jobs in general serves
    return model


def _paired(
    pairs: Sequence[CorunMeasurement], solos: Mapping[str, SoloProfile]
) -> list[PairExample]:
    """One row a pair of jobs whose counters are known, the newest pairs."""
    speeds: dict[tuple[str, str], list[float]] = {}
    for pair in pairs:
        name = (pair.job, pair.partners[0])
        if all(key in solos and solos[key].features for key in name):
            speeds[name] = [*speeds.pop(name, []), pair.speed]
    return [
        PairExample(
            job=solos[job],
            beside=solos[beside],
            speed=median(repeats),
            family=_family(job),
            beside_family=_family(beside),
        )
        for (job, beside), repeats in list(speeds.items())[-MOST_PAIRS:]
    ]


def _family(key: str) -> str:
    return str(blake2b(key.encode(), digest_size=4).digest()[0] % FAMILIES)
