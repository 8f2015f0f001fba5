"""Replays of a demand series: which nodes sleep, and what jobs lack meanwhile."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from slurm_ext.cli.simulate.command import check
from slurm_ext.cli.simulate.page import Page, Plots
from slurm_ext.core.errors import InputError
from slurm_ext.model.demand.model import SLOT_S, DemandPredictor, persistence_of
from slurm_ext.report.formatting import counted
from slurm_ext.report.plots import shares_over_time
from slurm_ext.simulate.energy.demand_file import DemandRecord, read_demand
from slurm_ext.simulate.energy.policies import SUSPEND_S, USUAL, policies_of, replay_policy
from slurm_ext.simulate.energy.replay import EnergyReplayResult

if TYPE_CHECKING:
    from rich.progress import Progress

LEARN = 0.5
HEADER = (
    "policy",
    "powered nodes in use",
    "nodes powered",
    "node-hours off",
    "wakes a day",
    "nodes woken a day",
    "short",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyReplayed:
    """A demand series under several policies."""

    record: DemandRecord
    split: int
    forecast: str  # which one ours has, and why
    results: Sequence[EnergyReplayResult]

    @property
    def document(self) -> dict[str, Any]:
        """The document of --json."""
        return {
            "v": 1,
            "kind": "energy",
            "source": self.record.source,
            "slot_s": SLOT_S,
            "slots": len(self.record.need) - self.split,
            "learned_slots": self.split,
            "nodes": int(self.record.total.max()),
            "forecast": self.forecast,
            "repairs": dict(self.record.repairs),
            "policies": [{"policy": result.policy, **result.figures()} for result in self.results],
        }

    def page(self) -> Page:
        """The table and what is to be said below it."""
        nodes = counted(int(self.record.total.max()), "node")
        days = (len(self.record.need) - self.split) * SLOT_S / 86400
        return Page(
            title="Energy policies",
            source=self.record.source,
            about=f"{days:.1f} days of {nodes}",
            caption="Nodes, by policy",
            header=HEADER,
            rows=[_row(result) for result in self.results],
            remarks=list(self._remarks()),
        )

    def _remarks(self) -> Iterator[str]:
        for why, slots in self.record.repairs.items():
            yield f"{counted(slots, 'slot')}: {why}"
        yield f"forecast of ours: {self.forecast}"
        first, *others = self.results
        for result in others:
            saved = result.figures()["node_hours_off"] - first.figures()["node_hours_off"]
            more = "more" if saved >= 0 else "fewer"
            yield f"{result.policy}: {abs(saved):,.0f} {more} node-hours off than {first.policy}"

    def plots(self) -> Plots:
        """Plots of the page, by title."""
        total = self.record.total[self.split :].clip(min=1)
        need = self.record.need[self.split :]
        shares = {result.policy: result.powered_by_slot / total for result in self.results}
        lines = {
            name: [(slot * SLOT_S, float(share)) for slot, share in enumerate(column)]
            for name, column in {"needed": need / total, **shares}.items()
        }
        about = "Share of the nodes that are powered, and that jobs need."
        yield "Powered nodes", shares_over_time(about, "nodes", lines)


def _row(result: EnergyReplayResult) -> list[str]:
    figures = result.figures()
    return [
        result.policy,
        f"{figures['utilisation']:.1%}",
        f"{figures['powered_mean']:,.1f}",
        f"{figures['node_hours_off']:,.0f}",
        f"{figures['wakes_per_day']:.2f}",
        f"{figures['woken_per_day']:.1f}",
        f"{figures['short']:.3%}",
    ]


def replayed(args: argparse.Namespace, progress: "Progress") -> EnergyReplayed:
    """Replay the series under every policy. Raises UsageError and InputError."""
    names = policies_of(USUAL if args.policy is None else args.policy)
    check("--learn", args.learn, 0.0, 0.95)
    check("--suspend-s", args.suspend_s, 0.0, 7 * 86400.0)
    record = read_demand(args.energy)
    split = int(len(record.need) * (LEARN if args.learn is None else args.learn))
    if not record.total[split]:
        raise InputError(record.source, "no node is there where the replay begins: see --learn")
    predictor, forecast = _learned(record, split, progress)
    suspend_s = SUSPEND_S if args.suspend_s is None else args.suspend_s

    def replay(name: str) -> EnergyReplayResult:
        task = progress.add_task(name, total=len(record.need) - split)

        def update(slots: int) -> None:
            progress.update(task, completed=slots)

        return replay_policy(name, record, split, predictor, suspend_s=suspend_s, progress=update)

    results = [replay(name) for name in names]
    return EnergyReplayed(record=record, split=split, forecast=forecast, results=results)


def _learned(record: DemandRecord, split: int, progress: "Progress") -> tuple[DemandPredictor, str]:
    """The forecast that `dlqueue train` would promote after the first slots, and why."""
    from slurm_ext.model.demand.artifact import load
    from slurm_ext.training.demand.challenge import challenge

    simplest = persistence_of(record.need[:split])
    if find_spec("lightgbm") is None:
        return simplest, "persistence: lightgbm is not installed (pip install 'dlqueue[train]')"
    task = progress.add_task("learning", total=None)
    with TemporaryDirectory(prefix="dlqueue-") as folder:
        verdict = challenge(record.need[:split], record.first_slot, Path(folder))
        progress.update(task, completed=split, total=split)
        return load(Path(folder) / "current") if verdict.promoted else simplest, verdict.why
