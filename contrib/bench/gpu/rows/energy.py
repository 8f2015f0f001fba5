"""Joules of a sample: by NVML's energy counter, and by its power over time, at several batches.

The whole GPU's energy while a training runs, by the node's own reader, over the samples of that
time; what an idle GPU takes is told beside it.
"""

import time

from contrib.bench.gpu.gauge import Gauge, Span
from contrib.bench.gpu.here import Here
from contrib.bench.gpu.report import AbsentError, Report, repeats, within
from contrib.bench.gpu.trainings import Training

BATCHES = (16, 64, 256)
SETTLE_S = 1.5  # power is a mean over a second
SPAN_S = (1.5, 3.0)
STARTS_S = 2.0  # of workers and first batches, that are no part of a training's own clock
WANTED = 2  # repeats, where there is time for spans of the least


def measure(here: Here, report: Report) -> None:
    """An idle GPU, then each batch in turn."""
    here.needs_device()
    times = WANTED * len(BATCHES)
    span_s = within(SPAN_S, here.seconds / times - SETTLE_S - 2 * STARTS_S)
    with Gauge(here.uuid) as gauge, Training(here) as training:
        idle_w = gauge.over(span_s).watts  # before it has a context
        training.hear()
        if idle_w is None:
            raise AbsentError("the GPU has no energy meter (Volta and newer)")
        report.add("idle_without_context", idle_w, "W")
        report.add("idle_with_context", gauge.over(span_s).watts, "W")
        for _ in repeats(here.seconds, least=1):
            for batch in BATCHES:
                span, rate = _spent(gauge, training, batch, span_s)
                _batch(report, batch, span, rate, idle_w)


def _batch(report: Report, batch: int, span: Span, rate: float, idle_w: float) -> None:
    by_counter, by_power = span.watts, span.of("gpu_power_mean")
    report.add(f"rate_{batch}", rate, "samples/s")
    if by_counter is None:
        return
    report.add(f"joules_per_sample_{batch}", by_counter / rate, "J")
    report.add(f"joules_above_idle_{batch}", (by_counter - idle_w) / rate, "J")
    if by_power:
        report.add(f"joules_by_power_{batch}", by_power / rate, "J")
        report.add(f"counter_against_power_{batch}", abs(by_counter / by_power - 1))


def _spent(gauge: Gauge, training: Training, batch: int, span_s: float) -> tuple[Span, float]:
    """Counters of a span within a training, and the training's samples a second."""
    training.run(0.1, "ready", 2, way="plain", batch=batch)  # its kernels are chosen now
    training.begin(SETTLE_S + span_s + STARTS_S, "ready", 2, way="plain", batch=batch)
    time.sleep(STARTS_S + SETTLE_S)
    span = gauge.over(span_s)
    rate = training.end().rate
    return span, rate
