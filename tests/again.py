"""A second chance for a test, never a silent one.

Most tests run real processes, Slurm's daemons among them, and on a busy machine of two cores one in
thousands breaks some promise of time. It runs once more, in sandboxes made anew, and the last lines
of the run name it; after a few there is no second chance. Written here because
pytest-rerunfailures keeps a module's fixtures, the broken sandbox among them.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

MOST = 3  # failures after which nothing runs again: then it is no accident
TITLE = "FAILED, AND RUN AGAIN: passed or not the second time, look at these"
_ran_again: list[pytest.Item] = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A test that fails is run by pytest itself once more."""
    if item in _ran_again or len(_ran_again) >= MOST:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failed = [report for report in reports if report.failed]
    for report in failed:
        report.outcome = "rerun"  # type: ignore[assignment]  # a word of ours
    for report in failed or reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    if failed:
        _ran_again.append(item)
        _tear_everything_down(item)
        item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)
    return True


def _tear_everything_down(item: pytest.Item) -> None:
    """Sandboxes of module and session too: the first run may have broken them."""
    try:
        item.session._setupstate.teardown_exact(None)
    except (Exception, pytest.fail.Exception) as error:
        item.add_report_section("teardown", "before the second run", repr(error))


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """R among the dots."""
    return ("rerun", "R", "RERUN") if str(report.outcome) == "rerun" else None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Names every test that ran again, with what it said the first time."""
    reports: Sequence[pytest.TestReport] = terminalreporter.stats.get("rerun", [])
    if reports:
        terminalreporter.section(TITLE, sep="!", red=True, bold=True)
    for report in reports:
        terminalreporter.line(f"RERUN {report.nodeid} ({report.when})", red=True, bold=True)
        terminalreporter.line(report.longreprtext[-2000:])
