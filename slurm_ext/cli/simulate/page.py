"""One table of a replay, as a terminal shows it and as an HTML page with plots."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slurm_ext.report.tables import Chart

WIDTH = 140  # where there is no terminal
Plots = Iterator[tuple[str, Chart]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A table with a row a policy, and what is to be said below it."""

    title: str
    source: str
    about: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str]

    def html(self, charts: Mapping[str, Chart]) -> str:
        """One HTML page that needs nothing else."""
        from slurm_ext.report.table_page import table_page

        return table_page(
            "dlqueue simulate",
            self.title,
            self.source,
            about=self.about,
            caption=self.caption,
            row_name="policy",
            header=self.header,
            rows=self.rows,
            remarks=self.remarks,
            charts=charts,
        )


def show(page: Page) -> None:
    """Print the page for a person."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    table = Table(title=Text(page.about), box=box.SIMPLE)
    table.add_column(page.header[0], min_width=max(len(row[0]) for row in page.rows))
    for name in page.header[1:]:
        table.add_column(name, justify="right")
    for row in page.rows:
        table.add_row(*map(Text, row))
    console.print(table)
    for line in page.remarks:
        console.print(Text(line), soft_wrap=True)
