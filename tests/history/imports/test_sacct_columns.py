"""A line of sacct as records, value by value: what each column becomes, and what is refused how."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from slurm_ext.history.imports.sacct import NotTakenError, records_of
from tests.history.imports.sacct_lines import LEAST, counters, names, only, records

START_S = datetime(2026, 10, 1, 10, tzinfo=UTC).timestamp()

ORDER = "Submit, Start and End are out of order"


def refused(**columns: str) -> str:
    """Reason why a line is not taken."""
    with pytest.raises((NotTakenError, ValueError)) as error:
        records(**columns)
    return str(error.value)


def test_the_least_that_a_line_may_have() -> None:
    """Five columns are a run on a node without a name; all else is not known, never zero."""
    (record,) = records()
    assert record["record_id"] == f"sacct-here-7-{START_S:.0f}-"
    assert record["identity"] == {
        "cluster": "here",
        "job_id": 7,
        "restart": 0,
        "node": "",
        **dict.fromkeys(
            (
                *("user", "uid", "account", "partition", "job_name", "work_dir"),
                *("array_job_id", "array_task_id"),
            )
        ),
    }
    assert record["times"] == {
        "submit_s": START_S - 3600,
        "start_s": START_S,
        "end_s": START_S + 3600,
        "elapsed_s": 3600.0,
    }
    state = {"state": "COMPLETED", "source": "sacct", "exit_code": None, "signal": None}
    assert record["outcome"] == state
    allocation = record["allocation"]
    assert {k: v for k, v in allocation.items() if v is not None} == {"num_nodes": 1}
    assert (record["host"], record["probe"], record["corunners"]) == ({}, {}, [])
    assert record["counters"] == []


@pytest.mark.parametrize(
    ("text", "elapsed_s"), [("60", 60.0), ("0", 0.0), ("9000", 3600.0), ("", 3600.0), ("x", 3600.0)]
)
def test_a_job_did_not_run_while_it_was_suspended(text: str, elapsed_s: float) -> None:
    """ElapsedRaw is without that; where it lacks, or says more, end less start is all there is."""
    assert only("times", ElapsedRaw=text)["elapsed_s"] == elapsed_s


def test_each_name_comes_from_its_own_column() -> None:
    """None is taken for another; the line's cluster counts before the one that was named."""
    identity = only(
        "identity",
        Cluster="there",
        User="ada",
        UID="1000",
        Account="vision",
        Partition="gpu",
        JobName="train",
        WorkDir="/home",
        NodeList="n1",
    )
    assert identity == {
        "cluster": "there",
        "job_id": 7,
        "restart": 0,
        "node": "n1",
        "user": "ada",
        "uid": 1000,
        "account": "vision",
        "partition": "gpu",
        "job_name": "train",
        "work_dir": "/home",
        "array_job_id": None,
        "array_task_id": None,
    }


@pytest.mark.parametrize(
    ("job", "array"),
    [
        ("90_3", (90, 3)),
        ("90", (None, None)),
        ("90_[1-3]", (None, None)),
        ("x_3", (None, None)),
        ("90+1", (None, None)),
        ("_3", (None, None)),
    ],
)
def test_a_task_of_an_array(job: str, array: tuple[int | None, int | None]) -> None:
    """JobID says so, as array_task; tasks that were never split off are no number."""
    identity = only("identity", JobID=job)
    assert (identity["array_job_id"], identity["array_task_id"]) == array


def test_a_record_is_named_after_cluster_job_start_and_node() -> None:
    """So the same run is known again, and a number that comes again is another run."""
    found = [record["record_id"] for record in records(NodeList="n1,n2", Cluster="there")]
    assert found == [f"sacct-there-7-{START_S:.0f}-{node}" for node in ("n1", "n2")]


@pytest.mark.parametrize(
    ("text", "code", "signal"),
    [
        ("3:9", 3, 9),
        ("0:0", 0, 0),
        ("3", None, None),
        ("3:", None, None),
        (":9", None, None),
        ("-1:0", None, None),
        ("", None, None),
    ],
)
def test_an_exit_is_a_code_and_a_signal(text: str, code: int | None, signal: int | None) -> None:
    """Both or neither."""
    outcome = only("outcome", ExitCode=text)
    assert (outcome["exit_code"], outcome["signal"]) == (code, signal)


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ("COMPLETED", "COMPLETED"),
        ("FAILED", "FAILED"),
        ("TIMEOUT", "TIMEOUT"),
        ("OUT_OF_MEMORY", "OUT_OF_MEMORY"),
        ("CANCELLED by 1000", "CANCELLED"),
        ("NODE_FAIL", "NODE_FAIL"),
        ("BOOT_FAIL", "NODE_FAIL"),
        ("DEADLINE", "TIMEOUT"),
        ("PREEMPTED", "CANCELLED"),
        ("REVOKED", "UNKNOWN"),
        ("completed", "UNKNOWN"),
        ("", "UNKNOWN"),
    ],
)
def test_states_in_our_words(state: str, outcome: str) -> None:
    """What Slurm has a word of its own for becomes the nearest; others are unknown."""
    assert only("outcome", State=state)["state"] == outcome


@pytest.mark.parametrize(
    "state",
    [
        *("RUNNING", "PENDING", "SUSPENDED", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING"),
        "RUNNING by 0",
    ],
)
def test_a_state_that_goes_on_is_no_end(state: str) -> None:
    """Even where it has an end already: of the try before."""
    assert refused(State=state) == "not ended yet"


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"End": "Unknown"}, "not ended yet"),
        ({"End": ""}, "not ended yet"),
        ({"Start": "Unknown"}, "never ran"),
        ({"Start": "None", "End": "None"}, "never ran"),
        ({"End": LEAST["Start"]}, "never ran"),
        ({"End": LEAST["Start"], "NodeList": "Unknown"}, "never ran"),
        ({"Submit": ""}, "Submit is ''"),
        ({"Submit": "Unknown"}, "Submit is 'Unknown'"),
        ({"JobIDRaw": "7.0"}, "steps of jobs"),
        ({"JobIDRaw": "7_1"}, "JobIDRaw is '7_1': expected a whole number"),
        ({"JobIDRaw": "٣"}, "JobIDRaw is '٣': expected a whole number"),
        ({"JobIDRaw": ""}, "JobIDRaw is '': expected a whole number"),
        ({"NNodes": "two"}, "NNodes is 'two': expected a whole number"),
        ({"NCPUS": "1.5"}, "NCPUS is '1.5': expected a whole number"),
        ({"Start": "10:00"}, "Start is '10:00': expected 2026-01-31T08:00:00 or seconds"),
        (
            {"Submit": "2026-10-01T10:00:01"},
            f"{ORDER}: 2026-10-01T10:00:01, 2026-10-01T10:00:00, 2026-10-01T11:00:00",
        ),
        (
            {"End": "2026-10-01T09:59:59"},
            f"{ORDER}: 2026-10-01T09:00:00, 2026-10-01T10:00:00, 2026-10-01T09:59:59",
        ),
    ],
)
def test_why_a_line_is_not_taken(columns: dict[str, str], reason: str) -> None:
    """In words that name the column and what was expected of it."""
    assert refused(**columns) == reason


def test_a_run_may_end_as_it_starts_and_start_as_it_is_submitted() -> None:
    """Where it had a node: a second is Slurm's grain."""
    moment = LEAST["Start"]
    assert only("times", Submit=moment, End=moment, NodeList="n1")["elapsed_s"] == 0.0


def test_times_are_of_the_zone_that_was_named_or_seconds() -> None:
    """`SLURM_TIME_FORMAT=%s` needs no zone."""
    zone = timezone(timedelta(hours=2))
    line = {**LEAST, "Submit": "0", "Start": str(int(START_S) - 7200)}
    times = records_of(line, cluster="c", zone=zone, names=names)[0][0]["times"]
    assert (times["submit_s"], times["start_s"]) == (0.0, START_S - 7200)
    assert times["end_s"] == START_S + 3600 - 7200


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ({"NCPUS": "9"}, {"cpus": 5, "num_nodes": 2}),
        ({"NCPUS": "8"}, {"cpus": 4, "num_nodes": 2}),
        ({"NCPUS": "8", "AllocTRES": "cpu=100"}, {"cpus": 4, "num_nodes": 2, "gpus": 0}),
        ({"AllocTRES": "cpu=6"}, {"cpus": 3, "num_nodes": 2, "gpus": 0}),
        ({"NNodes": "5"}, {"num_nodes": 5}),
        ({"AllocTRES": "mem=3K"}, {"mem_bytes": 1536, "num_nodes": 2, "gpus": 0}),
        ({"AllocTRES": "gres/gpu=3"}, {"gpus": 2, "num_nodes": 2}),
        ({"Timelimit": "2"}, {"time_limit_s": 120, "num_nodes": 2}),
        *(({"Timelimit": text}, {"num_nodes": 2}) for text in ("UNLIMITED", "Partition_Limit", "")),
    ],
)
def test_an_allocation_is_one_nodes_part(columns: dict[str, str], wanted: dict[str, float]) -> None:
    """Cores and GPUs are rounded up; where the line has no TRES, GPUs are not known."""
    for record in records(NodeList="n1,n2", **columns):
        allocation = record["allocation"]
        assert {k: v for k, v in allocation.items() if v is not None} == wanted


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("01:02", 62.0),
        ("00:00.500", 0.5),
        ("1:00:00", 3600.0),
        ("1-02:03:04.5", 93784.5),
        ("00:00", None),
        ("00:00:00", None),
        ("", None),
        ("INVALID", None),
        ("1-02:03", None),
        ("-00:01", None),
    ],
)
def test_cpu_time_of_a_job(text: str, seconds: float | None) -> None:
    """Days, hours, minutes, seconds; none where Slurm gathered none."""
    wanted = {} if seconds is None else {("cpu_user", "s", "sacct/TotalCPU"): seconds}
    assert counters(TotalCPU=text) == wanted
