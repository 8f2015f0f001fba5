"""The curve beside other jobs' processes, which take their share of its cores."""

from dataclasses import replace

from slurm_ext.model.throughput.curve.costs import Curve, is_serial
from slurm_ext.model.throughput.curve.point import Point
from slurm_ext.model.throughput.curve.points import at
from slurm_ext.model.throughput.curve.step import step_s, together_s


def at_beside(
    curve: Curve, others: float, workers: float, cores: float, *, claims: bool = False
) -> Point:
    """The same where `others` processes for each core always want it.

    `claims`: each process of its own counts, beyond the cores too, as the kernel counts them.
    """
    wanted = max(1.0, curve.threads)  # cores that its processes want, were they all at work
    wanted += workers * min(1.0, curve.fetch_cpu_s / curve.fetch_wall_s)
    most = wanted if claims else curve.arithmetic.minimum(cores, wanted)
    return at(*_beside_others(curve, others * cores, most, workers, cores))


def _beside_others(
    curve: Curve, theirs: float, wanted: float, workers: float, cores: float
) -> tuple[Curve, float, float]:
    """The curve as slow as other jobs' processes make it, the workers, and the cores left."""
    m, alone_s = curve.arithmetic, step_s(curve, cores)
    slower = m.maximum(0.0, (wanted + theirs) / cores - 1)
    waits_s = slower * (alone_s if curve.threads else m.minimum(alone_s, curve.main_cpu_s))
    waits_s += slower * (1 + slower) * _by_all_s(curve, cores)
    slowed = replace(
        curve,
        accel_samples_per_s=m.where(slower > 0, 1 / (alone_s + waits_s), curve.accel_samples_per_s),
        fetch_wall_s=curve.fetch_wall_s + slower * min(curve.fetch_cpu_s, curve.fetch_wall_s),
    )
    if is_serial(workers):
        return slowed, workers, cores
    return slowed, workers, m.where(slower > 0, wanted / (1 + slower), cores)


def _by_all_s(curve: Curve, cores: float) -> float:
    """Seconds of a step for one sample in which several threads compute together.

    They get on while all have a core: where each has its share of the time, that is the square of
    it for two. (Of contrib/bench/promises' trainings beside others, 27 such steps of two threads
    were told a median of 25 % too fast without it, and 14 % with it. Nothing but products of
    matrices by two threads on two cores takes 30 times as long beside two others.)
    """
    m, at_work = curve.arithmetic, curve.arithmetic.minimum(cores, curve.threads)
    return m.where(cores > 1, together_s(curve) / m.maximum(1.0, at_work), 0.0)
