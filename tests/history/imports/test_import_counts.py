"""An import counts every line once, tells the first bad ones, and says what a file lacks."""

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.history.imports import importing
from slurm_ext.history.imports.importing import (
    BAD,
    MOST_LISTED,
    AccountingSource,
    ImportCounts,
    Line,
    columns_of,
    import_lines,
)
from slurm_ext.history.imports.sacct import COLUMNS
from slurm_ext.history.ingest.insert import SAME_END_S
from slurm_ext.history.store.store import History, open_history
from tests.history.conftest import add_run

NAMES = ("JobIDRaw", "State", "Submit", "Start", "End", "NodeList", "JobName")
END_S = 5000.0


def nodes(text: str) -> tuple[str, ...]:
    """Nodes of a list without brackets."""
    return tuple(text.split(",")) if text else ()


SITE = AccountingSource(cluster="here", names=nodes, zone=UTC)


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """An empty one."""
    with open_history(tmp_path / "history.db") as found:
        yield found


def line(number: int, job: str = "7", **columns: str) -> Line:
    """A job of an hour's waiting and as much running, that ended at END_S."""
    ended = {"Submit": "1000", "Start": "3000", "End": "5000", "State": "COMPLETED"}
    known = {**ended, "JobIDRaw": job, "NodeList": "n1", **columns}
    return number, [known.get(name, "") for name in NAMES]


def taken(history: History, *lines: Line, site: AccountingSource = SITE) -> ImportCounts:
    """Counts of these lines."""
    return import_lines(history, NAMES, lines, site, now_s=9e3)


def test_the_first_bad_lines_are_listed_and_all_are_counted() -> None:
    """MOST_LISTED of them; those of other parts come after."""
    assert MOST_LISTED == 20
    counts = ImportCounts()
    for number in range(1, 23):
        counts.refuse(number, f"w{number}")
    assert counts.skipped == {"lines that are not sacct's": 22}
    assert counts.bad == [f"line {number}: w{number}" for number in range(1, 21)]


def test_parts_of_an_import_are_added_up() -> None:
    """Each count to its own; of the bad lines the first ones stay."""
    one = ImportCounts(jobs=1, runs=2, known=3, bad=["a"] * 19)
    one.skipped["s"], one.notes["n"] = 4, 5
    two = ImportCounts(jobs=10, runs=20, known=30, bad=["b"] * 3)
    two.skipped["s"], two.notes["n"] = 40, 50
    one.add(two)
    assert (one.jobs, one.runs, one.known) == (11, 22, 33)
    assert (one.skipped, one.notes) == ({"s": 44}, {"n": 55})
    assert one.bad == [*["a"] * 19, "b"]


def test_columns_may_have_any_order_and_spaces() -> None:
    """What is not needed may lack; what is needed is named, all of it, with the command."""
    header = ["End ", "Other", " Start", "Submit", "State", "JobIDRaw"]
    assert columns_of("f", header) == ("End", "Other", "Start", "Submit", "State", "JobIDRaw")
    with pytest.raises(InputError) as error:
        columns_of("old.txt", ["State", "Submit", "End"])
    wanted = f"has no column JobIDRaw, Start; write it by: sacct -aXP -o {','.join(COLUMNS)}"
    assert str(error.value) == f"old.txt:1: {wanted}"


def test_a_line_of_another_width_is_refused(history: History) -> None:
    """More or fewer fields than the header; the rest of the file is read."""
    number, fields = line(3)
    counts = taken(history, line(2, "6"), (number, fields[:-1]), (4, [*fields, ""]), line(5))
    assert counts.bad == [
        "line 3: 6 fields where the header has 7",
        "line 4: 8 fields where the header has 7",
    ]
    assert (counts.jobs, counts.runs, counts.skipped) == (2, 2, {BAD: 2})


def test_what_is_not_utf_8_is_kept_readable(history: History) -> None:
    """Half characters, as Python reads them from a file, become escapes."""
    taken(history, line(2, JobName="tr\udce9in"))
    assert history.conn.execute("SELECT job_name FROM runs").fetchone() == ("tr\\udce9in",)


@pytest.mark.parametrize(("oldest_s", "jobs"), [(END_S, 1), (END_S + 1, 0)])
def test_a_run_that_ended_at_retentions_bound_is_taken(
    history: History, oldest_s: float, jobs: int
) -> None:
    """One that ended before it is not, and says so."""
    site = AccountingSource(cluster="here", names=nodes, oldest_s=oldest_s)
    counts = taken(history, line(2), site=site)
    reason = {} if jobs else {"older than history.retention_days": 1}
    assert (counts.jobs, counts.skipped) == (jobs, reason)


@pytest.mark.parametrize(
    ("columns", "jobs"),
    [
        ({}, 0),
        ({"end_s": END_S + SAME_END_S - 1}, 0),
        ({"end_s": END_S - SAME_END_S + 1}, 0),
        ({"end_s": END_S + SAME_END_S}, 1),
        ({"end_s": END_S - SAME_END_S}, 1),
        ({"job_id": 8}, 1),
        ({"cluster": "there"}, 1),
        ({"source": "sacct"}, 1),
    ],
)
def test_a_run_of_dlqueues_own_stands(
    history: History, columns: dict[str, object], jobs: int
) -> None:
    """The same job of the same cluster with the same end, by two clocks, which nodes recorded."""
    own = {"job_id": 7, "cluster": "here", "end_s": END_S, "source": "node"}
    with history.transaction() as conn:
        add_run(conn, 1, **{**own, **columns})
    counts = taken(history, line(2))
    reason = {} if jobs else {"recorded by dlqueue itself": 1}
    assert (counts.jobs, counts.runs, counts.known, counts.skipped) == (jobs, jobs, 0, reason)


def test_a_job_is_known_when_all_its_runs_are(history: History) -> None:
    """One node's run that was not there makes it a job taken, with one run."""
    assert taken(history, line(2, NodeList="n1")).runs == 1
    counts = taken(history, line(2, NodeList="n1,n2"))
    assert (counts.jobs, counts.runs, counts.known) == (1, 1, 0)
    counts = taken(history, line(2, NodeList="n1,n2"))
    assert (counts.jobs, counts.runs, counts.known) == (0, 0, 1)


def test_progress_after_each_batch(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the number of its last line, once what it holds is committed."""
    assert importing.BATCH == 1000
    monkeypatch.setattr(importing, "BATCH", 2)
    seen: list[tuple[int, int, bool]] = []

    def on_batch(number: int, counts: ImportCounts) -> None:
        seen.append((number, counts.jobs, history.conn.in_transaction))

    lines = [line(number, str(number)) for number in range(2, 7)]
    import_lines(history, NAMES, lines, SITE, now_s=9e3, on_batch=on_batch)
    assert seen == [(3, 2, False), (5, 4, False), (6, 5, False)]
    assert history.conn.execute("SELECT min(ingested_s), max(ingested_s) FROM runs").fetchone() == (
        9e3,
        9e3,
    )


def test_reasons_are_counted_job_by_job(history: History) -> None:
    """Each line that is not taken adds one to its reason, whichever came before."""
    for number, job_id in ((1, 7), (2, 8)):
        add_run(history.conn, number, job_id=job_id, cluster="here", end_s=END_S)
    running = {"State": "RUNNING"}
    lines = [line(2, "7"), line(3, "8"), line(4, "9", **running), line(5, "10", **running)]
    counts = taken(history, *lines, line(6, "11.0"), line(7, "12.0"), line(8, "13"))
    assert counts.skipped == {
        "recorded by dlqueue itself": 2,
        "not ended yet": 2,
        "steps of jobs": 2,
    }
    assert (counts.jobs, counts.runs, counts.known, counts.bad) == (1, 1, 0, [])
    again = taken(history, line(2, "13"), line(3, "13"))
    assert (again.jobs, again.known) == (0, 2)
