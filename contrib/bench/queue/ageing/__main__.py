"""Gain and tail of ageing settings, on the part of Philly that `queue` does not score.

    python -m contrib.bench.queue.ageing --data DIR [--leads 2,3] [--old 0.5] [--copies 2] [--json]

DIR holds philly_jobs.csv.gz beside ../scheduling (queue). The third quarter of the jobs is
predicted inside the replay (queue/runtime_predictor.py) by a model of the half before it, on
queue's four clusters, as thinned copies: each leaves out another tenth of the jobs, because in one
replay a few long jobs decide, and a figure jumps by a tenth for nothing. Result of each lead, in
longest waits (policy/queue/ageing.py): the gain in mean completion over FIFO with backfill, the
mean queue and the 99.9th percentile of waiting over its, as geometric means, and in how many
replays that tail is worse. `old`: from which part of the longest wait on jobs go first.

To be taken: the largest gain whose tail is at most 1 on each development quarter. What is built
was chosen among some 45 settings on a copy of this replay in C++ with the same predictor, trees
included, and true durations for backfill as here. Quarters 2 and 3, four clusters, three copies;
gain, tail of each, replays of 12 with a worse tail:

    no ageing                                   1.23 1.054  9    1.10 1.236 11
    lead 1.5, nobody old (the rule before)      1.09 1.006  5    1.09 0.975  3
    lead 3, nobody old                                           1.12 1.017  9
    lead 1.5 that ends at 1e7 GPU-seconds       1.08 0.997  4    1.12 1.002  5
    lead 1.5, old at 0.7                        1.09 0.991  3
    lead 2, old at 0.5                          1.09 0.994  2
    lead 3, old at 0.5 (built)                  1.11 0.995  1    1.10 0.990  2
    lead 4, old at 0.5                          1.11 1.003  3    1.09 0.990  4
    lead 4, old at 0.6                          1.13 1.022  7    1.09 0.992  4
    lead 6, old at 0.5                          1.12 1.011  6    1.10 0.992  6
    by size alone, old at 0.4                   1.11 1.011  3    1.09 0.987  3
    by size alone, old at 0.5                   1.13 1.017  4    1.09 0.994  5
    true durations, no ageing                   1.58 0.888  0    1.40 0.956  6
    true durations, lead 1.5                    1.37 0.864  0    1.27 0.926  3

Differences below 0.02 are noise: the gain of the built rule over the one before is 1.5 % on both,
of the size of the noise; what is clear is that a job that waits long is overtaken by fewer (the
longest wait of all is 0.998 and 0.993 of backfill's, 1.013 and 1.078 before).
What limits the gain is the estimates, not the ageing. At load 0.85 true durations without ageing
gain 1.74 and 1.46, ours 1.12 and 1.11; R2 of the logs at submission is 0.3 to 0.4 in a replay.

Tried, not built (quarter 2, with the rule before, unless told): optimism, where what is known the
least goes first (the estimate over e to 0.3 times the variance of its log: 1.09, 0.998; the first
of a batch as if e^2 times shorter: 1.08, 1.027, though 1.23 and 1.14 on the quarters without
ageing), and the expected run time in place of the middle (1.09 against 1.10 without ageing on
quarter 3); GPUs to the power 0.7 to 2 (1.10 to 1.13 there); a handicap by a power of the size
(1.07, 1.016); what FIFO would still make everybody wait, by the predicted work ahead, kept below
0.5 or 0.7 of the longest wait (1.05, 1.006; 1.11, 1.009); a bound on the predicted work that
overtakes each job (1.07, 1.014).
On other traces no order by size kept the tail, with a lead of 1.5: NASA at load 0.85 and 0.95 had
1.8 to 2.9 times backfill's, LCG at 0.95 1.10 times, with gains of 1.67 to 2.10 and 1.25.
"""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from contrib.bench.common.program import Result, options, run
from contrib.bench.queue.replays import LOADS, loaded, shrunk, trace_of, trained
from contrib.bench.queue.runtime_predictor import ReplayPredictor, TrainedPredictor
from slurm_ext.core.errors import InputError
from slurm_ext.policy.queue import ageing
from slurm_ext.policy.queue.order import rule_of
from slurm_ext.simulate.queue.cluster import Cluster, fitted
from slurm_ext.simulate.queue.engine import replay
from slurm_ext.simulate.replay_result import ReplayResult
from slurm_ext.simulate.trace.columns import Trace

LEFT_OUT = 0.1
LEADS = "2,3,4"
KEYS = ("jct_mean_s", "queue_mean_s", "queue_p999_s")
Replay = tuple[Trace, Cluster, Any]


def replays(trace: Trace, vcs: Path, copies: int) -> list[Replay]:
    """Thinned copies on every cluster, each with FIFO's figures (with backfill)."""
    told = []
    for seed in range(copies):
        kept = np.random.default_rng(seed).random(len(trace)) >= LEFT_OUT
        thin = trace.only(kept, "thinned")
        thin = replace(thin, submit_s=thin.submit_s - thin.submit_s[0], repairs={})
        for cluster in (shrunk(vcs), *(loaded(thin, load) for load in LOADS)):
            left = fitted(thin, cluster, leave_out=True)
            told.append((left, cluster, _figures(replay(left, cluster, rule_of("fifo+backfill")))))
    return told


def judged(known: TrainedPredictor, tried: list[Replay], rule: str) -> dict[str, Any]:
    """Geometric means over the replays."""
    ratios = np.array([_inside(known, *one, rule) for one in tried])
    jct, queued, tail = np.exp(np.log(ratios).mean(axis=0)).tolist()
    told = {"gain": 1 / jct, "queue": queued, "tail": tail}
    worse = int((ratios[:, 2] > 1).sum())
    return {**{key: round(one, 3) for key, one in told.items()}, "worse_tails": worse}


def result(args: Namespace) -> Result:
    """The benchmark's last line. Raises InputError if a table or a lead cannot be used."""
    leads = [_above_0("--leads", text) for text in args.leads.split(",")]
    ageing.OLD = _above_0("--old", args.old)
    vcs = args.data.parent / "scheduling" / "helios_artifact_philly_published.csv"
    known = trained(args.data, args.data, quick=args.quick, earlier=True)
    tried = replays(trace_of(known, str(args.data)), vcs, args.copies)
    told: dict[str, Any] = {"replays": len(tried), "qssf": judged(known, tried, "qssf+backfill")}
    for lead in leads:
        ageing.LEADS = lead  # what is chosen
        name = f"{lead:g} times the longest wait"
        told[name] = judged(known, tried, "qssf+backfill+ageing")
        Console(stderr=True).print(name, told[name])
    return {"bench": "queue.ageing", "figures": told, "wanted": []}


def _inside(known: TrainedPredictor, trace: Trace, cluster: Cluster, fifo: Any, rule: str) -> Any:
    predictor = ReplayPredictor(known, trace.job)
    return _figures(replay(trace, cluster, rule_of(rule), predictor=predictor)) / fifo


def _figures(outcome: ReplayResult) -> Any:
    """Those of KEYS."""
    figures = outcome.figures()
    return np.array([figures[key] for key in KEYS])


def _above_0(option: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise InputError(option, f"{text!r}: expected a number above 0")
    return number


def _print(told: Result) -> None:
    for name, row in told["figures"].items():
        print(name, row)


def main() -> None:
    """Replay and print; 1 where the folder cannot be used."""
    parser = options(__doc__, quick="a small model, fewer jobs")
    parser.add_argument("--data", type=Path, required=True, help="folder of development traces")
    parser.add_argument("--leads", default=LEADS, help="leads to try, in longest waits")
    parser.add_argument("--old", default=str(ageing.OLD), help="old from then on, in longest waits")
    parser.add_argument("--copies", type=int, default=2, help="thinned copies of the trace")
    run(parser, result, _print)


if __name__ == "__main__":
    main()
