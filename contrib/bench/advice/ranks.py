"""Two ranks that add up gradients over a link, step by step, as DistributedDataParallel does it.

A bucket is sent when its gradients are computed on both ranks and the one before is through; the
backward pass computes them evenly. What torch's logger says of each step is what is recorded.
"""

import random
from dataclasses import dataclass
from statistics import mean
from typing import Any

from contrib.bench.advice.training import MEASURED, Job, record, record_of

SAMPLED = 32  # iterations that the record keeps
STEPS = 60  # that are computed; the run repeats them
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedJob:
    """Two ranks; `comm` is the messages' time, a share of the computing of one step."""

    comm: float
    buckets: int
    slower: float = 0.0  # of the second rank, always
    nodes: int = 1
    node_cores: int = 4
    backward: float = 0.65  # of the computing
    total_mib: int = 100


@dataclass(frozen=True, slots=True)
class Step:
    """One rank's times in one iteration, seconds."""

    forward: float
    backward: float
    comm: float
    overlap: float

    @property
    def exposed(self) -> float:
        """Communication after its own computing."""
        return self.comm - self.overlap


def iteration(ready: list[list[float]], each_s: float) -> tuple[list[float], float]:
    """Begin of each bucket's messages, and the end of the last, by when ranks have them ready."""
    begins, free = [], 0.0
    for times in zip(*ready, strict=True):
        begins.append(max(free, *times))
        free = begins[-1] + each_s
    return begins, free


def steps(job: RankedJob, compute_s: float, rng: random.Random) -> list[tuple[Step, Step]]:
    """Iterations of both ranks."""
    found = []
    for _ in range(STEPS):
        paces = [compute_s * (1 + n * job.slower) * rng.lognormvariate(0, 0.02) for n in (0, 1)]
        forwards = [pace * (1 - job.backward) for pace in paces]
        backwards = [pace * job.backward for pace in paces]
        ready = [
            [f + b * (k + 1) / job.buckets for k in range(job.buckets)]
            for f, b in zip(forwards, backwards, strict=True)
        ]
        message_s = job.comm * compute_s * rng.lognormvariate(0, 0.05) / job.buckets
        _, end = iteration(ready, message_s)
        found.append(
            tuple(
                Step(f, b, end - own[0], f + b - own[0])  # from its own first bucket on
                for f, b, own in zip(forwards, backwards, ready, strict=True)
            )
        )
    return found  # type: ignore[return-value]  # pairs


def ranked_record(job: RankedJob, rng: random.Random) -> dict[str, Any]:
    """The record of a node's ranks; `beside` has the summaries of another node's."""
    compute_s = rng.uniform(0.06, 0.15)
    both = steps(job, compute_s, rng)
    lasting = mean(s.forward + s.backward + s.exposed for s, _ in both)
    feeding = Job(
        workers=2, batch=8, step_s=lasting, cpu_s=0.3 * lasting / 8, host_s=0.001, batches=300
    )
    summaries = []
    for rank in (0, 1):
        made = record(feeding, rng)["probe"]["summaries"][0]
        host = f"n{1 + rank % job.nodes}"
        place = {"rank": rank, "world_size": 2, "host": host, "pid": rank}
        summaries.append({**made, **place, "communication": said(job, both, rank, rng)})
    here = len(summaries) // job.nodes
    whole = record_of(summaries[:here], feeding, feeding.lasts_s)
    whole["beside"] = summaries[here:]
    whole["allocation"] |= {"num_nodes": job.nodes, "num_tasks": len(summaries)}
    whole["host"] = {"cores": job.node_cores, "gpus": []}
    return whole


def said(
    job: RankedJob, both: list[tuple[Step, Step]], rank: int, rng: random.Random
) -> dict[str, Any]:
    """A rank's own word on its communication: means, and some iterations."""
    own = [pair[rank] for pair in both]
    kept = range(0, STEPS, max(1, STEPS // SAMPLED))
    error = [rng.lognormvariate(0, MEASURED) for _ in range(2)]
    comm_s, overlap_s = mean(s.comm for s in own), mean(s.overlap for s in own)
    return {
        "forward_s": mean(s.forward for s in own),
        "backward_s": mean(s.backward for s in own) * error[0],
        "comm_s": comm_s * error[1],
        "overlap_s": min(comm_s * error[1], overlap_s),
        "steps": STEPS,
        "per_step": 1.0,
        "bucket_bytes": [job.total_mib * MIB // job.buckets] * job.buckets,
        "backend": "gloo",
        "iterations": [one + 1 for one in kept][:SAMPLED],
        "exposed_s": [own[one].exposed for one in kept][:SAMPLED],
    }
