"""Pages of the jobs that a report names, in a folder beside it: those of `explain --html`.

Slurm is not asked: they tell what the history has, of the runs that the report's reader may see.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from slurm_ext.cli.common.output import put_file
from slurm_ext.cli.explain.page import page
from slurm_ext.core.errors import HistoryError, InputError
from slurm_ext.history.store.store import History
from slurm_ext.history.views.visible import Viewer
from slurm_ext.questions.explain.document import explained
from slurm_ext.report.formatting import without_jobs
from slurm_ext.report.tables import JOB, Report

_OURS = re.compile(r"\d+\.html")


def write_pages(
    history: History,
    viewer: Viewer,
    report: Report,
    output: Path,
    most: int,
    progress: Callable[[str], None],
) -> dict[int, str]:
    """Write those of the first `most` jobs; the links to them from `output`. Raises InputError."""
    folder = output.with_name(f"{output.stem}-jobs")
    _emptied(folder)
    links = {}
    for job_id in listed(report)[:most]:
        progress(f"job {job_id}")
        try:
            document = explained(history, str(job_id))
        except HistoryError:
            continue  # a loop moved it, and nothing else is known
        if viewer.hides_others:
            document["moves"] = [_without_jobs(move) for move in document["moves"]]
        document |= {"queue": None, "running": None}
        name = f"{job_id}.html"
        put_file(folder / name, page(document, back=f"../{quote(output.name)}"))
        links[job_id] = f"{quote(folder.name)}/{name}"
    return links


def listed(report: Report) -> list[int]:
    """Numbers of the jobs that its tables name, in their order."""
    return list(dict.fromkeys(_job_ids(report)))


def _job_ids(report: Report) -> Iterator[int]:
    for table in (table for section in report.sections for table in section.tables):
        for at, column in enumerate(table.columns):
            if column.key == JOB:
                yield from (int(row[at]) for row in table.rows if row[at] is not None)


def _without_jobs(move: Mapping[str, Any]) -> dict[str, Any]:
    return {**move, **{name: without_jobs(move[name]) for name in ("done", "why")}}


def _emptied(folder: Path) -> None:
    """Make the folder, without pages of an earlier report: who may read it may have changed."""
    try:
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            if _OURS.fullmatch(path.name):
                path.unlink()
    except OSError as error:
        raise InputError(str(folder), f"cannot be written: {error.strerror}") from None
