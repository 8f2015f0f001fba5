"""QOS of a site: their limits, and whose running jobs give way to theirs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from slurm_ext.simulate.limits.limit import Limit

DENY, OVER_PARTITION, NO_DECAY = "denyonlimit", "overpartqos", "nodecay"
FACTOR_SAFE = "usagefactorsafe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """One QOS. `left_out`: what it sets and no replay has."""

    name: str
    priority: float = 0.0
    flags: frozenset[str] = frozenset()
    sums: Mapping[Limit, int] = field(default_factory=dict)
    each: Mapping[Limit, float] = field(default_factory=dict)
    preempts: frozenset[str] = frozenset()  # QOS whose jobs give way
    preempt_mode: str = ""  # what becomes of its own ones then; empty: as PreemptMode of slurm.conf
    usage_factor: float = 1.0  # of the minutes that its jobs use
    exempt_s: float | None = None  # how long they run before; None: PreemptExemptTime of slurm.conf
    grace_s: float = 0.0  # how long its jobs run on when they give way
    left_out: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name, as messages have it."""
        return f"QOS {self.name}"

    @property
    def asked_factor(self) -> float:
        """Factor of the minutes that a job's time limit asks for."""
        return self.usage_factor if FACTOR_SAFE in self.flags else 1.0

    def refuses(self) -> bool:
        """True if sbatch refuses a job that a limit never lets start; else it waits for ever."""
        return DENY in self.flags


@dataclass(frozen=True, slots=True, kw_only=True)
class QosTable:
    """The QOS of a site, and which one a job has that names none."""

    source: str
    qos: Mapping[str, Qos]
    usual: Mapping[tuple[str, str], str] = field(default_factory=dict)  # by account and user

    def usual_of(self, account: str, user: str) -> str:
        """Name of the default QOS: of the user, of the account, or of the cluster; else normal."""
        for who in ((account, user), (account, ""), ("", "")):
            if who in self.usual:
                return self.usual[who]
        return "normal" if "normal" in self.qos else ""

    def priorities(self) -> dict[str, float]:
        """Priority of each over the highest, as priority/multifactor takes them."""
        most = max((qos.priority for qos in self.qos.values()), default=0.0) or 1.0
        return {name: qos.priority / most for name, qos in self.qos.items()}

    def usage_factors(self) -> dict[str, float]:
        """UsageFactor of each."""
        return {name: qos.usage_factor for name, qos in self.qos.items()}


def in_force(qos: tuple[Qos, ...]) -> dict[Limit, Qos]:
    """The QOS whose limit counts: the first one that sets it."""
    return {limit: member for member in reversed(qos) for limit in (*member.sums, *member.each)}
