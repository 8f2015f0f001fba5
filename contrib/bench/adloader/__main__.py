"""Live proof that a node's jobs run faster, and none slower, by tuned loaders and lent cores.

    python -m contrib.bench.adloader [--seeds 3] [--cores N] [--state FILE] [--policy NAME]...

On a private, real Slurm with task/cgroup, on the machine's real cores: real PyTorch trainings of
about a minute that decode JPEGs, read from slow storage, compute beside their accelerator or mostly
wait for it (emulated without CUDA, and labelled). Two at a time (four from four cores on), more in
the queue, arriving and ending within a run. The same mix under every policy, the order turned from
seed to seed:

- slurm: ConstrainCores=yes, each job on cores of its own, no dlqueue: what all is held against;
- unconstrained: ConstrainCores=no, every job on all cores: what the kernel makes of it;
- even: the same, with as many loader workers as there are cores in equal parts, divided anew as
  jobs come and go;
- best_fixed: exhaustive search over tables of each kind alone, measured in the same run: of all
  divisions of the cores (by CPU quota, in quarters) and worker counts the one with most samples/s
  that leaves everybody what Slurm as it is gives, for each set of running jobs;
- dlqueue: ConstrainCores=yes with hooks, advisor and `dlqueue control`, by settings alone; cold
  (no history), then warm (with the history of the cold run).

And equal jobs at once (homogeneous), where nothing can be gained and nothing may be lost. Figures
are defined in adloader/metrics.py; own_cpu_s are CPU seconds of daemons and hooks, the probe's are
in the jobs' (jobs_cpu_s, against those under slurm). With --state what is measured is kept part by
part, and the next call goes on there; a part is one policy's run of one mix.
"""

import argparse
import json
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contrib.bench.adloader.actuator import may_hold
from contrib.bench.adloader.clusters import measure, take_cores
from contrib.bench.adloader.parts import POLICIES, Measured, Part, parts
from contrib.bench.adloader.report import result, table
from contrib.bench.common.program import Result, options

SEEDS = 3


def main() -> None:
    """Measure what is missing, then say what it came to."""
    args = _parser().parse_args()
    if not may_hold():
        raise SystemExit("CPU quotas need root and a cgroup v1 cpu controller")
    cores = take_cores(args.cores)
    measured = Measured(args.state)
    wanted = list(parts(args.seeds, args.policy or POLICIES, quick=args.quick))
    settings = tomllib.loads("\n".join(args.set))
    measure_all(measured, measured.left(wanted), cores, settings)
    report = result(measured.rows, cores)
    report["figures"]["set"] = args.set
    if args.synergy:
        _replay(report, args.synergy)
    if not args.json:
        print(table(report["figures"]))
    print(json.dumps(report))


def _parser() -> argparse.ArgumentParser:
    parser = options(__doc__, quick="one seed, two jobs of five seconds")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"runs of each mix ({SEEDS})")
    parser.add_argument("--cores", type=int, help="of this machine's, the first so many (all)")
    parser.add_argument("--state", type=Path, help="file to keep results in, and go on from")
    parser.add_argument(
        "--policy", action="append", choices=POLICIES, help="only this one; may be repeated"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a line of dlqueue.toml more, such as control.mode='off'; may be repeated",
    )
    parser.add_argument("--synergy", type=Path, nargs="+", help="Synergy's tables, for the replay")
    return parser


def measure_all(
    measured: Measured, left: list[Part], cores: int, settings: Mapping[str, Any]
) -> None:
    """Every part that is missing; each is kept once it is whole. `settings`: dlqueue's, by room."""
    minutes = sum(part.seconds(cores) for part in left) / 60
    print(f"{len(left)} parts, about {minutes:.0f} minutes, {cores} cores", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="adloader-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # munge walks through every folder above its socket
        for part in left:
            began_s = time.monotonic()
            measured.keep(part, measure(part, folder, cores, measured, settings))
            print(f"{part.name}: {time.monotonic() - began_s:.0f} s", file=sys.stderr, flush=True)


def _replay(report: Result, tables: list[Path]) -> None:
    from contrib.bench.adloader import synergy_replay

    gains = synergy_replay.replay(tables)
    report["figures"]["replay_gain_percent"] = gains
    report["wanted"] += synergy_replay.wanted(gains)


if __name__ == "__main__":
    main()
