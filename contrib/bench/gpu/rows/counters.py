"""NVML's and GPM's counters against loads that are known: shares, memory, traffic, energy.

Two processes compute for known shares of the time, alone and together. A process's share is its
rounds by what a round takes alone, so that turns of others are none of it.
"""

import time

from contrib.bench.gpu.gauge import Gauge, Span
from contrib.bench.gpu.here import Here
from contrib.bench.gpu.loads import Done, Load, loads
from contrib.bench.gpu.report import Report, repeats, within

KINDS = ("compute", "small", "copy", "tensor", "upload")
SHARES = (0.25, 0.5, 0.9)
SETTLE_S = 1.2  # power is a mean over a second
SPAN_S = (1.0, 2.5)
END_S = 0.5  # of a load beyond its span
LEAST, SPANS = 2, 7  # repeats, and spans of each
HOLD_MIB = 1024
_GPM = ("sm_active", "tensor_active", "dram_active")


def measure(here: Here, report: Report) -> None:
    """Each load in turn, as often as there is time."""
    here.needs_device()
    span_s = within(SPAN_S, here.seconds / (LEAST * SPANS) - SETTLE_S - 2 * END_S)
    with Gauge(here.uuid) as gauge, loads(here, 2, KINDS, {}) as (one, other):
        idle = gauge.over(span_s)
        report.add("idle_power", idle.watts, "W")
        _others(report, idle, one, other)
        report.facts["PCIe by"] = _traffic(gauge)
        for _ in repeats(here.seconds, least=LEAST):
            for share in SHARES:
                _one_share(report, gauge, one, share, span_s)
            _two(report, gauge, one, other, span_s)
            _memory(report, gauge, one)
            _moved(report, gauge, one, span_s)


def _others(report: Report, idle: Span, *own: Load) -> None:
    """Name what would spoil the figures, or keep some of them away."""
    report.facts["other processes on the GPU"] = len(idle.seen - {load.pid for load in own})
    report.facts["gpu_util when idle"] = idle.of("gpu_util")
    if not {load.pid for load in own} & idle.seen:
        report.lacks("attribution", "NVML does not tell our processes (another pid namespace?)")
    if idle.of("gpu_sm_active") is None:
        report.lacks("GPM", "the GPU or its driver has none (Hopper and newer)")
    if idle.of("gpu_energy") is None:
        report.lacks("energy", "the GPU has no energy meter (Volta and newer)")


def _traffic(gauge: Gauge) -> str:
    """The way in which this GPU tells its traffic over PCIe."""
    reading = gauge.reading()
    if "pcie_rx_bytes" in reading:
        return "counters"
    return "rates" if "pcie_rx_kb_s" in reading else "nothing"


def _loaded(gauge: Gauge, span_s: float, *each: tuple[Load, str, float]) -> tuple[Span, list[Done]]:
    """Counters while these loads run, (load, kind, share)."""
    for load, kind, share in each:
        load.begin(kind, SETTLE_S + span_s + END_S, share)
    time.sleep(SETTLE_S)
    span = gauge.over(span_s, *({load.pid} for load, _, _ in each))
    return span, [load.end() for load, _, _ in each]


def _one_share(report: Report, gauge: Gauge, load: Load, share: float, span_s: float) -> None:
    span, (done,) = _loaded(gauge, span_s, (load, "compute", share))
    at = f"{100 * share:.0f}"
    report.add(f"share_{at}", done.share)
    report.add(f"share_by_events_{at}", done.busy_s / done.wall_s)
    report.add(f"gpu_util_{at}", span.of("gpu_util"))
    report.add(f"gpu_util_error_{at}", _error(span.of("gpu_util"), done.share))
    report.add(f"gpm_sm_active_error_{at}", _error(span.of("gpu_sm_active"), done.share))
    if "attribution" not in report.absent:
        report.add(f"job_util_error_{at}", _error(span.of("gpu_job_util", 0), done.share))
    power = span.of("gpu_power_mean")
    report.add(f"power_{at}", power, "W")
    if power and span.watts is not None:
        report.add(f"energy_against_power_{at}", abs(span.watts / power - 1))


def _two(report: Report, gauge: Gauge, one: Load, other: Load, span_s: float) -> None:
    """Two processes at once, which must not be counted as one."""
    if "attribution" in report.absent:
        return
    span, done = _loaded(gauge, span_s, (one, "compute", 0.5), (other, "compute", 0.25))
    for part, each in enumerate(done):
        counted = span.of("gpu_job_util", part)
        report.add(f"share_of_two_{part}", each.share)
        report.add(f"job_util_of_two_{part}", counted)
        report.add("attribution_error", _error(counted, each.share))


def _memory(report: Report, gauge: Gauge, load: Load) -> None:
    """A process that takes a known amount more."""
    held = []
    for hold_mib in (0, HOLD_MIB):
        load.begin("small", SETTLE_S, hold_mib=hold_mib)
        time.sleep(SETTLE_S / 2)
        held.append(gauge.over(0.2, {load.pid}).of("gpu_job_mem_peak", 0))
        load.end()
    load.begin("small", 0.1)
    load.end()
    if "attribution" not in report.absent and held[0] is not None and held[1] is not None:
        report.add("job_memory_error", abs((held[1] - held[0]) / (HOLD_MIB * 2**20) - 1))


def _moved(report: Report, gauge: Gauge, load: Load, span_s: float) -> None:
    """Copies within the GPU, products of its tensor cores, and uploads over the bus."""
    for kind in ("copy", "tensor", "upload"):
        span, (done,) = _loaded(gauge, span_s, (load, kind, 1.0))
        for name in _GPM:
            report.add(f"gpm_{name}_{kind}", span.of(f"gpu_{name}"))
        if kind != "tensor":
            report.add(f"{kind}_rate", done.gib / done.wall_s, "GiB/s")
        received = span.of("gpu_pcie_rx")
        if kind == "upload" and span.seconds > 0 and received is not None and done.gib:
            rate = received / 2**30 / span.seconds
            report.add("pcie_rate", rate, "GiB/s")
            report.add("pcie_error", abs(rate / (done.gib / done.wall_s) - 1))


def _error(counted: float | None, true: float) -> float | None:
    return None if counted is None else abs(counted - true)
