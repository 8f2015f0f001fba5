"""Layers on slabs compute what they compute on whole volumes."""

import pytest

from tests.spatial.world import Results, results_of


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Every case, on four ranks."""
    return results_of("tests.spatial.exact_cases", 4, tmp_path_factory.mktemp("world"))


def worst(results: Results, case: str) -> dict[str, float]:
    """Of each row of the case: the largest difference on any rank."""
    ranks = results[case]
    return {name: max(max(rank[name].values()) for rank in ranks) for name in ranks[0]}


def test_every_layer_is_exact(results: Results) -> None:
    """Outputs, gradients and running statistics: 1e-12 of the largest value."""
    found = worst(results, "case_layers")
    assert len(found) > 70
    assert {name: value for name, value in found.items() if not value <= 1e-12} == {}


def test_single_precision_is_as_near_the_truth_as_serial_is(results: Results) -> None:
    """Slabs round otherwise, but not worse: both are compared with double precision."""
    ranks = results["case_single_precision"]
    assert all(0 < rank["slabs"] <= 1.5 * rank["serial"] < 1e-3 for rank in ranks)


def test_a_unet_is_exact(results: Results) -> None:
    """Two levels with skip connections, batch norm or group norm."""
    found = worst(results, "case_unet")
    assert {name: value for name, value in found.items() if not value <= 1e-12} == {}


def test_a_rank_keeps_its_part_alone(results: Results) -> None:
    """For the backward pass: a quarter of serial's on four ranks, and halos of convolutions.

    Windows of 3 add two planes to eight here; slabs with their halos beside the slabs would double.
    """
    shares = [max(rank.values()) for rank in results["case_memory"]]
    assert 0.5 < max(shares) <= 1.25


def test_signals_and_images_are_exact(results: Results) -> None:
    """Space has one to three dimensions."""
    found = worst(results, "case_one_and_two_dimensions")
    assert {name: value for name, value in found.items() if not value <= 1e-12} == {}
