"""`dlqueue predict job.sh --what-if`: the job in other shapes, as a table, a plot or JSON.

Schema of --json: {v, script, source} and what advisor/what_if/table_json.py documents.
"""

import argparse
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slurm_ext.advisor.pipeline.sbatch_options import options_of
from slurm_ext.advisor.what_if.layout import request_of
from slurm_ext.advisor.what_if.serving_family import scaling_family
from slurm_ext.advisor.what_if.shapes import Axes, ClusterNodes
from slurm_ext.advisor.what_if.table import WhatIfTable, draft, judged
from slurm_ext.core.errors import SlurmError

if TYPE_CHECKING:
    from slurm_ext.advisor.pipeline.context import DecisionContext
    from slurm_ext.advisor.what_if.queue_wait import StartQuery
    from slurm_ext.core.records import Submission
    from slurm_ext.core.settings.document import Settings
    from slurm_ext.slurm import SlurmClient


def run(args: argparse.Namespace, settings: "Settings", job: "Submission") -> int:
    """Print the table. Raises UsageError, InputError, SettingsError, HistoryError."""
    from slurm_ext.advisor.limits.rules import client_of

    axes = Axes(cores=args.cores, workers=args.workers, gpus=args.gpus, gpu_types=args.gpu_type)
    source, context, run_time = _context(settings, job)
    context = replace(context, family=scaling_family(settings))
    document = {"v": 1, "script": args.script, "source": source}
    document |= table(job, context, axes, client_of(settings), run_time)
    if args.json:
        import json

        print(json.dumps(document))
    else:
        from slurm_ext.cli.predict.what_if_text import show

        show(document, plotted=args.plot)
    return 0


def table(
    job: "Submission",
    context: "DecisionContext",
    axes: Axes,
    client: "SlurmClient",
    run_time: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The document from what is known, and from what Slurm says where there is one."""
    from slurm_ext.advisor.what_if.queue_wait import StartQuery, options_for
    from slurm_ext.advisor.what_if.runtime_estimates import completed
    from slurm_ext.advisor.what_if.table_json import table_json

    options = options_of(job.script or "", job.argv[0])
    context, machines, queue_why = _cluster(client, context, job)
    request = request_of(options)
    drafted = completed(draft(job, context, request, axes, machines), run_time)
    question = StartQuery(
        job=job,
        script=job.argv[0],
        written=drafted.written,
        request=request,
        rules=context.rules,
        options=options,
        machines=machines,
    )
    finished = _timed(client, question, drafted, queue_why)
    document = table_json(finished, queue_why, lambda layout: options_for(question, layout))
    return {**document, "run_time": run_time}


def _context(
    settings: "Settings", job: "Submission"
) -> tuple[str, "DecisionContext", dict[str, Any] | None]:
    """Context and run time from the running advisor, else the history's file, else nothing."""
    from slurm_ext.advisor.service.context_json import context_from_json
    from slurm_ext.advisor.service.from_history import context_from_history, runtime_from_history
    from slurm_ext.advisor.what_if.runtime_estimates import runtime_json as said_of_run_time
    from slurm_ext.cli.predict.ask import ask

    answer = ask(settings, "what_if", job)
    if answer is not None and isinstance(answer.get("known"), dict):
        there = replace(settings, values={**settings.values, **answer.get("policy", {})})
        try:
            return "advisor", context_from_json(there, answer["known"]), answer.get("run_time")
        except (KeyError, TypeError, ValueError):
            pass  # an advisor of another version: the file may still be there
    run_time = said_of_run_time(runtime_from_history(settings, job))
    return "history", context_from_history(settings, job), run_time


def _cluster(
    client: "SlurmClient", context: "DecisionContext", job: "Submission"
) -> tuple["DecisionContext", ClusterNodes, str | None]:
    """The nodes and, where the advisor did not tell them, the rules; the reason where none."""
    from slurm_ext.advisor.limits.rules import read_rules
    from slurm_ext.advisor.what_if.queue_wait import brief, machines_of

    try:
        machines = machines_of(client.nodes(), job.partition)
    except SlurmError as error:
        return context, ClusterNodes(), brief(error)
    if context.rules is None:
        with suppress(SlurmError):  # of sacctmgr, which not everybody may ask: no limits known
            context = replace(context, rules=read_rules(client).rules_for(job))
    return context, machines, None


def _timed(
    client: "SlurmClient", question: "StartQuery", drafted: WhatIfTable, queue_why: str | None
) -> WhatIfTable:
    """The table with every row's start, where Slurm answers."""
    from slurm_ext.advisor.what_if.queue_wait import DEADLINE_S, starts

    if queue_why is not None:
        return judged(drafted, {}, 0.0)
    now_s = time.time()
    layouts = [row.layout for row in drafted.rows]
    return judged(drafted, starts(client, question, layouts, DEADLINE_S), now_s)
