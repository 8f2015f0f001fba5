"""Evidence of a record at its bounds: phases, waiting, ranks, GPUs, and sound measurements."""

from copy import deepcopy
from typing import Any

import pytest

from slurm_ext.core.loader_run import loader_run
from tests.core.test_loader_run import GOLDEN, QUEUED, known, later, record


def phases(one: dict[str, Any]) -> list[dict[str, Any]]:
    """All phases of the only loader."""
    found: list[dict[str, Any]] = one["probe"]["summaries"][0]["loaders"][0]["phases"]
    return found


@pytest.mark.parametrize(
    ("changes", "joined"),
    [
        ({"batches": 4, "wall_s": 1.0, "step_s": 0.9}, False),
        ({"batches": 3, "wall_s": 1.0, "step_s": 0.9}, True),
        ({"batches": 4, "wall_s": 0.99, "step_s": 0.9}, True),
        ({"fetch_samples": 0}, True),
    ],
)
def test_later_epochs_count_from_four_batches_and_a_second_on(
    changes: dict[str, Any], joined: bool
) -> None:
    """Both bounds belong to them; without a fetched sample their cost is not known."""
    one = record(**changes)
    rate = known(one).samples_per_s
    last = phases(one)[1]
    alone = last["samples"] / last["wall_s"]
    both = (1024 + last["samples"]) / (8 + last["wall_s"])
    assert rate == pytest.approx(both if joined else alone)


def test_a_caller_may_ask_for_longer_phases() -> None:
    """The allocator measures in windows of its own length."""
    assert loader_run(GOLDEN, min_wall_s=15.0) == known(GOLDEN)
    later_too_short = loader_run(GOLDEN, min_wall_s=15.1)
    assert later_too_short is not None
    assert later_too_short.samples_per_s == pytest.approx(3072 / 23)
    assert loader_run(GOLDEN, min_wall_s=23.0) is not None
    assert loader_run(GOLDEN, min_wall_s=23.1) is None


@pytest.mark.parametrize(
    ("phase", "sound"),
    [
        ({"step_s": 15 * 1.1}, True),
        ({"step_s": 15 * 1.11}, False),
        ({"fetch_cpu_s": 0.0}, True),
        ({"workers": 4096}, True),
        ({"workers": 4097}, False),
        ({"samples": 1e9, "wall_s": 1.0, "step_s": 1.0}, True),
        ({"samples": 1.01e9, "wall_s": 1.0, "step_s": 1.0}, False),
        ({"samples": 1e9, "wall_s": 1.0, "step_s": 0.9}, False),
        ({"fetch_samples": 30e9}, True),
        ({"fetch_samples": 31e9}, False),
        ({"fetch_wall_s": 1e18}, False),
        ({"fetch_wall_s": 1e17}, True),
    ],
    ids=str,
)
def test_bounds_of_what_a_machine_can_measure(phase: dict[str, Any], sound: bool) -> None:
    """Each bound belongs to what is possible: rates to a billion a second, 4096 workers."""
    assert (loader_run(record(**phase)) is not None) is sound


@pytest.mark.parametrize(
    ("queued", "share"),
    [(15 * 1.1, 1.0), (15 * 1.11, None), (15.0, 1.0), (14.0, 14 / 15), (0.0, 0.0), (-0.1, None)],
)
def test_waiting_is_at_most_the_whole(queued: float, share: float | None) -> None:
    """A little more than there was is a matter of clocks; much more, or less than 0, is wrong."""
    run = known(record(step_s=15.0, step_queued_s=queued))
    wanted = None if share is None else pytest.approx(share * 15 / 2048)
    assert run.step_queued_s == wanted


@pytest.mark.parametrize("missing", ["step_queued_s", "wait_queued_s"])
def test_the_loops_waiting_needs_both_of_its_parts(missing: str) -> None:
    """Half of it would look like little."""
    run = known(record(**{**QUEUED, missing: None}))
    assert run.main_queued_s is None
    assert run.fetch_queued_s == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("read", "per_sample"), [(0, 0.0), (2048, 1.0), (-1, None), (1.2e18, None), (9e17, 9e17 / 2048)]
)
def test_bytes_of_a_sample(read: float, per_sample: float | None) -> None:
    """What was cached was not read, and that is 0; what nobody could read is unknown."""
    assert known(record(bytes_read=read)).bytes_per_sample == per_sample


def test_workers_are_those_of_most_samples() -> None:
    """Epochs with other numbers of workers weigh by their samples; of ranks the median counts."""
    one = record(batches=3)
    phases(one)[0]["workers"], phases(one)[1]["workers"] = 1, 4
    assert known(one).workers == 3
    assert known(record(workers=0.4)).workers == 0
    assert known(record(workers=0.6)).workers == 1


def test_costs_of_ranks_are_means_and_the_heaviest_worker_counts() -> None:
    """Of two ranks that differ: the whole cost by all samples, the memory of the largest."""
    one = deepcopy(GOLDEN)
    second = deepcopy(one["probe"]["summaries"][0]) | {"rank": 1}
    second["loaders"][0]["worker_rss_bytes"] = 900_000_000
    second["loaders"][0]["phases"][1] |= {
        "fetch_wall_s": 90.0,
        "step_s": 14.0,
        "bytes_read": 0,
        "main_cpu_s": 2.048,
    }
    one["probe"]["summaries"].append(second)
    run = known(one)
    assert run.fetch_wall_s == pytest.approx((30 + 90) / 4096)
    assert run.accel_samples_per_s == pytest.approx(4096 / (7 + 14))
    assert run.bytes_per_sample == pytest.approx(51200 / 2)
    assert run.worker_rss_bytes == 900_000_000
    assert run.main_cpu_s == pytest.approx(0.001)  # of the only rank that measured it
    assert run.run_samples == 2 * 3072


@pytest.mark.parametrize(
    ("allocation", "ranks", "cores"),
    [
        ({"cpus_per_task": 8, "num_tasks": 1}, 1, 8.0),
        ({"cpus_per_task": 8, "num_tasks": 1}, 2, 4.0),
        ({"cpus_per_task": 8, "num_tasks": 2}, 2, 8.0),
        ({"cpus_per_task": 8, "num_tasks": 3, "num_nodes": 2}, 1, 8.0),
        ({"cpus_per_task": 8, "num_tasks": 3, "num_nodes": 2}, 2, 8.0),
        ({"cpus_per_task": 8, "num_tasks": 4, "num_nodes": 2}, 4, 4.0),
        ({"cpus_per_task": 8, "num_tasks": 0, "num_nodes": 0}, 2, 4.0),
    ],
)
def test_a_ranks_part_of_the_tasks_cores(
    allocation: dict[str, int], ranks: int, cores: float
) -> None:
    """Ranks share the tasks of this node; tasks without a rank give it nothing."""
    one = deepcopy(GOLDEN)
    one["allocation"] |= allocation
    one["host"]["cores"] = 64
    summary = one["probe"]["summaries"][0]
    summary.pop("cores", None)
    summary.pop("node_cores", None)
    one["probe"]["summaries"] = [deepcopy(summary) | {"rank": rank} for rank in range(ranks)]
    run = known(one)
    assert (run.cores, run.node_cores) == (cores, 64)


@pytest.mark.parametrize(
    ("accelerators", "host", "model"),
    [
        (["A", "A"], ["B"], "A"),
        (["A", "B"], ["B"], None),
        ([None, "A"], ["B"], "A"),
        ([None, None], ["B", "B"], "B"),
        ([None, None], ["B", "C"], None),
        ([None, None], [], None),
        (["x" * 64, None], [], "x" * 64),
    ],
)
def test_a_gpus_model_is_the_trainings_before_the_nodes(
    accelerators: list[str | None], host: list[str], model: str | None
) -> None:
    """A node of two sorts tells nothing of its job's GPU."""
    one = deepcopy(GOLDEN)
    one["allocation"]["gpus"] = ["0"]
    one["host"]["gpus"] = host
    summary = one["probe"]["summaries"][0]
    one["probe"]["summaries"] = [
        deepcopy(summary) | {"rank": rank, "accelerator": name}
        for rank, name in enumerate(accelerators)
    ]
    run = known(one)
    assert (run.gpu_model, run.gpus) == (model, 1)
    assert run.emulated is (accelerators[0] is None)


@pytest.mark.parametrize(
    ("elapsed_s", "outside_s"), [(23.0, 0.0), (21.0, 0.0), (20.9, None), (23.5, 0.5)]
)
def test_time_outside_of_the_loop_is_never_below_zero(
    elapsed_s: float, outside_s: float | None
) -> None:
    """Within a tenth, two clocks may differ: nothing is outside then."""
    one = deepcopy(GOLDEN)
    one["times"]["elapsed_s"] = elapsed_s
    assert known(one).outside_s == outside_s


@pytest.mark.parametrize(("world", "ranks"), [(2, 2), (1_000_000, 1_000_000), (1_000_001, 1)])
def test_a_world_has_an_end(world: int, ranks: int) -> None:
    """A million ranks are the most that a summary is believed."""
    one = deepcopy(GOLDEN)
    one["probe"]["summaries"][0]["world_size"] = world
    assert known(one).ranks == ranks


def test_a_batch_size_that_is_not_told_is_the_mean_batch() -> None:
    """A sampler of batches has none of its own."""
    one = deepcopy(GOLDEN)
    one["probe"]["summaries"][0]["loaders"][0]["batch_size"] = None
    assert known(one).batch_size == 32
    later(one)["batches"] = 128
    assert known(one).batch_size == 16


@pytest.mark.parametrize(
    ("told", "taken"), [(1, 1), (2.5, 2.5), (0.5, 32), (1e-30, 32), (1e17, 1e17), (1e18, 32)]
)
def test_a_batch_of_a_size_that_cannot_be_is_the_mean_batch(told: float, taken: float) -> None:
    """A batch has at least one sample, and no more than a job has."""
    one = deepcopy(GOLDEN)
    one["probe"]["summaries"][0]["loaders"][0]["batch_size"] = told
    assert known(one).batch_size == taken


@pytest.mark.parametrize(("told", "taken"), [(0.5, 0.5), (1e-3, 1e-3), (1e-300, 2.0)])
def test_next_to_no_cores_are_not_believed(told: float, taken: float) -> None:
    """Nobody trains on them: the allocation's are taken."""
    one = deepcopy(GOLDEN)
    one["probe"]["summaries"][0]["cores"] = told
    assert known(one).cores == taken


def test_a_loop_a_tenth_longer_than_its_job_is_a_matter_of_clocks() -> None:
    """The bound belongs to it."""
    one = deepcopy(GOLDEN)
    phases(one)[1]["wall_s"] = 3.0  # with the first one's eight: 11 seconds
    phases(one)[1]["step_s"] = 2.0
    one["times"]["elapsed_s"] = 10.0
    assert 11.0 == 10.0 * 1.1
    assert known(one).outside_s == 0.0
