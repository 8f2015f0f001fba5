"""Frame of the queue, elastic and energy loops: plan, in mode act apply, record each action.

An `ActionPlanner` says what to do and how; the frame says when, and what is recorded. In shadow an
action is recorded once for as long as it stays planned; in act it is recorded with its outcome.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.control.loops.control_loop import ControlLoop, LoopKind
from slurm_ext.control.loops.loop_state import LoopState, cluster_state
from slurm_ext.core.actions import Action
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm.client import SlurmClient

DONE = "done"
MAX_REFUSED = 3  # in a row within a round: it is Slurm that is away, not one job that is gone
STATUS_VERSION = 1
_SHOWN = ("subject", "job_id", "done", "why", "before", "after", "outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAction:
    """One thing to do. A planner may subclass it to carry what its `apply` needs."""

    subject: str  # a job as squeue names it (1042, 1042_7) or a node
    done: str  # in Slurm's words: "nice=120", "POWER_DOWN n3"
    why: str  # one sentence for people
    job_id: int | None = None
    before: Mapping[str, Any] = field(default_factory=dict)  # JSON
    after: Mapping[str, Any] = field(default_factory=dict)


class ActionPlanner(Protocol):
    """Policy of one loop on a live cluster. Each method may raise SlurmError."""

    def plan(self, now_s: float) -> Sequence[PlannedAction]:
        """Look by the client and decide by the pure policy; nothing is changed.

        A job or node that is as it should be has no entry.
        """
        ...

    def apply(self, planned: PlannedAction) -> str:
        """Keep on the disk what undoes it, then do it; returns DONE or more words."""
        ...

    def undo(self, now_s: float) -> Sequence[PlannedAction]:
        """Plan what puts back all that `apply` did and nobody changed since."""
        ...

    def left(self) -> str:
        """Changes that the last `undo` found and could not plan yet, in a clause; empty: none."""
        ...

    def status(self) -> Mapping[str, Any]:
        """Return what the last `plan` saw, for people and tests: JSON."""
        ...


LoopFactory = Callable[[Settings, SlurmClient, LoopState], ActionPlanner]


def planned_kind(name: str, planner: LoopFactory) -> LoopKind:
    """The kind of the loop with settings `<name>.mode` and the actions of `planner`."""

    def make(settings: Settings, client: SlurmClient, state: LoopState) -> PlannedLoop:
        log = ActionLog(settings.state_dir, name) if state.writes else None
        return PlannedLoop(planner(settings, client, state), kind, settings, state, log)

    kind = LoopKind(
        name=name,
        mode=f"{name}.mode",
        interval=f"{name}.interval_s",
        prefix=f"{name}.",
        state=lambda settings, writes: cluster_state(settings.state_dir, name, writes=writes),
        make=make,
        status_keys=("moves", "mode"),
    )
    return kind


class PlannedLoop(ControlLoop):
    """Rounds of one planner under one mode."""

    def __init__(
        self,
        planner: ActionPlanner,
        kind: LoopKind,
        settings: Settings,
        state: LoopState,
        action_log: ActionLog | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._planner, self._kind, self._state = planner, kind, state
        self._mode, self._action_log, self._clock = settings[kind.mode], action_log, clock
        self._recorded: dict[tuple[str, str], str | None] = {}  # outcome by subject and deed
        self.acts = self._mode == "act"

    def round(self) -> tuple[Action, ...]:
        """Plan, apply, record. Raises SlurmError, or whatever the planner does."""
        now_s = self._clock()
        actions = self._applied(self._planner.plan(now_s), now_s, acts=self.acts)
        self._record([action for action in actions if self._is_new(action)])
        self._recorded = {(action.subject, action.done): action.outcome for action in actions}
        self._write_status(actions, now_s)
        _check_slurm_answers(self._kind.name, actions)
        return actions

    def undo(self) -> int:
        """Put everything back; returns how many. Raises SlurmError where some failed."""
        now_s = self._clock()
        planned = self._planner.undo(now_s)
        actions = self._applied(planned, now_s, acts=True)
        self._record(actions)
        if actions:
            self._recorded = {}
        failed = [action for action in actions if action.outcome != DONE]
        if len(actions) < len(planned) or failed:
            raise SlurmError(f"{self._kind.name}: undo", None, "not everything was put back")
        return len(actions)

    def left(self) -> str:
        """Return the planner's own."""
        return self._planner.left()

    def _applied(
        self, planned: Sequence[PlannedAction], now_s: float, *, acts: bool
    ) -> tuple[Action, ...]:
        """Each as an action with its outcome; after MAX_REFUSED refusals in a row no more."""
        actions: list[Action] = []
        refused = 0
        for step in planned:
            outcome = self._outcome(step) if acts else None
            actions.append(self._action(step, now_s, outcome, acts=acts))
            refused = refused + 1 if outcome is not None and outcome.startswith("failed") else 0
            if refused == MAX_REFUSED:
                break
        return tuple(actions)

    def _outcome(self, planned: PlannedAction) -> str:
        try:
            return self._planner.apply(planned)
        except SlurmError as error:
            self._kind.log.warning("%s: %s failed: %s", planned.subject, planned.done, error)
            return f"failed: {' '.join(error.output.split())[:200] or 'Slurm gave no reason'}"

    def _action(
        self, planned: PlannedAction, now_s: float, outcome: str | None, *, acts: bool
    ) -> Action:
        return Action(
            at_s=round(now_s, 3),
            kind=self._kind.name,
            mode="act" if acts else "shadow",
            subject=planned.subject,
            job_id=planned.job_id,
            done=planned.done,
            why=planned.why,
            before=planned.before,
            after=planned.after,
            outcome=outcome,
        )

    def _is_new(self, action: Action) -> bool:
        nothing = object()
        before = self._recorded.get((action.subject, action.done), nothing)
        return before != action.outcome

    def _record(self, actions: Sequence[Action]) -> None:
        if self._action_log is not None and actions:
            self._action_log.write(actions)

    def _write_status(self, actions: Sequence[Action], now_s: float) -> None:
        self._state.write_status(
            {
                "v": STATUS_VERSION,
                "kind": self._kind.name,
                "mode": self._mode,
                "at_s": round(now_s, 3),
                "moves": [{name: getattr(action, name) for name in _SHOWN} for action in actions],
                "details": dict(self._planner.status()),
            }
        )


def _check_slurm_answers(name: str, actions: Sequence[Action]) -> None:
    last = actions[-MAX_REFUSED:]
    if len(last) == MAX_REFUSED and all((a.outcome or "").startswith("failed") for a in last):
        raise SlurmError(name, None, f"{MAX_REFUSED} actions in a row failed")
