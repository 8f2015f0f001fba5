"""What accounting knows of earlier jobs becomes runs, each once; every line is accounted for."""

import gzip
import json
from base64 import b64encode
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_ext.core.errors import InputError
from slurm_ext.history.imports import importing, jobstats
from slurm_ext.history.imports.importing import (
    AccountingSource,
    ImportCounts,
    columns_of,
    import_lines,
)
from slurm_ext.history.imports.sacct import COLUMNS
from slurm_ext.history.ingest.insert import Inserter
from slurm_ext.history.ingest.rows import rows_of
from slurm_ext.history.store.store import History, open_history
from slurm_ext.slurm.hostlist import expand

SITE = AccountingSource(cluster="here", names=expand, zone=UTC)
JOB = {
    "JobIDRaw": "101",
    "JobID": "90_3",
    "State": "COMPLETED",
    "Submit": "2026-10-01T10:00:00",
    "Start": "2026-10-01T10:05:00",
    "End": "2026-10-01T11:05:00",
    "JobName": "train",
    "User": "ada",
    "Timelimit": "1-02:00:00",
    "NCPUS": "8",
    "NNodes": "2",
    "AllocTRES": "billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=32G,node=2",
    "NodeList": "n[1-2]",
    "TotalCPU": "03:00:00",
    "ExitCode": "3:0",
}
SUMMARY = {
    "gpus": 2,
    "total_time": 3600,
    "nodes": {
        "n1": {"total_time": 100.5, "used_memory": 7, "gpu_utilization": {"0": 98.5, "1": 0}},
        "n2": {"total_time": 50, "cpus": 4},
    },
}


def packed(summary: object) -> str:
    """As jobstats writes it."""
    return "JS1:" + b64encode(gzip.compress(json.dumps(summary).encode())).decode()


@pytest.fixture
def history(tmp_path: Path) -> History:
    """An empty one."""
    return open_history(tmp_path / "history.db")


def taken(history: History, *jobs: dict[str, str], site: AccountingSource = SITE) -> ImportCounts:
    """What comes of these jobs, each a line."""
    lines = [(n, [job.get(name, "") for name in COLUMNS]) for n, job in enumerate(jobs, 2)]
    return import_lines(history, COLUMNS, lines, site, now_s=2e9)


def rows(history: History, columns: str) -> list[tuple[object, ...]]:
    """Of all runs."""
    return history.conn.execute(f"SELECT {columns} FROM runs ORDER BY id").fetchall()


def counted(history: History) -> dict[tuple[str, str, str], float]:
    """(node, name, source) → value."""
    sql = (
        "SELECT r.node, n.name, n.source, c.value FROM counters c"
        " JOIN counter_names n ON n.id = c.counter JOIN runs r ON r.id = c.run"
    )
    return {(node, name, source): value for node, name, source, value in history.conn.execute(sql)}


def test_a_job_is_one_run_on_each_of_its_nodes(history: History) -> None:
    """Cores, memory, GPUs and CPU time are laid to the nodes; names and times are the job's."""
    tally = taken(history, JOB)
    assert (tally.jobs, tally.runs, tally.known) == (1, 2, 0)
    gib = 1 << 30
    assert rows(history, "node, cpus, gpus, mem_bytes, num_nodes") == [
        ("n1", 4, 1, 16 * gib, 2),
        ("n2", 4, 1, 16 * gib, 2),
    ]
    first = rows(history, "job_id, array_job_id, array_task_id, cluster, user, job_name")[0]
    assert first == (101, 90, 3, "here", "ada", "train")
    assert rows(history, "state, exit_code, elapsed_s, time_limit_s, start_s - submit_s")[0] == (
        "COMPLETED",
        3,
        3600.0,
        26 * 3600.0,
        300.0,
    )
    assert counted(history)["n2", "cpu_user", "sacct/TotalCPU"] == 5400.0


def test_a_second_time_nothing_is_new(history: History) -> None:
    """However often an import is stopped and begun again."""
    taken(history, JOB)
    tally = taken(history, JOB, {**JOB, "JobIDRaw": "102"})
    assert (tally.jobs, tally.known) == (1, 1)
    assert len(rows(history, "id")) == 4


def test_what_jobstats_measured_counts_before_sacct(history: History) -> None:
    """CPU time, memory and GPUs of each node; what its summary lacks is not invented."""
    taken(history, {**JOB, "AdminComment": packed(SUMMARY)})
    assert counted(history) == {
        ("n1", "cpu_user", "jobstats"): 100.5,
        ("n1", "mem_peak", "jobstats"): 7.0,
        ("n1", "gpu_util", "jobstats/gpu0"): 0.985,
        ("n1", "gpu_util", "jobstats/gpu1"): 0.0,
        ("n2", "cpu_user", "jobstats"): 50.0,
    }


@pytest.mark.parametrize(
    "comment",
    [
        "JS1:!!!",
        "JS1:aGVsbG8=",
        packed([]),
        packed({"nodes": 3}),
        packed({"nodes": {"n1": 3}}),
        "JS1:" + b64encode(gzip.compress(b"[" * 100_000)).decode(),
        "JS1:" + b64encode(gzip.compress(b" " * (jobstats.MOST_BYTES + 9))).decode(),
    ],
    ids=["base64", "gzip", "list", "nodes", "node", "deep", "bomb"],
)
def test_a_damaged_summary_costs_only_itself(history: History, comment: str) -> None:
    """The job is taken, with sacct's own figure, and the summary is counted as unread."""
    tally = taken(history, {**JOB, "AdminComment": comment})
    assert (tally.jobs, sum(tally.notes.values())) == (1, 1)
    assert ("n1", "cpu_user", "sacct/TotalCPU") in counted(history)


@pytest.mark.parametrize(
    ("said", "joules"),
    [
        ({"ConsumedEnergyRaw": "7200000"}, 3.6e6),
        ({"ConsumedEnergyRaw": "7200000", "ConsumedEnergy": "7.20M", "AdminComment": ""}, 3.6e6),
        ({"ConsumedEnergyRaw": "", "ConsumedEnergy": "12.35M"}, 6.175e6),
        ({"AllocTRES": "cpu=8,energy=5000,mem=32G"}, 2500.0),
        ({"ConsumedEnergyRaw": "800", "AdminComment": packed(SUMMARY)}, 400.0),
        ({}, None),
        ({"ConsumedEnergyRaw": "0"}, None),
        ({"ConsumedEnergyRaw": "0", "ConsumedEnergy": "0"}, None),
        ({"ConsumedEnergyRaw": "18446744073709551614"}, None),
        ({"AllocTRES": "cpu=8,energy=18446744073709551614,mem=32G"}, None),
    ],
)
def test_energy_is_taken_where_slurm_measured_it(
    history: History, said: dict[str, str], joules: float | None
) -> None:
    """Joules of the whole node, an equal part each; 0 and Slurm's `no value` are none at all."""
    columns = (*COLUMNS, "ConsumedEnergy")
    lines = [(2, [{**JOB, **said}.get(name, "") for name in columns])]
    assert import_lines(history, columns, lines, SITE, now_s=2e9).jobs == 1
    assert rows(history, "node_energy_j, gpu_energy_j") == [(joules, None)] * 2


@pytest.mark.parametrize("text", ["-5", "12 J", "1e9", "N/A", "٣"])
def test_what_is_no_energy_is_told_with_its_line(history: History, text: str) -> None:
    """The job is not taken with a figure that nobody can read."""
    tally = taken(history, {**JOB, "ConsumedEnergyRaw": text})
    assert (tally.jobs, rows(history, "id")) == (0, [])
    assert "line 2: ConsumedEnergyRaw is" in tally.bad[0]
    assert "expected joules" in tally.bad[0]


@pytest.mark.parametrize("comment", ["", "JS1:None", "JS1:Short", "a word of the site's"])
def test_no_summary_is_no_fault(history: History, comment: str) -> None:
    """Jobs too short for jobstats, and comments of others."""
    assert not taken(history, {**JOB, "AdminComment": comment}).notes


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"JobIDRaw": "101.batch"}, "steps of jobs"),
        ({"State": "RUNNING", "End": "Unknown"}, "not ended yet"),
        ({"State": "PENDING", "Start": "Unknown", "End": "Unknown"}, "not ended yet"),
        ({"State": "CANCELLED by 0", "Start": "None"}, "never ran"),
        ({"End": JOB["Start"], "NodeList": "None assigned"}, "never ran"),
    ],
)
def test_what_is_no_ended_run_is_counted_with_its_reason(
    history: History, changes: dict[str, str], reason: str
) -> None:
    """Nothing is dropped without a word."""
    tally = taken(history, {**JOB, **changes})
    assert tally.skipped == {reason: 1}
    assert not tally.bad


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"JobIDRaw": "x"}, "JobIDRaw is 'x'"),
        ({"Submit": "yesterday"}, "Submit is 'yesterday': expected"),
        ({"Submit": "2026-10-02T10:00:00"}, "out of order"),
        ({"NCPUS": "-3"}, "NCPUS is '-3'"),
        ({"AllocTRES": "cpu"}, "is not a TRES list"),
        ({"AllocTRES": "mem=many"}, "many"),
        ({"NodeList": "n[1-"}, "no list of hosts"),
        ({"JobIDRaw": "9" * 30}, "job_id is not within"),
        ({"Timelimit": "soon"}, "soon"),
    ],
)
def test_a_bad_line_is_named_and_the_rest_taken(
    history: History, changes: dict[str, str], said: str
) -> None:
    """With its number and what is wrong with it."""
    tally = taken(history, {**JOB, **changes}, {**JOB, "JobIDRaw": "102"})
    assert (tally.jobs, tally.skipped) == (1, {importing.BAD: 1})
    assert tally.bad[0].startswith("line 2: ")
    assert said in tally.bad[0]


def test_a_run_that_dlqueue_saw_itself_is_not_taken_again(history: History) -> None:
    """Its own record has more in it; the same number, a year later, is another job."""
    taken(history, JOB)
    history.conn.execute("UPDATE runs SET source = 'epilog', record_id = 'own-' || node")
    again = {**JOB, **{k: JOB[k].replace("2026", "2027") for k in ("Submit", "Start", "End")}}
    tally = taken(history, JOB, again)
    assert tally.skipped == {importing.BY_DLQUEUE: 1}
    assert tally.jobs == 1


def test_a_record_that_comes_after_the_import_takes_its_place(history: History) -> None:
    """A node that ships late: its job is there once, as the node saw it, on each of its nodes."""
    taken(history, JOB, {**JOB, "JobIDRaw": "102"})
    end_s = rows(history, "end_s")[0][0]
    own = {
        "record_id": "here-101-0-n1",
        "identity": {"cluster": "here", "job_id": 101, "restart": 0, "node": "n1"},
        "times": {"end_s": end_s},
        "outcome": {"state": "COMPLETED", "source": "epilog"},
        "allocation": {},
        "host": {},
        "probe": {},
        "counters": [],
        "corunners": [],
    }
    with history.transaction() as conn:
        Inserter(conn).put(rows_of(own), 2e9)
    assert rows(history, "job_id, source") == [(102, "sacct"), (102, "sacct"), (101, "epilog")]
    assert ("n1", "cpu_user", "sacct/TotalCPU") in counted(history)


def test_a_job_is_known_in_either_spelling_of_its_cluster(history: History) -> None:
    """Slurm makes small letters of its cluster's name; the job is taken once, before or after."""
    site = AccountingSource(cluster="Here", names=expand, zone=UTC)
    slurms = {**JOB, "Cluster": "here"}
    taken(history, slurms, site=site)
    ids = {("Here", "sacct-here-101-1790849100-n1"), ("Here", "sacct-here-101-1790849100-n2")}
    assert set(rows(history, "cluster, record_id")) == ids  # the names of earlier imports
    history.conn.execute("UPDATE runs SET source = 'epilog', record_id = 'own-' || node")
    tally = taken(history, slurms, {**slurms, "Cluster": "there"}, site=site)
    assert (tally.jobs, tally.skipped) == (1, {importing.BY_DLQUEUE: 1})
    assert {cluster for (cluster,) in rows(history, "cluster")} == {"Here", "there"}


def test_what_retention_would_remove_is_not_taken(history: History) -> None:
    """It says so, instead of taking and forgetting it."""
    site = AccountingSource(cluster="here", names=expand, zone=UTC, oldest_s=1.9e9)
    assert taken(history, JOB, site=site).skipped == {importing.TOO_OLD: 1}


def test_a_header_that_lacks_a_column_says_how_to_write_the_file() -> None:
    """The missing ones, and sacct's own command line."""
    with pytest.raises(InputError, match=r"old.txt:1: has no column End; .*sacct -aXP -o JobIDRaw"):
        columns_of("old.txt", ["JobIDRaw", "State", "Submit", "Start"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=12), min_size=len(COLUMNS), max_size=len(COLUMNS)))
def test_no_line_whatever_is_in_it_stops_an_import(
    tmp_path_factory: pytest.TempPathFactory, fields: list[str]
) -> None:
    """It is taken, or counted."""
    with open_history(tmp_path_factory.getbasetemp() / "any.db") as history:
        tally = import_lines(history, COLUMNS, [(2, fields)], SITE, now_s=2e9)
    assert tally.jobs + tally.known + sum(tally.skipped.values()) == 1


@given(st.text())
def test_no_comment_stops_an_import(comment: str) -> None:
    """A summary, none, or one that cannot be read."""
    try:
        assert isinstance(jobstats.summary_of("JS1:" + comment), dict)
    except jobstats.NoSummaryError:
        return
