"""A run of history as one measurement of its job's rate: pure.

Rates are compared only between runs of one job in one shape (CPUs, GPUs, workers, batch), and only
of one measure: samples/s of its training loop; else instructions/s; else, for runs of the same
script and arguments that ended well, one whole run in its time. A job with GPUs shares with
jobs on the same GPU; a job without GPUs, with all jobs on its node. A job writes its samples/s
itself: beside jobs of other users only what root measured counts, so that nobody's probe says how
hard another user's job is on its neighbours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from slurm_ext.core.job_keys import job_signature, user_name_key
from slurm_ext.core.records import Level

SHORTEST_S = 10.0  # a run below it is all start-up
LEAST_OVERLAP = 0.3  # of a run's time, for its mean to tell of the time together
WHOLE = 0.8  # of it, for several partners to have been there at once
PASSING = 0.05  # of it: too short to matter
_NO_NAMES = frozenset({"", "sbatch", "wrap"})  # sbatch's names for unnamed jobs
CPU = "cpu"

Shape = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """One run: the job's key, its shape, and its rate by one measure."""

    run: int
    key: str
    shape: Shape  # begins with the measure's name
    rate: float
    elapsed_s: float
    end_s: float
    device: str  # what it would share: a GPU's model, or cpu
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A run with its partners, and the time that they overlap."""

    run: MeasuredRun
    partners: tuple[str, ...]
    overlap_s: float


def runs_of(row: Mapping[str, Any]) -> list[MeasuredRun]:
    """Measure a run in every way: as its probe says, and as root saw it."""
    ways = {way.shape[0]: way for by_root in (False, True) if (way := run_of(row, by_root=by_root))}
    return list(ways.values())


def run_of(row: Mapping[str, Any], *, by_root: bool = False) -> MeasuredRun | None:
    """Measure a run; None if too short, on several nodes, of an unknown job, or unmeasured."""
    elapsed, end = _positive(row["elapsed_s"]), _positive(row["end_s"])
    key = key_of(row)
    if key is None or elapsed is None or end is None or elapsed < SHORTEST_S:
        return None
    if (row["num_nodes"] or 1) > 1:
        return None  # the slowest of its nodes delays the others
    measured = _measure(row, elapsed, by_root=by_root)
    if measured is None:
        return None
    measure, rate = measured
    device = str(row["gpu_model"] or "gpu") if row["gpus"] else CPU
    shape = (*measure, row["cpus"], row["gpus"] or 0)
    return MeasuredRun(
        run=row["run"],
        key=key,
        shape=shape,
        rate=rate,
        elapsed_s=elapsed,
        end_s=end,
        device=device,
        user=row["user"] or "",
    )


def beside(rows: Sequence[Mapping[str, Any]], *, teaches: bool = True) -> Beside | None:
    """Combine one run's rows, one a partner; None if its partners are not clear.

    `teaches`: the run is learned from; else it is only reported, as its job measured it.
    """
    run = run_of(rows[0])
    if run is None or any(row["overlap_s"] is None for row in rows):
        return None
    there = [(_positive(row["overlap_s"]) or 0.0, row) for row in rows]
    there = [(s, row) for s, row in there if s > PASSING * run.elapsed_s]
    if run.device != CPU:
        if any(row["shared_gpus"] is None for _, row in there):
            return None  # the sharing of GPUs was not recorded
        there = [(s, row) for s, row in there if row["shared_gpus"]]
    if teaches and any(row["partner_user"] != row["user"] for _, row in there):
        run = run_of(rows[0], by_root=True)
    names = [key_of(row, "partner_") for _, row in there]
    least = LEAST_OVERLAP if len(there) == 1 else WHOLE
    if (
        run is None
        or not there
        or None in names
        or min(s for s, _ in there) < least * run.elapsed_s
    ):
        return None
    overlap = min(*(s for s, _ in there), run.elapsed_s)
    return Beside(run=run, partners=tuple(str(name) for name in names), overlap_s=overlap)


def speed(shared_run: Beside, solo_rate: float) -> float:
    """Relative speed while the partners were there, from the mean over the whole run."""
    share = shared_run.overlap_s / shared_run.run.elapsed_s
    return 1.0 - (1.0 - shared_run.run.rate / solo_rate) / share


def key_of(row: Mapping[str, Any], side: str = "") -> str | None:
    """job_signature of a run; by user and job name where no submission is known."""
    keys = {Level.SCRIPT: row[f"{side}key_script"], Level.USER_NAME: row[f"{side}key_user_name"]}
    keys_of_job = {level: key for level, key in keys.items() if key is not None}
    user, name = row[f"{side}user"], row[f"{side}job_name"]
    if not keys_of_job and user and name and name not in _NO_NAMES:
        keys_of_job = {Level.USER_NAME: user_name_key(user, name)}
    return job_signature(keys_of_job)


def _measure(
    row: Mapping[str, Any], elapsed: float, *, by_root: bool
) -> tuple[tuple[Any, ...], float] | None:
    samples, instructions = _positive(row["samples_per_s"]), _positive(row["instructions"])
    if samples is not None and not by_root:
        return ("samples", row["workers"], row["batch_size"]), samples
    if instructions is not None:
        return ("instructions",), instructions / elapsed
    if row["state"] == "COMPLETED" and row["key_script_args"] is not None:
        return ("runs", row["key_script_args"]), 1.0 / elapsed
    return None


def _positive(value: Any) -> float | None:
    if not isinstance(value, int | float) or not isfinite(value) or value <= 0:
        return None
    return float(value)
