"""What the fault campaign counts, and that it goes on where it was stopped."""

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contrib.bench.campaign import accounting, endings, load
from contrib.bench.campaign.__main__ import chosen
from contrib.bench.campaign.accounting import Ran
from contrib.bench.campaign.endings import ENDINGS, Batch
from contrib.bench.campaign.faults import FAULTS
from contrib.bench.campaign.faults.migration import taken_back
from contrib.bench.campaign.forgotten import all_ended_by_themselves, ends, with_forgotten
from contrib.bench.campaign.holds import Hold, holds, most_within
from contrib.bench.campaign.load import GROUP, Load, groups
from contrib.bench.campaign.measure import Counts
from contrib.bench.campaign.pages.earlier import read
from contrib.bench.campaign.pages.page import page
from contrib.bench.campaign.records import Recorded, doubled, lost, told_otherwise
from contrib.bench.campaign.row import Row, given_again, row_of
from contrib.bench.campaign.shapes import Shapes
from contrib.bench.campaign.state import State
from contrib.bench.campaign.submissions import Submitted
from contrib.bench.campaign.wanted import wanted
from slurm_ext.core.errors import InputError
from slurm_ext.history.store import schema
from slurm_ext.history.store.store import open_history
from tests.history.conftest import add_run

COUNTS = Counts(submissions=100, jobs=20)
KEPT = {"commit": "abc", "load": 3.14}


def ran(job_id: int, start: int = 0, state: str = "COMPLETED", nodes: str = "n1") -> Ran:
    """One start of a job."""
    return Ran(job_id=job_id, start=start, nodes=tuple(nodes.split()), state=state, opted_out=False)


def submitted(status: int | None = 0, kind: str = "known", said: str = "") -> Submitted:
    """One submission by root."""
    return Submitted(kind=kind, user="root", seconds=0.1, status=status, job_id=7, said=said)


def judged(
    *jobs: Submitted,
    no_slurm: bool = False,
    log: str = "",
    recovery_s: float = 1.0,
    ran: Sequence[Ran] = (),
    decided_twice: Sequence[int] = (),
) -> Row:
    """The row of a fault under which these were submitted, `ran`, and left no record."""
    return row_of(
        "none",
        jobs,
        no_slurm=no_slurm,
        ran=ran,
        rows=[],
        decided_twice=decided_twice,
        aside=[],
        drained=[],
        changed=[],
        log=log,
        deadline_s=0.05,
        breaker_s=30,
        recovery_s=recovery_s,
    )


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


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("JobId=1 WEXITSTATUS 0", "COMPLETED"),
        ("JobId=1 WEXITSTATUS 3", "FAILED"),
        ("JobId=9_2(1) WTERMSIG 11", "FAILED"),
        ("JobId=1 OOM failure", "OUT_OF_MEMORY"),
        ("JobId=1 cancelled by interactive user", "CANCELLED"),
        (
            "JobId=1 WTERMSIG 126\n[t] _slurm_rpc_kill_job: REQUEST_KILL_JOB JobId=1 uid 0",
            "CANCELLED",
        ),
        ("JobId=1 WTERMSIG 126", "UNKNOWN"),
    ],
)
def test_a_killed_slurmctlds_log_has_the_end_that_it_forgot(said: str, state: str) -> None:
    """That end and no other may stand where Slurm found the job missing later."""
    log = f"[t] _job_complete: {said}\n[t] _job_complete: JobId=1 done\n"
    failed = [ran(1, 0, "NODE_FAIL")]
    for other in ("COMPLETED", "FAILED", "OUT_OF_MEMORY", "CANCELLED", "UNKNOWN"):
        wrong = told_otherwise(failed, [Recorded(1, 0, "n1", other)], ends(log))
        assert (wrong == []) == (other == state)
    assert len(told_otherwise(failed, [Recorded(1, 0, "n1", state)], None)) == 1


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


def test_a_start_that_accounting_forgot_is_known_by_slurmctlds_log() -> None:
    """Only where a record agrees: what slurmctld began and never launched owes none."""
    log = (
        "[t] sched: Allocate JobId=7 NodeList=n[1-2] #CPUs=1 Partition=main\n"
        "[t] sched/backfill: _start_job: Started JobId=7 in main on n3\n"
        "[t] sched: Allocate JobId=5_0(8) NodeList=n1 #CPUs=1 Partition=main\n"
    )
    told = [ran(7, nodes="n3"), ran(8)]
    records = [
        Recorded(7, restart, node, state)
        for restart, node, state in (
            (0, "n1", "REQUEUED"),
            (0, "n2", "REQUEUED"),
            (1, "n3", "COMPLETED"),
        )
    ]
    found = with_forgotten(told, records, log)
    assert found == [ran(7, 0, "REQUEUED", "n1 n2"), ran(7, 1, nodes="n3"), ran(8)]
    assert doubled(found, records, []) == []
    assert with_forgotten(told, records[2:], log) == told
    assert with_forgotten(told, records, "") == told


def test_a_start_that_no_node_launched_owes_nothing() -> None:
    """Accounting has it as one that failed; the start after it is the second run."""
    log = "".join(
        f"[t] sched: Allocate JobId=7 NodeList=n1 #CPUs=1 Partition=main\n{more}"
        for more in ("", "[t] Killing non-startable batch JobId=7: Job credential revoked\n", "")
    )
    told = [ran(7, 0, "REQUEUED"), ran(7, 1, "FAILED"), ran(7, 2)]
    records = [Recorded(7, 0, "n1", "REQUEUED"), Recorded(7, 1, "n1", "COMPLETED")]
    found = with_forgotten(told, records, log)
    assert found == [ran(7, 0, "REQUEUED"), ran(7, 1)]
    assert lost(found, records) == told_otherwise(found, records, {}) == []


def test_slurms_own_drain_is_not_ours() -> None:
    """A node that knows a number which slurmctld forgot is drained, whatever else is there."""
    nodes = ["n1 drained Duplicate jobid", "n2 drained Epilog error", "n3 idle none"]
    log = ["[t] drain_nodes: node n1 state set to DRAIN", "[t] n2: Epilog error"]
    assert accounting.drained_lines(nodes, log, forgets=True) == [nodes[1], log[1]]
    assert accounting.drained_lines(nodes, log, forgets=False) == [*nodes[:2], *log]


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


def test_a_refusal_is_ours_unless_slurm_refuses_it_by_itself() -> None:
    """What Slurm always refuses is its own; that it cannot be reached is, while it is broken."""
    timed_out = submitted(1, said="sbatch: error: Socket timed out on send/recv operation")
    unknown = submitted(1, said="allocation failure: Requested node configuration is not available")
    for no_slurm in (False, True):  # a bare Slurm says so of nodes that it does not know yet
        assert len(judged(unknown, no_slurm=no_slurm).rejected) == (not no_slurm)
    row = judged(submitted(), submitted(1, kind="no such partition"), timed_out)
    assert (row.refused, len(row.rejected), row.held) == (1, 1, False)
    assert judged(timed_out, no_slurm=True).rejected == []
    boom = submitted(1, said="sbatch: error: job_submit.lua: boom")
    assert len(judged(boom, no_slurm=True).rejected) == 1


def test_calls_of_the_plugin_are_read_from_slurmctlds_log() -> None:
    """Waits for a whole deadline are counted by period; a call beyond the deadline misses."""
    log = "".join(
        f"[2026-01-01T00:00:{second:02}.000] lua: campaign: held {held_us} us\n"
        for second, held_us in ((1, 400), (2, 49_000), (3, 50_500), (40, 200_000))
    )
    assert [round(hold.held_s, 4) for hold in holds(log)] == [0.0004, 0.049, 0.0505, 0.2]
    row = judged(submitted(), log=log)
    assert (row.held_s, row.held_in_period, row.over_deadline, row.held) == (0.2, 2, 1, False)
    assert most_within([Hold(0.0, 1.0), Hold(30.0, 1.0)], least_s=1.0, period_s=30.0) == 1


def test_a_job_of_no_shape_of_its_kind_was_changed_wrongly() -> None:
    """Kinds that were not looked at are nobody's; a job that was never seen neither."""
    shapes = Shapes({"known": {"as written", "advised"}})
    assert shapes.wrong([submitted()], {7: "advised"}) == []
    wrong = shapes.wrong([submitted()], {7: "half as written"})
    assert wrong == ["known job 7 of root: +half"]
    assert shapes.wrong([submitted(), submitted(kind="array")], {}) == []


def test_rows_are_kept_and_belong_to_their_counts(tmp_path: Path) -> None:
    """A stopped campaign goes on; rows of other counts, or another file, are refused by name."""
    path = tmp_path / "state.json"
    row = judged(submitted())
    State(path, COUNTS).keep(row, commit="abc", load=3.14, seconds=3.2)
    again = State(path, COUNTS)
    assert again.row("none") == row
    told = page(FAULTS, {"none": row}, again.rows)
    assert "| no fault" in told
    assert "| 3.1 | abc |" in told
    with pytest.raises(InputError, match="not of"):
        State(path, Counts(submissions=1, jobs=1))
    path.write_text("[]")
    with pytest.raises(InputError, match="is no campaign's state"):
        State(path, COUNTS)


def test_every_fault_has_a_name_of_its_own() -> None:
    """One can be run alone; a wrong name is answered with the right ones."""
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names) >= 40
    assert [fault.name for fault in chosen(["network_cut"])] == ["network_cut"]
    with pytest.raises(InputError, match="'nothing' is none of none, advisor_dead"):
        chosen(["nothing"])


def test_runs_that_are_not_over_are_told() -> None:
    """What they will come to is not measured, and the table says how many."""
    row = judged(submitted(), ran=[ran(1), ran(2, state="")])
    assert (row.runs, row.running) == (1, 1)
    assert "| 1, 1 not over |" in page(FAULTS, {"none": row}, {"none": KEPT})


def test_a_page_keeps_rows_that_a_state_lacks() -> None:
    """With their commit and load; a row that is measured again replaces its own and what missed."""
    slow = judged(recovery_s=61.0)
    rows = {"none": slow, "advisor_dead": replace(slow, fault="advisor_dead")}
    before = page(FAULTS, rows, dict.fromkeys(rows, KEPT))
    again = page(FAULTS, {"none": judged()}, {"none": {"commit": "def", "load": 0.5}}, read(before))
    lines = [line.split(" | ") for line in again.splitlines() if line.startswith("| ")]
    assert [line[-2:] for line in lines[1:]] == [["0.5", "def |"], ["3.1", "abc |"]]
    assert again.endswith("## Missed\n\n- advisor_dead: recovery in 61 s\n")
    assert page(FAULTS, {}, {}, read(before)) == before
    older = before.replace(" | load |", " |").replace("| 3.1 | abc |", "| abc |")
    assert page(FAULTS, {}, {}, read(older)).count("| ? | abc |") == len(rows)


def test_a_slow_recovery_misses() -> None:
    """So does one that never came."""
    assert all(row["met"] for row in wanted([judged(submitted())]))
    assert [row["what"] for row in wanted([judged(recovery_s=61.0)]) if not row["met"]] == [
        "seconds to recover"
    ]


def test_a_history_is_taken_back_by_one_version(tmp_path: Path) -> None:
    """Its rows stay, what the last migration made is gone, and the next opening makes it again."""
    path = tmp_path / "history.db"
    with open_history(path) as history:
        add_run(history.conn, 7, cpus=2)
    taken_back(path)
    with sqlite3.connect(path) as conn:
        waiting = schema.pending(schema.applied(conn), path)
    conn.close()
    assert waiting == [schema.MIGRATIONS[-1]]
    with open_history(path) as history:
        assert schema.pending(schema.applied(history.conn), path) == []
        assert history.conn.execute("SELECT id, cpus FROM runs").fetchall() == [(7, 2)]


def test_what_the_machine_cannot_have_is_named_until_it_is_measured() -> None:
    """With the reason; a row that was measured, here or elsewhere, is enough."""
    here = replace(FAULTS[0], missing=lambda: "")
    fault = replace(FAULTS[0], what="cgroup v2", missing=lambda: "slurmd ends")
    unmeasured = page([fault], {}, {})
    assert unmeasured.endswith("## Not measured here\n\n- cgroup v2: slurmd ends\n")
    measured = page([fault], {"none": judged()}, {"none": KEPT})
    for told in (measured, page([fault], {}, {}, read(measured)), page([here], {}, {})):
        assert "Not measured" not in told


@pytest.mark.parametrize("count", [0, 1, GROUP, GROUP + 1, 10_000])
def test_all_are_submitted_in_groups(count: int) -> None:
    """No group is larger than slurmctld should hold, and none is left out."""
    sizes = list(groups(count))
    assert sum(sizes) == count
    assert max(sizes) <= GROUP


def test_only_jobs_that_were_looked_at_are_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the last group's are not: they are there until the end."""
    cluster = _Queue(forgets=3)
    monkeypatch.setattr(load, "Crowd", cluster.crowd)
    monkeypatch.setattr(load, "shapes_of", lambda _: dict.fromkeys(cluster.jobs, "shape"))
    monkeypatch.setattr(load, "Batch", lambda _: SimpleNamespace(add=_nothing, tend=_nothing))
    said: list[str] = []
    loaded = Load(cluster, "none", said.append)  # type: ignore[arg-type]
    loaded.add(2 * GROUP, 0, longest_s=0.0)
    ids = [one.job_id for one in loaded.submitted]
    assert cluster.cancelled == [str(job) for job in ids[:GROUP] if job != 3]
    assert set(loaded.seen) == set(ids) - {3}
    assert said[0].startswith("500 of 1,000 submitted")


def _nothing(*_: object, **__: object) -> None:
    pass


class _Queue:
    """A slurmctld that does not tell of one job."""

    def __init__(self, forgets: int) -> None:
        self.jobs, self.cancelled, self._forgets = set[int](), list[str](), forgets
        self.slurm = self

    def crowd(self, _: object, count: int, first: int) -> Any:
        found = [replace(submitted(), job_id=first + n + 1) for n in range(count)]
        self.jobs |= {one.job_id for one in found if one.job_id} - {self._forgets}
        crowd = SimpleNamespace(join=lambda _: found)
        return SimpleNamespace(start=lambda: crowd)

    def run(self, words: Sequence[str], *, check: bool) -> None:
        self.cancelled += words[1:]


def test_a_job_whose_time_was_up_by_itself_is_not_waited_for(tmp_path: Path) -> None:
    """Slurm would refuse to cut it short, again and again."""
    commands: list[str] = []
    batch = Batch(_cluster_of(tmp_path, {"JobState": "TIMEOUT"}, commands))
    ending = next(one for one in ENDINGS if one.name == "runs out of time")
    batch.waits(7, ending)
    begun = tmp_path / "begun" / "7"
    begun.write_text("0\n")
    os.utime(begun, (0, 0))
    assert batch.tend()
    assert commands == []


def test_requeued_jobs_start_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one is asked again later; slurmd would run no prolog for it."""
    commands: list[str] = []
    clock_s = [100.0]
    monkeypatch.setattr("contrib.bench.campaign.endings.time.monotonic", lambda: clock_s[0])
    starter = endings.Starter(_cluster_of(tmp_path, {}, commands))
    for job_id, passed_s in (("7", 0.0), ("8", 1.0), ("8", endings.APART_S)):
        clock_s[0] += passed_s
        starter.start(job_id)
    assert [word for word in commands if word.startswith("JobId")] == ["JobId=7", "JobId=8"]


def _cluster_of(folder: Path, job: dict[str, str], commands: list[str]) -> Any:
    """A cluster in `folder` whose every job is `job`."""
    slurm = SimpleNamespace(
        path=folder.joinpath,
        job=lambda _: job,
        run=lambda words, **_: commands.extend(words),
    )
    return SimpleNamespace(slurm=slurm)
