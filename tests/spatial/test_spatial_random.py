"""Random chains of layers on random slabs: exact, or refused by all ranks with one message."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.spatial.asking import Ranks
from tests.spatial.random_cases import CHANNELS, RANKS, SPACES

EXACT = 1e-12
Layers = st.SearchStrategy[tuple[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """Four of them, for all cases."""
    found = Ranks("tests.spatial.random_cases", RANKS, tmp_path_factory.mktemp("ranks"))
    yield found
    found.end()


def each(dims: int, low: int, high: int) -> st.SearchStrategy[list[int]]:
    """A number for each dimension; often the same."""
    one = st.integers(low, high)
    return one.map(lambda n: [n] * dims) | st.lists(one, min_size=dims, max_size=dims)


@st.composite
def convolutions(draw: st.DrawFn, dims: int) -> tuple[str, dict[str, Any]]:
    """Kernels, strides, dilations and paddings, equal or not."""
    kernel, dilation = draw(each(dims, 1, 5)), draw(each(dims, 1, 2))
    stride = draw(st.sampled_from([[1] * dims, [2] * dims]) | each(dims, 1, 3))
    halves = [d * (k - 1) // 2 for k, d in zip(kernel, dilation, strict=True)]
    padding: Any = draw(st.just(halves) | each(dims, 0, 3))
    if set(stride) == {1}:
        padding = draw(st.sampled_from([padding, "same", "valid"]))
    settings = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    return f"Conv{dims}d", {**settings, **draw(weights())}


@st.composite
def transposed(draw: st.DrawFn, dims: int) -> tuple[str, dict[str, Any]]:
    """Mostly those whose output is `stride` times the input, which alone are divided."""
    stride, dilation = draw(each(dims, 1, 3)), draw(each(dims, 1, 2))
    padding, kernel = draw(each(dims, 0, 2)), draw(each(dims, 1, 5))
    rows = [*zip(stride, dilation, padding, kernel, strict=True)]
    wanted = [s + 2 * p - d * (k - 1) - 1 for s, d, p, k in rows]
    most = [max(s, d) - 1 for s, d, _, _ in rows]
    more = [min(max(0, want), limit) for want, limit in zip(wanted, most, strict=True)]
    settings = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    return f"ConvTranspose{dims}d", {**settings, "output_padding": more, **draw(weights())}


def weights() -> st.SearchStrategy[dict[str, Any]]:
    """What does not change halos."""
    return st.fixed_dictionaries(
        {
            "in_channels": st.just(CHANNELS),
            "out_channels": st.just(CHANNELS),
            "groups": st.sampled_from([1, 2, 4]),
            "bias": st.booleans(),
        }
    )


@st.composite
def pools(draw: st.DrawFn, dims: int) -> tuple[str, dict[str, Any]]:
    """Largest values and means."""
    kernel = draw(each(dims, 1, 4))
    settings: dict[str, Any] = {"kernel_size": kernel, "stride": draw(st.none() | each(dims, 1, 3))}
    settings["padding"] = [draw(st.integers(0, k // 2)) for k in kernel]
    if draw(st.booleans()):
        return f"MaxPool{dims}d", {**settings, "dilation": draw(each(dims, 1, 2))}
    return f"AvgPool{dims}d", {**settings, "count_include_pad": draw(st.booleans())}


def norms(dims: int) -> Layers:
    """Over batches, groups and samples."""
    of_batch = {"num_features": st.just(CHANNELS), "affine": st.booleans()}
    running = {"track_running_stats": st.booleans(), "momentum": st.sampled_from([None, 0.3])}
    of_group = {"num_groups": st.sampled_from([1, 2, 4]), "num_channels": st.just(CHANNELS)}
    return st.one_of(
        st.fixed_dictionaries({**of_batch, **running}).map(lambda s: (f"BatchNorm{dims}d", s)),
        st.fixed_dictionaries({**of_group, "affine": st.booleans()}).map(
            lambda s: ("GroupNorm", s)
        ),
        st.fixed_dictionaries(of_batch).map(lambda s: (f"InstanceNorm{dims}d", s)),
    )


def planes(parts: int) -> st.SearchStrategy[list[int]]:
    """Of each part of one dimension: even, odd, equal or not."""
    whole = st.sampled_from([4, 6, 8, 12]) | st.integers(1, 9)
    alike = whole.map(lambda n: [n] * parts)
    return alike if parts == 1 else alike | st.lists(whole, min_size=parts, max_size=parts)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """A chain of up to three layers."""
    space = draw(st.sampled_from(SPACES))
    dims = len(space)
    layer = st.one_of(
        convolutions(dims), convolutions(dims), transposed(dims), pools(dims), norms(dims)
    )
    tails: list[list[Any]] = [
        [],
        [],
        [(f"AdaptiveAvgPool{dims}d", {"output_size": 1})],
        [("Flatten", {})],
    ]
    return {
        "space": space,
        "cuts": [draw(planes(parts)) for parts in space],
        "layers": draw(st.lists(layer, min_size=1, max_size=3)) + draw(st.sampled_from(tails)),
        "batch": draw(st.integers(1, 3)),
        "training": draw(st.booleans()),
        "channels_last": draw(st.booleans()),
        "dense": draw(st.booleans()),
        "overlap": draw(st.booleans()),
        "seed": draw(st.integers(0, 99)),
    }


def found(space: list[int], cuts: list[list[int]], layer: Any) -> dict[str, Any]:
    """A case of one layer that was wrong once."""
    how = {"batch": 1, "training": True, "channels_last": True, "dense": True}
    how |= {"overlap": False, "seed": 55}
    return {"space": space, "cuts": cuts, "layers": [layer], **how}


NORM = ("BatchNorm3d", {"num_features": CHANNELS})
CONVOLUTION = ("Conv2d", {"in_channels": 4, "out_channels": 4, "kernel_size": 3})
TRANSPOSED = ("ConvTranspose2d", {**CONVOLUTION[1], "kernel_size": 1, "padding": [1, 0]})
MEANS = ("AvgPool3d", {"kernel_size": [1, 2, 1], "padding": [0, 1, 0]})
ONE_SAMPLE = found([2, 1, 2], [[6, 6], [6], [6, 6]], NORM)  # torch's kernel mixed channels up
ONE_VALUE = found([2, 1], [[1, 1], [1]], ("InstanceNorm2d", {"num_features": CHANNELS}))
# torch's own errors, on each rank another.
TOO_LARGE = found([1, 2], [[1], [4, 4]], CONVOLUTION)
THIN = found([2, 1, 1], [[6, 6], [1], [4]], MEANS)
NOTHING = found([1, 4], [[2], [6] * 4], TRANSPOSED)


def test_random_layers_are_exact_or_refused_by_all(ranks: Ranks) -> None:
    """In double precision, to 1e-12; and a third of what is drawn is divided, not refused."""
    seen: Counter[str] = Counter()

    @given(cases())
    @example(ONE_SAMPLE)
    @example(TOO_LARGE)
    @example(ONE_VALUE)
    @example(THIN)
    @example(NOTHING)
    def one(case: dict[str, Any]) -> None:
        answers = ranks.ask(case)
        kinds = {kind for answer in answers for kind in answer}
        assert len(answers) == RANKS
        assert kinds in ({"differs"}, {"refused"}), answers
        seen.update(kinds)
        if kinds == {"refused"}:
            assert len({answer["refused"] for answer in answers}) == 1, answers
        else:
            assert max(answer["differs"] for answer in answers) <= EXACT, answers

    one()
    assert seen["differs"] >= seen.total() / 3
