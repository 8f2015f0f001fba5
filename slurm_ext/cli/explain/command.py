"""`dlqueue explain JOBID|TOKEN`: prediction, action and outcome of one job."""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.history.store.store import History

HELP = "Print the prediction for one job, the decision with its reason, and the outcome."
NO_DECISION = (
    "no decision: dlqueue was off or down, or leaves it alone"
    " (srun, salloc, an array, a heterogeneous job, opted out)"
)
WAITS = "its decision, if any, is known by this number once it starts"
_TOKEN = re.compile(r"d1-[0-9a-f]{16}")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's argument."""
    parser.add_argument("job", metavar="JOBID|TOKEN", help="1042 or d1-0123456789abcdef")


def run(args: argparse.Namespace) -> int:
    """Print the decision and its outcome; raises UsageError, HistoryError."""
    from slurm_ext.cli.common.output import tell
    from slurm_ext.cli.common.settings import load_for_history

    document = _document(load_for_history(args.config), args.job)
    tell(document, lines, as_json=args.json)
    return 0


def _document(settings: "Settings", named: str) -> dict[str, Any]:
    """The history's document, with `queue` where the job waits, or `queue` alone."""
    from slurm_ext.cli.explain.queue import alone, ledger_moves, waiting
    from slurm_ext.core.errors import HistoryError
    from slurm_ext.history.store.store import open_history

    path = settings.state_dir / "history.db"
    timeout_ms = settings["history.busy_timeout_ms"]
    try:
        with open_history(path, busy_timeout_ms=timeout_ms, read_only=True) as history:
            document = explained(history, named)
    except HistoryError:
        found = waiting(settings, int(named)) if named.isdecimal() else None
        if found is None:
            raise
        return alone(settings, int(named), found)
    job_id = document["job_id"]
    if job_id is None:
        return {**document, "queue": None}
    # A move that the history writer has not read yet is in the ledger alone.
    moves = [*ledger_moves(settings.state_dir, job_id), *document["moves"]]
    every = {move["move_id"]: move for move in moves}.values()
    told = sorted(every, key=lambda move: float(move["at_s"]))
    return {**document, "moves": told, "queue": waiting(settings, job_id)}


def explained(history: "History", named: str) -> dict[str, Any]:
    """`{v, job_id, decision, past, moves, run_time, runs, stragglers, gain}`: ledger and outcome.

    `past`: runs that the decision rested on (history/views/recent_runs.py). `moves`: what cluster
    loops did to
    it (core/actions.py). `run_time`: how long it was to be expected to run (explain_run_time.py),
    or
    null. A run whose use of its resources was counted has `used` (explain/used.py), one that shared
    its node `shared` (explain/shared.py), one whose power was measured
    `energy` (explain/energy.py), one with the probe's summaries `probe` (explain/probe.py), one of
    which a rate was predicted `verdict` (explain/verdict.py), one whose step was measured `stalls`
    (explain/stalls.py); else null. `advice` is a list (core/advice/from_record.py). `stragglers`:
    ranks that others waited for (explain/stragglers.py), or null.

    Raises UsageError for what is neither a job id nor a token, HistoryError where it is unknown.
    """
    from slurm_ext.cli.explain.run_time import run_time_of
    from slurm_ext.cli.explain.shared import shared_with
    from slurm_ext.cli.explain.stalls import stalls_of
    from slurm_ext.cli.explain.stragglers import stragglers_of
    from slurm_ext.core.errors import HistoryError, UsageError
    from slurm_ext.history.ingest.actions import actions_of
    from slurm_ext.history.ingest.decisions import decision
    from slurm_ext.history.views.advice import run_advice
    from slurm_ext.history.views.gain import estimate_gain, gain_json
    from slurm_ext.history.views.outcomes import predicted_of
    from slurm_ext.history.views.queries import job

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
    expected = run_time_of(history, chosen, known)
    document = {"v": 1, "job_id": job_id, "decision": chosen, "past": past}
    document |= {"moves": moved, "run_time": expected, "runs": runs}
    document["stragglers"] = stragglers_of(every)
    return {**document, "gain": gain_json(estimate_gain(history.conn))}


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


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The document for people, one fact a line."""
    ledger = document["decision"]
    from slurm_ext.advisor.limits.eligible import OPT_OUT
    from slurm_ext.cli.common.evidence_text import past as past_lines

    named = "not started yet" if document["job_id"] is None else f"job {document['job_id']}"
    if ledger is None:
        yield f"{named}: {WAITS if document.get('queue') else NO_DECISION}"
    else:
        yield f"{named}, {ledger['user']}'s {ledger['job_name']}, decision {ledger['token']}"
        yield from _expected(ledger, _ranks(document))
        yield from (f"          {line}" for line in past_lines(document["past"]))
        yield from _done(ledger)
        yield from _gain(document.get("gain"))
        if ledger["mode"] != "off":  # else nobody changes anything
            yield f"opt out:  --comment={OPT_OUT}, for one job"
    if document.get("queue"):
        from slurm_ext.cli.explain.queue import lines as queue_lines

        yield from queue_lines(document["queue"])
    if document["moves"]:
        from slurm_ext.cli.explain.actions import lines as move_lines

        yield from move_lines(document["moves"])
    if document.get("run_time"):
        from slurm_ext.cli.explain.run_time import line

        yield line(document["run_time"], document["runs"])
    if document.get("stragglers"):
        from slurm_ext.cli.explain.stragglers import lines as straggler_lines

        yield from straggler_lines(document["stragglers"])
    yield from _ends(document["runs"])


def _ends(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each run: its end, and what was measured of it."""
    shown: tuple[Any, Any] = None, ()
    for one in runs:
        yield from _run_lines(one)
        found = one.get("stalls"), one.get("advice") or ()
        if found != shown:  # nodes of one start have one bar
            shown = found
            yield from _step_lines(*found)


def _run_lines(one: Mapping[str, Any]) -> Iterator[str]:
    """One run's end, and all that is known of it."""
    yield _outcome_line(one)
    if one.get("used"):
        from slurm_ext.cli.explain.used import line as used_line

        yield used_line(one["used"])
    if one.get("verdict"):
        from slurm_ext.cli.explain.verdict import line as verdict_line

        yield verdict_line(one["verdict"])
    if one["probe"]:
        from slurm_ext.cli.explain.probe import lines as probe_lines

        yield from probe_lines(one["probe"])
    if one["shared"]:
        from slurm_ext.cli.explain.shared import lines as shared_lines

        yield from shared_lines(one["shared"], one["elapsed_s"])
    if one["energy"]:
        from slurm_ext.cli.explain.energy import lines as energy_lines

        yield from energy_lines(one["energy"])


def _step_lines(
    stalls: Mapping[str, Any] | None, advice: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """The parts of a run's step, and what to do about them."""
    if stalls is not None:
        from slurm_ext.cli.explain.stalls import lines as stall_lines

        yield from stall_lines(stalls)
    if advice:
        from slurm_ext.cli.common.advice_text import lines as advice_lines

        yield from advice_lines(advice)


def _ranks(document: Mapping[str, Any]) -> int:
    """Training processes that the message was of: a stored prediction is of one of them.

    A decision of an older dlqueue does not say; then the job's runs do, or those behind it.
    """
    seen = [(document["decision"] or {}).get("ranks")]
    seen += [one.get("loader_ranks") for one in document["runs"]]
    seen += [one["ranks"] for one in document["past"]]
    return next((int(ranks) for ranks in seen if ranks), 1)


def _expected(ledger: Mapping[str, Any], ranks: int) -> Iterator[str]:
    from slurm_ext.cli.common.evidence_text import shape
    from slurm_ext.report.formatting import counted

    if ledger["before_samples_per_s"] is None:
        yield f"expected: nothing: {ledger['reason']}"
        return
    for when in ("before", "after"):
        told = shape(ledger[f"{when}_cpus"], ledger[f"{when}_workers"])
        low, high = ranks * ledger[f"{when}_low"], ranks * ledger[f"{when}_high"]
        value = ranks * ledger[f"{when}_samples_per_s"]
        rate = f"{value:.4g} samples/s ({low:.4g} to {high:.4g})"
        yield f"expected: {told}: {rate}, limited by {ledger[f'{when}_bottleneck']}"
    runs, model = counted(ledger["runs"], "run"), ledger["model"] or "none"
    yield f"on:       {runs}, {ledger['level']}; model {model}"


def _done(ledger: Mapping[str, Any]) -> Iterator[str]:
    acted = ledger["mode"] == "act" and ledger["action"] == "change" and not ledger["holdout"]
    held = ", held out as a control" if ledger["holdout"] else ""
    what = "changed" if acted else f"left as written (mode {ledger['mode']}{held})"
    yield f"done:     {what}: {ledger['reason']}"
    yield from _shared(ledger)
    if ledger["message"]:
        yield f"message:  {ledger['message']}"


def _gain(gain: Mapping[str, Any] | None) -> Iterator[str]:
    """The gain of this site's changed jobs; nothing where it is not measured."""
    from slurm_ext.report.formatting import change

    if gain:
        yield (
            f"gain:     {change(gain['ratio'])} samples/s ({change(gain['low'])} to"
            f" {change(gain['high'])}) of {gain['changed']} changed jobs here, against"
            f" {gain['control']} left as written by a draw"
        )


def _shared(ledger: Mapping[str, Any]) -> Iterator[str]:
    """The decision on sharing its GPU; nothing where it did not agree to, or had none."""
    if not ledger.get("sharing"):
        return
    import json

    from slurm_ext.cli.predict.text import sharing

    told = json.loads(ledger["sharing"])
    held = " (held out as a control)" if ledger["holdout"] and told["share"] else ""
    yield f"{'shared:  ' if told['done'] else 'sharing: '} {sharing(told)}{held}"


def _outcome(
    one: Mapping[str, Any],
    beside: Mapping[int, Any],
    told: Mapping[int, Mapping[str, Any]],
    past: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    names = ("restart", "node", "state", "source", "elapsed_s", "cpus_per_task", "exit_code")
    from slurm_ext.cli.explain.energy import energy_of
    from slurm_ext.cli.explain.probe import probe_of
    from slurm_ext.cli.explain.used import used_of
    from slurm_ext.cli.explain.verdict import verdict_of

    loader = {n: one[n] for n in one if n.startswith("loader_")}
    more = {"shared": beside.get(one["id"]), "energy": energy_of(one), "probe": probe_of(one)}
    more["used"] = used_of(one)
    more["verdict"] = verdict_of(told.get(one["id"]), one, past)
    return {**{name: one[name] for name in names}, **loader, **more}


def _outcome_line(one: Mapping[str, Any]) -> str:
    from slurm_ext.cli.explain.probe import measured

    said = measured(one)
    return f"outcome:  {one['state']} on {one['node']} (restart {one['restart']}): {said}"
