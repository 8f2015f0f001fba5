"""Terms of sharing: a job that may share, a site's rules, a pair, a decision."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import isfinite
from typing import Protocol

from slurm_ext.core.errors import InputError
from slurm_ext.core.gpu_sharing import RelativeSpeed, SoloProfile

FLOOR = 0.85  # of its solo speed, where neither job nor site says otherwise
WINDOW = 32  # jobs that are matched at once: the matching is cubic in them


class SpeedPredictor(Protocol):
    """model/slowdown/model.py's Slowdowns, or a table."""

    def speed(
        self, job: SoloProfile, beside: Sequence[SoloProfile], device: str = "cpu"
    ) -> RelativeSpeed:
        """Speed of `job` while beside all of them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One job that waits or runs."""

    job: str  # names it: <job id>.<restart>
    solo: SoloProfile
    user: str
    account: str | None = None
    remaining_s: float | None = None  # of its work alone; None: unknown
    floor: float | None = None  # of its solo speed; None: the rules'
    opted_in: bool = False
    device: str = "cpu"  # what it would share: cpu, or the GPU's model
    place: str | None = None  # node or GPU where it runs; None: it waits
    rank: float = 0.0  # lower is sooner in the queue
    cpus: int = 1
    nodes: frozenset[str] | None = None  # where it may start; None: anywhere

    def may_have(self, place: str) -> bool:
        """True if it may start on this node."""
        return self.nodes is None or place in self.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingRules:
    """Rules of a site for sharing."""

    floor: float = FLOOR
    same_user: bool = True
    mem_bytes: float | None = None  # of a node, for all together; None: Slurm sees to it
    gpu_mem_bytes: float | None = None  # of one GPU, for all together
    bad_pairs: AbstractSet[frozenset[str]] = frozenset()  # solo keys that are kept apart
    most_together: int = 2
    anyway: bool = False  # Slurm lets them meet if we do not part them: CPU jobs on a node
    window: int = WINDOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Jobs that should share, the predicted speed of each, and the reason."""

    jobs: tuple[str, ...]  # sorted
    speeds: Mapping[str, RelativeSpeed]  # by job
    weight: float  # seconds that their place is free earlier than one after another
    place: str | None  # where one of them runs already; None: all wait
    reason: str

    @property
    def worst(self) -> float:
        """The lowest bound of them all."""
        return min(speed.low for speed in self.speeds.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingVerdict:
    """Decision if a job may share, with the slowest speed that it may have."""

    share: bool
    worst: float | None  # lower bound of its speed beside the worst of them; None: not predicted
    beside: str | None  # the solo key of that one
    reason: str


def check(
    candidates: Sequence[Candidate], running: Sequence[Candidate], rules: SharingRules
) -> None:
    """InputError where a job or the rules cannot be meant."""
    if not 0 < rules.floor <= 1:
        raise InputError("sharing", f"floor = {rules.floor}: expected above 0, at most 1")
    if rules.most_together < 2 or rules.window < 2:
        raise InputError("sharing", "most_together and window have to be 2 or more")
    names: set[str] = set()
    for candidate in (*candidates, *running):
        if candidate.job in names:
            raise InputError(f"job {candidate.job}", "named twice among those that may share")
        names.add(candidate.job)
        _check_one(candidate)
    for candidate in running:
        if candidate.place is None:
            raise InputError(f"job {candidate.job}", "runs, but its place is not given")


def _check_one(candidate: Candidate) -> None:
    if candidate.floor is not None and not 0 < candidate.floor <= 1:
        raise InputError(
            f"job {candidate.job}", f"floor = {candidate.floor}: expected above 0, at most 1"
        )
    if candidate.remaining_s is not None and not (
        isfinite(candidate.remaining_s) and candidate.remaining_s >= 0
    ):
        raise InputError(
            f"job {candidate.job}", f"remaining_s = {candidate.remaining_s}: expected 0 or more"
        )
    for name, value in (
        ("mem", candidate.solo.mem_bytes),
        ("gpu_mem", candidate.solo.gpu_mem_bytes),
    ):
        if value is not None and not (isfinite(value) and value >= 0):
            raise InputError(f"job {candidate.job}", f"{name}_bytes = {value}: expected 0 or more")
