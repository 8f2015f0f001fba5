"""A hostile line of accounting costs itself: the honest lines around it come in."""

import io
import json
from base64 import b64encode
from gzip import compress
from pathlib import Path

from slurm_ext.cli.history.import_runs import MOST_CHARS, _split
from slurm_ext.history.imports.importing import AccountingSource, columns_of, import_lines
from slurm_ext.history.store.store import open_history
from slurm_ext.slurm.hostlist import expand

HEADER = "JobIDRaw|State|Submit|Start|End|NodeList|AdminComment"
HONEST = "7|COMPLETED|2026-10-01T09:00:00|2026-10-01T10:00:00|2026-10-01T11:00:00|n1|"


def imported(database: Path, *hostile: str) -> tuple[list[int], list[str]]:
    """Jobs in the history, and the refused lines, of hostile lines before an honest one."""
    lines = _split(io.StringIO("\n".join((HEADER, *hostile, HONEST))), "|")
    columns = columns_of("file", next(lines)[1])
    with open_history(database) as history:
        tally = import_lines(
            history, columns, lines, AccountingSource(cluster="c", names=expand), now_s=2e9
        )
        jobs = history.conn.execute("SELECT DISTINCT job_id FROM runs ORDER BY 1").fetchall()
    return [job for (job,) in jobs], tally.bad


def test_a_value_that_sqlite_refuses_costs_its_line(database: Path) -> None:
    """Such as half a character in jobstats' name of a GPU."""
    nodes = {"n1": {"gpu_utilization": {"\ud800": 5}}}
    packed = b64encode(compress(json.dumps({"nodes": nodes}).encode())).decode()
    jobs, bad = imported(database, HONEST.replace("7|", "6|", 1) + f"JS1:{packed}")
    assert jobs == [7]
    assert bad[0].startswith("line 2: SQLite refuses it: ")


def test_a_line_of_any_length_is_read_in_pieces(database: Path) -> None:
    """It is counted as refused; one just as long as allowed is read."""
    fits = HONEST.replace("7|", "6|", 1).ljust(MOST_CHARS - 1, "x")
    jobs, bad = imported(database, "x" * (3 * MOST_CHARS), fits, "y" * MOST_CHARS)
    assert jobs == [6, 7]
    assert bad == ["line 2: is too long", "line 4: is too long"]


def test_a_list_of_millions_of_nodes_is_refused(database: Path) -> None:
    """Its text is not repeated whole."""
    wide = HONEST.replace("n1", "n[1-9999999]")
    padded = HONEST.replace("n1", f"n[{'0' * 5000}1-99999]")
    jobs, bad = imported(database, wide, padded)
    assert jobs == [7]
    assert "names more than 100000 hosts" in bad[0]
    assert "is no range of hosts" in bad[1]
    assert len(bad[1]) < 200


def test_one_job_on_many_nodes_is_a_transaction_of_its_own(database: Path) -> None:
    """The history writer waits for 1,000 runs at most, or for one job's."""
    many = [HONEST.replace("7|", f"{number}|", 1).replace("n1", "n[1-600]") for number in (1, 2, 3)]
    jobs, _ = imported(database, *many)
    assert jobs == [1, 2, 3, 7]
