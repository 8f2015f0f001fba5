"""Training on slabs is the serial training, and what cannot be divided is refused by all."""

from math import prod

import pytest

from tests.spatial.world import Results, results_of

REFUSED = {
    "odd size": "18 planes cannot be divided into 4 equal parts",
    "odd slabs, stride": "0 (Conv3d): parts of 3, 3, 3, 3 planes do not all begin at a multiple",
    "thin": "0 (Conv3d): parts of 2, 2, 2, 2 planes are thinner than its halo of 3",
    "no output": "one would have no output",
    "unequal across": "slabs that do not fit together",
    "unequal along, stride": "0 (MaxPool3d): parts of 4, 5, 4, 4 planes do not all begin",
    "not batched": "0 tensors of batch, channels and 3 dimensions of space",
    "circular": "0 (Conv3d): padding mode 'circular' is not divided",
    "linear on slab": "0 (Linear): it wants flattened features",
    "adaptive": "0 (AdaptiveAvgPool3d): its output size must be 1",
    "transposed": "0 (ConvTranspose3d): its output is not 2 times as large",
    "modules": "0 (LSTM): no rule for this type; 2 (RMSNorm): no rule for this type",
    "mesh": "a mesh of 3 x 1x1x1 wants 3 ranks and has 4",
    "loss": "KLDivLoss with reduction 'mean' is no plain mean",
    "own forward": "model (MeanOverSpace) calls mean: over dimensions of space",
    "trusted wrongly": "the model on slabs differs from the model on the volume",
    "one in evaluation": "ranks call the model in different ways",
    "one without gradients": "ranks call the model in different ways",
    "second input": "slabs that do not fit together",
    "divided twice": "it is divided already, by 1 x 4x1x1",
    "coordinates": "model (Coordinates) calls add: with a tensor of (1, 1, 16, 1, 1)",
    "compiled": "0 (Conv3d): it is compiled",
    "corners": "0 (Upsample): only nearest neighbours, and linear without align_corners",
    "overlap": "overlap: 0, x: no convolution of this model",
    "dtensor": "a DTensor: give each rank its slab",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Every case, on four ranks."""
    return results_of("tests.spatial.training_cases", 4, tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize(
    "case", ["two_by_two", "four_by_none", "curve", "overlap", "compiled", "accumulation", "resume"]
)
def test_training_is_the_serial_one(results: Results, case: str) -> None:
    """Losses and gradients: data and space together, overlapped, compiled, accumulated, resumed."""
    assert max(results[f"case_{case}"]) < 1e-10


def test_all_ranks_choose_one_mesh(results: Results) -> None:
    """By a trial, or without one where a module is not known; random numbers stay as they were."""
    first, *others = results["case_chosen"]
    assert all(one == first for one in others)
    assert first["unmoved"]
    assert [(data, prod(space)) for data, *space in first["meshes"]] == [(1, 4), (1, 4)]


def test_a_mesh_is_chosen_within_memory(results: Results) -> None:
    """Volumes that no rank holds are refused in one voice, or divided; all know what is free."""
    first, *others = results["case_chosen_by_memory"]
    assert all(one == first for one in others)
    assert first["said"] == "no mesh of 4 ranks divides 4 samples of 16x16x16 and fits into memory"
    assert first["data"] == 1
    assert 0 < first["free"] < 1 << 50


def test_the_example_divides_what_no_rank_holds(results: Results) -> None:
    """It takes fewer volumes in a step, and gives each of them several ranks: alike on all."""
    (data, parts), *others = results["case_example_within_memory"]
    assert all(one == [data, parts] for one in others)
    assert data * parts == 4
    assert parts > 1


def test_half_precision_is_as_near_as_serial_is(results: Results) -> None:
    """Halos in bfloat16 add no error beyond that of the format."""
    assert max(results["case_half_precision"]) < 0.02


def test_masks_are_shared_where_values_are(results: Results) -> None:
    """Dropped channels and features after flattening are the same on all parts."""
    assert results["case_dropout"] == [[True, False, True]] * 4


def test_the_check_before_training_is_small(results: Results) -> None:
    """Sixteen planes of a volume of 256 where the network takes them; else twice that."""
    assert results["case_small_check"] == [[[16, 16, 16], [32, 32, 32]]] * 4


def test_a_rank_reads_its_slab(results: Results) -> None:
    """Files are sliced on disk, and groups draw different samples."""
    assert all(results["case_slabs_on_disk"])


@pytest.mark.parametrize("case", REFUSED)
def test_all_ranks_refuse_together(results: Results, case: str) -> None:
    """One message on every rank, before anybody waits."""
    messages = {rank[case] for rank in results["case_refused"]}
    assert len(messages) == 1
    assert REFUSED[case] in messages.pop()
