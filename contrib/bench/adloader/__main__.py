"""Live proof that moving cores and loader workers among running trainings pays.

On a private, real Slurm: real PyTorch trainings that decode JPEGs, read from throttled storage, or
wait for their accelerator (emulated without CUDA, and labelled), at most four at a time, arriving
and finishing within a run. The same mix under every policy, in turn, for several seeds:

- even: cores and loader workers in equal parts, by a hard quota, divided anew as jobs come and go;
- pytorch, lightning, submitit: equal cores, workers by their rules of thumb;
- synergy: Synergy's tune on tables measured alone; best_samples, best_ratios: exhaustive search
  over the tables' grid of shares and workers for each set of running jobs, for most samples/s and
  for the largest sum of ratios to even; the better of the two live is exhaustive_best;
- unmanaged: nobody is held to anything, the scripts' own workers;
- dlqueue_cold (no history) and dlqueue_warm (the history of the cold run): `dlqueue control`.

Keys by policy are defined in adloader/metrics.py. A part is one policy's run of one mix (cold and
warm are one part); with --results FILE what is measured is kept, and the next call goes on there.
"""

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from contrib.bench.adloader import dlqueue_policy as dlqueue
from contrib.bench.adloader.actuator import Actuator, may_hold
from contrib.bench.adloader.curves import Table, sweep
from contrib.bench.adloader.live import GATED, NODE_CPUS, Played, Site
from contrib.bench.adloader.policies import POLICIES, Machine
from contrib.bench.adloader.report import result, table
from contrib.bench.adloader.training import KINDS, prepare
from contrib.bench.adloader.workload import MIXES
from contrib.bench.common.program import options
from slurm_ext.sandbox import Sandbox, SandboxSpec

NODE = SandboxSpec(cpus=NODE_CPUS, hooks=True, settings={"node.probe": True})
HOMOGENEOUS = 2  # repeats
QUICK = ("even", "pytorch")


@dataclass(frozen=True, slots=True)
class Part:
    """One thing to measure."""

    mix: str
    seed: int
    policy: str  # `tables`: the kinds alone

    @property
    def name(self) -> str:
        """Its name in the results, for --only."""
        return f"{self.mix}/{self.seed}/{self.policy}"


def parts(seeds: int, quick: bool) -> Iterator[Part]:
    """All parts; the order of the policies differs from seed to seed."""
    if quick:
        yield from (Part("small", 1, policy) for policy in (*QUICK, "dlqueue"))
        return
    yield Part("alone", 0, "tables")
    for seed in range(1, seeds + 1):
        order = [*POLICIES, "unmanaged", "dlqueue"]
        turn = seed * 4 % len(order)
        yield from (Part("mixed", seed, policy) for policy in order[turn:] + order[:turn])
    for repeat in range(HOMOGENEOUS):
        order = ["even", "dlqueue"][:: 1 if repeat % 2 else -1]
        yield from (Part("homogeneous", repeat, policy) for policy in order)


class Bench:
    """Measures parts and keeps what they gave."""

    def __init__(self, folder: Path, results: Path | None) -> None:
        self.folder, self.results = folder, results
        self.rows: list[dict[str, Any]] = []
        if results and results.exists():
            self.rows = [json.loads(line) for line in results.read_text().splitlines()]

    def has(self, part: Part) -> bool:
        """True if the part has been measured."""
        return any(row["part"] == part.name for row in self.rows)

    def measure(self, part: Part) -> None:
        """One part. Raises what the runs raise; then nothing of it is kept."""
        data = self.folder / "data"
        prepare(data)
        if part.policy == "tables":
            rows = [{"tables": {kind: sweep(kind, data).as_json() for kind in KINDS}}]
        elif part.policy == "dlqueue":
            rows = self._twice(part, data)
        else:
            rows = [self._fixed(part, data)]
        for row in rows:
            self._keep({"part": part.name, **row})

    def _fixed(self, part: Part, data: Path) -> dict[str, Any]:
        with Sandbox(self.folder / "slurm", NODE) as sandbox:
            mix = MIXES[part.mix](part.seed)
            site = Site(sandbox, data)
            if part.policy == "unmanaged":
                return _row(part, part.policy, site.play(mix))
            actuator = Actuator(POLICIES[part.policy](self._machine()))
            return _row(part, part.policy, site.play(mix, actuator, GATED))

    def _twice(self, part: Part, data: Path) -> list[dict[str, Any]]:
        mix = MIXES[part.mix](part.seed)
        cold, warm = dlqueue.cold_and_warm(self.folder / "slurm", data, mix)
        return [_row(part, "dlqueue_cold", cold), _row(part, "dlqueue_warm", warm)]

    def _machine(self) -> Machine:
        by_kind: dict[str, Any] = next((row["tables"] for row in self.rows if "tables" in row), {})
        tables = {kind: Table.from_json(rows) for kind, rows in by_kind.items()}
        return Machine(len(os.sched_getaffinity(0)), tables)

    def _keep(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        if self.results:
            with self.results.open("a") as file:
                file.write(json.dumps(row) + "\n")


def _row(part: Part, policy: str, played: Played) -> dict[str, Any]:
    jobs = [asdict(job) for job in played.jobs]
    where = {"mix": part.mix, "seed": part.seed, "policy": policy}
    details = {"emulated": played.emulated, "decisions": played.decisions}
    return {**where, "jobs": jobs, **details}


def measure_all(bench: Bench, wanted: list[Part], for_s: float) -> list[Part]:
    """Every part that is missing, as long as there is time; those that are left."""
    began = time.monotonic()
    left = [part for part in wanted if not bench.has(part)]
    while left and time.monotonic() - began < for_s:
        part = left.pop(0)
        started = time.monotonic()
        bench.measure(part)
        print(f"{part.name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    return left


def main() -> None:
    """Measure what is missing, then say what it came to."""
    parser = options(__doc__, quick="one seed, three policies, small jobs")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--results", type=Path, help="file to keep results in, and go on from")
    parser.add_argument("--synergy", type=Path, nargs="+", help="Synergy's tables, for the replay")
    parser.add_argument("--only", default="", help="only parts whose name matches this pattern")
    parser.add_argument("--for-s", type=float, default=1e9, help="start no part after so long")
    args = parser.parse_args()
    if not may_hold():
        raise SystemExit("CPU quotas need root and a cgroup v1 cpu controller")
    wanted = [part for part in parts(args.seeds, args.quick) if re.search(args.only, part.name)]
    with tempfile.TemporaryDirectory(prefix="adloader-") as folder:
        Path(folder).chmod(0o755)  # munge walks through every folder above its socket
        bench = Bench(Path(folder), args.results)
        left = measure_all(bench, wanted, args.for_s)
    if left:
        names = ", ".join(part.name for part in left)
        raise SystemExit(f"{len(left)} parts left, run again with the same --results: {names}")
    _tell(bench, args.synergy, args.json)


def _tell(bench: Bench, synergy: list[Path] | None, only_json: bool) -> None:
    report = result(bench.rows)
    if synergy:
        from contrib.bench.adloader import synergy_replay

        replayed = synergy_replay.replay(synergy)
        report["figures"]["replay_gain_percent"] = replayed
        report["wanted"] += synergy_replay.wanted(replayed)
    if not only_json:
        print(table(report["figures"]))
    print(json.dumps(report))


if __name__ == "__main__":
    main()
