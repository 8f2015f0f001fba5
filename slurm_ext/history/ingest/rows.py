"""Pure: a checked run record as rows of history.db, by the table of fields (node/record/fields.py).

The record was checked at the spool's door, so nothing is judged here.
"""

import json
import zlib
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from slurm_ext.core.loader_run import run_of_training
from slurm_ext.core.records import LoaderRun, SyncRun
from slurm_ext.core.stalls.step_split import PARTS as STEP_PARTS
from slurm_ext.core.stalls.step_split import StepSplit, split_of_training
from slurm_ext.core.stalls.sync_run import sync_run
from slurm_ext.core.trainings import largest_training
from slurm_ext.history.store.names import LOADER_COLUMNS, SYNC_COLUMNS, SYNC_LISTS
from slurm_ext.node.record import fields

Record = Mapping[str, Any]
Counters = dict[tuple[str, str, str], float | None]
_json = json.JSONEncoder(separators=(",", ":")).encode
_MAX_JSON = 16 * 1024
_MAX_NAME = 80
_MAX_MODELS = 16
MODELS_BETWEEN = " + "  # of one node
_MAX_PLAIN_BYTES = 8 << 20  # of one deflated column, before and after
MAX_TIMELINE, MAX_PROBES = 256 << 10, 64 << 10  # bytes in the history; one of 64 ranks has 12 KiB


def _gpu_models(names: list[str]) -> str:
    """The node's kinds of GPU."""
    kinds = sorted({name[:_MAX_NAME] for name in names})
    return MODELS_BETWEEN.join(kinds[:_MAX_MODELS])


# A column of `runs`: section and key of the record.
_COLUMNS = {
    field[6]: (section, field[0])
    for section, columns in fields.SECTIONS.items()
    for field in columns
    if field[6]
}
_SOURCES = tuple(_COLUMNS.values())
_MADE = ("decision", "mps", "node_gpu_model", "gpu_energy_j", "node_energy_j")
RUN_COLUMNS = ("record_id", *_COLUMNS, *_MADE)

if TYPE_CHECKING:

    class RunRecord(tuple[Any, ...]):
        """A run as history.db keeps it: RUN_COLUMNS in their order, each an attribute too."""

        def __new__(cls, *values: Any) -> "RunRecord": ...  # noqa: D102 (a stub)
        def __getattr__(self, column: str) -> Any: ...

else:
    RunRecord = namedtuple("RunRecord", RUN_COLUMNS)
    RunRecord.__doc__ = "A run as history.db keeps it: RUN_COLUMNS, each an attribute too."

loader_values: Callable[[LoaderRun], tuple[Any, ...]] = attrgetter(*LOADER_COLUMNS)
SPLIT_COLUMNS = (*[f"{name}_s" for name in STEP_PARTS], "au", "rank_skew_s", "slow_rank", "ranks")
split_values: Callable[[StepSplit], tuple[Any, ...]] = attrgetter(*SPLIT_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRows:
    """A record's rows, made before a transaction begins."""

    run: RunRecord
    counters: Counters
    corunners: list[tuple[Any, ...]]
    timeline: bytes | None
    probes: bytes | None
    loader: LoaderRun | None
    split: StepSplit | None
    sync: SyncRun | None


def rows_of(record: dict[str, Any]) -> RecordRows:
    """Everything that a checked record becomes in the database."""
    training = largest_training(record["probe"].get("summaries") or ())
    counters = {(c["name"], c["unit"], c["source"]): c.get("value") for c in record["counters"]}
    return RecordRows(
        run=_run(record, counters),
        counters=counters,
        corunners=[corunner_row(corunner) for corunner in record["corunners"]],
        timeline=deflated(record.get("timeline"), MAX_TIMELINE),
        probes=deflated(record["probe"]),
        loader=None if training is None else run_of_training(record, training),
        split=None if training is None else split_of_training(training),
        sync=sync_run(record),
    )


def _run(record: Record, counters: Counters) -> RunRecord:
    record = {**record, "allocation": _of_node(record)}
    values = [record[section].get(key) for section, key in _SOURCES]
    mps, models = record.get("mps"), record["host"].get("gpus")
    text = None if mps is None else json.dumps(mps)
    return RunRecord(
        record["record_id"],
        *[len(value) if type(value) is list else value for value in values],
        record.get("decision"),
        # One larger than any of ours is left out: the run counts all the same.
        text if text is None or len(text) <= _MAX_JSON else None,
        _gpu_models(models) if models else None,
        *energy_of(counters.items()),
    )


def _of_node(record: Record) -> dict[str, Any]:
    """The allocation, with CPUs and memory on this node; nodes of before wrote the whole job's."""
    allocation: dict[str, Any] = record["allocation"]
    nodes = allocation.get("num_nodes") or 1
    if allocation.get("of_node") or record["outcome"].get("source") not in ("epilog", "node"):
        return allocation
    cpus, mem_bytes = allocation.get("cpus"), allocation.get("mem_bytes")
    return {
        **allocation,
        "cpus": cpus and max(1, cpus // nodes),
        "mem_bytes": mem_bytes and mem_bytes // nodes,
    }


CORUNNER_COLUMNS = ("job_id", "overlap_s", "shared_cpus", "shared_sockets", "shared_gpus")


def corunner_row(corunner: Record) -> tuple[Any, ...]:
    """CORUNNER_COLUMNS of a job that was on the node: NULL for what nobody looked at."""
    common = corunner.get("shared") or {}
    gpus = common.get("gpus")
    # UUIDs joined by commas, empty where the two had none in common.
    joined = None if gpus is None else ",".join([g[:_MAX_NAME].replace(",", "_") for g in gpus])
    return (
        corunner["job_id"],
        corunner.get("overlap_s"),
        common.get("cpus"),
        common.get("sockets"),
        joined,
    )


def shared_resources(
    cpus: int | None, sockets: int | None, gpus: str | None
) -> dict[str, Any] | None:
    """`corunners[].shared` of a record, from its columns; None where nobody looked."""
    if cpus is None and sockets is None and gpus is None:
        return None
    names = None if gpus is None else gpus.split(",") if gpus else []
    return {"cpus": cpus, "sockets": sockets, "gpus": names}


def deflated(value: Any, most: int = MAX_PROBES) -> bytes | None:
    """Deflated JSON; None for what is empty, takes more than `most` bytes, or is not read again."""
    if not value:
        return None
    plain = _json(value).encode()
    packed = zlib.compress(plain, 1) if len(plain) <= _MAX_PLAIN_BYTES else b""
    return packed if 0 < len(packed) <= most else None


def inflated(blob: bytes | None) -> Any:
    """The value that `deflated` wrote; None of what is damaged, or too large and so cut."""
    if blob is None:
        return None
    try:
        return json.loads(zlib.decompressobj().decompress(blob, _MAX_PLAIN_BYTES))
    except (ValueError, zlib.error):
        return None


_sync_columns: Callable[[SyncRun], tuple[Any, ...]] = attrgetter(*SYNC_COLUMNS)


def sync_values(run: SyncRun) -> tuple[Any, ...]:
    """SYNC_COLUMNS, and the lists in one column."""
    return *_sync_columns(run), deflated({name: getattr(run, name) for name in SYNC_LISTS})


Counter = tuple[tuple[str, str, str], float | None]  # (name, unit, source), value


GPU = "gpu_energy"


ALL = "node_energy_all"  # psys: the whole board, which includes the other two


PARTS = ("node_energy_cpu", "node_energy_dram")


def energy_of(counters: Iterable[Counter]) -> tuple[float | None, float | None]:
    """Joules of the run's GPUs and of its node."""
    joules: dict[str, float] = {}
    for (name, _, _), value in counters:
        if value is not None and value >= 0 and "energy" in name:
            kind = "parts" if name in PARTS else name
            joules[kind] = joules.get(kind, 0.0) + value
    return joules.get(GPU), joules.get(ALL, joules.get("parts"))
