"""From a spool record to evidence: what counts, and what is no evidence."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurm_ext.core.loader_run import loader_run
from slurm_ext.core.records import LoaderRun

GOLDEN = json.loads(
    (Path(__file__).parent.parent / "golden" / "spool" / "v1.json").read_text(encoding="utf-8")
)


def record(**phase: Any) -> dict[str, Any]:
    """The golden record, its later phase changed."""
    changed: dict[str, Any] = deepcopy(GOLDEN)
    later(changed).update(phase)
    return changed


def later(one: dict[str, Any]) -> dict[str, Any]:
    """The phase after the first epoch of the only loader."""
    phase: dict[str, Any] = one["probe"]["summaries"][0]["loaders"][0]["phases"][1]
    return phase


def known(one: dict[str, Any]) -> LoaderRun:
    """Its evidence, which has to be there."""
    run = loader_run(one)
    assert run is not None
    return run


def test_the_golden_record_teaches_its_later_epochs() -> None:
    """Rates and costs are those of the later epochs: the first one fills the page cache."""
    run = known(GOLDEN)
    assert run.samples_per_s == pytest.approx(2048 / 15)
    assert run.accel_samples_per_s == pytest.approx(2048 / 7)
    assert run.fetch_wall_s == pytest.approx(30 / 2048)
    assert run.fetch_cpu_s == pytest.approx(29.4 / 2048)
    assert run.bytes_per_sample == 51200
    assert (run.workers, run.cores, run.batch_size, run.node_cores) == (4, 2, 32, 2)
    assert run.worker_rss_bytes == 210_000_000
    assert run.user_workers == 0
    assert run.emulated


def starting(first_startup_s: float | None) -> float:
    """Seconds of a pass's start, where all passes together took 3 s for it."""
    one = record()
    loader = one["probe"]["summaries"][0]["loaders"][0]
    loader |= {"startup_s": 3.0, "first_startup_s": first_startup_s, "gate": 2}
    for phase in loader["phases"]:
        phase["epochs"] = 1 if phase["phase"] == "first_epoch" else 4
    startup_s = known(one).startup_s
    assert startup_s is not None
    return startup_s


def test_what_is_done_once_is_in_no_later_start() -> None:
    """Five passes, the first of which took 2 s longer; all alike where nobody told it."""
    assert starting(2.2) == pytest.approx(0.2)
    assert starting(None) == pytest.approx(0.6)


def borrowing(**own: Any) -> dict[str, Any]:
    """The golden record, its later epochs made with lent workers but for a part, if any."""
    one = record(lent_s=15.0)
    if own:
        part = {**later(GOLDEN), "epochs": 0, **own}
        one["probe"]["summaries"][0]["loaders"][0]["phases"].append(part)
        later(one).update(samples=2048 - part["samples"], batches=64 - part["batches"])
    return one


def test_time_without_lent_workers_teaches_as_if_there_was_no_loan() -> None:
    """Its rates and costs; an epoch is as long as with them, and the whole rate is not its own."""
    part = {"samples": 512, "batches": 16, "wall_s": 7.5, "step_s": 1.75, "fetch_samples": 512}
    run = known(borrowing(**part))
    assert run.samples_per_s == pytest.approx(512 / 7.5)
    assert run.accel_samples_per_s == pytest.approx(512 / 1.75)
    assert run.epoch_samples == 1024
    assert run.whole_samples_per_s is None
    assert known(GOLDEN).whole_samples_per_s is not None


def test_time_with_lent_workers_teaches_nothing() -> None:
    """The first epoch had none: it alone counts, although others came later."""
    assert known(borrowing()).samples_per_s == pytest.approx(1024 / 8)


def tuned(workers: int | None, **rates: float) -> LoaderRun:
    """Evidence of a loader whose search stayed with `workers`, by rates named as `w3`."""
    one = deepcopy(GOLDEN)
    one["probe"]["summaries"][0]["loaders"][0]["tuned"] = {
        "workers": workers,
        "settled_s": 4.0,
        "settled_batches": 30,
        "rates": [
            {"workers": int(name[1:]), "samples_per_s": rate, "wait": 0.1}
            for name, rate in rates.items()
        ],
    }
    return known(one)


def test_a_search_that_stayed_tells_count_and_rate() -> None:
    """Not the mean over all the counts that it measured."""
    run = tuned(3, w0=50.0, w3=180.0)
    assert (run.workers, run.samples_per_s) == (3, 180.0)


@pytest.mark.parametrize("rate", [0.0, -1.0, 1e9])
def test_a_search_that_cannot_be_or_goes_on_tells_nothing(rate: float) -> None:
    """More than the step allows, or no count yet: the phases tell, as ever."""
    for run in (tuned(3, w3=rate), tuned(None, w3=150.0), tuned(2, w3=150.0)):
        assert run.workers == 4
        assert run.samples_per_s == pytest.approx(2048 / 15)


def test_a_single_epoch_counts_where_there_is_no_other() -> None:
    """A job of one epoch is evidence all the same."""
    one = deepcopy(GOLDEN)
    del one["probe"]["summaries"][0]["loaders"][0]["phases"][1]
    assert known(one).samples_per_s == pytest.approx(1024 / 8)


def test_a_later_phase_that_is_too_short_is_joined_to_the_first() -> None:
    """Three batches of a second epoch do not outvote the whole first one."""
    one = record(samples=96, batches=3, wall_s=0.7, step_s=0.3, fetch_samples=96)
    assert known(one).samples_per_s == pytest.approx((1024 + 96) / (8 + 0.7))


def test_the_loader_that_delivered_most_is_the_training_loader() -> None:
    """A small validation loader beside it does not count."""
    one = deepcopy(GOLDEN)
    loaders = one["probe"]["summaries"][0]["loaders"]
    small = deepcopy(loaders[0])
    small["batch_size"] = 7
    for phase in small["phases"]:
        phase["samples"] //= 10
    loaders.insert(0, small)
    assert known(one).batch_size == 32


def test_the_loader_that_an_optimizer_used_is_the_training_loader() -> None:
    """A validation that delivers more samples than the training, and faster, does not count."""
    one = deepcopy(GOLDEN)
    loaders = one["probe"]["summaries"][0]["loaders"]
    held_out = deepcopy(loaders[0])
    for phase in held_out["phases"]:
        phase.update(samples=9 * phase["samples"], steps=0)
    for phase in loaders[0]["phases"]:
        phase["steps"] = phase["batches"]
    loaders.insert(0, held_out)
    rate = known(one).samples_per_s
    assert rate == known(GOLDEN).samples_per_s
    for phase in loaders[1]["phases"]:
        phase["steps"] = None
    assert known(one).samples_per_s == pytest.approx(9 * rate)


def test_ranks_are_one_training_each_with_its_part_of_the_cores() -> None:
    """Two ranks in one task of four CPUs: rates of one rank, two cores each."""
    one = deepcopy(GOLDEN)
    one["allocation"]["cpus_per_task"] = 4
    one["host"]["cores"] = 4
    first = one["probe"]["summaries"][0]
    first |= {"world_size": 2, "cores": 4, "node_cores": 4}
    second = deepcopy(first) | {"rank": 1, "pid": 4243}
    second["loaders"][0]["phases"][1]["wall_s"] = 20.0
    one["probe"]["summaries"].append(second)
    run = known(one)
    assert run.cores == 2
    assert run.samples_per_s == pytest.approx((2048 / 15 + 2048 / 20) / 2)


def test_of_two_processes_of_one_rank_the_one_that_trained_counts() -> None:
    """A preparation script before the training has the same rank and fewer samples."""
    one = deepcopy(GOLDEN)
    at = {"pid": 1, "started_s": 1759999900.0, "ended_s": 1759999990.0}
    before = deepcopy(one["probe"]["summaries"][0]) | at
    for phase in before["loaders"][0]["phases"]:
        phase["samples"] = 1
    one["probe"]["summaries"].insert(0, before)
    assert known(one) == known(GOLDEN)


@pytest.mark.parametrize(
    ("asked", "affinity", "machine", "cores"),
    [(8, 8, 2, 2), (1, 1, 2, 1), (1, 2, 2, 2), (4, 3, 16, 3)],
)
def test_cores_are_what_could_really_be_used(
    asked: int, affinity: int, machine: int, cores: float
) -> None:
    """The smallest bound: Slurm's, which may be more than there are, affinity and the machine.

    A job that may run on more cores than it asked for is not kept on its own: it had them all.
    """
    one = deepcopy(GOLDEN)
    one["allocation"]["cpus_per_task"] = asked
    one["probe"]["summaries"][0] |= {"cores": affinity, "node_cores": machine}
    assert known(one).cores == cores


def test_a_process_that_loads_itself_tells_nothing_of_its_step() -> None:
    """With 0 workers helper threads spin while data is loaded; that CPU is not the step's."""
    run = known(record(workers=0.0, main_cpu_s=60.0, fetch_cpu_s=29.4, wall_s=40.0))
    assert run.workers == 0
    assert run.main_cpu_s is None


def test_what_all_threads_did_while_it_loaded_is_no_cost_of_the_step() -> None:
    """The rest is, of 2,048 samples: without workers, and where a trial loaded some at home."""
    serial = record(workers=0.0, main_cpu_s=32.048, home_cpu_s=30.0, fetch_cpu_s=29.4, wall_s=40.0)
    assert known(serial).main_cpu_s == pytest.approx(0.001)
    assert known(record(main_cpu_s=3.048, home_cpu_s=1.0)).main_cpu_s == pytest.approx(0.001)
    assert known(record(main_cpu_s=1.0, home_cpu_s=1.1)).main_cpu_s == 0


def test_main_cost_is_unknown_where_nobody_measured_it() -> None:
    """Missing is None, not zero."""
    assert known(GOLDEN).main_cpu_s is None
    assert known(record(main_cpu_s=2.048)).main_cpu_s == pytest.approx(0.001)


QUEUED = {"fetch_queued_s": 10.24, "wait_queued_s": 0.512, "step_queued_s": 1.024}


def test_waiting_for_cores_is_told_for_one_sample() -> None:
    """Of fetching, of the step, and of the whole loop; what a batch weighs, too."""
    run = known(record(**QUEUED, delivered_bytes=2048 * 600_000))
    assert run.fetch_queued_s == pytest.approx(0.005)
    assert run.step_queued_s == pytest.approx(0.0005)
    assert run.main_queued_s == pytest.approx(0.00075)
    assert run.sample_bytes == 600_000


@pytest.mark.parametrize("unknown", [{}, dict.fromkeys(QUEUED), {"fetch_queued_s": 1e9}])
def test_queueing_that_nobody_measured_is_unknown(unknown: dict[str, Any]) -> None:
    """An older probe, a silent kernel, more waiting than there was time: None, never zero."""
    run = known(record(**unknown))
    assert run.fetch_queued_s is None
    assert run.main_queued_s is None
    assert run.sample_bytes is None


@pytest.mark.parametrize(
    "fault",
    [
        {"step_s": 0.0},
        {"step_s": -1.0},
        {"step_s": 40.0},
        {"wall_s": float("nan")},
        {"wall_s": float("inf")},
        {"fetch_wall_s": 0.0},
        {"fetch_cpu_s": -0.1},
        {"fetch_cpu_s": float("nan")},
        {"samples": 10**300},
        {"workers": 1e9},
        {"workers": float("nan")},
    ],
    ids=str,
)
def test_impossible_numbers_are_no_evidence(fault: dict[str, float]) -> None:
    """What no machine could have measured teaches nothing."""
    assert loader_run(record(**fault)) is None


@pytest.mark.parametrize("probe", [None, {}, {"summaries": []}, {"summaries": [{"loaders": []}]}])
def test_a_job_without_a_loader_is_no_evidence(probe: Any) -> None:
    """Most jobs of a cluster train nothing: that is no error."""
    assert loader_run({**GOLDEN, "probe": probe}) is None


def test_a_few_batches_are_no_evidence() -> None:
    """A job that died in its first batches only emptied the prefetch queue."""
    one = deepcopy(GOLDEN)
    del one["probe"]["summaries"][0]["loaders"][0]["phases"][1]
    one["probe"]["summaries"][0]["loaders"][0]["phases"][0] |= {"batches": 3}
    assert loader_run(one) is None


def test_a_look_in_the_middle_of_an_epoch_has_none() -> None:
    """Where no pass over the data began, nothing was paid for one: None, not a short epoch."""
    assert known(record()).epoch_samples == 1024
    assert known(record(epochs=0)).epoch_samples is None


def test_a_loader_that_yields_nothing_is_no_evidence() -> None:
    """An empty dataset, or a filter that lets nothing through: no samples, no rate."""
    one = deepcopy(GOLDEN)
    for phase in one["probe"]["summaries"][0]["loaders"][0]["phases"]:
        phase.update(dict.fromkeys(("samples", "batches", "fetch_samples", "workers"), 0))
    assert loader_run(one) is None
    one["probe"]["summaries"][0]["loaders"][0]["phases"] = []
    assert loader_run(one) is None


NUMBERS = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(10**20), 10**20)


@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("samples", "batches", "wall_s", "step_s", "workers", "fetch_samples", "fetch_wall_s"),
            NUMBERS,
        ),
    )
)
@example({"fetch_samples": 5e-324})
@example({"samples": 5e-324})
def test_any_numbers_are_sane_evidence_or_none(phase: dict[str, float]) -> None:
    """Whatever a phase holds, evidence is finite and positive, or there is none."""
    run = loader_run(record(**phase))
    if run is not None:
        assert 0 < run.samples_per_s <= 1e9
        assert 0 < run.accel_samples_per_s <= 1e9
        assert 0 < run.fetch_wall_s < 1e300
        assert run.workers >= 0


def test_a_completed_run_tells_how_much_it_did_and_what_came_beside() -> None:
    """Both epochs' samples, and the seconds of the job outside of its training loop."""
    run = known(GOLDEN)
    assert run.run_samples == 1024 + 2048
    assert run.outside_s == pytest.approx(41.5 - 23)
    assert (run.ranks, run.nodes, run.gpu_model) == (1, 1, None)


@pytest.mark.parametrize("state", ["TIMEOUT", "CANCELLED", "FAILED", "UNKNOWN"])
def test_a_run_that_was_cut_short_says_nothing_of_the_whole(state: str) -> None:
    """What it did is less than what there was to do; its rate counts all the same."""
    one = deepcopy(GOLDEN)
    one["outcome"]["state"] = state
    run = known(one)
    assert (run.run_samples, run.outside_s) == (None, None)
    assert run.samples_per_s > 0


@pytest.mark.parametrize("elapsed_s", [None, 0, 5.0])
def test_a_loop_longer_than_its_job_says_nothing_of_the_whole(elapsed_s: float | None) -> None:
    """Clocks that contradict each other teach no total."""
    one = deepcopy(GOLDEN)
    one["times"]["elapsed_s"] = elapsed_s
    assert known(one).run_samples is None


def test_ranks_elsewhere_count_in_the_total_and_gpus_have_a_name() -> None:
    """A node sees its own ranks; the world's size says how many there are in all."""
    one = deepcopy(GOLDEN)
    one["allocation"] |= {"gpus": ["0", "1"], "num_nodes": 2, "num_tasks": 4}
    first = one["probe"]["summaries"][0]
    first |= {"world_size": 4, "accelerator": "NVIDIA H200"}
    one["probe"]["summaries"].append(deepcopy(first) | {"rank": 1, "pid": 4243})
    run = known(one)
    assert (run.ranks, run.nodes, run.gpus) == (4, 2, 2)
    assert run.run_samples == 4 * 3072
    assert run.gpu_model == "NVIDIA H200"


@pytest.mark.parametrize("world", [-5, 0, 1e9, 10**9, "4", None, True])
def test_a_world_that_cannot_be_is_the_ranks_that_were_seen(world: object) -> None:
    """The summary is the job's own word."""
    one = deepcopy(GOLDEN)
    one["probe"]["summaries"][0]["world_size"] = world
    assert known(one).ranks == 1


@pytest.mark.parametrize("name", [7, "", "x" * 65, "a\x1b[2Jb", ["H200"]])
def test_a_gpu_with_an_impossible_name_has_none(name: object) -> None:
    """It would be printed to terminals."""
    one = deepcopy(GOLDEN)
    one["allocation"]["gpus"] = ["0"]
    one["probe"]["summaries"][0]["accelerator"] = name
    assert known(one).gpu_model is None
