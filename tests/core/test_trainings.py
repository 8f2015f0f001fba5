"""Which processes of a job train together, and the rate of all of them."""

from typing import Any

import pytest

from slurm_ext.core.loader_run import loader_run
from slurm_ext.core.trainings import MOST_TRAININGS, trainings
from slurm_ext.core.unsupported_loader import UnsupportedLoader, clocks_disagree
from tests.core.test_loader_run import GOLDEN


def loader(samples: int = 800, wall_s: float = 10.0, **more: Any) -> dict[str, Any]:
    """A loader of one epoch, 8 samples a batch and a step each."""
    batches = samples // 8
    phase = {"phase": "first_epoch", "epochs": 1, "samples": samples, "batches": batches}
    phase |= {"steps": batches, "wall_s": wall_s, "step_s": wall_s / 2, "workers": 0.0}
    phase |= {"fetch_samples": samples, "fetch_wall_s": wall_s / 2, "fetch_cpu_s": wall_s / 2}
    return {"id": 0, "dataset": "Data", "batch_size": 8, "phases": [phase], **more}


def process(*loaders: dict[str, Any], at: float = 0.0, **more: Any) -> dict[str, Any]:
    """A process that lived 20 seconds from `at` on."""
    times = {"started_s": at, "ended_s": at + 20.0}
    return {"rank": 0, "world_size": 1, "loaders": loaders or (loader(),), **times, **more}


def found(*summaries: dict[str, Any]) -> list[tuple[float | None, int]]:
    """Rate and processes of each training."""
    return [(one.samples_per_s, one.ranks) for one in trainings(summaries)]


def test_ranks_of_one_world_are_one_training() -> None:
    """Both ranks' samples over the time of the slower one."""
    ranks = [process(loader(wall_s=8.0 + 2 * r), rank=r, world_size=2) for r in range(2)]
    assert found(*ranks) == [(160, 2)]


def test_ranks_on_other_nodes_count() -> None:
    """A record has one node's summaries: two of four ranks are half of the job's rate."""
    assert found(*[process(rank=r, world_size=4) for r in (2, 3)]) == [(320, 4)]


def test_processes_side_by_side_are_added() -> None:
    """Two that know nothing of each other; one that only ran at the end of them is another."""
    late = process(loader(samples=80), at=15)
    assert found(process(), process(at=2), late) == [(160, 2), (8, 1)]


def test_short_trainings_beside_a_long_one_are_not_all_at_once() -> None:
    """Three of five seconds, one after the other, beside one of ten: two run at a time."""
    short = [process(loader(400, 5.0), at=at, ended_s=at + 6) for at in (0, 7, 14)]
    assert found(process(), *short) == [(200, 2)]


def test_two_worlds_one_after_the_other_are_two_trainings() -> None:
    """The same ranks twice, at other times: largest first."""
    first = [process(rank=r, world_size=2) for r in range(2)]
    second = [process(loader(1600), at=50, rank=r, world_size=2) for r in range(2)]
    assert found(*first, *second) == [(320, 2), (160, 2)]


def test_loaders_one_after_the_other_are_trainings_of_one_process() -> None:
    """In each rank: the largest of each are one training."""
    both = [loader(), loader(400, id=1)]
    assert found(*[process(*both, rank=r, world_size=2) for r in range(2)]) == [(160, 2), (80, 2)]
    assert len(found(process(*both, ended_s=12.0))) == 1  # at once: 20 s of loop in 12 s


def fed(samples: int, wall_s: float = 10.0, shared: int = 0, **more: Any) -> dict[str, Any]:
    """A loader of which the probe told the model, and the steps that it shares with others."""
    one = loader(samples, wall_s, **{"model": 1, **more})
    one["phases"][0]["shared_steps"] = shared
    return one


def test_one_models_loaders_of_one_dataset_are_one_training() -> None:
    """Batches that grow: 800 samples in ten seconds, and 400 in five."""
    assert found(process(fed(800), fed(400, 5.0, batch_size=16))) == [(80, 1)]
    assert found(process(fed(800), fed(400, 2.5))) == [(96, 1)]
    assert found(process(fed(800), fed(400, 5.0, dataset="Other"))) == [(80, 1), (80, 1)]
    assert found(process(fed(800), fed(400, 5.0, model=2))) == [(80, 1), (80, 1)]


def test_loaders_that_take_turns_by_steps_are_added() -> None:
    """Two tasks, or two threads: each step took one loader's batch, in the same ten seconds."""
    assert found(process(fed(800), fed(400), ended_s=12.0)) == [(120, 1)]
    assert found(process(fed(800), fed(400, model=2), ended_s=12.0)) == [(120, 1)]


def test_zipped_loaders_count_once() -> None:
    """Each step took a batch of both."""
    assert found(process(fed(800, shared=100), fed(400, shared=50), ended_s=12.0)) == [(80, 1)]


def test_time_of_an_evaluation_is_not_the_trainings() -> None:
    """Two loaders in turn, for ten seconds, and an evaluation of eight."""
    held_out = fed(100, 8.0, model=None)
    held_out["phases"][0]["steps"] = 0
    assert found(process(fed(800), fed(400), held_out, ended_s=20.0)) == [(120, 1)]


def test_who_only_evaluates_is_no_training() -> None:
    """A process or a loader without steps, beside one with; without any, the largest counts."""
    held_out = loader(1600)
    held_out["phases"][0]["steps"] = 0
    assert found(process(), process(held_out)) == [(80, 1)]
    assert found(process(loader(), held_out)) == [(80, 1)]
    assert found(process(held_out, held_out)) == [(160, 1)]


def test_a_pass_before_the_training_is_no_part_of_it() -> None:
    """Mean and deviation of the data, by the loader that trains later."""
    one = loader()
    one["phases"].append({**one["phases"][0], "phase": "later", "wall_s": 20.0})
    one["phases"][0]["steps"] = 0
    assert found(process(one)) == [(40, 1)]


def test_starts_of_workers_are_in_the_time() -> None:
    """800 samples in ten seconds of loop and six of starting."""
    assert found(process(loader(startup_s=6.0))) == [(50, 1)]


def test_without_times_ranks_alone_tell_processes_apart() -> None:
    """A probe of before told none."""
    older: dict[str, Any] = {"started_s": None, "ended_s": None}
    ranks = [process(rank=r, **older) for r in (0, 0, 1)]
    assert found(*ranks) == [(160, 2), (80, 1)]


@pytest.mark.parametrize("world", [-1, 0, 10**9, "2", None, True, 2.0])
def test_a_world_that_cannot_be_is_one_process(world: Any) -> None:
    """The process writes it itself."""
    assert found(process(world_size=world)) == [(80, 1)]


def test_no_more_trainings_are_told_than_anybody_reads() -> None:
    """A thousand processes one after the other, and rates that no machine has."""
    assert len(found(*[process(at=100.0 * n) for n in range(1024)])) == MOST_TRAININGS
    assert found(process(loader(8 * 10**12, 1.0))) == [(None, 1)]


def evidence(*summaries: dict[str, Any]) -> Any:
    """Evidence of a record with these summaries."""
    return loader_run({**GOLDEN, "probe": {"summaries": summaries}})


def test_the_evidence_has_both_rates() -> None:
    """One process's steady one, which the curve needs, and the whole job's."""
    run = evidence(*[process(rank=r, world_size=4) for r in range(2)])
    assert (run.samples_per_s, run.whole_samples_per_s, run.ranks, run.doubt) == (80, 320, 4, None)


def test_processes_of_different_data_have_no_one_curve() -> None:
    """Two trainings side by side: their mean is neither's."""
    run = evidence(process(), process(loader(dataset="Other")))
    assert (run.whole_samples_per_s, run.doubt) == (160, UnsupportedLoader.TWO_LOADERS)


def test_a_run_whose_clocks_disagree_is_doubted() -> None:
    """A hundred and fifteen steps with a hundred batches of a pass that has long ended."""
    run = evidence(process(optimizer={"steps": 115, "wall_s": 9.0}))
    assert run.doubt == UnsupportedLoader.CLOCKS_DISAGREE


@pytest.mark.parametrize(
    ("clock", "apart"),
    [
        (None, False),
        ({"steps": 100, "wall_s": 9.9}, False),
        ({"steps": 102, "wall_s": 9.9}, False),
        ({"steps": 108, "wall_s": 9.9}, True),
        ({"steps": 19, "wall_s": 9.9}, False),
        ({"steps": 100, "wall_s": 0.0}, False),
    ],
    ids=str,
)
def test_clocks_are_compared_where_there_are_two(clock: Any, apart: bool) -> None:
    """Steps beyond five in a hundred, and two at a pass's end, had no batch."""
    summary = process(optimizer=clock)
    assert clocks_disagree(summary, summary["loaders"][0]) == apart


@pytest.mark.parametrize(("seconds", "apart"), [(29.0, False), (19.2, False), (18.0, True)])
def test_later_epochs_lie_between_the_first_and_the_last_step(seconds: float, apart: bool) -> None:
    """Twenty seconds of later epochs in eighteen seconds of steps cannot be."""
    one = loader()
    one["phases"].append({**one["phases"][0], "phase": "later", "wall_s": 20.0})
    summary = process(one, optimizer={"steps": 200, "wall_s": seconds})
    assert clocks_disagree(summary, one) == apart


@pytest.mark.parametrize(("batches", "apart"), [(100, False), (210, False), (133, True)])
def test_batches_of_a_step_are_a_whole_number(batches: int, apart: bool) -> None:
    """One, two with some steps left out, but not one and a third."""
    one = loader()
    one["phases"][0]["batches"] = batches
    summary = process(one, optimizer={"steps": 100, "wall_s": 9.9})
    assert clocks_disagree(summary, one) == apart


def together(marks: list[list[int]], data_ranks: int | None, world: int = 0) -> Any:
    """Ranks of one world that read batches with these marks; the job's rate over one rank's."""
    ranks = [
        process(
            loader(first_batches=own), rank=r, world_size=world or len(marks), data_ranks=data_ranks
        )
        for r, own in enumerate(marks)
    ]
    return evidence(*ranks)


ONE, TWO, THREE, FOUR = [1, 11], [2, 12], [3, 13], [4, 14]


@pytest.mark.parametrize(
    ("marks", "data_ranks", "times"),
    [
        ([ONE, ONE], 1, 1),  # a pipeline, or layers in parts
        ([ONE, TWO], 1, 2),  # gradients averaged by hand
        ([ONE, ONE], 2, 2),  # DDP of data that is made up, or one seed for all
        ([ONE, ONE], None, 2),  # in no group: two trainings of one kind
        ([[], []], 1, 2),  # nothing of their batches could be read
        ([ONE, [1]], 1, 1),  # one had no second batch
        ([ONE, ONE, TWO, TWO], 2, 2),  # two replicas of two parts
        ([ONE, ONE, ONE, ONE], 2, 2),  # the same, of data that is made up
        ([ONE, ONE, TWO, TWO], 1, 2),  # the same, averaged by hand
        ([ONE, ONE, TWO, TWO], 4, 2),  # parts of a sequence, and gradients averaged over all
        ([ONE, ONE, TWO, THREE], 4, 4),  # two that are alike by chance
        ([ONE, TWO, THREE, FOUR], 2, 4),  # gradients averaged in halves
    ],
    ids=str,
)
def test_a_batch_that_several_ranks_read_counts_once(
    marks: list[list[int]], data_ranks: int | None, times: int
) -> None:
    """Ranks of a model in parts are one replica, and data-parallel ones are added."""
    run = together(marks, data_ranks)
    assert run.whole_samples_per_s == pytest.approx(80 * times)
    assert run.samples_per_s * run.ranks == pytest.approx(80 * times)
    assert run.ranks == len(marks)


def test_ranks_that_read_the_same_train_from_one_loader() -> None:
    """What each of them counts of it is no second loader beside it, however short its life."""
    own = {"world_size": 2, "data_ranks": 1, "ended_s": 10.5}
    check = loader(400, 0.3, id=1, dataset="Check")
    check["phases"][0]["steps"] = 0
    both = [process(loader(first_batches=ONE), check, rank=r, **own) for r in (0, 1)]
    run = evidence(*both)
    assert (run.whole_samples_per_s, run.doubt) == (pytest.approx(80), None)


def test_ranks_on_other_nodes_read_as_those_here() -> None:
    """Four of eight ranks, each pair with one batch: four batches at a time in the whole job."""
    assert together([ONE, ONE, TWO, TWO], 4, world=8).whole_samples_per_s == pytest.approx(320)


def test_two_worlds_with_the_same_data_are_two() -> None:
    """Both of two launches hold a model in parts, side by side."""
    own = {"world_size": 2, "data_ranks": 1}
    four = [process(loader(first_batches=ONE), rank=r, **own) for r in (0, 1, 0, 1)]
    assert evidence(*four).whole_samples_per_s == pytest.approx(160)


def test_one_rank_that_reads_for_all_counts_once() -> None:
    """The other rank of the pipeline has no loader, and is on this node, too."""
    ranks = [process(rank=0, world_size=2), process(rank=1, world_size=2) | {"loaders": []}]
    assert found(*ranks) == [(80, 1)]
