"""Parts of the benchmark in their order, and the state file of those that were measured."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrib.bench.adloader.workload import MIXES, slots, usual_s

DLQUEUE = "dlqueue"  # cold, then warm: one part, since warm needs what cold has left
TABLES = "tables"  # the kinds alone, for the search
POLICIES = ("slurm", "unconstrained", "even", "best_fixed", DLQUEUE)
HOMOGENEOUS = ("slurm", DLQUEUE)
START_S = 12.0  # of a Slurm, with the imports of its first jobs and the advisor's learning
TABLES_S = 160.0


@dataclass(frozen=True, slots=True)
class Part:
    """One thing to measure."""

    mix: str
    seed: int
    policy: str

    @property
    def name(self) -> str:
        """Its name in the state file."""
        return f"{self.mix}/{self.seed}/{self.policy}"

    def seconds(self, cores: int) -> float:
        """Estimate the duration: that of Slurm as it is, which the others should not exceed."""
        if self.policy == TABLES:
            return TABLES_S
        width = slots(cores)
        run_s = START_S + usual_s(MIXES[self.mix](self.seed, width), width)
        return run_s * (2 if self.policy == DLQUEUE else 1)


def parts(seeds: int, policies: Sequence[str], *, quick: bool) -> Iterator[Part]:
    """All parts; the order of the policies is turned from seed to seed."""
    if "best_fixed" in policies:
        yield Part("alone", 0, TABLES)
    if quick:
        yield from (Part("quick", 1, policy) for policy in policies)
        return
    for seed in range(1, seeds + 1):
        same = [policy for policy in policies if policy in HOMOGENEOUS]
        yield from (Part("mixed", seed, policy) for policy in turned(policies, seed))
        yield from (Part("homogeneous", seed, policy) for policy in turned(same, seed))


def turned(policies: Sequence[str], seed: int) -> list[str]:
    """The same, beginning elsewhere for each seed, so that no policy is always first or last."""
    turn = (seed - 1) * 2 % max(1, len(policies))
    return [*policies[turn:], *policies[:turn]]


class Measured:
    """Rows of all parts measured so far; a file keeps them for the next call, a line each."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.rows: list[dict[str, Any]] = []
        if file and file.exists():
            self.rows = [json.loads(line) for line in file.read_text().splitlines()]

    def has(self, part: Part) -> bool:
        """True if the part has been measured."""
        return any(row["part"] == part.name for row in self.rows)

    def left(self, wanted: Sequence[Part]) -> list[Part]:
        """Of these, the ones not measured yet."""
        return [part for part in wanted if not self.has(part)]

    def keep(self, part: Part, rows: Sequence[Mapping[str, Any]]) -> None:
        """All rows of one part: together, so that none of it is kept where it was cut off."""
        new = [{"part": part.name, "mix": part.mix, "seed": part.seed, **row} for row in rows]
        self.rows += new
        if self.file:
            with self.file.open("a") as file:
                file.write("".join(json.dumps(row) + "\n" for row in new))

    def tables(self) -> dict[str, Any]:
        """Rates of each kind alone, by kind. Raises LookupError if they are not measured."""
        found = [row["tables"] for row in self.rows if "tables" in row]
        return dict(found[-1])
