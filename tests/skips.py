"""A test may be skipped only for a reason on this list; any other fails the run, and is named.

A skip hides a promise that nobody checks. What contrib/packaging/setup.sh can install is not on the
list: run it. The last lines of a run count every reason.
"""

import re
from typing import Any

import pytest

# A pattern of the reason, and why no setup can do away with it.
MAY_SKIP: tuple[tuple[str, str], ...] = (
    (r"needs root", "an ordinary user may run the tests"),
    (r"needs two cores", "the machine has one"),
    (r"there is no Python (2\.7|3\.(8|9|12|13|14)) ", "Debian 12 brings 3.11 alone"),
    (r"needs (cgroup version 1|the freezer of cgroup v1)", "the kernel was booted with version 2"),
    (r"CPU quotas need", "the kernel was booted with cgroup version 2"),
    (r"no control group of version 2", "the kernel was booted with cgroup version 1"),
    (r"this kernel counts no control groups", "the kernel was built without"),
    (r"no hardware counters here", "a virtual machine often has none"),
    (r"perf\(1\) does not work here", "a container may forbid it"),
    (r"somebody else counts at this moment", "the counters of a CPU are few"),
    (r"is on no disk", "the folder of the tests is in memory, or on the network"),
    (r"the kernel counted \d+ bytes of 4 MiB", "the page cache held the file"),
    (r"no devices can be made here", "a container may forbid it"),
    (r"no overlay file system can be made here", "a container may forbid it"),
    (r"can be run by other users", "the interpreter lies in a home that is closed to others"),
    (r"the machine was so busy", "a training that Slurm's other jobs slowed down tells nothing"),
    (r"needs pyslurm|pyslurm is there", "it is built for one release of Slurm, and not by Debian"),
    (r"the (Philly trace|Pollux artifact) is not here", "published, not part of the tree"),
)
TITLE = "SKIPPED FOR A REASON THAT IS NOT IN tests/skips.py: run contrib/packaging/setup.sh"


def is_listed(reason: str) -> bool:
    """True if a test may be skipped for this reason."""
    return any(re.search(pattern, reason) for pattern, _ in MAY_SKIP)


def reason_of(report: Any) -> str:
    """The reason of a skipped test or file, without pytest's own words."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(text).removeprefix("Skipped: ")


def skips(config: pytest.Config) -> dict[str, list[str]]:
    """Skipped tests and files by reason, from all workers."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    places: dict[str, list[str]] = {}
    for report in terminal.stats.get("skipped", []):
        places.setdefault(reason_of(report), []).append(report.nodeid)
    return places


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that passed but for such skips; of pytest-xdist only the controller knows."""
    if hasattr(session.config, "workerinput") or session.exitstatus != pytest.ExitCode.OK:
        return
    if not all(map(is_listed, skips(session.config))):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Count the reasons; those that are not listed come last, in red, with their tests."""
    reasons = sorted(skips(config).items())
    if reasons:
        terminalreporter.section(f"{sum(len(places) for _, places in reasons)} skipped")
    for reason, places in reasons:
        if is_listed(reason):
            terminalreporter.line(f"{len(places)} skipped: {reason}")
    unlisted = [item for item in reasons if not is_listed(item[0])]
    if unlisted:
        terminalreporter.section(TITLE, sep="!", red=True, bold=True)
    for reason, places in unlisted:
        line = f"{len(places)} SKIPPED: {reason} ({', '.join(places[:3])})"
        terminalreporter.line(line, red=True, bold=True)
