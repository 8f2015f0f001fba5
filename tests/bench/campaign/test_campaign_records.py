"""What records of runs the campaign owes, and what it counts twice or told otherwise."""

from dataclasses import replace

from contrib.bench.campaign import accounting
from contrib.bench.campaign.forgotten import all_ended_by_themselves
from contrib.bench.campaign.records import Recorded, doubled, lost, told_otherwise
from contrib.bench.campaign.row import given_again
from contrib.bench.campaign.shapes import Shapes
from tests.bench.campaign.a_campaign import judged, ran, submitted


def test_each_node_of_each_start_owes_a_record() -> None:
    """A requeued job owes two, a job on two nodes owes two; one that runs owes none yet."""
    starts = [ran(1, 0, "REQUEUED"), ran(1, 1), ran(2, nodes="n1 n2"), ran(3, state="")]
    rows = [Recorded(1, 0, "n1", "REQUEUED"), Recorded(2, 0, "n1", "COMPLETED")]
    assert lost(starts, rows) == ["1.1 on n1", "2.0 on n2"]
    assert lost([replace(ran(4), opted_out=True)], []) == []


def test_what_comes_twice_or_of_nothing_is_doubled() -> None:
    """A second row of a part of a run, a row of a node where it never was, a second decision."""
    once = Recorded(1, 0, "n1", "COMPLETED")
    assert doubled([ran(1)], [once], []) == []
    assert doubled([ran(1)], [once, once], []) == ["1.0 on n1"]
    stray = Recorded(1, 0, "host", "COMPLETED")
    assert doubled([ran(1)], [once, stray], []) == ["1.0 on host, where it did not run"]
    again = Recorded(1, 1, "n1", "COMPLETED")
    assert doubled([ran(1)], [once, again], []) == ["1.1 on n1, where it did not run"]
    assert doubled([ran(1)], [once], [1]) == ["decisions of job 1"]


def test_an_end_that_slurm_tells_otherwise_is_named() -> None:
    """A requeue after a node's failure is one; a cancelled job that COMPLETED is none."""
    starts = [ran(1, 0, "NODE_FAIL"), ran(2, 0, "CANCELLED")]
    rows = [Recorded(1, 0, "n1", "REQUEUED"), Recorded(2, 0, "n1", "COMPLETED")]
    said = ["2.0 on n1 COMPLETED, for Slurm CANCELLED"]
    assert told_otherwise(starts, rows, None) == said
    again, done = [ran(3, 0, "REQUEUED"), ran(3, 1)], "[t] _job_complete: JobId=3 WEXITSTATUS 0\n"
    rows = [Recorded(3, number, "n1", "COMPLETED") for number in (0, 1)]
    for count, wrong in ((1, ["3.0 on n1 COMPLETED, for Slurm REQUEUED"]), (2, [])):
        exited = all_ended_by_themselves(again, count * done)
        assert told_otherwise(again, rows, None, exited) == wrong
    nobody_knows = [Recorded(2, 0, "n1", "UNKNOWN")]
    assert len(told_otherwise(starts[1:], nobody_knows, None)) == 1
    assert len(told_otherwise(starts[1:], nobody_knows, {})) == 1


def test_a_number_of_two_jobs_is_nobodys() -> None:
    """A slurmctld that was killed gives its last numbers again: nothing is held against them."""
    jobs, starts = [submitted(), submitted()], [ran(7, state="FAILED")]
    assert given_again(jobs) == {7}
    assert given_again(jobs[:1]) == set()
    for told, lost_ones in ((jobs, []), (jobs[:1], ["7.0 on n1"])):
        row = judged(*told, ran=starts, decided_twice=[7])
        assert row.lost == lost_ones
        assert len(row.doubled) == len(lost_ones)
    shapes = Shapes({"known": {"as written"}})
    assert shapes.wrong(jobs, {7: "half"}, given_again(jobs)) == []


def test_each_part_of_a_heterogeneous_job_has_a_number() -> None:
    """The second part's may be given again as well: job 8 here."""
    parts, next_one = submitted(kind="heterogeneous"), replace(submitted(), job_id=8)
    assert given_again([parts, next_one]) == {8}


def test_starts_are_read_from_accounting() -> None:
    """In the order of their beginning; what never began and what sacct cannot say is left out."""
    lines = [
        "5|COMPLETED|2026-01-01T00:00:09|2026-01-01T00:00:10|n[1-2]|root|",
        "5|REQUEUED|2026-01-01T00:00:01|2026-01-01T00:00:02|n3|root|",
        "6|CANCELLED by 0|2026-01-01T00:00:01|2026-01-01T00:00:02|n3|root|dlqueue=off",
        "7|CANCELLED by 0|Unknown|2026-01-01T00:00:02|None assigned|root|",
        "8|RUNNING|2026-01-01T00:00:02|Unknown|n3|root|",
        "a line that is none",
    ]
    found = accounting.read(line.replace("|", "\x1f") for line in lines)
    assert [(one.job_id, one.start, one.nodes, one.state) for one in found] == [
        (5, 0, ("n3",), "REQUEUED"),
        (6, 0, ("n3",), "CANCELLED"),
        (8, 0, ("n3",), ""),
        (5, 1, ("n1", "n2"), "COMPLETED"),
    ]
    assert [one.job_id for one in found if one.opted_out] == [6]
