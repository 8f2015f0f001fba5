"""Real DataLoaders from some workers to others, and trainings that pinned their seeds."""

import pytest

from slurm_ext.probe.inspection.fetch_trial import ASKS
from tests.probe.conftest import Scenarios


@pytest.mark.parametrize(
    "name",
    [
        "one_worker_shuffled",
        "persistent",
        "custom_sampler_with_workers",
        "handle_for_each_worker",
        "one_worker_that_augments",
    ],
)
def test_gated_loaders_give_what_they_gave(scenarios: Scenarios, name: str) -> None:
    """From some workers to others: same batches, same order, same semantics."""
    probed, plain, _ = scenarios("gated")
    assert probed[name]["result"] == plain[name]["result"]
    assert probed[name]["rows"][0]["method"] == "gated"


def test_spawned_workers_are_gated_and_measured(scenarios: Scenarios) -> None:
    """A user's spawn stays a spawn, with other workers, whose fetches are counted."""
    probed, plain, errors = scenarios("spawned", DLQUEUE_NUM_WORKERS="2")
    (row,) = probed["spawned_by_the_user"]["rows"]
    assert probed["spawned_by_the_user"]["result"] == plain["spawned_by_the_user"]["result"]
    assert (row["method"], row["started_workers"]) == ("gated", 2)
    assert row["phases"][0]["fetch_samples"] == 32
    # Python's own race: a queue's feeder thread, which torch does not join, may be ended between
    # unlinking its lock and telling the resource tracker, which then says so in four lines.
    heard = (line for line in errors.splitlines() if "warnings.warn(" not in line)
    assert [line for line in heard if "resource_tracker" not in line] == []


def test_worker_init_fn_runs_once_in_every_worker(scenarios: Scenarios) -> None:
    """`worker_init_fn` is called once in each; prefetching stays within its factor."""
    seen, bounded, inits = scenarios("gated")[0]["init_function_timeout_and_prefetch"]["result"]
    assert seen == list(range(96))
    assert bounded
    assert inits == 4


@pytest.mark.parametrize(
    "name", ["one_worker_that_counts", "one_worker_that_reads_on", "one_worker_that_iterates"]
)
def test_one_worker_that_keeps_state_is_as_written(scenarios: Scenarios, name: str) -> None:
    """Several would each begin the same stream again, or take each other's parts of it."""
    probed, plain, _ = scenarios("gated")
    row = probed[name]["rows"][0]
    assert probed[name]["result"] == plain[name]["result"]
    assert (row["left_alone"], row["started_workers"]) == ("the dataset keeps state", 1)


def test_workers_that_go_by_their_numbers_are_as_written(scenarios: Scenarios) -> None:
    """No init sees a number that the user's workers have not, nor one of them in two workers."""
    name = "init_function_that_goes_by_its_number"
    probed, plain, _ = scenarios("gated")
    row = probed[name]["rows"][0]
    assert probed[name]["result"] == plain[name]["result"]
    assert (row["method"], row["left_alone"]) == ("own", ASKS)


def test_spawned_workers_that_ask_for_their_numbers_are_as_written(scenarios: Scenarios) -> None:
    """Theirs would be the numbers of more workers than the user has."""
    probed, plain, _ = scenarios("spawned", DLQUEUE_NUM_WORKERS="2")
    told = probed["spawned_with_a_handle_each"]
    assert told["result"] == plain["spawned_with_a_handle_each"]["result"]
    assert told["rows"][0]["left_alone"] == ASKS


def test_fewer_workers_than_asked(scenarios: Scenarios) -> None:
    """A loader that asked for six works with the four it was given."""
    assert scenarios("gated")[0]["fewer_than_asked"]["result"] == [list(range(96)), 4]


def test_the_gate_is_felt_within_the_epoch(scenarios: Scenarios) -> None:
    """Four workers, then one, then three, by a number in a file; every sample once, in order."""
    rows, first, second, third = scenarios("gated")[0]["number_in_a_file"]["result"]
    assert rows == list(range(600))
    assert (first, second, third) == (4, 1, 3)


def test_warnings_are_the_users_own(scenarios: Scenarios) -> None:
    """Workers beyond the cores bring no warning; the user's own stay, from the same line."""
    probed, plain, _ = scenarios("gated")
    name = "warnings_are_the_users_own"
    assert probed[name]["result"] == plain[name]["result"]
    assert plain[name]["result"][0] == 0
    assert plain[name]["result"][1]


SEEDED = {
    "shuffle_only": ("gated", None),
    "shuffle_with_a_generator": ("gated", None),
    "augmented_with_torch": ("own", None),
    "augmented_beside_a_new_generator": ("own", None),
    "augmented_beside_a_generator_that_torch_seeds": ("own", None),
    "augmented_by_a_new_generator_in_a_worker": ("own", None),
    "augmented_rarely": ("gated", "fetching draws random numbers in a job with pinned seeds"),
    "augmented_rarely_with_numpy": (
        "gated",
        "fetching draws random numbers in a job with pinned seeds",
    ),
    "augmented_in_workers": ("own", None),
    "caught_before_a_late_draw": (
        "gated",
        "fetching draws random numbers in a job with pinned seeds",
    ),
    "augmented_from_the_second_pass_on": ("gated", None),
    "augmented_from_the_second_pass_on_in_workers": ("own", None),
    "transform_swapped_between_passes": ("gated", None),
    "epoch_told_to_the_dataset": ("gated", None),
}


@pytest.mark.parametrize(("name", "what"), SEEDED.items())
def test_pinned_seeds_are_kept(
    scenarios: Scenarios, name: str, what: tuple[str, str | None]
) -> None:
    """Shuffling, augmentation and the job's own random streams are bit for bit the user's."""
    probed, plain, _ = scenarios("seeded")
    row = probed[name]["rows"][0]
    assert probed[name]["result"] == plain[name]["result"]
    assert (row["method"], row["fallback"]) == what


def test_trust_in_a_loader_is_taken_back_and_given_again(scenarios: Scenarios) -> None:
    """A changed dataset makes its trial again, and has its workers in each pass that goes well."""
    probed, _, _ = scenarios("seeded")
    reasons = {name: probed[name]["rows"][0]["left_alone"] for name in SEEDED}
    assert reasons["augmented_from_the_second_pass_on"] == "the dataset keeps state"
    assert reasons["transform_swapped_between_passes"] == "the dataset keeps state"
    assert reasons["epoch_told_to_the_dataset"] is None
    assert probed["epoch_told_to_the_dataset"]["rows"][0]["gate"] == 4


def test_a_seeded_job_may_say_otherwise(scenarios: Scenarios) -> None:
    """DLQUEUE_SEEDED=allow: workers although seeds are pinned; shuffling still as it was."""
    probed, plain, _ = scenarios("seeded", DLQUEUE_SEEDED="allow")
    assert probed["shuffle_only"]["result"] == plain["shuffle_only"]["result"]
    for name in SEEDED:
        assert (probed[name]["rows"][0]["method"], probed[name]["rows"][0]["fallback"]) == (
            "gated",
            None,
        )
