"""The document of `explain`: one job's prediction, decision and outcome."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from slurm_ext.core.errors import HistoryError, UsageError

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.store.store import History
    from slurm_ext.history.views.visible import Viewer

_TOKEN = re.compile(r"d1-[0-9a-f]{16}")


def document(settings: "Settings", viewer: "Viewer", fields: Mapping[str, Any]) -> dict[str, Any]:
    """The history's document, with `queue` where the job waits, or `queue` alone.

    Raises UsageError, HistoryError, RefusedError.
    """
    from slurm_ext.history.views.visible import refuse_others
    from slurm_ext.questions.explain.queue import alone, ledger_moves, waiting

    named = fields["job"]
    try:
        with _histories(settings, viewer) as (history, pool):
            known = explained(history, named, pool)
    except HistoryError:
        found = waiting(settings, int(named), viewer) if named.isdecimal() else None
        if found is None:
            refuse_others(settings.state_dir / "history.db", viewer, named)
            raise
        return alone(settings, int(named), found)
    job_id = known["job_id"]
    if job_id is None:
        return {**known, "queue": None}
    # A move that the history writer has not read yet is in the ledger alone.
    moves = [*ledger_moves(settings.state_dir, job_id), *known["moves"]]
    every = {move["move_id"]: move for move in moves}.values()
    by_time = sorted(every, key=lambda move: float(move["at_s"]))
    return {**known, "moves": by_time, "queue": waiting(settings, job_id, viewer)}


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
    """`{v, job_id, decision, past, moves, run_time, runs, stragglers, gain}`: ledger and outcome.

    `past`: runs that the decision rested on (history/views/recent_runs.py). `moves`: what cluster
    loops did to it (core/actions.py). `run_time`: how long it was to be expected to run
    (run_time.py), or null. A run whose use of its resources was counted has `used` (used.py), one
    that shared its node `shared` (shared.py), one whose power was measured `energy` (energy.py),
    one with the probe's summaries `probe` (probe.py), one of which a rate was predicted `verdict`
    (verdict.py), one whose step was measured `stalls` (stalls.py); else null. `advice` is a list
    (core/advice/from_record.py). `stragglers`: ranks that others waited for (stragglers.py), or
    null. Run time and gain rest on `pool`, which may hold more users' runs than `history`.

    Raises UsageError for what is neither a job id nor a token, HistoryError where it is unknown.
    """
    from slurm_ext.history.ingest.actions import actions_of
    from slurm_ext.history.ingest.decisions import decision
    from slurm_ext.history.views.advice import run_advice
    from slurm_ext.history.views.gain import estimate_gain, gain_json
    from slurm_ext.history.views.outcomes import predicted_of
    from slurm_ext.history.views.queries import job
    from slurm_ext.questions.explain.run_time import run_time_of
    from slurm_ext.questions.explain.shared import shared_with
    from slurm_ext.questions.explain.stalls import stalls_of
    from slurm_ext.questions.explain.stragglers import stragglers_of

    token = named if _TOKEN.fullmatch(named) else None
    if token is None and not (named.isascii() and named.isdecimal() and len(named) < 19):
        raise UsageError(f"{named!r} is neither a job id (1042) nor a token (d1-0123456789abcdef)")
    ledger = decision(history, token=token) if token else None
    job_id = ledger["job_id"] if ledger else None if token else int(named)
    known = None if job_id is None else job(history, job_id)
    moved = [] if job_id is None else actions_of(history, job_id)
    if ledger is None and known is None and not moved:
        raise HistoryError(
            f"{history.path} knows nothing of {named}; a decision appears a second after the"
            " submission, a run some seconds after its end, and jobs that opted out never"
        )
    beside = {} if known is None else shared_with(history, known["runs"])
    chosen = ledger or (known or {}).get("decision")
    past = _past(history, chosen)
    told = {} if chosen is None else predicted_of(history.conn, history.path, chosen["id"])
    steps = {} if known is None else stalls_of(known["runs"])
    every = [] if known is None else known["runs"]
    runs = [
        {**_outcome(one, beside, told, past), "stalls": steps.get(one["id"])}
        | {"advice": run_advice(one, every)}
        for one in every
    ]
    pool = history if pool is None else pool
    expected = run_time_of(pool, chosen, known)
    document = {"v": 1, "job_id": job_id, "decision": chosen, "past": past}
    document |= {"moves": moved, "run_time": expected, "runs": runs}
    document["stragglers"] = stragglers_of(every)
    return {**document, "gain": gain_json(estimate_gain(pool.conn))}


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
    one: Mapping[str, Any],
    beside: Mapping[int, Any],
    told: Mapping[int, Mapping[str, Any]],
    past: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    names = ("restart", "node", "state", "source", "elapsed_s", "cpus_per_task", "exit_code")
    from slurm_ext.questions.explain.energy import energy_of
    from slurm_ext.questions.explain.probe import probe_of
    from slurm_ext.questions.explain.used import used_of
    from slurm_ext.questions.explain.verdict import verdict_of

    loader = {n: one[n] for n in one if n.startswith("loader_")}
    more = {"shared": beside.get(one["id"]), "energy": energy_of(one), "probe": probe_of(one)}
    more["used"] = used_of(one)
    more["verdict"] = verdict_of(told.get(one["id"]), one, past)
    return {**{name: one[name] for name in names}, **loader, **more}
