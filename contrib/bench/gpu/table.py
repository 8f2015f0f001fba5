"""The rows in their order: what each measures, its part of the time, and what is wanted of it."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contrib.bench.common.program import Result, row
from contrib.bench.gpu.here import Here
from contrib.bench.gpu.report import Report


@dataclass(frozen=True, slots=True)
class Wanted:
    """A bound on one figure: at most, or at least."""

    figure: str
    bound: float
    at_most: bool = True


@dataclass(frozen=True, slots=True)
class RowKind:
    """One row; `weight` is its part of the time."""

    name: str
    what: str
    weight: float
    wanted: tuple[Wanted, ...] = ()

    def measure(self) -> Callable[[Here, Report], None]:
        """The function that measures it, in the file of its name."""
        module = importlib.import_module(f"contrib.bench.gpu.rows.{self.name}")
        measure: Callable[[Here, Report], None] = module.measure
        return measure


ROWS = (
    RowKind(
        "buckets",
        "gradient buckets over NVLink or PCIe, where there are two GPUs",
        40,
        (Wanted("chosen_over_default", 0.98, at_most=False), Wanted("error_chosen", 0.1)),
    ),
    RowKind(
        "counters",
        "NVML's and GPM's counters against known loads",
        95,
        (
            Wanted("gpu_util_error_50", 0.05),
            Wanted("gpm_sm_active_error_50", 0.05),
            Wanted("attribution_error", 0.05),
            Wanted("job_memory_error", 0.02),
            Wanted("energy_against_power_90", 0.05),
        ),
    ),
    RowKind(
        "mps",
        "the life of MPS by the hooks' own code, static partitions, protocol 3",
        50,
        (
            Wanted("ended", 1, at_most=False),
            Wanted("ended_by_force", 1, at_most=False),
            Wanted("left_behind", 0),
            Wanted("memory_over_refused", 1, at_most=False),
            Wanted("fault_in_the_record", 1, at_most=False),
        ),
    ),
    RowKind(
        "pairs",
        "pairs in turns, under MPS and with limits: our bound against what happened",
        90,
        (
            Wanted("mps_bound_held_prior", 0.9, at_most=False),
            Wanted("mps_bound_held_completed", 0.9, at_most=False),
            Wanted("mps_bound_held_pair", 0.9, at_most=False),
            Wanted("mps_error_completed", 0.1),
        ),
    ),
    RowKind(
        "ranks",
        "ranks 1 to 4 on one GPU at busy shares of 43 to 95 %",
        80,
        (
            Wanted("gain_43_2", 1.58, at_most=False),
            Wanted("gain_held_43_2", 1.2, at_most=False),
            Wanted("error_43_2", 0.1),
            Wanted("picked_95", 1),
        ),
    ),
    RowKind(
        "probe",
        "the probe's cost with CUDA, its waits and steps against a synchronised truth",
        70,
        (
            Wanted("overhead", 0.01),
            Wanted("fed_wait_share_error_probe", 0.05),
            Wanted("starved_wait_share_error_probe", 0.05),
        ),
    ),
    RowKind(
        "frameworks",
        "the probe's figure of trainings by frameworks on the GPU, against their own count",
        80,
        (
            Wanted("told", 1, at_most=False),
            Wanted("within_5_percent", 1, at_most=False),
            Wanted("results_equal", 1, at_most=False),
        ),
    ),
    RowKind(
        "loader",
        "what workers bring to real JPEGs and a real model: fixed, told and tuned",
        110,
        (
            Wanted("tuned_of_best", 0.95, at_most=False),
            Wanted("directed_of_best", 0.95, at_most=False),
        ),
    ),
    RowKind(
        "stalls",
        "a record's split of the step against torch's profiler",
        45,
        (
            Wanted("starved_data_error", 0.05),
            Wanted("fed_data_error", 0.05),
        ),
    ),
    RowKind(
        "energy",
        "joules of a sample, by the energy counter and by power",
        45,
        (Wanted("counter_against_power_64", 0.05),),
    ),
)


def wanted(rows: Sequence[RowKind], outcomes: Mapping[str, Mapping[str, Any]]) -> list[Result]:
    """Rows of `wanted`; what was not measured is not met."""
    found = []
    for kind in rows:
        figures = outcomes.get(kind.name, {}).get("figures", {})
        for one in kind.wanted:
            got = figures.get(one.figure, {}).get("value")
            met = got is not None and (got <= one.bound if one.at_most else got >= one.bound)
            target = f"{'<=' if one.at_most else '>='} {one.bound:g}"
            found.append(row(f"{kind.name}: {one.figure}", target, got, met=met))
    return found
