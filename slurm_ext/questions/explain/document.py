"""The document of `explain`: one job's use of what it had, prediction, decision and outcome."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from slurm_ext.core.errors import HistoryError

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.store.store import History
    from slurm_ext.history.views.visible import Viewer


def document(settings: "Settings", viewer: "Viewer", fields: Mapping[str, Any]) -> dict[str, Any]:
    """The history's document, with what Slurm says now, or Slurm's answer alone.

    Raises UsageError, HistoryError, RefusedError.
    """
    from slurm_ext.history.views.visible import refuse_others
    from slurm_ext.questions.explain.named import JobName, parse
    from slurm_ext.questions.explain.queue import alone, ledger_moves, now, told

    named = fields["job"]
    name = parse(named)
    try:
        with _histories(settings, viewer) as (history, pool):
            explanation = explained(history, named, pool)
    except HistoryError:
        at_present = now(settings, name, viewer)
        if at_present == (None, None):
            refuse_others(settings.state_dir / "history.db", viewer, named)
            raise
        return alone(settings, viewer, name, *at_present)
    job_id = explanation["job_id"]
    if job_id is None:
        return {**explanation, "queue": None, "running": None}
    # A move that the history writer has not read yet is in the ledger alone.
    moves = [*ledger_moves(settings.state_dir, job_id), *explanation["moves"]]
    every = {move["move_id"]: move for move in moves}.values()
    by_time = sorted(every, key=lambda move: float(move["at_s"]))
    queue, running = now(settings, JobName(job_id=job_id) if name.token else name, viewer)
    return {**explanation, "moves": told(by_time, viewer), "queue": queue, "running": running}


@contextmanager
def _histories(settings: "Settings", viewer: "Viewer") -> "Iterator[tuple[History, History]]":
    """The viewer's part of the history, and the part that figures of the whole site rest on."""
    from slurm_ext.history.views.visible import open_visible, open_whole

    path, wait_ms = settings.state_dir / "history.db", settings["history.busy_timeout_ms"]
    with open_visible(path, viewer, busy_timeout_ms=wait_ms) as history:
        if viewer.sees_all or viewer.hides_others:
            yield history, history
            return
        with open_whole(path, busy_timeout_ms=wait_ms) as pool:
            yield history, pool


def explained(history: "History", named: str, pool: "History | None" = None) -> dict[str, Any]:
    """`{v, job_id, job, tasks, array, decision, past, moves, run_time, runs, stragglers, gain}`.

    `job`: its last start on all of its nodes (sheet.py), null for an array, whose `tasks` are
    listed instead (tasks.py), at most MOST_TASKS of them (whole_array.py); `array` counts all by
    their state. `past`: runs that the decision rested on
    (history/views/recent_runs.py). `moves`: what cluster loops did to it (core/actions.py).
    `run_time`: how long it was to be expected to run (run_time.py), or null. A run whose use of its
    resources was counted has `used` (used.py), one that was sampled `series` (series.py), one that
    shared its node `shared` (shared.py), one whose power was measured `energy` (energy.py), one
    with the probe's summaries `probe` (probe.py), one of which a rate was predicted `verdict`
    (verdict.py), one whose step was measured `stalls` (stalls.py); else null. `advice` is a list
    (core/advice/from_record.py). `stragglers`: ranks that others waited for (stragglers.py), or
    null. Run time and gain rest on `pool`, which may hold more users' runs than `history`.

    Raises UsageError for what names no job (named.py), HistoryError where it is unknown.
    """
    from slurm_ext.history.ingest.decisions import decision
    from slurm_ext.questions.explain.named import parse
    from slurm_ext.questions.explain.whole_array import recorded_job

    name = parse(named)
    ledger = decision(history, token=name.token) if name.token else None
    job_id = ledger["job_id"] if ledger else name.job_id
    recorded, states = (None, {}) if job_id is None else recorded_job(history, job_id, name.task)
    runs = recorded["runs"] if recorded else []
    if name.task is not None and not runs and job_id is not None:
        _must_be_array(history, job_id, named)
    ledger = ledger or (recorded or {}).get("decision")
    if name.task is not None and runs:
        job_id = runs[0]["job_id"]
    moves = _moves(history, job_id)
    if ledger is None and recorded is None and not moves:
        raise HistoryError(
            f"{history.path} knows nothing of {named}; a decision appears a second after the"
            " submission, a run some seconds after its end, and jobs that opted out never"
        )
    found = _of_runs(history, pool or history, job_id, ledger, runs, moves)
    return {**found, "array": states if found["tasks"] else None}


def _must_be_array(history: "History", job_id: int, named: str) -> None:
    """Raises HistoryError for a task of a job that ran, and is no array."""
    from slurm_ext.history.views.queries import job

    runs = (job(history, job_id) or {}).get("runs", ())
    if any(run["job_id"] == job_id and run["array_job_id"] is None for run in runs):
        raise HistoryError(
            f"{history.path} knows nothing of {named}: {job_id} is no array; see"
            f" `dlqueue explain {job_id}`"
        )


def _moves(history: "History", job_id: int | None) -> list[dict[str, Any]]:
    from slurm_ext.history.ingest.actions import actions_of

    return [] if job_id is None else actions_of(history, job_id)


def _of_runs(
    history: "History",
    pool: "History",
    job_id: int | None,
    ledger: Mapping[str, Any] | None,
    runs: Sequence[Mapping[str, Any]],
    moves: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    from slurm_ext.history.views.gain import estimate_gain, gain_json
    from slurm_ext.questions.explain.run_time import run_time_of
    from slurm_ext.questions.explain.sheet import sheet_of
    from slurm_ext.questions.explain.stragglers import stragglers_of
    from slurm_ext.questions.explain.tasks import tasks_of

    past = _past(history, ledger)
    return {
        "v": 1,
        "job_id": job_id,
        "job": sheet_of(runs),
        "tasks": tasks_of(runs),
        "decision": ledger,
        "past": past,
        "moves": moves,
        "run_time": run_time_of(pool, ledger, runs),
        "runs": _runs(history, ledger, runs, past),
        "stragglers": stragglers_of(runs),
        "gain": gain_json(estimate_gain(pool.conn)),
    }


def _runs(
    history: "History",
    ledger: Mapping[str, Any] | None,
    runs: Sequence[Mapping[str, Any]],
    past: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    from slurm_ext.history.views.advice import run_advice
    from slurm_ext.history.views.outcomes import predicted_of
    from slurm_ext.questions.explain.shared import shared_with
    from slurm_ext.questions.explain.stalls import stalls_of

    beside = shared_with(history, runs)
    predicted = {} if ledger is None else predicted_of(history.conn, history.path, ledger["id"])
    steps = stalls_of(runs)
    return [
        {**_outcome(run, beside, predicted, past), "stalls": steps.get(run["id"])}
        | {"advice": run_advice(run, runs)}
        for run in runs
    ]


def _past(history: "History", ledger: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The newest runs that the decision rested on: those known then, alike at its level."""
    from slurm_ext.core.records import Level
    from slurm_ext.history.store.names import KEY_OF_LEVEL, OWNER_OF_LEVEL
    from slurm_ext.history.views.recent_runs import recent_runs

    if ledger is None or ledger["level"] is None:
        return []
    keys = {level: ledger[key] for level, key in KEY_OF_LEVEL.items()}
    column = OWNER_OF_LEVEL.get(Level(ledger["level"]))
    owner, by_s = ledger[column] if column else None, ledger["decided_s"]
    return recent_runs(history.conn, ledger["level"], keys, owner=owner, known_by_s=by_s)


def _outcome(
    run: Mapping[str, Any],
    beside: Mapping[int, Any],
    messages: Mapping[int, Mapping[str, Any]],
    past: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    names = ("job_id", "restart", "node", "state", "source", "elapsed_s", "cpus_per_task")
    columns = ("exit_code", "cpus", "mem_bytes", "gpus")
    from slurm_ext.questions.explain.energy import energy_of
    from slurm_ext.questions.explain.probe import probe_of
    from slurm_ext.questions.explain.series import series_of
    from slurm_ext.questions.explain.used import used_of
    from slurm_ext.questions.explain.verdict import verdict_of

    loader = {n: run[n] for n in run if n.startswith("loader_")}
    more = {"shared": beside.get(run["id"]), "energy": energy_of(run), "probe": probe_of(run)}
    more |= {"used": used_of(run), "series": series_of(run["timeline"])}
    more["verdict"] = verdict_of(messages.get(run["id"]), run, past)
    return {**{name: run[name] for name in (*names, *columns)}, **loader, **more}
