"""Trace files: formats become one column dictionary; what is wrong is told, or counted."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from slurm_ext.core.errors import InputError, UsageError
from slurm_ext.simulate.trace.columns import Trace, read_vc_nodes
from slurm_ext.simulate.trace.estimates import with_estimates
from slurm_ext.simulate.trace.read import read
from slurm_ext.simulate.trace.times import zone_of

BAD = Path(__file__).parents[2] / "bad_input" / "trace"
WHY = {
    "missing_column.csv": (1, "duration_s"),
    "negative_duration.csv": (3, "expected 0 or more"),
    "duplicate_id.csv": (3, "expected every id once"),
    "not_a_number.csv": (2, "expected a number"),
    "half_a_gpu.csv": (2, "expected a whole number"),
    "endless_duration.csv": (2, "expected a number"),
    "not_a_date.csv": (2, "expected seconds or 2026-01-31T08:00:00"),
    "dates_and_seconds.csv": (3, "earlier times 'dates without a zone'"),
    "zone_only_sometimes.csv": (3, "dates with a zone"),
    "torn_line.csv": (3, "2 fields, expected 4"),
    "header_only.csv": (None, "no job to replay"),
    "empty.csv": (1, "no format that is known"),
    "two_names_of_one_column.csv": (1, "two columns of one meaning"),
    "ends_before_start.sacct": (2, "is before Start"),
    "starts_before_submit.sacct": (2, "is before Submit"),
    "short_line.swf": (2, "expected 18"),
    "binary.csv": (None, "is not UTF-8 text"),
    "torn.csv.gz": (None, "cannot be read"),
}


def written(folder: Path, text: str) -> Trace:
    """The trace of a text."""
    path = folder / "trace"
    path.write_text(text)
    return read(path)


@pytest.mark.parametrize("path", sorted(BAD.iterdir()), ids=lambda path: path.name)
def test_a_wrong_trace_is_one_error_that_names_the_line(path: Path) -> None:
    """Every file that cannot be replayed says where and what is expected instead."""
    line, expected = WHY[path.name]
    with pytest.raises(InputError, match=path.name) as told:
        read(path)
    assert told.value.line == line
    assert expected in str(told.value)
    assert path.name in str(told.value)


def test_what_was_repaired_is_counted(tmp_path: Path) -> None:
    """Sorting, instants and jobs without GPUs are repairs, each with its count; none is silent."""
    trace = written(tmp_path, "job,submit_s,duration_s,gpus\na,9,5,1\nb,2,0,2\nc,3,5,0\n")
    assert trace.job == ("b", "a")
    assert trace.submit_s.tolist() == [0, 7]
    assert trace.duration_s.tolist() == [1, 5]
    assert dict(trace.repairs) == {
        "ran for 0 s: replayed as 1 s": 1,
        "not in order of submission: sorted": 1,
        "left out: without GPUs": 1,
    }


def test_philly_is_a_table_and_may_be_zipped(tmp_path: Path) -> None:
    """Its names are aliases; what the trace's end cut off is told."""
    path = tmp_path / "philly.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("job,submit_time,vc,num_gpus,duration_s,censored\n")
        file.write("0,2017-09-04 10:30:41,7f04ca,8,2240194.0,0\n")
        file.write("1,2017-09-04 10:31:41,6214e9,1,60,1\n")
    trace = read(path)
    assert trace.submit_s.tolist() == [0, 60]
    assert [trace.vcs[vc] for vc in trace.vc] == ["7f04ca", "6214e9"]
    assert sum(trace.repairs.values()) == 1


def test_sacct_knows_steps_waiting_jobs_and_typed_gpus(tmp_path: Path) -> None:
    """Allocations become jobs; steps, running and never-started ones are counted."""
    trace = written(
        tmp_path,
        "JobID|Submit|Start|End|AllocTRES|AllocCPUS|User|Partition|Timelimit\n"
        "7|2026-01-01T00:00:00|2026-01-01T01:00:00|2026-01-01T01:30:00|cpu=4,gres/gpu=2,gres/gpu:a100=2|4|ann|gpu|1-00:00:00\n"
        "7.batch|2026-01-01T00:00:00|2026-01-01T01:00:00|2026-01-01T01:30:00|cpu=4|4|||\n"
        "8_1|2026-01-01T00:00:10|2026-01-01T01:00:00|2026-01-01T01:00:05|gres/gpu:a100=1,gres/gpu:t4=2|1|bob|gpu|UNLIMITED\n"
        "9|2026-01-01T00:00:10|Unknown|Unknown||0|bob|gpu|UNLIMITED\n"
        "10|2026-01-01T00:00:10|2026-01-01T01:00:00|Unknown|gres/gpu=1|1|bob|gpu|UNLIMITED\n",
    )
    assert trace.gpus.tolist() == [2, 3]
    assert trace.duration_s.tolist() == [1800, 5]
    assert trace.limit_s[0] == 86400
    assert np.isnan(trace.limit_s[1])
    assert sum(trace.repairs.values()) == 3


@pytest.mark.parametrize("column", ["AllocCPUS", "NCPUS", None])
def test_sacct_names_a_jobs_cpus_in_several_ways(column: str | None, tmp_path: Path) -> None:
    """One column has two names, and AllocTRES counts them as well."""
    more, cpus = (f"|{column}", "|2") if column else ("", "")
    job = "2026-01-01T00:00:00|2026-01-01T01:00:00|2026-01-01T01:30:00|billing=9,cpu=2,node=1"
    path = tmp_path / "trace"
    path.write_text(f"JobID|Submit|Start|End|AllocTRES{more}\n7|{job}{cpus}\n8|{job}{cpus}\n")
    assert read(path, cpus=True).cpus.tolist() == [2, 2]


@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_is_no_part_of_the_first_column(packed: bool, tmp_path: Path) -> None:
    """Editors and spreadsheets of Windows begin a file by one."""
    raw = "job,submit_s,duration_s,gpus\n7,0,60,1\n".encode("utf-8-sig")
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(raw) if packed else raw)
    assert read(path).job == ("7",)


def test_a_job_waits_from_when_it_could_have_started(tmp_path: Path) -> None:
    """A dependency or a begin time is no wait in the queue, by sacct's Eligible or a column."""
    day = "2026-01-01T"
    sacct = written(
        tmp_path,
        "JobID|Submit|Eligible|Start|End|AllocTRES\n"
        f"1|{day}00:00:00|{day}00:00:00|{day}01:00:00|{day}02:00:00|gres/gpu=1\n"
        f"2|{day}00:00:10|{day}02:00:00|{day}02:00:05|{day}03:00:00|gres/gpu=1\n"
        f"3|{day}00:00:20|Unknown|{day}01:00:00|{day}02:00:00|gres/gpu=1\n"
        f"4|{day}00:00:30|{day}05:00:00|{day}00:00:40|{day}02:00:00|gres/gpu=1\n",
    )
    assert dict(zip(sacct.job, sacct.submit_s, strict=True)) == {
        "1": 0,
        "3": 20,
        "4": 40,
        "2": 7200,
    }
    table = written(
        tmp_path, "job,submit_s,eligible_s,duration_s,gpus\na,5,9,1,1\nb,6,,1,1\nc,7,2,1,1\n"
    )
    assert dict(zip(table.job, table.submit_s, strict=True)) == {"b": 0, "c": 1, "a": 3}


def test_swf_counts_processors(tmp_path: Path) -> None:
    """Comments are skipped; what was asked stands in for what was not recorded."""
    trace = written(
        tmp_path,
        "; Version: 2.2\n"
        "1 0 5 10 4 -1 -1 4 600 -1 1 3 1 1 2 -1 -1 -1\n"
        "2 7 0 -1 4 -1 -1 4 600 -1 5 3 1 1 2 -1 -1 -1\n"
        "3 9 0 20 -1 -1 -1 8 -1 -1 1 3 1 1 2 -1 -1 -1\n",
    )
    assert trace.gpus.tolist() == [4, 8]
    assert trace.limit_s[0] == 600
    assert dict(trace.repairs) == {"left out: never started": 1}


def test_swf_jobs_that_never_ran_are_left_out(tmp_path: Path) -> None:
    """Of a job cancelled while it waited, what it asked for is not replayed; one that ran is."""
    trace = written(
        tmp_path,
        "1 5 0 0 4 -1 -1 4 600 -1 1 3 1 1 2 -1 -1 -1\n"
        "2 7 500 0 0 -1 -1 512 600 -1 5 3 1 1 2 -1 -1 -1\n"
        "3 9 500 0 512 -1 -1 512 600 -1 5 3 1 1 2 -1 -1 -1\n"
        "4 9 5 7 512 -1 -1 512 600 -1 5 3 1 1 2 -1 -1 -1\n",
    )
    assert trace.job == ("1", "4")
    assert trace.duration_s.tolist() == [1, 7]
    assert dict(trace.repairs) == {
        "left out: never started": 2,
        "ran for 0 s: replayed as 1 s": 1,
    }


def test_alibaba_pods(tmp_path: Path) -> None:
    """A pod runs from when it was scheduled; a part of a GPU becomes a whole one, and is told."""
    trace = written(
        tmp_path,
        "name,cpu_milli,num_gpu,gpu_milli,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "a,12000,1,460,Succeeded,0,100,10\nb,500,8,1000,Failed,5,50,5\nc,500,0,0,Failed,5,50,\n",
    )
    assert trace.duration_s.tolist() == [90, 45]
    assert trace.cpus.tolist() == [12, 1]
    assert trace.repairs["shared a GPU: replayed on a whole one"] == 1


def test_a_zone_is_applied_where_dates_name_none(tmp_path: Path) -> None:
    """Hours that a zone skips in spring are skipped, and an unknown zone is wrong usage."""
    path = tmp_path / "trace"
    path.write_text(
        "job,submit_s,duration_s,gpus\n1,2026-03-29T01:30:00,1,1\n2,2026-03-29T03:30:00,1,1\n"
    )
    assert read(path).submit_s[1] == 7200
    assert read(path, zone=zone_of("Europe/Berlin")).submit_s[1] == 3600
    with pytest.raises(UsageError, match="Europe/Berlin"):
        zone_of("Middle/Earth")


def test_the_hour_that_a_clock_repeats_is_told_by_what_came_before(tmp_path: Path) -> None:
    """A job that ends after the change, or starts after it, lasts as long as it did."""
    path, day = tmp_path / "trace", "2025-10-26T0"
    path.write_text(
        "JobID|Submit|Start|End|AllocTRES\n"
        f"1|{day}2:50:00|{day}2:55:00|{day}2:10:00|gres/gpu=1\n"
        f"2|{day}2:50:00|{day}2:10:00|{day}2:30:00|gres/gpu=1\n"
        f"3|{day}2:10:00|{day}2:30:00|{day}3:00:00|gres/gpu=1\n"
    )
    trace = read(path, zone=zone_of("Europe/Berlin"))
    lasted = dict(zip(trace.job, trace.duration_s.tolist(), strict=True))
    assert lasted == {"1": 900, "2": 1200, "3": 5400}
    with pytest.raises(InputError, match=r":2: End .* is before Start .*SLURM_TIME_FORMAT=%s"):
        read(path)


def test_cpus_can_be_what_jobs_hold(tmp_path: Path) -> None:
    """A CPU cluster's jobs are replayed by their CPUs on request."""
    path = tmp_path / "trace"
    path.write_text("job,submit_s,duration_s,gpus,cpus\n1,0,5,0,16\n")
    assert read(path, cpus=True).gpus.tolist() == [16]


def test_estimates_are_joined_by_id(tmp_path: Path) -> None:
    """Estimates of unknown jobs are counted; a wrong line is an error with its number."""
    trace = written(tmp_path, "job,submit_s,duration_s,gpus\na,0,5,1\nb,2,5,2\n")
    path = tmp_path / "estimates"
    path.write_text("job,estimate_s\nb,70\nz,1\n")
    joined = with_estimates(trace, path)
    assert joined.estimate_s[1] == 70
    assert np.isnan(joined.estimate_s[0])
    assert sum(joined.repairs.values()) == 1
    path.write_text("job,estimate_s\nb,-70\n")
    with pytest.raises(InputError, match=r":2: .*over 0"):
        with_estimates(trace, path)


def test_nodes_of_virtual_clusters(tmp_path: Path) -> None:
    """They are read by name, and a wrong number is told with its line."""
    path = tmp_path / "vcs"
    path.write_text("vc,nodes\na,2\nb,3\n")
    assert read_vc_nodes(path) == {"a": 2, "b": 3}
    path.write_text("vc,nodes\na,0\n")
    with pytest.raises(InputError, match=":2: "):
        read_vc_nodes(path)


def pollux(folder: Path, workload: str, *, tables: bool = True) -> Path:
    """A workload with tables of one application."""
    (folder / "workloads").mkdir()
    path = folder / "workloads" / "workload-1.csv"
    path.write_text(f"name,time,application,num_replicas,batch_size\n{workload}")
    if tables:
        app = folder / "traces" / "toy"
        app.mkdir(parents=True)
        (app / "validation-80.csv").write_text("progress,iteration\n50,60\n100,100\n")
        (app / "placements.csv").write_text(
            "placement,local_bsz,step_time,sync_time\n1,8,1.0,0\n24,10,2.0,0.5\n24,20,4.0,0.5\n"
        )
        (app / "scalability.csv").write_text(
            "num_nodes,num_replicas,local_bsz,step_time,sync_time\n"
        )
    return path


def test_pollux_workloads_run_as_long_as_their_tables_say(tmp_path: Path) -> None:
    """Step time is linear between batches; too large a batch is accumulated, syncing once."""
    trace = read(pollux(tmp_path, "a,5,toy,6,80\nb,9,toy,1,80\n"))
    between = 2.0 + 2.0 * (80 / 6 - 10) / 10
    assert trace.duration_s.tolist() == pytest.approx([100 * between, 100 * 10])
    assert trace.gpus.tolist() == [6, 1]


@pytest.mark.parametrize(
    ("workload", "named"),
    [
        ("a,5,toy,6,81\n", "never measured at batch 81"),
        ("a,5,toy,5,80\n", "never measured on 5 GPUs"),
        ("a,5,game,1,80\n", "game"),
        ("a,5,toy,0,80\n", "over 0"),
    ],
)
def test_what_pollux_tables_do_not_tell_is_an_error(
    tmp_path: Path, workload: str, named: str
) -> None:
    """With the workload's line."""
    with pytest.raises(InputError, match=f":2: .*{named}"):
        read(pollux(tmp_path, workload))


def test_pollux_without_tables_says_where_they_belong(tmp_path: Path) -> None:
    """The folder is named."""
    with pytest.raises(InputError, match="traces"):
        read(pollux(tmp_path, "a,5,toy,1,80\n", tables=False))


def test_the_model_that_a_job_asks_for(tmp_path: Path) -> None:
    """A table's gpu_type, or the one model of sacct's ReqTRES; what was allocated says nothing."""
    table, sacct = tmp_path / "t.csv", tmp_path / "s.txt"
    table.write_text("job,submit_s,duration_s,gpus,gpu_type\n1,0,9,1,a100\n2,1,9,1,\n")
    lines = ("gres/gpu:v100=2", "gres/gpu=2", "gres/gpu:v100=1,gres/gpu:a100=1")
    jobs = [
        f"{n}|{n}|{n + 1}|{n + 9}|gres/gpu=2,gres/gpu:a100=2|{asked}"
        for n, asked in enumerate(lines)
    ]
    sacct.write_text("\n".join(["JobID|Submit|Start|End|AllocTRES|ReqTRES", *jobs]) + "\n")
    for path, expected in ((table, ["a100", ""]), (sacct, ["v100", "", ""])):
        trace = read(path)
        assert [trace.gpu_types[number] for number in trace.gpu_type] == expected
