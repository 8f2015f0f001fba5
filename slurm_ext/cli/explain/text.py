"""The document of `dlqueue explain` in lines for people, one fact a line."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

NO_DECISION = (
    "no decision: dlqueue was off or down, or leaves it alone"
    " (srun, salloc, an array, a heterogeneous job, opted out)"
)
MOST_TIME_LINES = 4  # nodes of one job
WAITS = "its decision, if any, is known by this number once it starts"


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The document for people, one fact a line."""
    yield from _used(document)
    yield from lines_of_decision(document)


def lines_of_decision(document: Mapping[str, Any]) -> Iterator[str]:
    """Decision on the job, cause of its waiting, and end of each run."""
    yield from _decided(document)
    if document.get("queue"):
        from slurm_ext.questions.explain.queue import lines as queue_lines

        yield from queue_lines(document["queue"])
    if document.get("running"):
        from slurm_ext.questions.explain.queue import running_line

        yield running_line(document["running"])
    if document["moves"]:
        from slurm_ext.cli.explain.actions import lines as move_lines

        yield from move_lines(document["moves"])
    if document.get("run_time"):
        from slurm_ext.cli.explain.run_time import line

        yield line(document["run_time"], document["runs"])
    if document.get("stragglers"):
        from slurm_ext.questions.explain.stragglers import lines as straggler_lines

        yield from straggler_lines(document["stragglers"])
    if not document["tasks"]:
        yield from _ends(document["runs"])


def _used(document: Mapping[str, Any]) -> Iterator[str]:
    """The job's use of what it asked for, in sum and over time; or the tasks of an array."""
    if document["job"]:
        from slurm_ext.questions.explain.sheet import last_start
        from slurm_ext.questions.explain.sheet import lines as sheet_lines
        from slurm_ext.questions.explain.time_line import lines as time_lines

        yield from sheet_lines(document["job"])
        for run in last_start(document["runs"])[:MOST_TIME_LINES]:
            if run["series"]:
                yield from time_lines(run["series"], run, sys.stdout.encoding or "ascii")
    elif document["tasks"]:
        from slurm_ext.questions.explain.tasks import lines as task_lines

        yield from task_lines(document["tasks"], document.get("array"))


def _decided(document: Mapping[str, Any]) -> Iterator[str]:
    """The decision at its submission: what was expected of the job, and what was done."""
    from slurm_ext.advisor.limits.eligible import OPT_OUT
    from slurm_ext.cli.common.evidence_text import past as past_lines

    ledger = document["decision"]
    named = "not started yet" if document["job_id"] is None else f"job {document['job_id']}"
    if ledger is None:
        yield f"{named}: {WAITS if _is_unrecorded(document) else NO_DECISION}"
        return
    yield f"{named}, {ledger['user']}'s {ledger['job_name']}, decision {ledger['token']}"
    yield from _expected(ledger, document_ranks(document))
    yield from (f"          {line}" for line in past_lines(document["past"]))
    yield from _done(ledger)
    yield from _gain(document.get("gain"))
    if ledger["mode"] != "off":  # else nobody changes anything
        yield f"opt out:  --comment={OPT_OUT}, for one job"


def _is_unrecorded(document: Mapping[str, Any]) -> bool:
    return bool(document.get("queue") or document.get("running")) and not document["runs"]


def _ends(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each run: its end, and what was measured of it."""
    shown: tuple[Any, Any] = None, ()
    for run in runs:
        yield from _run_lines(run, alone=len(runs) == 1)
        causes = run.get("stalls"), run.get("advice") or ()
        if causes != shown:  # nodes of one start have one bar
            shown = causes
            yield from _step_lines(*causes)


def _run_lines(run: Mapping[str, Any], *, alone: bool) -> Iterator[str]:
    """One run's end, and all that is known of it; the sheet says what a lone run used."""
    yield _outcome_line(run)
    if run.get("used") and not alone:
        from slurm_ext.questions.explain.used import line as used_line

        yield used_line(run["used"])
    if run.get("verdict"):
        from slurm_ext.questions.explain.verdict import line as verdict_line

        yield verdict_line(run["verdict"])
    if run["probe"]:
        from slurm_ext.questions.explain.probe import lines as probe_lines

        yield from probe_lines(run["probe"])
    if run["shared"]:
        from slurm_ext.questions.explain.shared import lines as shared_lines

        yield from shared_lines(run["shared"], run["elapsed_s"])
    if run["energy"]:
        from slurm_ext.questions.explain.energy import lines as energy_lines

        yield from energy_lines(run["energy"])


def _step_lines(
    stalls: Mapping[str, Any] | None, advice: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """The parts of a run's step, and what to do about them."""
    if stalls is not None:
        from slurm_ext.questions.explain.stalls import lines as stall_lines

        yield from stall_lines(stalls)
    if advice:
        from slurm_ext.cli.common.advice_text import lines as advice_lines

        yield from advice_lines(advice)


def document_ranks(document: Mapping[str, Any]) -> int:
    """Training processes that the message was of: a stored prediction is of one of them.

    A decision of an older dlqueue does not say; then the job's runs do, or those behind it.
    """
    numbers = [(document["decision"] or {}).get("ranks")]
    numbers += [run.get("loader_ranks") for run in document["runs"]]
    numbers += [run["ranks"] for run in document["past"]]
    return next((int(ranks) for ranks in numbers if ranks), 1)


def _expected(ledger: Mapping[str, Any], ranks: int) -> Iterator[str]:
    """Predictions as written and as chosen: one line where they are one."""
    from slurm_ext.report.formatting import counted

    if ledger["before_samples_per_s"] is None:
        yield f"expected: nothing: {ledger['reason']}"
        return
    yield from dict.fromkeys(_predicted(ledger, when, ranks) for when in ("before", "after"))
    runs, model = counted(ledger["runs"], "run"), ledger["model"] or "none"
    yield f"on:       {runs}, {ledger['level']}; model {model}"


def _predicted(ledger: Mapping[str, Any], when: str, ranks: int) -> str:
    from slurm_ext.cli.common.evidence_text import shape
    from slurm_ext.cli.predict.text import rate

    def of(name: str) -> dict[str, Any]:
        value, *bounds = (
            ranks * ledger[f"{name}{end}"] for end in ("samples_per_s", "low", "high")
        )
        return {"samples_per_s": value, "interval": bounds}

    predicted = {**of(f"{when}_"), "bottleneck": ledger[f"{when}_bottleneck"]}
    if ledger.get("crowded") is not None:
        predicted["elsewhere"] = {**of(f"{when}_else_"), "crowded": not ledger["crowded"]}
    return (
        f"expected: {shape(ledger[f'{when}_cpus'], ledger[f'{when}_workers'])}: {rate(predicted)}"
    )


def is_changed(ledger: Mapping[str, Any]) -> bool:
    """True if the job ran as dlqueue chose, and not as written."""
    return bool(ledger["mode"] == "act" and ledger["action"] == "change" and not ledger["holdout"])


def done(ledger: Mapping[str, Any]) -> str:
    """Word for the action on the job: outside of mode act there is none."""
    control = ", held out as a control" if ledger["holdout"] else ""
    return "changed" if is_changed(ledger) else f"left as written (mode {ledger['mode']}{control})"


def _done(ledger: Mapping[str, Any]) -> Iterator[str]:
    yield f"done:     {done(ledger)}: {ledger['reason']}"
    yield from _shared(ledger)
    yield from _buckets(ledger)
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

    shared = json.loads(ledger["sharing"])
    control = " (held out as a control)" if ledger["holdout"] and shared["share"] else ""
    yield f"{'shared:  ' if shared['done'] else 'sharing: '} {sharing(shared)}{control}"


def _buckets(ledger: Mapping[str, Any]) -> Iterator[str]:
    """The plan for its gradient buckets; nothing where there was none to weigh."""
    if not ledger.get("buckets"):
        return
    import json

    from slurm_ext.cli.predict.text import buckets

    planned = json.loads(ledger["buckets"])
    if not planned["ranks"]:
        return
    control = " (held out as a control)" if ledger["holdout"] and planned["change"] else ""
    yield f"buckets:  {buckets(planned)}{control}"


def _outcome_line(run: Mapping[str, Any]) -> str:
    from slurm_ext.questions.explain.probe import measured

    text = measured(run)
    return f"outcome:  {run['state']} on {run['node']} (restart {run['restart']}): {text}"
