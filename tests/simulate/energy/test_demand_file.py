"""A demand series from a file: gaps are filled and counted, a wrong line is named."""

from pathlib import Path

import numpy as np
import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.simulate.energy.demand_file import read_demand
from slurm_ext.simulate.energy.policies import idle_for, replay_policy

START = 1_700_000_400


def record_of(folder: Path, *rows: tuple[int, int, int]) -> Path:
    """A file of (slot, needed, there)."""
    path = folder / "demand-gpu.csv"
    path.write_text("".join(f"{START + 600 * at},{need},{total}\n" for at, need, total in rows))
    return path


def test_a_gap_is_as_the_slot_before(tmp_path: Path) -> None:
    """Counted, as is a need above what was there."""
    record = read_demand(record_of(tmp_path, (0, 1, 4), (2, 5, 4)))
    assert record.need.tolist() == [1, 1, 4]
    assert record.total.tolist() == [4, 4, 4]
    assert record.first_slot == START // 600
    assert record.repairs == {
        "without a line: as the slot before": 1,
        "more nodes needed than there: as many as there": 1,
    }


def test_the_user_of_a_slot_is_no_part_of_a_replay(tmp_path: Path) -> None:
    """The loop records whose jobs wanted the most nodes."""
    path = tmp_path / "demand-gpu.csv"
    path.write_text(f"{START},1,4\n{START + 600},2,4,1000\n")
    assert read_demand(path).need.tolist() == [1, 2]


@pytest.mark.parametrize(("gap", "left_out"), [(144, 0), (145, 1)])
def test_what_is_before_a_gap_of_more_than_a_day_is_left_out(
    tmp_path: Path, gap: int, left_out: int
) -> None:
    """At a day exactly the gap is filled."""
    record = read_demand(record_of(tmp_path, (0, 1, 4), (gap, 2, 4)))
    assert len(record.need) == (1 if left_out else gap + 1)
    assert record.repairs.get("before a gap of 144 slots: left out", 0) == left_out


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "no slot"),
        ("time,needed,there\n", "no slot"),
        (f"{START},1,2\n{START},1,2\n", ":2: a slot of ten minutes has a second line"),
        (f"{START},1,2\n{START + 600},x,2\n", ":2: .* expected Unix time"),
        (f"{START},1\n", ":1: .* expected Unix time"),
        (f"{START},-1,2\n", ":1: "),
        (f"{START},1,100001\n", ":1: 100001 nodes"),
        (f"{START},0,0\n", "no node was there"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, named: str) -> None:
    """With what is expected."""
    path = tmp_path / "demand.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=named):
        read_demand(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """One clear error."""
    with pytest.raises(InputError, match="cannot be read"):
        read_demand(tmp_path / "none.csv")


def test_idle_nodes_sleep_after_their_time_and_wake_a_slot_late(tmp_path: Path) -> None:
    """SuspendTime of one slot: a node idle in slot 1 is off in slot 2; slot 4 lacks three."""
    needs = (3, 1, 1, 1, 4, 4)
    record = read_demand(record_of(tmp_path, *((at, need, 4) for at, need in enumerate(needs))))
    result = idle_for(record, 0, 1)
    assert result.powered_by_slot == [4, 3, 1, 1, 4, 4]
    assert (result.short, result.wakes, result.woken) == (3, 1, 3)
    assert (result.total, result.needed, result.powered) == (24, 14, 17)


def test_nodes_that_come_back_are_awake(tmp_path: Path) -> None:
    """An outage is neither a saving nor a shortage of the policy."""
    rows = ((0, 4, 4), (1, 2, 2), (2, 4, 4))
    result = idle_for(read_demand(record_of(tmp_path, *rows)), 0, None)
    assert (result.short, result.wakes) == (0, 0)
    assert result.powered_by_slot == [4, 2, 4]


@pytest.mark.parametrize("name", ["ours", "persistence", "vanilla", "always-on"])
def test_every_policy_has_every_slot(tmp_path: Path, name: str) -> None:
    """From the split on, and a row of figures."""

    class Nothing:
        name = "nothing"

        def change(self, rows: np.ndarray, horizon: int) -> np.ndarray:
            return np.zeros(len(rows))

        def peak(self, rows: np.ndarray, level: float) -> np.ndarray:
            return np.zeros(len(rows))

    record = read_demand(record_of(tmp_path, *((at, at % 4, 4) for at in range(40))))
    seen: list[int] = []
    result = replay_policy(name, record, 10, Nothing(), progress=seen.append)
    assert (result.policy, result.slots, seen[-1]) == (name, 30, 30)
    assert result.figures()["powered_mean"] == result.powered / 30
