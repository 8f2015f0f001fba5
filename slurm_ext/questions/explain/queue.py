"""The place of a waiting job in the queue, with the reason, and its expected start."""

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_ext.questions.waiting.times import about, at

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.views.visible import Viewer
    from slurm_ext.questions.explain.named import JobName

SLURM_ANSWERS_S = 5.0
MOST_SHOWN = 5  # of those before it, in the text for people
KNOWN_BY = {"model": "by the model", "runs": "by earlier runs", "limit": "by time limits"}


def now(
    settings: "Settings", name: "JobName", viewer: "Viewer"
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The job's place in the queue while it waits, and where it runs while it runs.

    Neither: it does nothing of both, or Slurm does not answer. A user has that of an own job, and
    where Slurm hides others' jobs, none of them is in it.
    """
    from slurm_ext.control.queue.queue_position import running, view, waiting_job
    from slurm_ext.core.errors import SlurmError
    from slurm_ext.core.settings.slurm_place import slurm_bin
    from slurm_ext.questions.waiting.cause import cause_of
    from slurm_ext.slurm import CommandClient

    client = CommandClient(
        bin_dir=slurm_bin(settings),
        slurm_conf=settings["paths.slurm_conf"],
        timeout_s=SLURM_ANSWERS_S,
    )
    if name.job_id is None:
        return None, None
    uid = None if viewer.sees_all else viewer.uid
    try:
        jobs = client.jobs()
        job = waiting_job(jobs, name.job_id, task=name.task, of_uid=uid)
        if job is None:
            return None, running(jobs, name.job_id, task=name.task, of_uid=uid)
        queue = view(client, jobs, settings, job, time.time())
        # Whoever a job depends on: what is not handed over cannot be told.
        shown = [row for row in jobs if row.user_id == viewer.uid] if viewer.hides_others else jobs
        queue["cause"] = cause_of(client, shown, job, time.time())
    except SlurmError:
        return None, None
    return _without_others(queue) if viewer.hides_others else queue, None


def _without_others(queue: Mapping[str, Any]) -> dict[str, Any]:
    from slurm_ext.questions.waiting.cause import without_others

    order = queue["order"]
    return {
        **queue,
        "ahead": [],
        "cause": without_others(queue["cause"]),
        "order": {**order, "after": None} if order and "after" in order else order,
    }


def told(moves: Iterable[Mapping[str, Any]], viewer: "Viewer") -> list[dict[str, Any]]:
    """The moves for their user; no number of another job where Slurm hides others' jobs."""
    if not viewer.hides_others:
        return [dict(move) for move in moves]
    from slurm_ext.report.formatting import without_jobs

    hidden = ("done", "why")
    return [{**move, **{name: without_jobs(str(move[name])) for name in hidden}} for move in moves]


def alone(
    settings: "Settings",
    viewer: "Viewer",
    name: "JobName",
    queue: Mapping[str, Any] | None,
    running: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The document of `explain` for a job of which the history knows nothing, or there is none."""
    moves = [] if name.job_id is None else ledger_moves(settings.state_dir, name.job_id)
    nothing = ("job", "tasks", "array", "decision", "run_time", "stragglers", "gain")
    document: dict[str, Any] = {"v": 1, "job_id": name.job_id, **dict.fromkeys(nothing)}
    return {
        **document,
        "past": [],
        "runs": [],
        "moves": told(moves, viewer),
        "queue": queue,
        "running": running,
    }


def ledger_moves(state_dir: Path, job_id: int) -> list[dict[str, Any]]:
    """A job's moves that are not in a history: from the ledger's files, where we may read them."""
    from dataclasses import asdict

    from slurm_ext.core.actions import parse_action
    from slurm_ext.core.errors import RecordError

    moves: dict[str, dict[str, Any]] = {}
    for line in _lines(state_dir / "moves"):
        try:
            move = parse_action(line)
        except RecordError:
            continue
        if move.job_id == job_id:
            moves[move.move_id] = asdict(move)
    return sorted(moves.values(), key=lambda move: move["at_s"])


def _lines(folder: Path) -> Iterator[bytes]:
    try:
        for path in sorted(folder.glob("*.jsonl")):
            with path.open("rb") as file:
                yield from file
    except OSError:
        return


def lines(queue: Mapping[str, Any]) -> Iterator[str]:
    """The same for people, one fact a line."""
    from slurm_ext.questions.waiting.cause import lines as cause_lines
    from slurm_ext.questions.waiting.reasons import reason

    yield f"waits:    {_long(queue['submit_s'])} by now: {reason(queue['reason'])}"
    if queue.get("cause"):
        yield from cause_lines(queue["cause"])
    if queue["place"] is not None:
        yield f"place:    {queue['place']} of {queue['of']} {_where(queue)}{_priority(queue)}"
    for row in reversed(queue["ahead"][-MOST_SHOWN:]):
        yield f"before:   job {row['job']} ({row['user']}'s {row['name']}), {_ahead(row)}"
    yield from _loop(queue["order"])
    yield from _starts(queue)


def running_line(queue: Mapping[str, Any]) -> str:
    """For people: where a running job is, and what comes after its end."""
    since = "" if queue["start_s"] is None else f" since {at(queue['start_s'])}"
    limit = "" if queue["end_s"] is None else f", at most until {at(queue['end_s'])}"
    after = "what it used is told some seconds after its end"
    return f"runs:     {queue['state']} on {queue['nodes']}{since}{limit}; {after}"


def _where(queue: Mapping[str, Any]) -> str:
    qos = f", QOS {queue['qos']}" if queue["qos"] else ""
    return f"that wait for their turn in {queue['partition']}{qos}"


def _priority(queue: Mapping[str, Any]) -> str:
    nice = f", nice {queue['nice']} taken off" if queue["nice"] else ""
    return f": priority {queue['priority']}{nice}"


def _ahead(row: Mapping[str, Any]) -> str:
    count, kind = (row["gpus"], "GPU") if row["gpus"] else (row["cpus"] or 1, "CPU")
    asks = f"{count} {kind}{'s' if count > 1 else ''}"
    more = row["priority_more"]
    by = f"priority higher by {more}" if more else "of the same priority, and came first"
    return f"{asks}: {by}"


def _loop(order: Mapping[str, Any] | None) -> Iterator[str]:
    """The line on the queue loop (`dlqueue control --queue`)."""
    if order is None:
        return
    shadow = " (shadow: nothing is changed)" if order["mode"] == "shadow" else ""
    if "left_alone" in order:
        yield f"order:    left alone by dlqueue: {order['left_alone']}{shadow}"
        return
    length = f"predicted to run {about(order['length_s'])}{_interval(order)} (by {order['by']})"
    after = "" if order["after"] is None else f", after job {order['after']}"
    yield f"order:    {order['place']} of {order['of']} by need{after}: {length}{shadow}"


def _interval(order: Mapping[str, Any]) -> str:
    if order["low_s"] is None or order["high_s"] is None:
        return ""
    return f", nine in ten {about(order['low_s'])} to {about(order['high_s'])}"


def _starts(queue: Mapping[str, Any]) -> Iterator[str]:
    slurm, ours = queue["slurm_start_s"], queue["expected"]
    by_slurm = "Slurm does not say" if slurm is None else f"{at(slurm)} by Slurm, by time limits"
    yield f"start:    {by_slurm}"
    if ours is not None:
        yield f"          {_ours(ours)}"


def _ours(ours: Mapping[str, Any]) -> str:
    low, high = at(ours["low_s"]), at(ours["high_s"])
    between = "" if low == high else f" ({low} to {high})"
    reasons = " and ".join(KNOWN_BY[by] for by in ours["by"]) or "nobody is before it"
    return f"{at(ours['start_s'])}{between} by dlqueue, if nobody passes: {reasons}"


def _long(since_s: float | None) -> str:
    return "unknown" if since_s is None else about(max(0.0, time.time() - since_s))
