"""The outcome of each test under one release, by pytest's own report."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from slurm_ext.core.errors import InputError

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
OUTCOMES = (FAILED, PASSED, SKIPPED)
_FOLDER = f"{Path(__file__).resolve().parents[3]}/"
_SAID = {"failure": FAILED, "error": FAILED, "skipped": SKIPPED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test; `why` is the first line of a failure's or a skip's message, without our folder."""

    file: str
    name: str
    outcome: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release's run: Slurm's `version`, the commit that was tested, and how long it took."""

    suite: str
    version: str
    commit: str
    seconds: float
    cases: Sequence[Case]

    def counts(self, file: str | None = None) -> Counter[str]:
        """Count outcomes, of one file or of all."""
        return Counter(one.outcome for one in self.cases if file in {None, one.file})

    def of(self, outcome: str) -> list[Case]:
        """List the tests with this outcome."""
        return [one for one in self.cases if one.outcome == outcome]


def read_cases(report: Path) -> list[Case]:
    """Read a JUnit report; a test that was run again counts as it ended. Raises InputError."""
    try:
        suites = ET.parse(report).getroot()
    except (OSError, ET.ParseError) as error:
        raise InputError(str(report), f"is no JUnit report: {error}") from None
    ended = {(case.file, case.name): case for case in _cases(suites)}
    return sorted(ended.values(), key=lambda case: (case.file, case.name))


def _cases(suites: ET.Element) -> Iterator[Case]:
    for element in suites.iter("testcase"):
        said = next((child for child in element if child.tag in _SAID), None)
        lines = ("" if said is None else said.get("message") or said.text or "").splitlines()
        yield Case(
            file=element.get("classname", "").replace(".", "/") + ".py",
            name=element.get("name", ""),
            outcome=PASSED if said is None else _SAID[said.tag],
            why=lines[0].strip().replace(_FOLDER, "") if lines else "",
        )
