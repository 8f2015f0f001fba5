"""Standing of a job by its earlier outcomes: width of its next interval, reasons not to act. Pure.

Width: the largest miss among the nine newest outcomes of the same script in the same partition and
world (on cores of its own, or beside others), of predictions by the script's own runs: what other
programs foretold of its first one says nothing of what its own foretell.
That is split conformal prediction of 90 %, whose rank among nine is the ninth: one miss widens the
next interval as far as it would have held it, and counts until nine newer ones are known. It comes
on top of the factor of all outcomes (calibrate.py), and never makes it smaller. The node would part
outcomes better than the partition, but nobody knows it at submission.

Acting stops for a script (history/views/outcomes.py), for a user of whose five newest outcomes none
was as predicted, and for everybody where that holds of five that three users or more share alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from slurm_ext.advisor.evidence.calibrate import unwidened
from slurm_ext.core.records import SCRIPT_LEVELS, Level
from slurm_ext.core.stats import POOL_USERS, fair_rows
from slurm_ext.history.views.outcomes import Residual, series_by_key, why_stopped
from slurm_ext.model.throughput.calibration import in_half_widths

NEWEST_OF_SCRIPT = 9
WIDEST = 20.0  # half widths: an interval that holds everything says nothing
NONE_OF = 5  # outcomes
_FAIRLY_SHARED = 2 * POOL_USERS  # the fewest that hold five with equal shares of three users
ELSEWHERE = "none of the newest jobs here ran as predicted"


@dataclass(frozen=True, slots=True)
class ScriptStanding:
    """Standing of one script."""

    widths: Mapping[tuple[str | None, bool], float]  # by partition and world, in half widths
    stopped: str = ""  # why nothing acts on it
    script: int | None = None  # its key without arguments


@dataclass(frozen=True, slots=True)
class UserStanding:
    """Standing of one user, by the key of what was run."""

    scripts: Mapping[int, ScriptStanding] = field(default_factory=dict)
    stopped: str = ""  # why nothing acts on any of them

    def stopped_scripts(self) -> set[int | None]:
        """Scripts that nothing acts on, each once with whatever arguments."""
        return {one.script for one in self.scripts.values() if one.stopped}


@dataclass(frozen=True, slots=True)
class Standings:
    """Standings of all users; replaced whole."""

    users: Mapping[str, UserStanding] = field(default_factory=dict)
    site: str = ""  # why nothing acts on anybody's job


@dataclass(frozen=True, slots=True)
class Standing:
    """Standing of one submission."""

    factor: float  # of its interval on cores of its own
    stopped: str  # why it is left as written; empty: outcomes do not speak against acting
    factor_beside: float = 1.0  # of its interval beside others


_NOBODY = UserStanding()


def standing_of(
    known: Standings,
    keys: Mapping[Level, int],
    user: str,
    partition: str | None,
    factor: float,
    beside: float = 1.0,
) -> Standing:
    """The standing of one submission; `factor`, `beside`: of all outcomes (calibrate.py), at least.

    On cores of its own, and beside others.
    """
    own = known.users.get(user, _NOBODY)
    script = own.scripts.get(keys.get(Level.SCRIPT_ARGS, 0)) or own.scripts.get(
        keys.get(Level.SCRIPT, 0)
    )
    if script is None:
        return Standing(factor, own.stopped or known.site, beside)
    factor = max(factor, script.widths.get((partition, False), 0.0))
    beside = max(beside, script.widths.get((partition, True), 0.0))
    return Standing(factor, script.stopped or own.stopped or known.site, beside)


def standing_of_user(newest: Sequence[Residual]) -> UserStanding:
    """Judge one user's outcomes, newest first."""
    scripts = {
        key: ScriptStanding(_widths(series), why_stopped(series), series[0].keys[1])
        for key, series in series_by_key(newest).items()
    }
    none = _none_inside(newest[:NONE_OF])
    why = f"none of its user's last {NONE_OF} jobs ran as predicted" if none else ""
    return UserStanding(scripts, why)


def site_standing(newest: Sequence[Residual]) -> str:
    """Return the reason not to act on anybody's job; `newest`: of all users (`fair_outcomes`).

    No user has more than a third of the outcomes that count, so that nobody stops all others.
    """
    places = fair_rows([one.user for one in newest], _FAIRLY_SHARED)
    return ELSEWHERE if _none_inside([newest[place] for place in places]) else ""


def _none_inside(newest: Sequence[Residual]) -> bool:
    return len(newest) >= NONE_OF and not any(one.inside for one in newest)


def _widths(series: Iterable[Residual]) -> dict[tuple[str | None, bool], float]:
    by_world: dict[tuple[str | None, bool], list[float]] = {}
    by_own_runs = (one for one in series if one.level in SCRIPT_LEVELS)
    for one in by_own_runs:
        misses = by_world.setdefault((one.partition, one.crowded), [])
        if len(misses) < NEWEST_OF_SCRIPT:
            misses.append(in_half_widths(unwidened(one)))
    return {where: _bounded(max(misses)) for where, misses in by_world.items()}


def _bounded(width: float) -> float:
    return min(WIDEST, width) if isfinite(width) else WIDEST
