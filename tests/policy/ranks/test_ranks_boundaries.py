"""The chooser of ranks at its boundaries: memory, cores, batches and gains."""

import pytest

from slurm_ext.policy.ranks.choose import (
    CONTEXT_BYTES,
    MEMORY_SHARE,
    Profile,
    RankResources,
    choose,
    packings,
    throughput,
    trial_confirms,
)

GIB = 2**30
HALF = Profile(batch=8, host_s=1.0, kernel_s=1.0)  # the GPU waits for half of the time


def shapes(profile: Profile, room: RankResources) -> set[tuple[int, int]]:
    """(ranks on a GPU, batch of a rank) of every packing."""
    return {(packing.ranks_per_gpu, packing.batch) for packing in packings(profile, room)}


@pytest.mark.parametrize(("measured", "confirmed"), [(105.0, False), (105.1, True)])
def test_a_trial_has_to_gain_more_than_the_least(measured: float, confirmed: bool) -> None:
    """At 5 % exactly it does not."""
    assert trial_confirms(measured, 100.0) is confirmed


def test_memory_fits_up_to_the_share_of_it() -> None:
    """Two ranks hold two contexts, and no byte more than 92 % of the GPU."""
    needed = 2 * CONTEXT_BYTES / MEMORY_SHARE
    assert (2, 4) in shapes(HALF, RankResources(gpu_mem_bytes=needed * (1 + 1e-9)))
    assert shapes(HALF, RankResources(gpu_mem_bytes=needed * (1 - 1e-9))) == {(1, 8)}


def test_each_rank_needs_a_core_and_its_workers() -> None:
    """Two ranks without workers: two cores; with a worker each: four."""
    busy = Profile(batch=8, host_s=1.0, kernel_s=1.0, workers=2)
    assert (2, 4) in shapes(HALF, RankResources(cores_per_gpu=2))
    assert (2, 4) not in shapes(HALF, RankResources(cores_per_gpu=1.9))
    assert (2, 4) in shapes(busy, RankResources(cores_per_gpu=4))
    assert (2, 4) not in shapes(busy, RankResources(cores_per_gpu=3.9))


def test_the_global_batch_grows_only_where_its_owner_allows_it() -> None:
    """Up to `most_batch`, over all GPUs; a batch that ranks do not divide is not split."""
    assert shapes(HALF, RankResources()) == {(1, 8), (2, 4), (4, 2), (8, 1)}
    assert (2, 8) in shapes(HALF, RankResources(most_batch=16))
    assert (2, 8) not in shapes(HALF, RankResources(most_batch=15))
    assert (2, 8) not in shapes(HALF, RankResources(gpus=2, most_batch=16))
    assert (1, 16) in shapes(HALF, RankResources(most_batch=16))


def test_throughput_is_that_of_a_closed_queue() -> None:
    """One rank: 8 samples in 2 s. Two of 4: each meets a third of the other's 0.5 s; and so on."""
    room = RankResources()
    assert throughput(HALF, room, 1, 8) == pytest.approx(4.0)
    assert throughput(HALF, room, 2, 4) == pytest.approx(8 / (1 + 0.5 * (1 + 1 / 3)))
    two = 0.25 * (1 + 0.2)  # of 0.25 s each, where one rank is there for a fifth of the time
    three = 0.25 * (1 + 2 * two / (1 + two))
    four = 0.25 * (1 + 3 * three / (1 + three))
    assert throughput(HALF, room, 4, 2) == pytest.approx(8 / (1 + four))
    assert throughput(HALF, room, 8, 1) < 8 / (1 + 0.125)
    assert throughput(HALF, RankResources(gpus=3), 1, 8) == pytest.approx(12.0)


def test_a_busy_gpu_keeps_one_rank() -> None:
    """Where nothing gains 5 %, the job stays as it is."""
    best = choose(Profile(batch=8, host_s=0.04, kernel_s=1.0), RankResources())
    assert (best.ranks_per_gpu, best.batch, best.gain) == (1, 8, 0.0)
    assert choose(HALF, RankResources()).ranks_per_gpu > 1


def test_workers_are_divided_among_ranks() -> None:
    """Each rank's part of a GPU's, at least one; none stays none, and one rank keeps all."""
    for workers, ranks, expected in ((4, 2, 2), (4, 4, 1), (4, 8, 1), (6, 2, 3), (0, 2, 0)):
        found = packings(
            Profile(batch=8, host_s=1.0, kernel_s=1.0, workers=workers), RankResources()
        )
        assert {p.workers for p in found if p.ranks_per_gpu == ranks} == {expected}
        assert {p.workers for p in found if p.ranks_per_gpu == 1} == {workers}
    larger = packings(
        Profile(batch=8, host_s=1.0, kernel_s=1.0, workers=4), RankResources(most_batch=64)
    )
    assert {p.workers for p in larger if (p.ranks_per_gpu, p.batch) == (2, 8)} == {4}
    assert {p.workers for p in larger if (p.ranks_per_gpu, p.batch) == (1, 16)} == {4}


def test_reasons_of_packings() -> None:
    """They name the time that one rank keeps the GPU busy."""
    found = packings(HALF, RankResources(most_batch=16))
    reasons = {(p.ranks_per_gpu, p.batch): p.reason for p in found}
    busy = "one rank keeps the GPU busy for 50% of the time"
    assert reasons[1, 8] == f"{busy}: more ranks would not gain enough"
    assert reasons[1, 16] == busy
    assert reasons[2, 4] == f"{busy}; 2 ranks fill each other's gaps"
    assert {p.global_batch for p in found} == {8, 16}
    reduced = Profile(batch=8, host_s=1.0, kernel_s=3.0, kernel_fixed_s=1.0, reduction_s=1.0)
    assert (reduced.busy, reduced.kernels_s(4), reduced.kernels_s(8)) == (0.6, 2.0, 3.0)
    assert throughput(reduced, RankResources(), 2, 4) == pytest.approx(
        8 / (1.0 + 2.0 * (1 + 2 / 3) + 1.0)
    )


def test_the_fewest_ranks_that_are_nearly_as_good() -> None:
    """Within the least gain of the best; a best that gains less than it is not taken."""
    room = RankResources()
    rates = {p.ranks_per_gpu: p.samples_per_s for p in packings(HALF, room)}
    assert rates[8] / rates[4] > 1.08
    assert choose(HALF, room).ranks_per_gpu == 8
    assert choose(HALF, room, min_gain=rates[8] / rates[4] - 1 + 1e-9).ranks_per_gpu == 4
    assert choose(HALF, room, min_gain=rates[8] / rates[4] - 1 - 1e-9).ranks_per_gpu == 8
    assert choose(HALF, room, min_gain=rates[8] / rates[2] - 1 + 1e-9).ranks_per_gpu == 2
    best = rates[8] / rates[1] - 1
    assert choose(HALF, room, min_gain=best - 1e-9).ranks_per_gpu > 1
    assert choose(HALF, room, min_gain=best + 1e-9).ranks_per_gpu == 1


def test_a_larger_batch_may_need_all_memory_in_proportion() -> None:
    """Bytes of a sample are not known: what one batch held, two may hold twice."""
    held = Profile(batch=256, host_s=1.0, kernel_s=1.0, fixed_bytes=40 * GIB)
    assert (1, 512) not in shapes(held, RankResources(gpu_mem_bytes=80 * GIB, most_batch=512))
    assert (1, 512) in shapes(held, RankResources(gpu_mem_bytes=120 * GIB, most_batch=512))
