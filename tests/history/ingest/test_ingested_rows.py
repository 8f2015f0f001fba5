"""Rows of a run record: states, neighbours, bounds and energy."""

import json
import zlib
from typing import Any

import pytest

from slurm_ext.history.ingest import rows
from slurm_ext.history.ingest.insert import IngestResult, Inserter, apply_final_state
from slurm_ext.history.ingest.quarantine import note_quarantined, quarantine
from slurm_ext.history.store.store import History
from tests.history.conftest import Spool, add_run


def test_the_final_state_of_all_of_a_jobs_nodes(history: History) -> None:
    """Of this try only; how many changed."""
    for number, (restart, state, source) in enumerate(
        (
            (0, "COMPLETED", "node"),
            (0, "FAILED", "node"),
            (0, "COMPLETED", "epilog"),
            (1, "COMPLETED", "node"),
        ),
        1,
    ):
        add_run(history.conn, number, job_id=7, restart=restart, state=state, source=source)
    add_run(history.conn, 5, job_id=8, source="node")
    assert apply_final_state(history, 7, 0, slurm="FAILED") == 1
    states = [state for (state,) in history.conn.execute("SELECT state FROM runs ORDER BY id")]
    assert states == ["FAILED", "FAILED", *["COMPLETED"] * 3]
    assert apply_final_state(history, 7, 0, slurm="CANCELLED") == 3
    assert apply_final_state(history, 7, 0, slurm="CANCELLED") == 0
    assert apply_final_state(history, 9, 0, slurm="CANCELLED") == 0


def test_the_final_state_is_that_of_the_runs_own_start(history: History) -> None:
    """Not of one that had ended before, under a number that Slurm gave again."""
    for number, (start_s, end_s) in enumerate(((10.0, 20.0), (10.0, 29.0), (40.0, 35.0)), 1):
        add_run(history.conn, number, job_id=7, state="FAILED", start_s=start_s, end_s=end_s)
    add_run(history.conn, 4, job_id=7, state="FAILED", start_s=None, end_s=None)
    assert apply_final_state(history, 7, 0, 30.0, slurm="CANCELLED") == 3
    rows_of_7 = history.conn.execute("SELECT id FROM runs WHERE state = 'FAILED'").fetchall()
    assert rows_of_7 == [(1,)]


def test_an_imported_end_stays(history: History) -> None:
    """It is Slurm's word already, and may be that of another cluster's job of the same number."""
    add_run(history.conn, 1, job_id=7, source="node")
    add_run(history.conn, 2, job_id=7, source="sacct", cluster="gpu", state="FAILED")
    assert apply_final_state(history, 7, 0, slurm="TIMEOUT") == 1
    states = [state for (state,) in history.conn.execute("SELECT state FROM runs ORDER BY id")]
    assert states == ["TIMEOUT", "FAILED"]


@pytest.mark.parametrize(
    ("first", "second", "state", "result"),
    [
        (("reconcile", "TIMEOUT"), ("epilog", "FAILED"), "TIMEOUT", "replaced"),
        (("reconcile", "FAILED"), ("epilog", "COMPLETED"), "COMPLETED", "replaced"),
        (("reconcile", "UNKNOWN"), ("node", "FAILED"), "FAILED", "replaced"),
        (("node", "COMPLETED"), ("epilog", "FAILED"), "FAILED", "replaced"),
        (("epilog", "FAILED"), ("reconcile", "TIMEOUT"), "TIMEOUT", "duplicate"),
        (("epilog", "FAILED"), ("node", "TIMEOUT"), "FAILED", "duplicate"),
        (("node", "FAILED"), ("node", "TIMEOUT"), "FAILED", "duplicate"),
        (("other", "FAILED"), ("node", "TIMEOUT"), "TIMEOUT", "replaced"),
        (("torn", "UNKNOWN"), ("reconcile", "TIMEOUT"), "TIMEOUT", "replaced"),
        (("reconcile", "TIMEOUT"), ("torn", "UNKNOWN"), "TIMEOUT", "duplicate"),
    ],
)
def test_two_witnesses_of_one_run(
    history: History,
    spool: Spool,
    first: tuple[str, str],
    second: tuple[str, str],
    state: str,
    result: str,
) -> None:
    """The nearer to its end is kept; what Slurm saw of it counts, whichever came first.

    A node whose notes were torn knows less than Slurm: not even whose job it was.
    """
    inserter = Inserter(history.conn)
    results = []
    for source, seen in (first, second):
        whose: dict[str, Any] = {"uid": None, "user": None} if source == "torn" else {}
        outcome = {"source": "node" if source == "torn" else source, "state": seen}
        body = json.loads(spool(outcome=outcome, identity=whose).read_text())
        results.append(inserter.put(rows.rows_of(body), 1.0))
    assert results == [IngestResult.TAKEN, result]
    assert history.conn.execute("SELECT state FROM runs").fetchall() == [(state,)]


@pytest.mark.parametrize(
    ("start_s", "end_s", "source", "state", "result"),
    [
        (1000.0, 1009.0, "epilog", "REQUEUED", "duplicate"),  # the same once more
        (1010.0, 1030.0, "epilog", "REQUEUED", "duplicate"),  # within what two clocks may differ
        (1013.0, 1030.0, "epilog", "COMPLETED", "replaced"),
        (1013.0, 1030.0, "reconcile", "COMPLETED", "replaced"),
        (1013.0, 1030.0, "sacct", "REQUEUED", "duplicate"),  # imported: nodes' own are kept
        (None, 1030.0, "epilog", "REQUEUED", "duplicate"),  # nobody knows
    ],
)
def test_a_number_that_slurm_gave_again(
    history: History,
    spool: Spool,
    start_s: float | None,
    end_s: float,
    source: str,
    state: str,
    result: str,
) -> None:
    """A slurmctld that lost its state forgot the first run: the later one has the number."""
    inserter = Inserter(history.conn)
    first = {"outcome": {"source": "epilog", "state": "REQUEUED"}}
    second = {"outcome": {"source": source, "state": "COMPLETED"}}
    results = []
    for start, end, told in ((1000.0, 1010.0, first), (start_s, end_s, second)):
        body = json.loads(spool(times={"start_s": start, "end_s": end}, **told).read_text())
        results.append(inserter.put(rows.rows_of(body), 1.0))
    assert results == [IngestResult.TAKEN, result]
    assert history.conn.execute("SELECT state FROM runs").fetchall() == [(state,)]


@pytest.mark.parametrize(
    ("start_s", "result"), [(1013.0, "duplicate"), (1300.0, "duplicate"), (1311.0, "replaced")]
)
def test_a_node_whose_clock_is_behind_keeps_its_evidence(
    history: History, spool: Spool, start_s: float, result: str
) -> None:
    """Slurm's word of the same short run comes with Slurm's times, and says less."""
    inserter = Inserter(history.conn)
    for start, source, expected in ((1000.0, "epilog", "taken"), (start_s, "reconcile", result)):
        told = {"times": {"start_s": start, "end_s": start + 10}}
        body = json.loads(
            spool(outcome={"source": source, "state": "COMPLETED"}, **told).read_text()
        )
        assert inserter.put(rows.rows_of(body), 1.0) == expected


def test_a_clock_that_was_set_back_makes_no_second_run(history: History, spool: Spool) -> None:
    """A run that ends before it starts is known by its start."""
    for source, result in (
        ("epilog", "taken"),
        ("epilog", "duplicate"),
        ("reconcile", "duplicate"),
    ):
        told: dict[str, Any] = {"times": {"start_s": 5000.0, "end_s": 1400.0}}
        body = json.loads(spool(outcome={"source": source, "state": "FAILED"}, **told).read_text())
        assert Inserter(history.conn).put(rows.rows_of(body), 1.0) == result


@pytest.mark.parametrize(
    ("late", "state"),
    [("UNKNOWN", "COMPLETED"), ("FAILED", "FAILED"), ("REQUEUED", "REQUEUED")],
)
def test_a_node_that_is_late_takes_the_jobs_end(
    history: History, spool: Spool, late: str, state: str
) -> None:
    """Only a job's first node asks Slurm, and Slurm may have forgotten the job since."""
    for node, seen in (("n1", "COMPLETED"), ("n2", late)):
        path = spool(
            record_id=f"cluster-1042-0-{node}",
            identity={"node": node},
            allocation={"num_nodes": 2},
            outcome={"source": "epilog", "state": seen},
        )
        Inserter(history.conn).put(rows.rows_of(json.loads(path.read_text())), 1.0)
    states = history.conn.execute("SELECT node, state FROM runs ORDER BY node").fetchall()
    assert states == [("n1", "COMPLETED"), ("n2", state)]


def test_a_late_node_of_a_cancelled_job(history: History, spool: Spool) -> None:
    """Its own word is that of before Slurm was asked; another try's end is none of its."""
    ends = (("n1", 0, "CANCELLED"), ("n2", 0, "FAILED"), ("n2", 1, "UNKNOWN"))
    for node, restart, seen in ends:
        path = spool(
            record_id=f"cluster-1042-{restart}-{node}",
            identity={"node": node, "restart": restart},
            allocation={"num_nodes": 2},
            outcome={"source": "epilog", "state": seen},
        )
        Inserter(history.conn).put(rows.rows_of(json.loads(path.read_text())), 1.0)
    states = [state for (state,) in history.conn.execute("SELECT state FROM runs ORDER BY id")]
    assert states == ["CANCELLED", "CANCELLED", "UNKNOWN"]


@pytest.mark.parametrize(
    ("source", "allocation", "held"),
    [
        ("epilog", {}, (32, 2 << 30)),  # of a node that wrote the whole job's
        ("node", {"mem_bytes": None}, (32, None)),
        ("epilog", {"of_node": True}, (128, 8 << 30)),
        ("epilog", {"num_nodes": 1}, (128, 8 << 30)),
        ("epilog", {"cpus": 3}, (1, 2 << 30)),
        ("sacct", {}, (128, 8 << 30)),
    ],
)
def test_a_node_of_before_wrote_what_the_whole_job_had(
    history: History,
    spool: Spool,
    source: str,
    allocation: dict[str, Any],
    held: tuple[int | None, int | None],
) -> None:
    """Nodes are updated one after the other: records say whose CPUs and memory they have."""
    told = {"of_node": False, "num_nodes": 4, "cpus": 128, "mem_bytes": 8 << 30, **allocation}
    path = spool(allocation=told, outcome={"source": source, "state": "COMPLETED"})
    Inserter(history.conn).put(rows.rows_of(json.loads(path.read_text())), 1.0)
    assert history.conn.execute("SELECT cpus, mem_bytes FROM runs").fetchall() == [held]


def test_a_file_that_is_set_aside(history: History) -> None:
    """Its name keeps plain letters, inode and time; the note says where it was, and why."""
    path = history.path.parent / ("we ird\u00e9" + "x" * 200)
    path.write_bytes(b"12345")
    found = path.stat()
    quarantine(history, path, "torn", "d1g", now_s=3.0)
    quarantine(history, path, "torn", "d1g", now_s=4.0)
    name = f"we_ird_{'x' * 113}-{found.st_ino}-{found.st_mtime_ns}"
    assert history.conn.execute("SELECT * FROM set_aside").fetchall() == [
        (name, str(path), "torn", "d1g", 5, 3.0, None)
    ]
    folder = history.path.parent / "aside"
    assert (folder / name).read_bytes() == b"12345"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_first_reason_stays(history: History) -> None:
    """A note of the same name changes nothing; half characters become escapes."""
    with history.transaction() as conn:
        note_quarantined(conn, "n", "s\udcff", "r\ud800", None, None, 1.0)
        note_quarantined(conn, "n", "t", "u", "v", 2, 3.0)
    wanted = [("n", "s\\udcff", "r\\ud800", None, None, 1.0, None)]
    assert history.conn.execute("SELECT * FROM set_aside").fetchall() == wanted


@pytest.mark.parametrize(
    ("columns", "shared"),
    [
        ((None, None, None), None),
        ((0, None, None), {"cpus": 0, "sockets": None, "gpus": None}),
        ((None, 0, None), {"cpus": None, "sockets": 0, "gpus": None}),
        ((None, None, ""), {"cpus": None, "sockets": None, "gpus": []}),
        ((1, 2, "G,H"), {"cpus": 1, "sockets": 2, "gpus": ["G", "H"]}),
    ],
)
def test_what_two_jobs_had_in_common(columns: Any, shared: dict[str, Any] | None) -> None:
    """The columns say it as the record did; nothing in common is not the same as not known."""
    assert rows.shared_resources(*columns) == shared
    found = rows.corunner_row({"job_id": 7, "overlap_s": 2.5, "shared": shared})
    assert found == (7, 2.5, *columns)
    assert rows.corunner_row({"job_id": 7}) == (7, None, None, None, None)


def test_names_of_gpus_stay_within_bounds() -> None:
    """Eighty characters, sixteen kinds, each once; a comma would part one into two."""
    long = rows.corunner_row({"job_id": 7, "shared": {"gpus": ["a,b", "x" * 81]}})
    assert long[-1] == "a_b," + "x" * 80
    assert rows._gpu_models(["b", "a", "b", "c" * 81]) == f"a + b + {'c' * 80}"
    assert rows._gpu_models([f"{n:02d}" for n in range(17)]).count(" + ") == 15


@pytest.mark.parametrize(("extra", "kept"), [(0, True), (1, False)])
def test_a_share_of_mps_stays_within_bounds(spool: Spool, extra: int, kept: bool) -> None:
    """16 KiB of JSON; the run counts all the same."""
    body = json.loads(spool().read_text())
    mps = {"g": "x" * (16 * 1024 - len(json.dumps({"g": ""})) + extra)}
    run = rows.rows_of({**body, "mps": mps}).run
    assert run.mps == (json.dumps(mps) if kept else None)
    assert run.record_id == body["record_id"]


def test_lists_of_a_record_are_counted(spool: Spool) -> None:
    """GPUs as a list or as their number, for the run and its loader alike; none is none."""
    body = json.loads(spool(allocation={"gpus": ["0", "1"]}, host={"gpus": ["B", "A"]}).read_text())
    run = rows.rows_of(body).run
    assert (run.gpus, run.node_gpus, run.node_gpu_model) == (2, 2, "A + B")
    body["allocation"]["gpus"], body["host"]["gpus"] = 3, []
    found = rows.rows_of(body)
    assert (found.run.gpus, found.run.node_gpus, found.run.node_gpu_model) == (3, 0, None)
    assert found.loader is not None
    assert found.loader.gpus == 3
    body["allocation"]["gpus"] = None
    found = rows.rows_of(body)
    assert found.loader is not None
    assert (found.run.gpus, found.loader.gpus) == (None, 0)


def test_energy_adds_up_what_belongs_together() -> None:
    """GPUs to GPUs, parts of the node to one sum; the board's own counts first; 0 is measured."""

    def energy(**joules: float | None) -> tuple[float | None, float | None]:
        return rows.energy_of(((name, "J", "s"), value) for name, value in joules.items())

    assert energy() == (None, None)
    assert energy(gpu_energy=0.0, node_energy_cpu=1.0, node_energy_dram=2.0) == (0.0, 3.0)
    assert energy(node_energy_cpu=1.0, node_energy_all=0.0) == (None, 0.0)
    assert energy(gpu_energy=-1.0, node_energy_cpu=None) == (None, None)
    assert energy(gpu_util=5.0, energy_else=7.0) == (None, None)
    twice = [(("gpu_energy", "J", source), 2.0) for source in "ab"]
    assert rows.energy_of(twice) == (4.0, None)


def test_deflated_columns_come_back() -> None:
    """What is empty is not kept; a bomb is cut instead of filling memory, and tells nothing."""
    for value in ({"a": [1, "é"]}, [0]):
        assert rows.inflated(rows.deflated(value)) == value
    assert rows.deflated({}) is rows.deflated(None) is rows.inflated(None) is None
    assert rows.deflated("x" * 1000, 10) is None  # the run counts all the same
    edge = b'"' + b"x" * ((8 << 20) - 2) + b'"'
    assert len(rows.inflated(zlib.compress(edge, 1))) == (8 << 20) - 2
    assert rows.inflated(zlib.compress(b'"x' + edge[1:], 1)) is None
    assert rows.inflated(b"damaged") is None


def test_what_would_be_cut_when_it_is_read_is_not_kept() -> None:
    """However well it packs: escapes make three times as much of a summary in another script."""
    assert rows.deflated("é" * (2 << 20), rows.MAX_TIMELINE) is None
    whole = "é" * (1 << 20)
    assert rows.inflated(rows.deflated(whole, rows.MAX_TIMELINE)) == whole
