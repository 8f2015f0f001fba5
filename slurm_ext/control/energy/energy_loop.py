"""Energy as a cluster loop: idle nodes sleep and are woken, through Slurm's own power saving.

Slurm does the work (SuspendProgram, ResumeProgram), and wakes by itself what a job is given; this
loop only says which idle node sleeps, and wakes some to spare. So whatever becomes of the loop, a
node that sleeps is woken by Slurm. Nothing sleeps while demand is not known for long enough, or
while a node that was to wake is missing; in act, nothing is done where slurm.conf has no power
saving.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from slurm_ext.control.energy.demand_forecast import DemandForecast, forecast, safely
from slurm_ext.control.energy.energy_state import EnergyState
from slurm_ext.control.energy.excluded import excluded, unknown_of
from slurm_ext.control.energy.nodes import (
    FALLING,
    NodeTimes,
    failed,
    need,
    neediest_user,
    nodes_of,
    pool_of,
    power_of,
    states,
)
from slurm_ext.control.energy.series import DemandRecorder, open_slot
from slurm_ext.control.loops.loop_state import LoopState
from slurm_ext.control.loops.planned_loop import DONE, PlannedAction, planned_kind
from slurm_ext.core.settings.document import Settings
from slurm_ext.model.demand.model import SLOT_S
from slurm_ext.policy.energy import (
    AwakeTarget,
    EnergyNode,
    EnergyRules,
    NodeDemand,
    PowerChange,
    PowerState,
    awake_of,
    decide,
    for_jobs,
)
from slurm_ext.slurm.client import SlurmClient
from slurm_ext.slurm.records import JobInfo, NodeInfo, ReservationInfo
from slurm_ext.slurm.records import PowerCommand as Order

NEEDED = ("SuspendProgram", "ResumeProgram")


def rules_of(settings: Settings) -> EnergyRules:
    """The site's; what has no setting is the policy's own."""
    return EnergyRules(
        buffer=settings["energy.buffer"],
        spare=settings["energy.spare"],
        least=settings["energy.least"],
        level=float(settings["energy.level"]),
        settle_s=settings["energy.settle_s"],
        min_off_s=settings["energy.min_off_s"],
        min_idle_s=settings["energy.min_idle_s"],
    )


class EnergyLoop:
    """The loop; pools (partitions) are decided one by one, a node by the first that has it."""

    def __init__(self, settings: Settings, client: SlurmClient, state: LoopState) -> None:
        self._settings, self._client, self._state = settings, client, state
        self._rules = rules_of(settings)
        kept = state.load(dict)
        self._memory = EnergyState.from_json(kept)
        self._pools: list[str] = list(dict.fromkeys(settings["energy.partitions"]))
        running = {pool: open_slot(slot) for pool, slot in kept.get("running", {}).items()}
        self._series = {
            pool: DemandRecorder(state.path, pool, running.get(pool), writes=state.writes)
            for pool in self._pools
        }
        self._hindered = ""
        self._excluded: dict[str, str] = {}
        self._unknown: list[str] = []
        self._pool_status: dict[str, Any] = {}
        self._falling: list[str] = []  # nodes that the last undo could not wake yet

    def plan(self, now_s: float) -> Sequence[PlannedAction]:
        """Look, decide for each pool. Raises SlurmError."""
        nodes, jobs, config = self._client.nodes(), self._client.jobs(), self._client.config()
        reservations = self._client.reservations()
        self._hindered = self._hindrance(config) or self._exclude(nodes, config)
        self._memory.notice(nodes, now_s)
        planned: list[PlannedAction] = []
        self._pool_status = {}
        taken: set[str] = set()
        for pool in self._pools:
            pool_nodes = [node for node in pool_of(nodes, pool) if node.name not in taken]
            taken |= {node.name for node in pool_nodes}
            planned += self._plan(pool, pool_nodes, jobs, reservations, now_s)
        self._keep()
        return () if self._hindered else planned

    def apply(self, planned: PlannedAction) -> str:
        """One node. Raises SlurmError."""
        order = Order(planned.done)
        if order is Order.DOWN:
            self._memory.ours.add(planned.subject)
            self._keep()
        self._client.power([planned.subject], order)
        if order is Order.UP and planned.subject in self._memory.ours:
            self._memory.ours.discard(planned.subject)  # who sleeps again does so by Slurm's word
            self._keep()
        return DONE

    def undo(self, now_s: float) -> Sequence[PlannedAction]:  # noqa: ARG002 - who sleeps is woken, or not
        """Slurm wakes who sleeps when a job needs it; at once only where the site wants that."""
        if not self._settings["energy.wake_at_end"]:
            return ()
        nodes = [node for node in self._client.nodes() if node.name in self._memory.ours]
        self._falling = sorted(node.name for node in nodes if states(node) & FALLING)
        asleep = {node.name for node in nodes if power_of(node) is PowerState.ASLEEP}
        return [
            PlannedAction(subject=name, done=Order.UP.value, why="energy saving ends", before={})
            for name in sorted(asleep)
        ]

    def left(self) -> str:
        """Return the nodes that are still on their way to sleep."""
        return f"nodes on their way to sleep ({', '.join(self._falling)})" if self._falling else ""

    def status(self) -> Mapping[str, Any]:
        """Status of each pool."""
        return {
            "hindered": self._hindered,
            "unknown": self._unknown,
            "pools": self._pool_status,
        }

    def _plan(
        self,
        pool: str,
        infos: Sequence[NodeInfo],
        jobs: Sequence[JobInfo],
        reservations: Sequence[ReservationInfo],
        now_s: float,
    ) -> list[PlannedAction]:
        times = NodeTimes(self._memory.asleep, self._memory.idle)
        nodes = nodes_of(infos, reservations, times, now_s, self._excluded)
        there = len(for_jobs(nodes))
        now = need(nodes, jobs, pool)
        self._series[pool].see(now_s, now, there, neediest_user(jobs, pool))
        missing = failed(infos)
        prediction, past = self._forecast(pool)
        needs = NodeDemand(
            now=now,
            past_peak=past,
            peak=prediction.peak if prediction.knows and not missing else float(there),
            wakes_s=self._memory.wakes_before(pool, now, awake_of(nodes), now_s),
        )
        aim, steps = decide(nodes, needs, now_s=now_s, rules=self._rules)
        self._memory.note_wake(pool, now, now_s, wakes=bool(aim.wake))
        self._note(pool, nodes, needs, aim, prediction, missing)
        return [self._planned(step, needs, prediction) for step in steps]

    def _forecast(self, pool: str) -> tuple[DemandForecast, int]:
        """The bound of the next hours, and the highest need of the past ones."""
        series = self._series[pool].series()
        model, wrong = safely(self._settings.state_dir, pool)
        prediction = forecast(
            series,
            model,
            level=self._rules.level,
            history_h=self._settings["energy.history_h"],
        )
        if wrong:
            prediction = DemandForecast(prediction.peak, wrong, prediction.knows)
        recent = series.need[-1 - int(self._rules.hold_s // SLOT_S) :]
        return prediction, int(recent.max())

    def _planned(
        self, step: PowerChange, needs: NodeDemand, prediction: DemandForecast
    ) -> PlannedAction:
        order = Order.DOWN if step.sleep else Order.UP
        return PlannedAction(
            subject=step.node,
            done=order.value,
            why=f"{step.reason} (by {prediction.by})" if step.sleep else step.reason,
            before={"needed": needs.now, "peak": _finite(needs.peak)},
        )

    def _keep(self) -> None:
        running = {
            pool: recorder.running for pool, recorder in self._series.items() if recorder.running
        }
        self._state.keep(self._memory.as_json(running))

    def _exclude(self, nodes: Sequence[NodeInfo], config: Mapping[str, str]) -> str:
        """Find the nodes that never sleep; return the reason why that cannot be known, if any."""
        exclude = self._settings["energy.exclude"]
        try:
            self._unknown = unknown_of(nodes, exclude)
            self._excluded = excluded(nodes, exclude, config)
        except ValueError as err:
            return str(err)
        return ""

    def _hindrance(self, config: Mapping[str, str]) -> str:
        """Reason why nothing can be done in act; empty if it can."""
        if not self._pools:
            return "energy.partitions names none"
        if self._settings["energy.mode"] != "act":
            return ""
        lacking = [name for name in NEEDED if name not in config]
        if lacking:
            return f"slurm.conf has no {' and no '.join(lacking)}"
        if config.get("SuspendTime", "NONE") in ("NONE", "-1", "INFINITE"):
            return "slurm.conf has no SuspendTime, and without it Slurm suspends no node"
        return ""

    def _note(
        self,
        pool: str,
        nodes: Sequence[EnergyNode],
        needs: NodeDemand,
        aim: AwakeTarget,
        prediction: DemandForecast,
        missing: Sequence[str],
    ) -> None:
        count = {power.value: sum(1 for n in nodes if n.power is power) for power in PowerState}
        reason = f"did not wake: {', '.join(missing)}; nothing sleeps" if missing else aim.reason
        self._pool_status[pool] = {
            "nodes": count,
            "needed": needs.now,
            "peak": ceil(needs.peak),
            "aim": aim.nodes,
            "by": prediction.by,
            "reason": reason,
        }


def _finite(number: float) -> float | None:
    return round(number, 1) if number != float("inf") else None


KIND = planned_kind("energy", EnergyLoop)
