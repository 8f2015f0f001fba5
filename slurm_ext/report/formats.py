"""A report as HTML, Markdown, CSV or JSON: the same tables each time."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from slurm_ext.core.csv_cells import csv_cell
from slurm_ext.report import plots
from slurm_ext.report.formatting import moment
from slurm_ext.report.render import FOLDER, TemplateError, render_with, strangers
from slurm_ext.report.tables import Report, ReportTable, Section

FORMATS = ("html", "md", "csv", "json")
CSV_COLUMNS = ("section", "table", "row", "column", "kind", "value")


def written(
    report: Report, form: str, site: Path | None, pages: Mapping[int, str] = MappingProxyType({})
) -> tuple[str, list[TemplateError]]:
    """The text, and what was wrong with the site's templates; `pages`: links by job. InputError."""
    if form == "json":
        return json.dumps(document(report)) + "\n", []
    if form == "csv":
        return as_csv(report), []
    values: dict[str, Any] = {"report": report, "moment": moment, "pages": pages}
    if form == "html":
        values["plots"] = drawn(report.sections)
    text, faults = render_with(site, f"{FOLDER}/page.{form}.jinja", **values)
    return text, [*strangers(site, (section.key for section in report.sections)), *faults]


def document(report: Report) -> dict[str, Any]:
    """`{v, cluster, made_s, version, since_s, until_s, account, users, runs, sections}`.

    A section is `{key, title, answer, lead, tables}`, a table `{key, title, note, columns: [{key,
    head, kind}], rows: [{key: value}]}`; kinds are those of tables.Kind.
    """
    head = {name: getattr(report, name) for name in Report.__slots__ if name != "sections"}
    return {"v": 1, **head, "sections": [_section(section) for section in report.sections]}


def as_csv(report: Report) -> str:
    """One line a figure: every table in one file, to be filtered and pivoted."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for section in report.sections:
        for table in section.tables:
            writer.writerows(_lines(section, table))
    return stream.getvalue()


def drawn(sections: Iterable[Section]) -> dict[str, Any]:
    """Every plot, by `section-table`."""
    return {
        f"{section.key}-{table.key}": plots.svg(
            table.chart, f"{section.key}-{table.key}", table.title
        )
        for section in sections
        for table in section.tables
        if table.chart is not None
    }


def _section(section: Section) -> dict[str, Any]:
    head = {name: getattr(section, name) for name in ("key", "title", "answer", "lead")}
    return {**head, "tables": [_table(table) for table in section.tables]}


def _table(table: ReportTable) -> dict[str, Any]:
    keys = [column.key for column in table.columns]
    return {
        **{name: getattr(table, name) for name in ("key", "title", "note")},
        "columns": [{"key": c.key, "head": c.head, "kind": c.kind} for c in table.columns],
        "rows": [dict(zip(keys, row, strict=True)) for row in table.rows],
    }


def _lines(section: Section, table: ReportTable) -> Iterator[tuple[Any, ...]]:
    for number, row in enumerate(table.rows, 1):
        for column, value in zip(table.columns, row, strict=True):
            if value is not None:
                place = (section.key, table.key, number, csv_cell(column.key), column.kind)
                yield (*place, csv_cell(value))
