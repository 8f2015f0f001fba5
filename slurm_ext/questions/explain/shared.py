"""With whom one run shared what, for how long, and what that cost it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.history.store.store import History

MOST_SHOWN = 8  # partners in the text for people; all of them are in the JSON
MOST_ALONE = 16  # of the job's newest runs alone


def shared_with(history: "History", runs: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    """By a run's id: `{partners, cost}` of those of `runs` (queries.job) that had company.

    `partners`: `[{job_id, user, job_name, overlap_s, shared}]`, longest first, with `shared` as in
    the record. `cost` is None where no run of the same job and shape had a node to itself, else
    `{by, runs, speed, together}`: the run's rate over the median of those `runs` (1: unhurt), by
    samples, instructions or whole runs; `together` is the speed in the time together alone, where
    that can be told apart. Raises HistoryError.
    """
    from slurm_ext.history.views.shared_runs import PARTNER_COLUMNS, RUN_COLUMNS, together_rows

    names = (*RUN_COLUMNS, *PARTNER_COLUMNS)
    rows: dict[int, list[dict[str, Any]]] = {}
    for job_id in sorted({run["job_id"] for run in runs if run["corunners"]}):
        for row in together_rows(history, job_id):
            rows.setdefault(row[0], []).append(dict(zip(names, row, strict=True)))
    return {
        run["id"]: {
            "partners": _partners(run["corunners"], history),
            "cost": _cost(history, rows[run["id"]]) if run["id"] in rows else None,
        }
        for run in runs
        if run["corunners"]
    }


def lines(shared: Mapping[str, Any], elapsed_s: float | None) -> Iterator[str]:
    """The same for people, one fact a line."""
    from slurm_ext.report.formatting import name

    partners = shared["partners"]
    for partner in partners[:MOST_SHOWN]:
        named = f" ({partner['user']}'s {name(partner['job_name'])})" if partner["user"] else ""
        long = (
            "for unknown time"
            if partner["overlap_s"] is None
            else _long(partner["overlap_s"], elapsed_s)
        )
        whose = "another user's job" if partner["job_id"] is None else f"job {partner['job_id']}"
        yield f"shared:   with {whose}{named} {long}: {_what(partner['shared'])}"
    if len(partners) > MOST_SHOWN:
        yield f"shared:   and with {len(partners) - MOST_SHOWN} more (--json lists them)"
    yield f"cost:     {_said(shared['cost'])}"


def _partners(corunners: Any, history: "History") -> list[dict[str, Any]]:
    sql = "SELECT user, job_name FROM runs WHERE job_id = ? ORDER BY id DESC LIMIT 1"
    rows = []
    for corunner in sorted(corunners, key=lambda corunner: -(corunner["overlap_s"] or 0.0)):
        row = history.conn.execute(sql, (corunner["job_id"],)).fetchone() or (None, None)
        rows.append({**corunner, "user": row[0], "job_name": row[1]})
    return rows


def _cost(history: "History", rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    from statistics import median

    from slurm_ext.history.views.shared_runs import RUN_COLUMNS, alone_rows
    from slurm_ext.training.slowdown.rows import beside, run_of, speed

    run = run_of(rows[0])
    if run is None:
        return None
    rates: list[float] = []
    for row in alone_rows(history, (rows[0]["user"], rows[0]["job_name"])):
        other = run_of(dict(zip(RUN_COLUMNS, row, strict=True)))
        if other and (other.key, other.shape) == (run.key, run.shape) and other.run != run.run:
            rates.append(other.rate)
        if len(rates) >= MOST_ALONE:
            break
    if not rates:
        return None
    solo, together = median(rates), beside(rows, teaches=False)
    return {
        "by": run.shape[0],
        "runs": len(rates),
        "speed": round(run.rate / solo, 4),
        "together": round(speed(together, solo), 4) if together else None,
    }


def _long(overlap_s: float, elapsed_s: float | None) -> str:
    share = f" ({min(1.0, overlap_s / elapsed_s):.0%} of its time)" if elapsed_s else ""
    return f"for {overlap_s:.4g} s{share}"


def _what(shared: Mapping[str, Any] | None) -> str:
    if shared is None:
        return "the node; what of it, nobody looked"
    parts = []
    if shared["gpus"]:
        parts.append(f"GPU {', '.join(shared['gpus'])}")
    if shared["cpus"]:
        parts.append(f"{shared['cpus']} CPUs")
    elif shared["sockets"]:
        parts.append("no CPU, but a socket with its cache and memory")
    return " and ".join(parts) or "neither CPUs nor GPUs, only the node"


def _said(cost: Mapping[str, Any] | None) -> str:
    if cost is None:
        return "not known: no run of it alone, in the same shape, has been measured"
    what = {"samples": "samples/s", "instructions": "instructions/s", "runs": "whole runs"}
    on = f"by {what[cost['by']]}, against {cost['runs']} of its runs alone"
    together = cost["together"]
    apart = "" if together is None else f"; while they were together {together:.2f}"
    return f"it ran at {cost['speed']:.2f} of its own speed{apart} ({on})"
