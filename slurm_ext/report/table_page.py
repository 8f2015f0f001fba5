"""One table with remarks and plots as an HTML page of a command's own."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from slurm_ext.report.plots import svg
from slurm_ext.report.render import render
from slurm_ext.report.tables import Chart


def table_page(
    command: str,
    title: str,
    source: str,
    *,
    about: str,
    caption: str,
    row_name: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    remarks: Sequence[str],
    charts: Mapping[str, Chart],
) -> str:
    """One HTML page that needs nothing else; each row of the table is a `row_name`."""
    return render(
        "table_page.html.jinja",
        command=command,
        title=title,
        source=PurePath(source).name,
        about=about,
        caption=caption,
        row_name=row_name,
        remarks=remarks,
        header=header,
        rows=rows,
        charts=[
            (name, chart, svg(chart, f"plot-{number}", name))
            for number, (name, chart) in enumerate(charts.items())
        ],
    )
