"""What a running job would make of other shares: its travelled curve, and its own last windows."""

from collections.abc import Sequence

from slurm_ext.control.measure import Knob
from slurm_ext.facts.records import Level, LoaderRun, Prediction
from slurm_ext.model.estimate import Estimate, Prior, estimate, predicting_cores
from slurm_ext.policy.offers import Offer, offers


def believed(curve: Estimate | None, runs: Sequence[LoaderRun]) -> Estimate | None:
    """The job's curve from its windows (newest first), steadied by what came with it."""
    prior = None if curve is None else Prior(accel=curve.accel, wall=curve.wall, cpu=curve.cpu)
    live = estimate({Level.SCRIPT_ARGS: list(runs)}, prior) if runs else None
    return curve if live is None else live


def written(
    known: Estimate | None, knob: Knob, share_units: int, *, grain_cores: float, ranks: int
) -> Offer | None:
    """What it would make of its share with its script's own workers; None: nothing is known."""
    if known is None:
        return None
    told = predicting_cores(known)(share_units * grain_cores / ranks, knob.written)
    return Offer(
        units=share_units,
        workers=knob.written,
        samples_per_s=told.samples_per_s,
        io_bytes_per_s=told.samples_per_s * known.bytes_per_sample * ranks,
    )


def offers_of(
    known: Estimate | None, knob: Knob, units: int, *, grain_cores: float, ranks: int
) -> tuple[Offer, ...]:
    """One offer for each of 1 to `units` units; empty: nothing is known."""
    if known is None:
        return ()
    told = predicting_cores(known)

    def predict(cores: float, workers: int) -> Prediction:
        return told(cores / ranks, workers)

    return offers(
        predict,
        units,
        grain_cores=grain_cores,
        max_workers=knob.most,
        least_workers=knob.least,
        bytes_per_sample=known.bytes_per_sample * ranks,
    )
