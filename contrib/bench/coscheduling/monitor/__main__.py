"""Live test of the monitor: it finds a slowed job by its counters and separates the two.

    python -m contrib.bench.coscheduling.monitor [--json] [--quick] [--work FOLDER]

On a private Slurm with our hooks, `chase` runs alone until its own rate is known. Then `stream`
starts beside it; its user agreed to a requeue, and nothing is known of the two, so Slurm starts
it. `dlqueue control --pairs` reads what the node's sampler counts. Figures: the measured speed,
how long the pair lasted from the newcomer's submission, and the state of both. Without performance
counters, nothing is measured and `measured` is false.
"""

import json
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contrib.bench.common.program import Result, options, run
from contrib.bench.coscheduling.kernels import make_files
from contrib.bench.coscheduling.matrix import KERNEL_FILE
from slurm_ext.control.coscheduling.co_scheduling_loop import CoScheduler
from slurm_ext.control.coscheduling.known_slowdowns import ServedSlowdowns
from slurm_ext.control.coscheduling.pair_memory import PairMemory, pair_state
from slurm_ext.control.coscheduling.speed_monitor import SpeedMonitor, on_this_machine
from slurm_ext.core.settings.document import Settings
from slurm_ext.sandbox import Sandbox, SandboxSpec
from slurm_ext.slurm import CommandClient

SETTLED_S = 20.0  # that the first is alone
LONGEST_S = 60.0  # that the two are together, if nobody parts them
EVERY_S = 1.0
PATIENCE_S = 10.0
LATE_S = 15.0  # beyond the patience: start-up of the newcomer, the sampler's rhythm, Slurm's


class Site:
    """A Slurm that is up, with the pairing of its jobs."""

    def __init__(self, slurm: Sandbox, folder: Path) -> None:
        self.slurm, self._data = slurm, folder / "data"
        make_files(self._data)
        kept = pair_state(folder)
        kept.path.mkdir()
        self.kept, self.memory = kept, PairMemory()
        spool = slurm.layout.node(slurm.nodes[0]) / "dlqueue"
        self.pairing = CoScheduler(
            Settings(values={"sharing.pairing": "act"}),
            CommandClient(slurm_conf=str(slurm.layout.slurm_conf)),
            kept,
            self.memory,
            slowdowns=ServedSlowdowns(folder),
            monitor=SpeedMonitor(on_this_machine(str(spool)), self.memory.solo_rates, PATIENCE_S),
        )

    def submit(self, kind: str, steps: int, comment: str) -> int:
        """One job that would run for minutes."""
        work = f"{sys.executable} {KERNEL_FILE} {kind} --data {self._data} --steps {steps}"
        script = f"#!/bin/sh\n{work} --log /dev/null\n"
        argv = ("-c1", "--mem=900", f"--comment={comment}")
        return self.slurm.sbatch(*argv, script=script)[0]

    def rounds(self, seconds: float, done: Callable[[], bool] = lambda: False) -> float:
        """Rounds until `done`, or the time is over; how long that took."""
        began = time.monotonic()
        while not done() and time.monotonic() - began < seconds:
            self.pairing.round()
            time.sleep(EVERY_S)
        return time.monotonic() - began

    def speed_of(self, job: int) -> float | None:
        """Speed of the job in the loop's status."""
        running = (self.kept.read_status() or {}).get("running", [])
        return next((one["speed"] for one in running if one["job"] == f"{job}.0"), None)


def play(folder: Path) -> dict[str, Any]:
    """Run the two jobs; return what was measured."""
    spec = SandboxSpec(nodes=1, cpus=2, hooks=True, settings={"node.sample_s": 0.5})
    with Sandbox(folder / "slurm", spec, temporary=True) as slurm:
        site = Site(slurm, folder)
        first = site.submit("chase", 1_000_000, "dlqueue=share")
        site.rounds(SETTLED_S)
        if not site.memory.solo_rates:
            return {"measured": False}
        second = site.submit("stream", 1_000_000, "dlqueue=share dlqueue=requeue")
        speeds: list[float] = []

        def parted() -> bool:
            speed = site.speed_of(first)
            speeds.extend([speed] if speed is not None else [])
            return bool(site.memory.cooldowns)

        lasted_s = site.rounds(LONGEST_S, parted)
        restarts = int(slurm.job(second).get("Restarts", 0))
        states = {
            name: slurm.job(job).get("JobState")
            for name, job in (("chase", first), ("stream", second))
        }
        slurm.run(["scancel", str(first), str(second)])
    return {
        "measured": True,
        "speed_of_chase": round(speeds[-1], 3) if speeds else None,
        "parted": bool(site.memory.cooldowns),
        "lasted_s": round(lasted_s, 1),
        "patience_s": PATIENCE_S,
        "restarts_of_stream": restarts,
        "states": states,
    }


def _wanted(figures: dict[str, Any]) -> list[dict[str, Any]]:
    lasted_s = figures.get("lasted_s") if figures.get("parted") else None
    most_s = PATIENCE_S + LATE_S
    met = lasted_s is not None and lasted_s <= most_s
    return [{"what": "parted within, s", "target": most_s, "got": lasted_s, "met": met}]


def main() -> None:
    """Measure and print."""
    parser = options(__doc__, quick="the same: it takes a minute")
    parser.add_argument("--work", type=Path, help="folder for the private Slurm")
    run(parser, result, lambda result: print(json.dumps(result["figures"], indent=1)))


def result(args: Namespace) -> Result:
    """The benchmark's last line."""
    with tempfile.TemporaryDirectory(prefix="monitor", dir=args.work) as folder:
        Path(folder).chmod(0o755)  # munge demands it of the sandbox's folder
        figures = play(Path(folder))
    return {"bench": "coscheduling.monitor", "figures": figures, "wanted": _wanted(figures)}


if __name__ == "__main__":
    main()
