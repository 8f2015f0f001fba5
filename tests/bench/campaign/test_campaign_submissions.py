"""Which refusals, waits and changes of submissions the campaign holds against dlqueue."""

import sqlite3
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from contrib.bench.campaign import submissions
from contrib.bench.campaign.__main__ import chosen
from contrib.bench.campaign.cluster import USERS, Cluster
from contrib.bench.campaign.faults import FAULTS
from contrib.bench.campaign.faults.migration import taken_back
from contrib.bench.campaign.holds import Hold, holds, most_within
from contrib.bench.campaign.shapes import Shapes
from contrib.bench.campaign.submissions import Crowd, Kind, Submitted
from slurm_ext.core.errors import InputError
from slurm_ext.history.store import schema
from slurm_ext.history.store.store import open_history
from tests.bench.campaign.a_campaign import judged, submitted
from tests.history.conftest import add_run


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


@pytest.mark.parametrize("shells", [1, 4])
def test_a_crowd_submits_as_many_from_any_number_of_shells(
    monkeypatch: pytest.MonkeyPatch, shells: int
) -> None:
    """More shells share the same count, where each submission takes seconds."""
    busy: set[int | None] = set()

    def submit(_: object, kind: Kind, user: str, __: int) -> Submitted:
        busy.add(threading.get_native_id())
        time.sleep(0.001)
        return replace(submitted(1, kind=kind.name), user=user, job_id=None)

    monkeypatch.setattr(submissions, "submit", submit)
    crowd = Crowd(cast(Cluster, None), 48, 1, shells).start()
    assert Counter(one.user for one in crowd.join(lambda: None)) == dict.fromkeys(USERS, 16)
    assert len(busy) == shells * len(USERS)


def test_calls_of_the_plugin_are_read_from_slurmctlds_log() -> None:
    """Waits for a deadline are counted by period; a call beyond it misses, had it a core."""
    calls = (
        *((1, 400, 0, 0), (2, 49_000, 0, 0), (3, 50_500, 9, 0)),
        *((40, 200_000, 9, 0), (80, 150_000, 99_000, 0), (120, 74_000, 0, 20_000)),
    )
    log = "".join(
        f"[2026-01-01T00:{second // 60:02}:{second % 60:02}.000] lua: campaign: held {held_us} us, "
        f"{queued_us} us of it without a core, {stolen_us} us of it stolen\n"
        for second, held_us, queued_us, stolen_us in calls
    )
    assert [round(1e3 * one.held_s, 1) for one in holds(log)] == [0.4, 49, 50.5, 200, 150, 74]
    row = judged(submitted(), log=log)
    assert (row.held_s, row.held_in_period, row.over_deadline, row.held) == (0.2, 2, 1, False)
    far = [Hold(at, 1.0, 0.0, 0.0) for at in (0.0, 30.0)]
    assert most_within(far, least_s=1.0, period_s=30.0) == 1


def test_a_job_of_no_shape_of_its_kind_was_changed_wrongly() -> None:
    """Kinds that were not looked at are nobody's; a job that was never seen neither."""
    shapes = Shapes({"known": {"as written", "advised"}})
    assert shapes.wrong([submitted()], {7: "advised"}) == []
    wrong = shapes.wrong([submitted()], {7: "half as written"})
    assert wrong == ["known job 7 of root: +half"]
    assert shapes.wrong([submitted(), submitted(kind="array")], {}) == []


def test_every_fault_has_a_name_of_its_own() -> None:
    """One can be run alone; a wrong name is answered with the right ones."""
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names) >= 40
    assert [fault.name for fault in chosen(["network_cut"])] == ["network_cut"]
    with pytest.raises(InputError, match="'nothing' is none of none, advisor_dead"):
        chosen(["nothing"])


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
