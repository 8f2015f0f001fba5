"""Rates of runs with the hardware that they had: which runs say something of a node."""

from typing import Any

import pytest

from slurm_ext.history.store.store import History
from slurm_ext.history.views.speed_rows import speed_rows
from tests.history.conftest import add_run, insert

LOADER = {
    "accel_samples_per_s": 90.0,
    "key_script_args": 7,
    "batch_size": 32.0,
    "gpus": 1,
    "ranks": 1,
    "nodes": 1,
    "gpu_model": "A100",
}


def add(history: History, number: int, *, at_s: float = 100.0, **changes: Any) -> None:
    """One run that counts, with some of its loader's columns changed."""
    user, account = changes.pop("user", "ada"), changes.pop("account", "vision")
    add_run(history.conn, number, node=f"n{number}", user=user, account=account, end_s=at_s)
    insert(history.conn, "loader_runs", **{"run": number, **LOADER, **changes})


def gpu_counter(history: History, run: int, uuid: str) -> None:
    """One GPU's utilisation was counted."""
    row = {"name": f"gpu_util@{uuid}", "unit": "1", "source": f"nvml/{uuid}"}
    insert(history.conn, "counter_names", **row)
    (counter,) = history.conn.execute("SELECT max(id) FROM counter_names").fetchone()
    insert(history.conn, "counters", run=run, counter=counter, value=0.5)


def test_runs_come_in_the_order_of_their_ends(history: History) -> None:
    """With who, where, on what and how fast; equal work has an equal name on any GPU."""
    add(history, 1, at_s=200.0)
    add(history, 2, at_s=100.0, gpu_model="V100", user="bob")
    add(history, 3, at_s=150.0, batch_size=64.0)
    first, second, third = speed_rows(history)
    assert [row.node for row in (first, second, third)] == ["n2", "n3", "n1"]
    assert (first.user, first.gpu_model, first.samples_per_s) == ("bob", "V100", 90.0)
    assert first.training == third.training != second.training


def test_steps_on_cpus_are_compared_on_as_many_cores(history: History) -> None:
    """A CPU of another generation is no peer; beside a GPU, the node's cores do not matter."""
    on_cpu = {"gpus": 0, "on_cpu": 1, "gpu_model": None}
    for number, node_cores in enumerate((64, 64, 40)):
        add(history, 10 + number, at_s=number, node_cores=node_cores, **on_cpu)
        add(history, 20 + number, at_s=10 + number, node_cores=node_cores, on_cpu=0)
    rows = [row.training for row in speed_rows(history)]
    assert rows[0] == rows[1] != rows[2]
    assert len({*rows[3:]}) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"accel_samples_per_s": None},
        {"key_script_args": None},
        {"doubt": 3},
        {"emulated": 1},
        {"nodes": 2},
    ],
    ids=["not measured", "unknown script", "doubted", "emulated", "several nodes"],
)
def test_what_says_nothing_of_a_node_is_left_out(history: History, changes: dict[str, Any]) -> None:
    """Rates that rest on something else than one node."""
    add(history, 1, **changes)
    assert speed_rows(history) == []


def test_a_shared_gpu_says_nothing(history: History) -> None:
    """Its neighbour slowed it down; a neighbour on other GPUs did not."""
    add(history, 1)
    add(history, 2)
    insert(history.conn, "corunners", run=1, job_id=9, overlap_s=5.0, shared_gpus="GPU-1")
    insert(history.conn, "corunners", run=2, job_id=9, overlap_s=5.0, shared_gpus="")
    assert [row.node for row in speed_rows(history)] == ["n2"]


def test_an_only_gpu_is_named(history: History) -> None:
    """By its UUID; of two, nobody knows whose the rate is."""
    for run, uuids in ((1, ["GPU-1"]), (2, ["GPU-2", "GPU-3"]), (3, [])):
        add(history, run)
        for uuid in uuids:
            gpu_counter(history, run, uuid)
    assert [row.gpu for row in speed_rows(history)] == ["GPU-1", None, None]


def test_a_period_an_account_and_a_number_bound_it(history: History) -> None:
    """The newest count."""
    for number in range(1, 5):
        add(history, number, at_s=100.0 * number, account="text" if number == 2 else "vision")
    named = [row.node for row in speed_rows(history, since_s=200.0, until_s=400.0)]
    assert named == ["n2", "n3"]
    assert [row.node for row in speed_rows(history, account="text")] == ["n2"]
    assert [row.node for row in speed_rows(history, most=1)] == ["n4"]
