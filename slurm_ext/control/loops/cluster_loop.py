"""The common frame of a cluster loop: look at Slurm, decide, and in mode act do it; tell each move.

A loop (queue, elastic, energy) knows what to do and how; the frame knows when, and what is told:
in shadow a move is written once, for as long as it stays decided; in act it is applied, then
written with its outcome. The process around it: cluster_daemon.py.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from slurm_ext.control.loops.action_log import ActionLog
from slurm_ext.control.loops.loop_memory import LoopFolder
from slurm_ext.core.actions import Action
from slurm_ext.core.errors import SlurmError
from slurm_ext.core.settings.document import Settings
from slurm_ext.slurm.client import SlurmClient

DONE = "done"
MOST_REFUSED = 3  # in a row within a round: it is Slurm that is away, not one job that is gone
STATUS_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAction:
    """One thing to do. A loop may subclass it to carry what its `apply` needs."""

    subject: str  # a job as squeue names it (1042, 1042_7) or a node
    done: str  # in Slurm's words: "nice=120", "POWER_DOWN n3"
    why: str  # one sentence for people
    job_id: int | None = None
    before: Mapping[str, Any] = field(default_factory=dict)  # JSON
    after: Mapping[str, Any] = field(default_factory=dict)


class ControlLoop(Protocol):
    """What each cluster loop is. It is made anew when settings are read again."""

    def plan(self, now_s: float) -> Sequence[PlannedAction]:
        """Look by the client, decide by the pure policy; nothing is changed. Raises SlurmError.

        A job or node that is as it should be has no entry: what is planned is not there yet.
        """
        ...

    def apply(self, planned: PlannedAction) -> str:
        """Do one, and keep on the disk what undoes it, before; DONE or more words. SlurmError."""
        ...

    def undo(self, now_s: float) -> Sequence[PlannedAction]:
        """What puts back all that `apply` did and nobody changed since. Raises SlurmError."""
        ...

    def details(self) -> Mapping[str, Any]:
        """What the last `plan` saw, for people and tests: JSON."""
        ...


LoopFactory = Callable[[Settings, SlurmClient, LoopFolder], ControlLoop]


class Rounds:
    """Rounds of one loop under one mode."""

    def __init__(
        self,
        loop: ControlLoop,
        mode: str,
        folder: LoopFolder,
        ledger: ActionLog | None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._loop, self._mode, self._folder, self._ledger = loop, mode, folder, ledger
        self._clock, self._log = clock, logging.getLogger(f"dlqueue.{folder.kind}")
        self._told: dict[tuple[str, str], str | None] = {}  # by subject and deed: the outcome

    @property
    def acts(self) -> bool:
        """Whether anything is changed at all."""
        return self._mode == "act"

    def round(self) -> tuple[Action, ...]:
        """Look, decide, do, tell. Raises SlurmError, or whatever the loop does."""
        now_s = self._clock()
        moves = self._carried_out(self._loop.plan(now_s), now_s, acts=self.acts)
        new = {(move.subject, move.done): move.outcome for move in moves}
        self._write([one for one in moves if self._is_new(one)])
        self._told = new
        self._tell(moves, now_s)
        self._give_up_if_away(moves)
        return moves

    def undo(self) -> int:
        """Put everything back; how many moves that took. Raises SlurmError where some failed."""
        now_s = self._clock()
        planned = self._loop.undo(now_s)
        moves = self._carried_out(planned, now_s, acts=True)
        self._write(moves)
        self._told = {}
        failed = [move for move in moves if move.outcome != DONE]
        if len(moves) < len(planned) or failed:
            raise SlurmError(f"{self._folder.kind}: undo", None, "not everything was put back")
        return len(moves)

    def _carried_out(
        self, planned: Sequence[PlannedAction], now_s: float, *, acts: bool
    ) -> tuple[Action, ...]:
        """Each as a move; what is left after MOST_REFUSED refusals in a row waits."""
        moves: list[Action] = []
        refused = 0
        for one in planned:
            outcome = self._applied(one) if acts else None
            moves.append(self._move(one, now_s, outcome, acts=acts))
            refused = refused + 1 if outcome is not None and outcome.startswith("failed") else 0
            if refused == MOST_REFUSED:
                break
        return tuple(moves)

    def _applied(self, planned: PlannedAction) -> str:
        try:
            return self._loop.apply(planned)
        except SlurmError as error:
            self._log.warning("%s: %s failed: %s", planned.subject, planned.done, error)
            return f"failed: {' '.join(error.said.split())[:200] or 'Slurm gave no reason'}"

    def _move(
        self, planned: PlannedAction, now_s: float, outcome: str | None, *, acts: bool
    ) -> Action:
        return Action(
            at_s=round(now_s, 3),
            kind=self._folder.kind,
            mode="act" if acts else "shadow",
            subject=planned.subject,
            job_id=planned.job_id,
            done=planned.done,
            why=planned.why,
            before=planned.before,
            after=planned.after,
            outcome=outcome,
        )

    def _is_new(self, move: Action) -> bool:
        nothing = object()
        return self._told.get((move.subject, move.done), nothing) != move.outcome

    def _write(self, moves: Sequence[Action]) -> None:
        if self._ledger is not None and moves:
            self._ledger.write(moves)

    def _tell(self, moves: Sequence[Action], now_s: float) -> None:
        rows = [{name: getattr(move, name) for name in _SHOWN} for move in moves]
        self._folder.tell(
            {
                "v": STATUS_VERSION,
                "kind": self._folder.kind,
                "mode": self._mode,
                "at_s": round(now_s, 3),
                "moves": rows,
                "details": dict(self._loop.details()),
            }
        )

    def _give_up_if_away(self, moves: Sequence[Action]) -> None:
        last = moves[-MOST_REFUSED:]
        if len(last) == MOST_REFUSED and all((m.outcome or "").startswith("failed") for m in last):
            raise SlurmError(self._folder.kind, None, f"{MOST_REFUSED} moves in a row failed")


_SHOWN = ("subject", "job_id", "done", "why", "before", "after", "outcome")
