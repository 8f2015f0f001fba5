"""No network trains silently wrong: it is exact, or refused in words."""

import pytest

from tests.spatial.world import Results, results_of

HINTS = {
    "mean over space": "nn.AdaptiveAvgPool3d(1) takes the mean of the volume",
    "sum over size": "math.prod(x.shape[2:]) times that is the sum",
    "standard deviation": "as of x and of x * x",
    "buffer of positions": "comes into the model as a volume, a second input",
    "adaptive pool by function": "as a layer, nn.AdaptiveAvgPool3d, it is divided",
    "trilinear to a size": "nn.Upsample(scale_factor=N)",
    "block, checkpointed, reentrant": "use_reentrant=False",
    "checkpointed function": "checkpoint a module",
    "mapped": "nobody can watch (torch.vmap",
    "own function, sizes of its gradient": "nobody watches the backward pass of _Scaled",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Every network, on two ranks."""
    return results_of("tests.spatial.hostile_cases", 2, tmp_path_factory.mktemp("world"))


def test_sizes_are_those_of_the_volume(results: Results) -> None:
    """Whatever a forward computes of sizes of its slabs is what serial training computes."""
    for rank in results["case_exact"]:
        assert len(rank) > 25
        assert {name: outcome for name, outcome in rank.items() if outcome != "exact"} == {}


def test_what_is_no_slab_is_refused(results: Results) -> None:
    """All others are refused, on all ranks."""
    for rank in results["case_refused"]:
        assert len(rank) > 50
        assert {n: outcome for n, outcome in rank.items() if outcome[:8] != "refused:"} == {}


def test_the_refusal_names_what_works(results: Results) -> None:
    """A layer that is divided, or what to write instead."""
    for rank in results["case_refused"]:
        assert {name: hint for name, hint in HINTS.items() if hint not in rank[name]} == {}
