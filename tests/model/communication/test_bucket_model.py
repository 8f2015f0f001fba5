"""Time of all-reduces beside a backward pass, and buckets that hide most of it."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.model.communication.all_reduce import (
    ExposedRun,
    Gradient,
    Link,
    as_built,
    buckets_of,
    exposed_s,
    fitted_link,
)
from slurm_ext.model.communication.bucket_model import ONE_KIB, WORTH, BucketModel
from slurm_ext.model.communication.partition import MOST_BUCKETS, best_sizes

MIB = 1 << 20
LINK = Link(latency_s=0.001, bytes_per_s=100 * MIB)
# Eight layers of 4 MiB, 50 ms apart: 32 MiB need 320 ms, the backward pass takes 350.
CHAIN = [Gradient(4 * MIB, 0.05 * (7 - layer)) for layer in range(8)]


@st.composite
def gradients(draw: st.DrawFn, most: int = 12) -> list[Gradient]:
    """A few gradients, each ready some time after the one before."""
    sizes = draw(st.lists(st.integers(1, 64), min_size=1, max_size=most))
    gaps = draw(st.lists(st.integers(0, 100), min_size=len(sizes), max_size=len(sizes)))
    before = [sum(gaps[place + 1 :]) / 1000 for place in range(len(sizes))]
    return [Gradient(size * MIB / 4, s) for size, s in zip(sizes, before, strict=True)]


links = st.builds(Link, st.floats(1e-5, 0.05), st.floats(1e6, 1e9))


def merged(parts: list[Gradient], ends: tuple[int, ...]) -> list[Gradient]:
    """Buckets that end behind these gradients."""
    begins = (0, *ends)
    return [
        Gradient(sum(one.size_bytes for one in parts[begin:end]), parts[end - 1].before_end_s)
        for begin, end in zip(begins, (*ends, len(parts)), strict=True)
    ]


def all_partitions(parts: list[Gradient], most: int) -> list[list[Gradient]]:
    """Every division into at most so many buckets."""
    places = range(1, len(parts))
    return [merged(parts, ends) for count in range(most) for ends in combinations(places, count)]


def test_a_bucket_waits_for_its_gradients_and_for_the_one_before() -> None:
    """4 MiB take 41 ms: shorter than the 50 ms to the next layer, so only the last is exposed."""
    assert exposed_s(CHAIN, LINK) == pytest.approx(0.041)
    assert exposed_s(buckets_of(CHAIN, [1 << 20]), LINK) == pytest.approx(0.321)
    # 4 MiB are gone when the last of 28 MiB is ready.
    assert exposed_s(buckets_of(CHAIN, [1024, 25600]), LINK) == pytest.approx(0.281)
    # A slow link is never idle once it has begun.
    slow = Link(latency_s=0.0, bytes_per_s=10 * MIB)
    assert exposed_s(CHAIN, slow) == pytest.approx(3.2 - 0.35)


@pytest.mark.parametrize(
    ("caps_kib", "mib"),
    [
        ([1024], [4] * 8),
        ([5 * 1024], [8] * 4),
        ([1 << 20], [32]),
        ([1024, 25600], [4, 28]),
        ([4096, 8192, 16384], [4, 8, 16, 4]),
        ([9216, 1], [12, 4, 4, 4, 4, 4]),
    ],
)
def test_buckets_close_as_those_of_torch_do(caps_kib: list[float], mib: list[int]) -> None:
    """At or beyond their cap; the last cap holds for all that follow."""
    assert [one.size_bytes / MIB for one in buckets_of(CHAIN, caps_kib)] == mib


def test_buckets_of_a_run_are_ready_with_the_gradient_that_fills_them() -> None:
    """Even where their bytes are not those of whole gradients, as torch aligns them."""
    built = as_built(CHAIN, [4.1 * MIB, 8 * MIB, 19.9 * MIB])
    assert [one.before_end_s for one in built] == pytest.approx([0.3, 0.2, 0.0])


@given(gradients(), links, st.integers(1, 12))
def test_no_partition_is_better_than_the_best(parts: list[Gradient], link: Link, most: int) -> None:
    """Against every division into at most so many buckets; fewer where they are as good."""
    sizes = best_sizes(parts, link, most)
    least = min(exposed_s(one, link) for one in all_partitions(parts, most))
    assert len(sizes) <= most
    assert sum(sizes) == pytest.approx(sum(one.size_bytes for one in parts))
    assert exposed_s(as_built(parts, sizes), link) <= least * 1.01 + 1e-12


@given(gradients(most=40), links)
def test_the_best_partition_is_no_worse_than_any_single_size(
    parts: list[Gradient], link: Link
) -> None:
    """As far as its number of buckets goes."""
    found = exposed_s(as_built(parts, best_sizes(parts, link)), link)
    for kib in ONE_KIB:
        buckets = buckets_of(parts, [kib])
        if len(buckets) <= MOST_BUCKETS:
            assert found <= exposed_s(buckets, link) * 1.01 + 1e-12


@given(gradients(), st.floats(1e6, 1e9))
def test_a_rate_is_found_from_one_kind_of_buckets(parts: list[Gradient], rate: float) -> None:
    """With the usual latency of the backend, which one kind cannot tell."""
    true = Link(1e-3, rate)
    buckets = buckets_of(parts, [1024])
    found = fitted_link([ExposedRun(buckets, exposed_s(buckets, true))], "gloo")
    assert found is not None
    assert found.latency_s == 1e-3
    assert exposed_s(buckets, found) == pytest.approx(exposed_s(buckets, true), rel=1e-3)


def test_latency_is_found_from_several_kinds() -> None:
    """Many small buckets tell it, where the usual one is five times too short."""
    true = Link(5e-3, 200 * MIB)
    parts = [Gradient(MIB, 0.0005 * (63 - place)) for place in range(64)]
    kinds = [buckets_of(parts, [kib]) for kib in (1, 8192, 1 << 20)]
    found = fitted_link([ExposedRun(one, exposed_s(one, true)) for one in kinds], "gloo")
    assert found is not None
    assert found.latency_s == pytest.approx(true.latency_s, rel=0.4)
    for one in kinds:
        assert exposed_s(one, found) == pytest.approx(exposed_s(one, true), rel=0.1)


def test_what_is_hidden_tells_no_link() -> None:
    """Nothing was exposed, or there was nothing."""
    assert fitted_link([], "gloo") is None
    assert fitted_link([ExposedRun(CHAIN, 0.0)], "gloo") is None


def model(parts: list[Gradient] = CHAIN, link: Link = LINK, syncs: float = 1.0) -> BucketModel:
    """A training of 1 s a batch with torch's own buckets."""
    now = exposed_s(buckets_of(parts, [1024, 25600]), link)
    return BucketModel(gradients=parts, link=link, before_s=1.0, exposed_s=now, syncs=syncs)


def test_a_batch_changes_by_what_its_passes_expose() -> None:
    """By as many passes as it synchronises."""
    assert model().step_s([1024, 25600]) == pytest.approx(1.0)
    assert model().step_s([1024]) == pytest.approx(1.0 - 0.281 + 0.041)
    assert model(syncs=0.5).step_s([1024]) == pytest.approx(1.0 - 0.12)


def test_a_list_is_taken_where_it_is_worth_it() -> None:
    """Equal layers need none; where torch takes none, one size is all there is."""
    assert model().best(lists=True) == [4096.0]
    # Messages cost much each: large ones early and small ones late, as no single size gives.
    late = [Gradient(MIB / 8, 0.002 * (63 - place)) for place in range(64)]
    uneven = model([Gradient(16 * MIB, 0.5), *late], Link(0.02, 100 * MIB))
    several, one = uneven.best(lists=True), uneven.best(lists=False)
    assert len(several) > 1
    assert len(one) == 1
    assert uneven.step_s(several) < (1 - WORTH) * uneven.step_s(one)
