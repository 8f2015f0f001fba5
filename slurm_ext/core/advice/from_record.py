"""Facts of a run record for first advice: what its probe and its node measured. Pure.

A record of before lacks fields: what it does not tell is not advised on. The parts of a step are
those of core/stalls/step_split.py.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from slurm_ext.core.advice.advice import as_json
from slurm_ext.core.advice.facts import RankFacts, TrainingFacts, WorkerFacts
from slurm_ext.core.advice.first import first_advice
from slurm_ext.core.findings.strands import total, training_phases
from slurm_ext.core.loader_run import run_of_training
from slurm_ext.core.records import LoaderRun
from slurm_ext.core.stalls.step_split import StepSplit, step_split
from slurm_ext.core.stalls.stragglers import Straggling, stragglers, windows_of
from slurm_ext.core.trainings import largest_training
from slurm_ext.core.unsupported_loader import UnsupportedLoader

_Json = Mapping[str, Any]
FLAT = 1.15  # times the rate: fewer than that, for TWICE the workers, is no gain
TWICE = 1.5  # times the workers, at least
_SETS_THE_PACE = (None, UnsupportedLoader.ITERABLE)  # of its steps


def advice_of(record: _Json, beside: Sequence[_Json] = ()) -> list[dict[str, Any]]:
    """Advice on a run, first one first, as plain values; empty where nothing is to be gained.

    `beside`: summaries of the same run's processes on other nodes.
    Each: word, action, share (of the training loop), removable_s (of the run) and its interval_s,
    cost, next, option and value (core/advice/advice.py).
    """
    facts = facts_of(record, beside)
    if facts is None:
        return []
    return [as_json(advice, steps=facts.steps) for advice in first_advice(facts)]


def facts_of(record: _Json, beside: Sequence[_Json] = ()) -> TrainingFacts | None:
    """The job's largest training; None where the probe saw none, or its numbers cannot be."""
    summaries = (record.get("probe") or {}).get("summaries") or ()
    training = largest_training(summaries)
    if training is None:
        return None
    run, parts = run_of_training(record, training), step_split([*summaries, *beside])
    if run is None or parts is None or parts.step_s <= 0:
        return None
    summary, loader = training.members[0]
    batches = total(loader, "batches")
    return TrainingFacts(
        step_s=parts.step_s,
        wait_s=parts.fetch_s + parts.preparation_s + parts.cores_s,
        start_s=parts.starting_s,
        restart_s=min(parts.starting_s, _restart_s(loader, run) / batches),
        main_cpu_s=(run.main_cpu_s or 0.0) * run.batch_size,
        cores=run.cores,
        room_cores=run.node_cores / training.here if run.node_cores else inf,
        mem_bytes=_mem_bytes(record, training.here),
        loader=_workers(run, loader) if run.doubt in _SETS_THE_PACE else None,
        ranks=_ranks(record, parts, [*summaries, *beside], loader),
        accelerator_busy=_busy(record, run, parts, batches),
        frameworks=summary.get("frameworks") or (),
        steps=batches,
        measured_s=parts.step_s * batches,
    )


def _restart_s(loader: _Json, run: LoaderRun) -> float:
    """Seconds that passes after the first one waited for their workers to start."""
    phases = training_phases(loader)
    later = [phase for phase in phases if phase["phase"] == "later"]
    passes = sum([phase.get("epochs") or 0.0 for phase in later])
    every = sum([phase.get("epochs") or 0.0 for phase in phases])
    if not passes or not every:
        return 0.0
    first_wait_s = sum([phase.get("first_wait_s") or 0.0 for phase in later])
    making_s = passes * run.fetch_wall_s * run.batch_size
    return max(0.0, first_wait_s - making_s) + _later_starts_s(loader, passes / every)


def _later_starts_s(loader: _Json, share: float) -> float:
    """Seconds of later starts: a share of all where nobody measured the first one by itself."""
    startup_s, first_s = loader.get("startup_s") or 0.0, loader.get("first_startup_s")
    return startup_s * share if first_s is None else max(0.0, startup_s - first_s)


def _mem_bytes(record: _Json, ranks_here: int) -> float | None:
    """Memory for the workers of one rank; None: the job has no limit of its own."""
    mem_bytes = record["allocation"].get("mem_bytes")
    return mem_bytes / ranks_here if mem_bytes else None


def _workers(run: LoaderRun, loader: _Json) -> WorkerFacts:
    batch, steady = run.batch_size, loader["phases"][-1]
    tuned = loader.get("tuned") or {}
    return WorkerFacts(
        workers=run.workers,
        wall_s=run.fetch_wall_s * batch,
        cpu_s=run.fetch_cpu_s * batch,
        queued_s=(run.fetch_queued_s or 0.0) * batch,
        sample_bytes=run.bytes_per_sample or 0.0,
        p50_s=steady.get("fetch_p50_s"),
        p99_s=steady.get("fetch_p99_s"),
        flat=_flat(tuned.get("rates") or ()),
        rss_bytes=run.worker_rss_bytes,
        stays=tuned.get("workers") is not None or run.doubt == UnsupportedLoader.ITERABLE,
    )


def _flat(rates: Sequence[_Json]) -> bool | None:
    """True if more workers brought no more; None where no two counts were far enough apart."""
    trials = sorted(
        (trial["workers"], trial["samples_per_s"]) for trial in rates if trial["workers"] > 0
    )
    if len(trials) < 2 or trials[-1][0] < TWICE * trials[0][0]:
        return None
    return bool(max([rate for _, rate in trials[1:]]) < FLAT * trials[0][1])


def _ranks(
    record: _Json, parts: StepSplit, summaries: Sequence[_Json], loader: _Json
) -> RankFacts | None:
    """Exposed communication and skew, with the buckets of any rank that has them."""
    communication = next((one for s in summaries if (one := s.get("communication"))), None)
    if communication is None:
        return None
    nodes = record["allocation"].get("num_nodes") or 1
    syncs = (
        (communication.get("per_step") or 0.0) * total(loader, "steps") / total(loader, "batches")
    )
    slower = stragglers(windows_of(summaries))
    rank = slower.rank
    slow = {} if rank is None else next(s for s in summaries if s.get("rank") == rank)
    return RankFacts(
        exposed_s=parts.communicating_s,
        skew_s=parts.slow_rank_s,
        slow_rank=rank,
        moves=slower.kind is Straggling.MOVING,
        slow_node=slow.get("host") if nodes > 1 else None,
        comm_s=(communication.get("comm_s") or 0.0) * syncs,
        overlap_s=(communication.get("overlap_s") or 0.0) * syncs,
        backward_s=(communication.get("backward_s") or 0.0) * syncs,
        buckets=communication.get("bucket_bytes") or (),
        backend=communication.get("backend"),
        nodes=nodes,
        fits_one_node=nodes > 1 and _fits_one_node(record, nodes),
    )


def _fits_one_node(record: _Json, nodes: int) -> bool:
    """True if the node has as many GPUs (without GPUs: cores) as the whole job uses."""
    here, host = record["allocation"], record["host"]
    count = _count(here.get("gpus"))
    if count:
        return _count(host.get("gpus")) >= count * nodes
    return (host.get("cores") or 0) >= (here.get("cpus") or float("inf")) * nodes


def _count(gpus: Sequence[Any] | int | None) -> int:
    """GPUs, as a list or as its length."""
    return gpus if isinstance(gpus, int) else len(gpus or ())


def _busy(record: _Json, run: LoaderRun, parts: StepSplit, batches: float) -> float | None:
    """Share of the loop's time that the accelerator worked; None: nobody counted."""
    if run.emulated:
        return max(0.0, parts.computing_s - (run.main_cpu_s or 0.0) * run.batch_size) / parts.step_s
    counters = [
        counter for counter in record.get("counters") or () if counter.get("name") == "gpu_util"
    ]
    values = [counter["value"] for counter in counters if counter.get("value") is not None]
    elapsed_s = (record.get("times") or {}).get("elapsed_s")
    if not values or not elapsed_s:
        return None
    return float(min(1.0, sum(values) / len(values) * elapsed_s / (parts.step_s * batches)))
