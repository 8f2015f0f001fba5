"""The node allocator on Synergy's measured tables, against even split and three other policies.

Static: random mixes of 8 one-GPU jobs on a node of 8 GPUs and 24 cores, all slots full, models
drawn by class (image/language/speech). Gain: sum of rates over that of the even split (3 cores
each), less one. Each mix is divided with the fairness rule (nobody below his even share) and
without; the optimum is HiGHS's, found independently of ours. Dynamic: series of 40 jobs that
arrive and end, through the same `retune` as on a live node, every change charged, against even
split over the jobs that run and against the fixed 3 cores that Slurm gives with a GPU; beside it
what the exact division would give, made anew at every event and free of charge.

Synergy's tables have 1-6, 9, 12 and 24 cores. Between two measured points nothing is assumed but
the lower one. The figures that the targets are taken from counted the rows as 1 to 9 cores, which
makes the steepest step cheaper than it was measured to be; both readings are reported. No policy
gains more than the optimum: where that is below a target, it is the tables that miss it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from contrib.bench.allocator.cost import costs
from contrib.bench.allocator.dynamic import JOBS, dynamic
from contrib.bench.allocator.static import static
from contrib.bench.allocator.tables import MIXES, Curve, Tables, by_row, read
from contrib.bench.common.program import options, run

READINGS: dict[str, Callable[[Curve], Curve]] = {"as_labelled": dict, "rows_as_cores": by_row}
ROUNDING = 1e-6
WHOLE, QUICK = (300, 300, 20), (60, 10, 3)  # mixes, of them held against the optimum, series


def result(tables: Tables, *, quick: bool) -> dict[str, Any]:
    """The benchmark's one JSON object."""
    count, proved, seeds = QUICK if quick else WHOLE
    figures = {
        "models": tables.by_class(),
        "skipped": list(tables.skipped),
        "static": {name: static(tables, one, count, proved) for name, one in READINGS.items()},
        "dynamic": {name: dynamic(tables, one, seeds) for name, one in READINGS.items()},
        "solve_ms": costs(repeats=3 if quick else 15),
    }
    return {"bench": "allocator", "figures": figures, "wanted": wanted(figures)}


def wanted(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Targets, each with the measured value."""
    rows: list[tuple[str, float, float, bool]] = []
    for reading in READINGS:
        for mix in MIXES:
            rows += _wanted_static(f"{reading}, {mix}", figures["static"][reading][mix]["fair"])
            rows += _wanted_dynamic(f"{reading}, {mix}", figures["dynamic"][reading][mix])
    return [dict(zip(("what", "target", "got", "met"), row, strict=True)) for row in rows]


def _wanted_static(where: str, fair: Mapping[str, Any]) -> list[tuple[str, float, float, bool]]:
    best = fair["optimum"]
    limit = (
        f"(first {best['mixes']} mixes: {best['ours_on_these']:.1f}, optimum {best['mean']:.1f})"
    )
    return [
        (f"{where}: mean gain in per cent {limit}", 23.5, fair["mean"], fair["mean"] >= 23.5),
        (f"{where}: least gain", 0.0, fair["min"], fair["min"] >= -ROUNDING),
        (
            f"{where}: most that is lost to the optimum, in per cent",
            0.1,
            best["largest_loss"],
            best["largest_loss"] <= 0.1,
        ),
    ]


def _wanted_dynamic(where: str, scores: Mapping[str, Any]) -> list[tuple[str, float, float, bool]]:
    rows = []
    for rule, throughput, makespan in (("even", 8.0, 7.0), ("fixed", 10.0, 9.0)):
        one = scores[f"over_{rule}"]
        more, less = one["throughput"]["mean"], -one["makespan"]["mean"]
        title = f"{where}, {JOBS} jobs, against {rule}"
        most, least = one["unbound_throughput"], -one["unbound_makespan"]
        rows += [
            (
                f"{title}: throughput higher by, per cent (free of charge: {most:.1f})",
                throughput,
                more,
                more >= throughput,
            ),
            (
                f"{title}: makespan shorter by, per cent (free of charge: {least:.1f})",
                makespan,
                less,
                less >= makespan,
            ),
        ]
    return rows


def main() -> None:
    """Read the tables and score; 1 where one cannot be used."""
    parser = options(__doc__, quick="fewer mixes and series")
    parser.add_argument(
        "--data", type=Path, nargs="+", required=True, help="one or more tables, or their folders"
    )
    run(parser, lambda args: result(read(args.data), quick=args.quick), print_table)


def print_table(result: Mapping[str, Any]) -> None:
    """Gains over even split, for people."""
    figures = result["figures"]
    print(f"models: {figures['models']}")
    for line in figures["skipped"]:
        print(f"left out: {line}")
    for reading, by_mix in figures["static"].items():
        for mix, scores in by_mix.items():
            print(f"{reading}, {mix}: mean gain over even split in per cent (least, most)")
            rows = {"ours": scores["fair"], "ours, free": scores["free"], **scores["baselines"]}
            for name, row in rows.items():
                best = f"   optimum {row['optimum']['mean']:5.1f}" if "optimum" in row else ""
                print(f"  {name:<13} {row['mean']:5.1f} ({row['min']:.1f}, {row['max']:.1f}){best}")
    for reading, by_mix in figures["dynamic"].items():
        for mix, scores in by_mix.items():
            for rule in ("over_even", "over_fixed"):
                row = scores[rule]
                gained = ", ".join(
                    f"{name} {row[name]['mean']:+.1f} % (sd {row[name]['sd']:.1f}; "
                    f"free of charge {row[f'unbound_{name}']:+.1f})"
                    for name in ("throughput", "makespan")
                )
                print(f"{reading}, {mix}, {JOBS} jobs, {rule}: {gained}")
    for size, row in figures["solve_ms"].items():
        print(f"{size}: {row['mean']:.1f} ms a division (sd {row['sd']:.1f})")


if __name__ == "__main__":
    main()
