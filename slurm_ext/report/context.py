"""Context of a report's queries: the runs of its period, and the names of people."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from slurm_ext.history.store.reading import explaining
from slurm_ext.history.store.store import History
from slurm_ext.history.views.period_view import Period
from slurm_ext.report.tables import Column

NAMES, PSEUDONYMS, NONE = USERS = ("names", "pseudonyms", "none")
Row = tuple[Any, ...]


class UserNames:
    """Names of users and their scripts as the site's privacy setting has them.

    A pseudonym is a number in the order of the report: the next report has others.
    """

    def __init__(self, users: str) -> None:
        self.users = users
        self._numbers: dict[tuple[str, Any], int] = {}

    @property
    def named(self) -> bool:
        """True if people, and what leads to them (job names, job ids), may be named."""
        return self.users == NAMES

    @property
    def listed(self) -> bool:
        """True if there are tables of people at all."""
        return self.users != NONE

    def user(self, user: str | None) -> str | None:
        """One user."""
        return user if self.named or user is None else self._number("user", user)

    def script(self, user: str | None, job_name: str | None) -> str:
        """A user's job name, the nearest that a history has to a script."""
        if self.named:
            return f"{user or '?'}: {job_name or '?'}"
        return self._number("script", (user, job_name))

    def _number(self, what: str, key: Any) -> str:
        numbers = self._numbers
        number = numbers.setdefault((what, key), 1 + sum(kind == what for kind, _ in numbers))
        return f"{what} {number}"


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of this site's hours; `known` is false where it has none."""

    gpus: Sequence[str] = ()
    core_hour: float = 0.0
    currency: str = ""

    @property
    def known(self) -> bool:
        """True if there is any money to tell of."""
        return bool(self.gpus) or self.core_hour > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContext:
    """An open history with its table `period_runs`, and the terms of the report."""

    history: History
    period: Period
    people: UserNames
    now_s: float
    prices: Prices = Prices()
    for_reader: bool = False  # one user, who may see nothing of others

    @property
    def whole(self) -> bool:
        """True if every job of the site may be in the report by its number."""
        return self.people.named and self.period.account is None and not self.for_reader

    def rows(self, sql: str, *values: Any) -> list[Row]:
        """Rows of one query. Raises HistoryError."""
        with explaining(self.history.path):
            return self.history.conn.execute(sql, values).fetchall()

    def each(self, sql: str, *values: Any) -> Iterator[Row]:
        """As `rows`, one by one: for answers as long as the history. Raises HistoryError."""
        with explaining(self.history.path):
            yield from self.history.conn.execute(sql, values)

    def row(self, sql: str, *values: Any) -> Row:
        """The one row of a query."""
        return self.rows(sql, *values)[0]


def kept(
    columns: Iterable[Column], rows: Iterable[Row], *, without: set[str]
) -> tuple[tuple[Column, ...], list[Row]]:
    """A table without the columns that privacy excludes."""
    columns = tuple(columns)
    places = [place for place, column in enumerate(columns) if column.key not in without]
    return tuple(columns[p] for p in places), [tuple(row[p] for p in places) for row in rows]
