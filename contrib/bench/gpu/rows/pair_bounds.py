"""The product's predicted speeds of pairs, against the speeds that were measured."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from contrib.bench.gpu.here import Here
from contrib.bench.gpu.report import Report
from slurm_ext.core.gpu_sharing import CorunMeasurement, RelativeSpeed, SoloProfile
from slurm_ext.model.slowdown.model import CPU, SlowdownModel, slowdown_model

Pair = tuple[str, str]  # a job, and the one beside it
Speeds = Mapping[Pair, float]
SECONDS = 60.0  # of a pair's run, as the model weighs it


def judge(report: Report, mode: str, repeats: Sequence[Speeds], here: Here) -> None:
    """Shares of pairs above their bound, and errors, for each kind of knowledge."""
    device = CPU if here.device == "cpu" else here.gpu_name
    for basis, measured, predicted in _predicted(repeats, device):
        for speeds in measured:
            _add(report, f"{mode}_", basis, speeds, predicted)


def _predicted(
    repeats: Sequence[Speeds], device: str
) -> Iterator[tuple[str, Sequence[Speeds], Mapping[Pair, RelativeSpeed]]]:
    """Each kind of knowledge with the repeats that judge it."""
    pairs = list(repeats[0])
    yield "prior", repeats, {pair: _speed(SlowdownModel(), pair, device) for pair in pairs}
    others = {pair: _others(repeats, pair, device) for pair in pairs}
    yield "completed", repeats, {pair: _speed(others[pair], pair, device) for pair in pairs}
    met = slowdown_model(_rows(repeats[:1], device))
    yield "pair", repeats[1:], {pair: _speed(met, pair, device) for pair in pairs}


def _others(repeats: Sequence[Speeds], pair: Pair, device: str) -> SlowdownModel:
    """A model that met every pair but these two."""
    known = [
        {other: speed for other, speed in speeds.items() if set(other) != set(pair)}
        for speeds in repeats
    ]
    return slowdown_model(_rows(known, device))


def _rows(repeats: Sequence[Speeds], device: str) -> list[CorunMeasurement]:
    return [
        CorunMeasurement(job=job, partners=(beside,), speed=speed, seconds=SECONDS, device=device)
        for speeds in repeats
        for (job, beside), speed in speeds.items()
    ]


def _speed(model: SlowdownModel, pair: Pair, device: str) -> RelativeSpeed:
    job, beside = (SoloProfile(key=name) for name in pair)
    return model.speed(job, [beside], device)


def _add(
    report: Report, prefix: str, basis: str, speeds: Speeds, said: Mapping[Pair, RelativeSpeed]
) -> None:
    report.add(f"{prefix}bound_held_{basis}", fmean(s >= said[p].low for p, s in speeds.items()))
    report.add(f"{prefix}bound_{basis}", fmean(said[pair].low for pair in speeds))
    report.add(f"{prefix}error_{basis}", fmean(abs(s - said[p].mean) for p, s in speeds.items()))
