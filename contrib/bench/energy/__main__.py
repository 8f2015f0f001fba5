"""Nodes put to sleep by predicted demand, on Philly's nodes and Venus's GPUs.

    python -m contrib.bench.energy --train DIR --test DIR [--json] [--quick]

Both folders have the tables' published names; one folder twice is development: the last 14 days of
Philly and the last 30 of Venus are the test. The predictor is fitted to the train folder alone;
the later part of that folder decides if persistence serves instead. The policy's parameters are
the product's defaults; they were chosen on development, so development's figures flatter.
tables.py describes the tables, baselines.py the published rule.
"""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import numpy as np

from contrib.bench.common import metrics
from contrib.bench.common.arrays import Array
from contrib.bench.common.program import folders, options, row, run
from contrib.bench.energy.baselines import AHEAD, PUBLISHED, ces, outline
from contrib.bench.energy.tables import TABLES, Demand
from slurm_ext.core.errors import InputError
from slurm_ext.model.demand.artifact import load
from slurm_ext.model.demand.model import (
    HORIZONS,
    LEVELS,
    PEAK_SLOTS,
    DemandPredictor,
    Persistence,
    features,
    highest_ahead,
    persistence_of,
)
from slurm_ext.policy.energy import EnergyRules
from slurm_ext.simulate.energy.replay import (
    DemandSeries,
    EnergyReplayResult,
    replay_energy,
)
from slurm_ext.training.demand.challenge import challenge
from slurm_ext.training.demand.fit import WARM_UP

RULES = EnergyRules()
UTILISATION, WAKES, SHORT = 91.0, 1.0, 0.1


def cluster(table: Demand) -> dict[str, Any]:
    """Forecasts and replays of one cluster."""
    began = monotonic()
    rows = features(table.demand, table.first_slot)
    before = slice(0, table.split)
    persistence = persistence_of(table.demand[before])
    serves: DemandPredictor = persistence
    with TemporaryDirectory() as folder:
        verdict = challenge(table.demand[before], table.first_slot, Path(folder))
        if verdict.promoted:
            serves = load(Path(folder) / "current")
    fitted_s = monotonic() - began
    return {
        "slots": len(table.demand) - table.split,
        "learnt_from_slots": table.split,
        "serves": serves.name,
        "why": verdict.why,
        "forecast": _forecasts(table, rows, serves),
        "bounds": {
            name: _held(table, rows, outlook)
            for name, outlook in (("ours", serves), ("persistence", persistence))
        },
        "policy": _policies(table, rows, serves, persistence),
        "seconds": {"fit": round(fitted_s, 1), "all": round(monotonic() - began, 1)},
        "told": table.told,
    }


def _forecasts(table: Demand, rows: Array, ours: DemandPredictor) -> dict[str, Any]:
    """By hours ahead, for every slot of the test: SMAPE (percent), R2, under-provision."""
    scores: dict[str, Any] = {}
    for horizon in HORIZONS:
        made = slice(table.split - horizon, len(table.demand) - horizon)
        now, then = table.demand[made], table.demand[table.split :]
        ridge = _ridge(table, rows, horizon)(rows[made])
        changes = {"ours": ours.change(rows[made], horizon), "ridge": ridge, "persistence": 0 * now}
        scores[f"{horizon // 6}h"] = {
            name: _scores(now + change, then, table.unit) for name, change in changes.items()
        }
    return scores


def _scores(predicted: Array, then: Array, unit: int) -> dict[str, float]:
    both = np.maximum(np.abs(predicted) + np.abs(then), 1e-9)
    return {
        "smape": round(float(200 * (np.abs(predicted - then) / both).mean()), 3),
        "r2": round(metrics.r2(predicted, then) or 0.0, 4),
        "mae": round(metrics.mae(predicted, then) or 0.0, 3),
        "under": round(float((predicted < then - 5 * unit).mean()), 4),  # by more than five nodes
    }


def _ridge(table: Demand, rows: Array, horizon: int) -> Callable[[Array], Array]:
    """The usual one: squared error, all features standardised."""
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    before = slice(min(WARM_UP, table.split // 3), table.split - horizon)
    change = table.demand[before.start + horizon : table.split] - table.demand[before]
    model = make_pipeline(StandardScaler(), RidgeCV(alphas=np.logspace(0, 4, 9)))
    model.fit(rows[before], change)
    return lambda later: np.asarray(model.predict(later))


def _held(table: Demand, rows: Array, outlook: DemandPredictor) -> dict[str, float]:
    """Share of slots whose highest demand of six hours stays within each level's bound."""
    test = slice(table.split, len(table.demand) - PEAK_SLOTS)
    added = highest_ahead(table.demand)[test]
    return {
        f"{level}": round(float((added <= outlook.peak(rows[test], level)).mean()), 3)
        for level in LEVELS
    }


def _policies(
    table: Demand, rows: Array, ours: DemandPredictor, persistence: Persistence
) -> dict[str, Any]:
    test = slice(table.split, None)
    now = table.demand[test]
    nodes = table.need[test].astype(np.float64)

    def series(added: Array) -> DemandSeries:
        return DemandSeries(table.need[test], table.total[test], (now + added) / table.unit)

    learned = series(ours.peak(rows[test], RULES.level))
    steady = series(persistence.peak(rows[test], RULES.level))
    highest = np.nan_to_num(highest_ahead(table.demand)[test])
    rule = PUBLISHED[table.name]
    ahead = (now + ours.change(rows[test], AHEAD)) / table.unit
    outcomes = {
        "ours": replay_energy(learned, RULES),
        "ours, numbers of nodes only": outline(learned, RULES),
        "ours, persistence": replay_energy(steady, RULES),
        "ours, no bound": replay_energy(series(0 * now), RULES),
        "ours, perfect bound": replay_energy(series(highest), RULES),
        "CES, our forecast": ces(learned, rule, ahead),
        "CES, persistence": ces(learned, rule, nodes),
        "CES, perfect forecast": ces(learned, rule, nodes, perfect=True),
    }
    return {name: _row(outcome) for name, outcome in outcomes.items()}


def _row(outcome: EnergyReplayResult) -> dict[str, float]:
    return {
        "utilisation_before": round(outcome.utilisation_before, 2),
        "utilisation": round(outcome.utilisation, 2),
        "wakes_a_day": round(outcome.wakes_a_day, 3),
        "short_percent": round(outcome.short_percent, 4),
        "short_node_slots": outcome.short,
        "nodes_asleep": round((outcome.total - outcome.powered) / max(1, outcome.slots), 1),
    }


def wanted(name: str, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Targets of one cluster, each with the measured value."""
    ours, ahead = figures["policy"]["ours"], figures["forecast"]["3h"]
    best = {key: ahead["ours"][key] for key in ("smape", "r2")}
    other = {key: ahead["persistence"][key] for key in ("smape", "r2")}
    serves = figures["serves"]
    beats = best["smape"] < other["smape"]
    rows = [
        (
            "utilisation of powered nodes, percent",
            f">= {UTILISATION}",
            ours["utilisation"],
            ours["utilisation"] >= UTILISATION,
        ),
        ("wake-ups a day", f"< {WAKES}", ours["wakes_a_day"], ours["wakes_a_day"] < WAKES),
        (
            "node-slots short, percent",
            f"< {SHORT}",
            ours["short_percent"],
            ours["short_percent"] < SHORT,
        ),
        (
            "3 h SMAPE below persistence's, or persistence serves",
            f"< {other['smape']}",
            f"{serves}: {best['smape']}",
            beats or serves == "persistence",
        ),
    ]
    return [row(f"{name}: {what}", target, got, met=met) for what, target, got, met in rows]


def result(train: Path, test: Path, *, quick: bool) -> dict[str, Any]:
    """The benchmark's last line. Raises InputError if no table can be used."""
    figures: dict[str, Any] = {"rules": {n: getattr(RULES, n) for n in RULES.__slots__}}
    rows: list[dict[str, Any]] = []
    skipped: list[str] = []
    for read in TABLES[:1] if quick else TABLES:
        try:
            table = read(train, test)
        except InputError as error:
            skipped.append(str(error))
            continue
        figures[table.name] = part = cluster(table)
        rows += wanted(table.name, part)
    if not rows:
        raise InputError(str(test), "; ".join(skipped))
    return {
        "bench": "energy",
        "figures": figures | {"skipped": skipped, "quick": quick},
        "wanted": rows,
    }


def main() -> None:
    """Score and print; 1 where a folder cannot be used."""
    parser = options(__doc__, quick="Philly only")
    folders(parser, train="folder of tables to learn from", test="folder of later tables")
    run(parser, lambda args: result(args.train, args.test, quick=args.quick), _print)


def _print(result: dict[str, Any]) -> None:
    """Figures for people."""
    for name, part in result["figures"].items():
        if not isinstance(part, dict) or "policy" not in part:
            continue
        print(f"{name}: {part['slots']} slots; {part['why']}; {'; '.join(part['told'])}")
        for hours, rows in part["forecast"].items():
            for who, scores in rows.items():
                print(f"  {hours} {who:<12} SMAPE {scores['smape']:6.3f} %  R2 {scores['r2']:7.4f}")
        print("  bounds held:", part["bounds"])
        for who, scores in part["policy"].items():
            cells = "  ".join(f"{key} {value:g}" for key, value in scores.items())
            print(f"  {who:<28} {cells}")


if __name__ == "__main__":
    main()
