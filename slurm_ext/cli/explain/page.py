"""The page of `dlqueue explain --html`: the job's figures drawn, and the terminal's words."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurm_ext.cli.common.output import plain
from slurm_ext.cli.explain import page_changes, page_step, page_time, page_use
from slurm_ext.cli.explain.text import lines_of_decision
from slurm_ext.questions.explain.named import name_of
from slurm_ext.questions.explain.sheet import MOST_NODES, last_start
from slurm_ext.questions.explain.tasks import part_of
from slurm_ext.report.formats import drawn
from slurm_ext.report.formatting import counted
from slurm_ext.report.render import render
from slurm_ext.report.tables import Column, ReportTable, Section


def page(document: Mapping[str, Any], *, back: str | None = None) -> str:
    """One HTML page of the document of `explain`; `back` leads to the report that named it."""
    parts = list(sections(document))
    decision_lines = [plain(line) for line in lines_of_decision(document)]
    return render(
        "job.html.jinja",
        name=_name(document),
        job_name=(document["job"] or document["decision"] or {}).get("job_name"),
        facts=list(_facts(document["job"] or document["decision"] or {})),
        sections=parts,
        plots=drawn(parts),
        lines=decision_lines,
        back=back,
    )


def sections(document: Mapping[str, Any]) -> Iterator[Section]:
    """Parts of the job that were recorded, or its tasks."""
    if document["tasks"]:
        yield _tasks(document["tasks"], document.get("array"))
        return
    if document["job"]:
        runs = last_start(document["runs"])[:MOST_NODES]
        yield page_use.section(document["job"])
        yield from page_time.sections(runs)
        yield from page_step.sections(runs)
    if document["decision"]:
        yield page_changes.section(document)


def _name(document: Mapping[str, Any]) -> str:
    if document["job"]:
        return f"Job {name_of(document['job'])}"
    return "A job" if document["job_id"] is None else f"Job {document['job_id']}"


def _facts(row: Mapping[str, Any]) -> Iterator[str]:
    """User, account, partition and nodes of the job."""
    for what in ("user", "account", "partition"):
        if row.get(what):
            yield f"{what} {row[what]}"
    if row.get("nodes"):
        more = f" and {len(row['nodes']) - MOST_NODES} more" * (len(row["nodes"]) > MOST_NODES)
        yield f"on {', '.join(row['nodes'][:MOST_NODES])}{more}"


def _tasks(tasks: Sequence[Mapping[str, Any]], array: Mapping[str, int] | None) -> Section:
    """The tasks of an array, those that did not complete first."""
    columns = (
        Column("task", "task"),
        Column("state", "state"),
        Column("exit_code", "exit code", "count"),
        Column("nodes", "nodes", "name"),
        Column("elapsed_s", "ran", "seconds"),
        *(Column(key, head, "share") for key, head in page_use.SHARES.items()),
        Column("samples_per_s", "samples", "rate"),
    )
    keys = [column.key for column in columns[1:]]
    tasks = [{**task, "nodes": ", ".join(task["nodes"])} for task in tasks]
    rows = [
        (name_of(row), *(row[key] for key in keys))
        for row in sorted(tasks, key=lambda task: task["state"] == "COMPLETED")
    ]
    states = Counter(array or Counter(task["state"] for task in tasks))
    bad = states.total() - states["COMPLETED"]
    part = "" if states.total() == len(tasks) else f"; listed are {part_of(tasks)}"
    return Section(
        key="tasks",
        title="The tasks of its array",
        answer=f"{counted(states.total(), 'task')}, {bad or 'none'} not completed{part}",
        tables=(ReportTable(key="tasks", title="Tasks", columns=columns, rows=rows),),
    )
