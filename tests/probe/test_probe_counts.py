"""What the probe says of a training is what the training says of itself."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from slurm_ext.core.trainings import trainings
from slurm_ext.probe.counters.batches import are_uncountable, rows
from slurm_ext.probe.counters.steps import StepClock
from slurm_ext.probe.counters.turns import Turns
from slurm_ext.probe.passes.meters import Meters
from slurm_ext.probe.passes.one_pass import Pass
from tests.probe import programs_counted
from tests.probe.conftest import Environment, Python
from tests.probe.test_step_clock import Optimiser

FOUR = torch.zeros(4, 3)


@pytest.fixture(scope="module")
def counted(
    environment: Environment, python: Python, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The programs' own counts, and the summary of their process."""
    run_dir = tmp_path_factory.mktemp("counted") / "run"
    done = python(["-m", "tests.probe.programs_counted"], environment(run_dir))
    assert done.returncode == 0, done.stderr
    (path,) = run_dir.glob("summary-*.json")
    return json.loads(done.stdout), json.loads(path.read_text())


LOADERS = {
    "batches_of_the_dataset": 0,
    "iterable_of_batches": 1,
    "iterable_of_samples": 2,
    "another_library": 3,
    "lasting": 5,
    "side_by_side": 7,
    "own_iterator": 9,
    "fed_by_another": 11,
    "own_workers": 12,
    "own_lasting": 13,
}


def total(loader: dict[str, Any], name: str) -> float:
    """The sum over a loader's phases."""
    return float(sum(phase[name] for phase in loader["phases"]))


@pytest.mark.parametrize("name", LOADERS)
def test_samples_are_those_that_the_loop_received(counted: Any, name: str) -> None:
    """Whoever made the batches, and however often a loader begins anew."""
    counts, summary = counted
    loader = summary["loaders"][LOADERS[name]]
    assert total(loader, "samples") == pytest.approx(counts[name][0], rel=0.01)


def test_made_and_delivered_samples_are_counted_alike(counted: Any) -> None:
    """The cost of a sample is the loading's time over as many samples as the loop got."""
    for loader in counted[1]["loaders"][:3]:
        assert total(loader, "fetch_samples") == total(loader, "samples")


def test_another_librarys_loader_is_only_measured(counted: Any) -> None:
    """Training and validation apart, an epoch after the other; nothing of it is changed."""
    training, validation = counted[1]["loaders"][3:5]
    assert [phase["epochs"] for phase in training["phases"]] == [1, 2]
    assert (total(training, "samples"), total(validation, "samples")) == (288, 216)
    assert training["left_alone"] == "the loader is another library's"


def test_a_validation_is_no_step(counted: Any) -> None:
    """A loader that lives through all epochs: 19 steps of 5 ms, and 3 validations of 120 ms."""
    training, validation = counted[1]["loaders"][5:7]
    assert total(validation, "step_s") >= 3 * 5 * 0.02
    assert total(training, "step_s") < counted[0]["lasting"][1] - 3 * 5 * 0.02


def test_loaders_that_take_turns_each_have_the_whole_time(counted: Any) -> None:
    """Neither's rate is higher than the training's."""
    wall_s = counted[0]["side_by_side"][1]
    for loader in counted[1]["loaders"][7:9]:
        assert total(loader, "wall_s") > 7 * 0.005
        assert total(loader, "wall_s") == pytest.approx(wall_s, rel=0.5)


def test_optimizer_steps_are_a_clock_of_their_own(counted: Any) -> None:
    """All steps of the process's one optimiser: 21 + 30 + 10 + 36 + 21 + 7 + 21 + 7 + 21 + 21."""
    assert counted[1]["optimizer"]["steps"] == 195
    assert counted[1]["optimizer"]["wall_s"] > 152 * 0.005
    assert counted[1]["faults"] == []


def test_steps_belong_to_the_loader_whose_batch_they_took(counted: Any) -> None:
    """A validation has none, nor a loader within a data set; zipped ones have the same."""
    steps = [total(loader, "steps") for loader in counted[1]["loaders"][3:]]
    assert steps == [36, 0, 21, 0, 7, 7, 21, 0, 7, 21, 21]


def test_a_loader_that_makes_its_own_iterators_is_measured(counted: Any) -> None:
    """Its fetches are of samples, and an epoch is one pass, with workers that last, too."""
    for name in ("own_iterator", "own_lasting"):
        loader = counted[1]["loaders"][LOADERS[name]]
        assert [phase["epochs"] for phase in loader["phases"]] == [1, 2]
        assert total(loader, "fetch_samples") == pytest.approx(300, rel=0.01)
    assert loader["left_alone"] == "the loader is another library's"


def test_workers_of_such_a_loader_start_in_its_training(counted: Any) -> None:
    """Each pass starts them, which its user waits for as for torch's own loader."""
    loader = counted[1]["loaders"][LOADERS["own_workers"]]
    assert loader["startup_s"] > programs_counted.EPOCHS * programs_counted.START_S


def test_a_training_without_a_loader_has_steps(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """Batches cut from a tensor by hand: the summary has no loader, and counts."""
    code = (
        "import torch; w = torch.zeros(1, requires_grad=True); o = torch.optim.SGD([w], 0.1)\n"
        "for _ in range(5): w.sum().backward(); o.step()"
    )
    done = python(["-c", code], environment(tmp_path / "run"))
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = (tmp_path / "run").glob("summary-*.json")
    summary = json.loads(path.read_text())
    assert (summary["loaders"], summary["optimizer"]["steps"]) == ([], 5)


def test_a_torch_without_a_step_is_told_of(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """A training by hand has a summary that says what was imported; one for the job is enough."""
    run_dir = tmp_path / "run"
    code = "import sys, types; sys.modules['keras'] = types.ModuleType('keras'); import torch"
    for _ in range(2):
        done = python(["-c", code], environment(run_dir))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (path,) = run_dir.iterdir()
    summary = json.loads(path.read_text())
    assert (summary["loaders"], summary["optimizer"]) == ([], None)
    assert (summary["frameworks"], summary["finished"]) == (["keras"], True)
    assert summary["started_s"] < summary["ended_s"]


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (FOUR, 4),
        ([FOUR, torch.zeros(4)], 4),
        ({"image": FOUR, "label": torch.zeros(4, dtype=torch.int64)}, 4),
        ((FOUR, ["a", "b", "c", "d"]), 4),
        ([(FOUR, 1), (FOUR, 0)], 2),
        (([FOUR, torch.zeros(7, 3)], [{}, {}]), 2),
        ((FOUR, 1), None),
        ((FOUR, torch.tensor(1)), None),
        ((FOUR, torch.zeros(5)), None),
        (torch.zeros(9), None),
        ({"tokens": torch.zeros(9), "mask": torch.zeros(9)}, None),
        (SimpleNamespace(num_graphs=8), 8),
        (torch.zeros(0, 3), None),
        ([], None),
        ("text", None),
        (None, None),
    ],
)
def test_a_batch_tells_its_samples(batch: Any, expected: int | None) -> None:
    """By the first dimension where all parts agree; a label or vectors alone are one sample's."""
    assert rows(batch) == expected


BLOCK = SimpleNamespace(num_dst_nodes=lambda: 3)


@pytest.mark.parametrize(
    ("batch", "count", "uncountable"),
    [
        ((FOUR, torch.zeros(2), torch.zeros(4)), None, True),  # nodes, and labels of the seeds
        ((torch.zeros(9), torch.zeros(3), [SimpleNamespace(), BLOCK]), 3, False),
        (SimpleNamespace(edge_index=FOUR, batch_size=3), 3, False),
        (SimpleNamespace(edge_index=FOUR), None, True),
        ((torch.zeros(3, 8, 8), torch.zeros(2, 4), torch.zeros(2)), None, False),  # boxes in it
        ((FOUR, 1), None, False),
        ((torch.zeros(16, 3, 8, 8), 1), None, True),  # 16 pictures, or one film
        ((torch.zeros(3, 8, 8), 1), None, False),
        ({"tokens": torch.zeros(9), "mask": torch.zeros(9)}, None, False),
    ],
)
def test_a_subgraph_has_as_many_samples_as_its_library_says(
    batch: Any, count: int | None, uncountable: bool
) -> None:
    """Seeds of DGL and torch_geometric; else nobody knows which of several counts it is."""
    assert rows(batch) == count
    assert count is not None or are_uncountable(batch) == uncountable


def test_a_stream_of_subgraphs_is_told_in_steps(
    environment: Environment, python: Python, tmp_path: Path
) -> None:
    """Four nodes and two seeds in each: neither one sample nor four, and steps are sure."""
    code = (
        "import torch; w = torch.zeros(1, requires_grad=True); o = torch.optim.SGD([w], 0.1)\n"
        "class Parts(torch.utils.data.IterableDataset):\n"
        "    def __iter__(self):\n"
        "        yield from ((torch.zeros(4, 3), torch.zeros(2)) for _ in range(30))\n"
        "for batch in torch.utils.data.DataLoader(Parts(), batch_size=None):\n"
        "    w.sum().backward(); o.step()"
    )
    done = python(["-c", code], environment(tmp_path / "run"))
    assert (done.returncode, done.stderr) == (0, "")
    (path,) = (tmp_path / "run").glob("summary-*.json")
    summary = json.loads(path.read_text())
    (loader,) = summary["loaders"]
    assert (total(loader, "batches"), total(loader, "samples")) == (30, 0)
    assert (list(trainings([summary])), summary["optimizer"]["steps"]) == ([], 30)


def one_pass() -> Any:
    """A pass that has handed a batch."""
    counts = {"steps": 0, "shared_steps": 0, "elsewhere": False, "over": False, "evaluates": False}
    passed = SimpleNamespace(last=1.0, left=None, moved=[], note_first=lambda _: None, **counts)
    passed.meter = object()  # of a loader that has no other pass
    passed.apart = lambda seconds, _: passed.moved.append(seconds)
    return passed


@pytest.mark.parametrize(
    ("others", "stepped", "expected"), [(3, False, [5.0]), (1, False, []), (3, True, [])]
)
def test_only_a_validation_is_left_out(others: int, stepped: bool, expected: list[float]) -> None:
    """Several batches of another loader in a row, and no step of an optimiser meanwhile."""
    turns, training, other = Turns(StepClock()), one_pass(), one_pass()
    turns.to(training, 10.0)
    for _ in range(others):
        turns.to(other, 20.0)
    if stepped:
        turns.count(Optimiser(), 22.0)
    turns.to(training, 25.0)
    assert training.moved == expected
    turns.to(training, 26.0)
    assert training.moved == expected


@pytest.mark.parametrize(("others", "expected"), [(3, [5.0]), (1, [])])
def test_a_validation_between_zipped_batches_is_left_out_of_both(
    others: int, expected: list[float]
) -> None:
    """Two loaders give each step's batch: the first one's step is not over when it is left."""
    turns, first, second, other = Turns(StepClock()), one_pass(), one_pass(), one_pass()
    for second_s in (10.0, 15.0):
        turns.to(first, second_s)
        turns.to(second, second_s + 1)
        turns.count(Optimiser(), second_s + 3)
    for _ in range(others):
        turns.to(other, 20.0)
    turns.to(first, 25.0)
    turns.to(second, 25.0)
    assert (first.moved, second.moved) == (expected, expected)


@pytest.mark.parametrize("in_its_mode", [True, False])
def test_a_validation_that_counts_its_batches_is_one(in_its_mode: bool) -> None:
    """Ignite and Lightning never ask for the end: it is known when the training goes on."""
    turns, training, other = Turns(StepClock()), one_pass(), one_pass()
    turns.to(training, 1.0)
    turns.count(Optimiser(), 2.0)
    turns.to(other, 3.0)
    if in_its_mode:
        turns.turn(False, 3.5)
    turns.to(other, 4.0)
    turns.to(training, 5.0)
    assert (training.evaluates, other.evaluates) == (False, in_its_mode)


def test_passes_without_a_step_are_forgotten() -> None:
    """A program that only evaluates, one batch of a new loader each time."""
    turns = Turns(StepClock())
    for second in range(100):
        turns.to(one_pass(), float(second))
    assert len(turns._here()._beside) < 16


def test_a_loader_that_reuses_a_dead_ones_id_takes_nothing_of_it() -> None:
    """Python gives a new object the id of one that is gone: the predecessor's numbers stay."""
    known = Meters(None, "/nowhere")
    meters = []
    for _ in range(3):
        for name in ("training", "validation"):
            owner = Loader()
            meter = known.new(owner, {"dataset": name, "persistent": False}, None)
            assert meter is not None
            known._of = dict.fromkeys(known._of, meter)  # all had this id once
            meters.append(meter)
            del owner
    assert len(known.all) == 2
    assert meters == known.all * 3


class Loader:
    """Stands for a loader that each training, or each epoch, makes anew."""


FACTS = {"dataset": "Data", "style": "map", "batch_size": 8, "length": 24, "user_num_workers": 2}


def passed(known: Meters, owner: Any, models: set[int]) -> Pass:
    """One pass over this loader, with a step of these models."""
    meter = known._of.get(id(owner))
    if meter is None or meter.owner() is not owner:
        meter = known.new(owner, {**FACTS, "persistent": False}, None)
    assert meter is not None
    meter.started(1.0, 2)
    current = Pass(owner, meter)
    current.batches = 3
    meter.begin(current)
    known.stepped(current, models)
    current.steps += 3
    current.meter.end(current)
    return current


@pytest.mark.parametrize(("stepped_at", "step_s"), [(10.5, 3.0), (90.0, 3.0), (9.0, 2.0)])
def test_the_last_step_of_a_loop_that_counts_is_in_its_pass(
    stepped_at: float, step_s: float
) -> None:
    """Three batches, the third at 10 s and no more asked for; the first two's steps took 2 s.

    The third batch's optimiser stepped at 10.5 s, and what follows a step is seen by no hook: it
    counts as the usual second. So it does where steps went on without batches; and not at all
    where the latest step was another batch's.
    """
    current = passed(Meters(None, "/nowhere"), Loader(), {1})
    current.step_s, current.last, current.stepped_at = 2.0, 10.0, stepped_at
    assert current.totals()["step_s"] == step_s


@pytest.mark.parametrize(("ended_at", "wall_s"), [(10.0, 2.5), (0.0, 2.0)])
def test_a_step_after_the_last_batch_is_in_its_pass(ended_at: float, wall_s: float) -> None:
    """A loop that reads one batch ahead makes the last step when the loader is at its end."""
    turns, known = Turns(StepClock()), Meters(None, "/nowhere")
    owner = Loader()
    meter = known.new(owner, {**FACTS, "persistent": False}, None)
    assert meter is not None
    current = Pass(owner, meter)
    meter.begin(current)
    current.batches, current.step_s = 5, 2.0
    turns.to(current, 1.0)
    turns.count(Optimiser(FOUR), 9.0)
    turns.credit()
    current.meter.end(current)
    current.ended_at = ended_at
    turns.count(Optimiser(FOUR), 10.5)
    turns.credit()
    assert [phase["wall_s"] for phase in current.meter.row()["phases"]] == [wall_s]


def test_each_training_of_a_process_has_a_meter_of_its_own() -> None:
    """Three epochs of two folds, whose loaders are made anew each epoch and look alike."""
    known = Meters(None, "/nowhere")
    numbers = [passed(known, Loader(), {1 + fold}).meter.number for fold in (0, 0, 0, 1, 1, 1)]
    assert numbers == [0, 0, 0, 1, 1, 1]
    rows = [meter.row() for meter in known.all]
    assert [row["startup_s"] for row in rows] == [3.0, 3.0]
    assert [sum(phase["steps"] for phase in row["phases"]) for row in rows] == [9, 9]


def test_models_that_take_turns_have_one_meter_each() -> None:
    """An ensemble, an epoch of each in turn; and two optimisers of one training are one."""
    known = Meters(None, "/nowhere")
    owner = Loader()
    numbers = [passed(known, owner, {model}).meter.number for model in (1, 2, 1, 2)]
    assert numbers == [0, 1, 0, 1]
    together = Meters(None, "/nowhere")
    for models in ({1, 2}, {2}, {1}):
        assert passed(together, Loader(), models).meter.number == 0


def test_loaders_of_one_look_that_live_at_once_stay_apart() -> None:
    """Two that a training zips, and the same two in the next training."""
    known = Meters(None, "/nowhere")
    numbers = []
    for fold in (1, 2):
        owners = Loader(), Loader()
        numbers.append([passed(known, owner, {fold}).meter.number for owner in owners])
        del owners
    assert numbers == [[0, 1], [2, 3]]


def test_a_search_over_a_hundred_models_keeps_room_for_other_loaders() -> None:
    """Some are told apart, the others are one; no loader goes unmeasured for it."""
    known = Meters(None, "/nowhere")
    for fold in range(100):
        passed(known, Loader(), {fold})
    assert len(known.all) == 16
    assert known.new(Loader(), {**FACTS, "dataset": "Other", "persistent": False}, None) is not None
