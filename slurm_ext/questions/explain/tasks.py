"""The tasks of an array, a line each."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MOST_SHOWN = 20  # the worst first, in the text for people; the JSON has more (whole_array.py)
_NAMES = ("job_id", "array_job_id", "array_task_id", "restart", "state", "exit_code", "nodes")
_USED = ("elapsed_s", "time", "cpu", "mem", "gpu", "wait", "samples_per_s")


def tasks_of(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
    """Each task by its last start, with shares of what it held; None: these are of one job."""
    from slurm_ext.history.views.job_efficiency import efficiency_of
    from slurm_ext.questions.explain.sheet import last_start
    from slurm_ext.questions.explain.used import counted

    of_job: dict[int, list[Mapping[str, Any]]] = {}
    for run in runs:
        of_job.setdefault(run["job_id"], []).append(run)
    if len(of_job) < 2:
        return None
    efficiencies = [
        efficiency_of([counted(run) for run in last_start(mine)]) for mine in of_job.values()
    ]
    named = [{name: task[name] for name in (*_NAMES, *_USED)} for task in efficiencies]
    return sorted(named, key=lambda task: (task["array_task_id"] or 0, task["job_id"]))


def lines(tasks: Sequence[Mapping[str, Any]], array: Mapping[str, int] | None) -> Iterator[str]:
    """For people: how many ended how, then those that did not complete, then the others.

    `array`: the states of all tasks, of which `tasks` may be a part; None: nobody counted them.
    """
    from slurm_ext.questions.explain.named import name_of

    states = Counter(array or Counter(task["state"] for task in tasks))
    ends = ", ".join(f"{many} {state}" for state, many in states.most_common())
    yield f"array:    {tasks[0]['array_job_id']}, {states.total()} tasks recorded: {ends}"
    shown = sorted(tasks, key=lambda task: task["state"] == "COMPLETED")[:MOST_SHOWN]
    yield from map(_line, shown)
    if (more := states.total() - len(shown)) > 0:
        listed = "them" if states.total() == len(tasks) else part_of(tasks)
        yield f"task:     and {more} more (--json lists {listed})"
    yield f"          dlqueue explain {name_of(tasks[0])} says more of one"


def part_of(tasks: Sequence[Mapping[str, Any]]) -> str:
    """Words for the tasks of a large array that an answer has."""
    return f"{len(tasks)} of all: those not completed first, then the newest"


def _line(task: Mapping[str, Any]) -> str:
    from slurm_ext.core.units import format_minutes
    from slurm_ext.questions.explain.named import name_of
    from slurm_ext.report.formatting import percent

    code = f" {task['exit_code']}" if task["exit_code"] else ""
    parts = [f"{task['state']}{code} on {', '.join(task['nodes'])}"]
    if task["elapsed_s"] is not None:
        parts.append(format_minutes(task["elapsed_s"] / 60))
    for name, what in (("cpu", "CPUs"), ("mem", "memory"), ("gpu", "GPUs")):
        if task[name] is not None:
            parts.append(f"{what} {percent(task[name])}")
    return f"task:     {name_of(task)}: {'; '.join(parts)}"
