"""A report from a history: the runs are selected once, then each section queries them."""

import time
from collections.abc import Callable

from slurm_ext import __version__
from slurm_ext.core.settings.document import Settings
from slurm_ext.history.store.store import History
from slurm_ext.history.views.gain import with_logarithm
from slurm_ext.history.views.period_view import Period, select_runs
from slurm_ext.report.context import Prices, ReportContext, UserNames
from slurm_ext.report.sections import (
    colocation,
    gain,
    groups,
    ledger,
    missing,
    node_speeds,
    predictions,
    queue_and_energy,
    saved,
    trends,
    waste,
)
from slurm_ext.report.tables import Report, Section

SECTIONS: tuple[tuple[str, Callable[[ReportContext], Section]], ...] = (
    ("the gain", gain.section),
    ("what was saved", saved.section),
    ("months", trends.section),
    ("waste", waste.section),
    ("predictions", predictions.section),
    ("co-location", colocation.section),
    ("decisions", ledger.section),
    ("the queue", queue_and_energy.queue),
    ("energy", queue_and_energy.power),
    ("slow nodes", node_speeds.section),
    ("groups", groups.section),
    ("what is missing", missing.section),
)
DAY_S = 86400.0


def report_of(
    history: History,
    settings: Settings,
    *,
    since_s: float | None = None,
    until_s: float | None = None,
    account: str | None = None,
    users: str | None = None,
    now_s: float | None = None,
    for_reader: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Everything that any format shows; calls `progress` with each step. Raises HistoryError.

    `for_reader`: no number of a job that is not in `history` may be in it.
    """
    now_s = time.time() if now_s is None else now_s
    period = Period(
        since_s=0.0 if since_s is None else since_s,
        until_s=now_s + DAY_S if until_s is None else until_s,
        account=account,
    )
    people = UserNames(users or settings["report.users"])
    with_logarithm(history.conn)
    runs = select_runs(history, period, progress)
    context = ReportContext(
        history=history,
        period=period,
        people=people,
        now_s=now_s,
        prices=_prices(settings),
        for_reader=for_reader,
    )
    sections = []
    for what, section in SECTIONS:
        progress(what)
        sections.append(section(context))
    first, last = context.row("SELECT min(end_s), max(end_s) FROM period_runs")
    return Report(
        cluster=settings["site.cluster"],
        made_s=now_s,
        version=__version__,
        since_s=first if since_s is None else since_s,
        until_s=last if until_s is None else until_s,
        account=account,
        users=people.users,
        runs=runs,
        sections=tuple(sections),
    )


def _prices(settings: Settings) -> Prices:
    names = ("gpu_hour_prices", "core_hour_price", "currency")
    return Prices(*(settings[f"report.{name}"] for name in names))
