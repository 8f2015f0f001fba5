"""How many ranks share a GPU."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_ext.policy.ranks.choose import (
    Profile,
    RankResources,
    choose,
    packings,
    throughput,
    trial_confirms,
)

GIB = 2**30
# An A100 that one rank keeps busy for 43 % of the time, as the paper found.
HALF_IDLE = Profile(batch=64, host_s=0.057, kernel_s=0.043, fixed_bytes=GIB, workers=4)
profiles = st.builds(
    Profile,
    batch=st.integers(1, 512),
    host_s=st.floats(0, 1),
    kernel_s=st.floats(1e-4, 1),
    reduction_s=st.floats(0, 0.1),
    fixed_bytes=st.floats(0, 40 * GIB),
    sample_bytes=st.floats(0, GIB),
    workers=st.integers(0, 16),
)
rooms = st.builds(
    RankResources,
    gpus=st.integers(1, 16),
    gpu_mem_bytes=st.floats(4 * GIB, 80 * GIB),
    cores_per_gpu=st.integers(1, 64),
    most_batch=st.none() | st.integers(1, 4096),
)


def test_a_half_idle_gpu_takes_several_ranks_within_the_same_global_batch() -> None:
    """By default the optimiser sees the batch it was written for."""
    chosen = choose(HALF_IDLE, RankResources())
    assert chosen.ranks_per_gpu > 1
    assert chosen.global_batch == HALF_IDLE.batch
    assert 0.2 <= chosen.gain <= 1 / HALF_IDLE.busy - 1


def test_a_busy_gpu_keeps_one_rank() -> None:
    """Where 5 % are idle there is nothing to fill."""
    busy = replace(HALF_IDLE, host_s=0.005, kernel_s=0.095)
    assert choose(busy, RankResources()).ranks_per_gpu == 1
    assert "95%" in choose(busy, RankResources()).reason


def test_a_larger_batch_that_is_as_good_comes_before_more_ranks() -> None:
    """One process and no MPS is the simpler thing, where the owner allows the batch."""
    fixed = replace(HALF_IDLE, kernel_fixed_s=0.042)
    chosen = choose(fixed, RankResources(most_batch=128))
    assert (chosen.ranks_per_gpu, chosen.batch) == (1, 128)


def test_memory_and_cores_hold() -> None:
    """Two ranks that do not fit are not proposed."""
    assert choose(HALF_IDLE, RankResources(gpu_mem_bytes=3 * GIB)).ranks_per_gpu == 1
    assert choose(HALF_IDLE, RankResources(cores_per_gpu=5)).ranks_per_gpu == 1


def test_a_trial_confirms_or_not() -> None:
    """What was foretold is kept only if it is measured."""
    assert trial_confirms(110, 100)
    assert not trial_confirms(104, 100)


@given(profiles, rooms)
def test_whatever_is_proposed_fits_and_loses_nothing(profile: Profile, room: RankResources) -> None:
    """Memory, cores and the global batch hold; nothing is slower than one rank as it is."""
    chosen = choose(profile, room)
    alone = throughput(profile, room, 1, profile.batch)
    assert chosen.samples_per_s >= alone * (1 - 1e-9)
    most = room.most_batch or 0
    assert chosen.global_batch * room.gpus <= max(most, profile.batch * room.gpus)
    if chosen.ranks_per_gpu > 1:
        held = chosen.batch * profile.sample_bytes + profile.fixed_bytes
        assert chosen.ranks_per_gpu * held <= room.gpu_mem_bytes
        assert chosen.ranks_per_gpu * (chosen.workers + 1) <= room.cores_per_gpu


@given(profiles)
def test_no_packing_beats_a_gpu_that_is_never_idle(profile: Profile) -> None:
    """The ideal is 1 over the busy share, for the same samples a kernel."""
    best = packings(profile, RankResources())[0]
    assert best.samples_per_s <= profile.batch / profile.kernel_s * (1 + 1e-9)


# Busy share and ranks: gain over one rank on an H100 under MPS, steps of 30 ms (contrib/bench/gpu).
ON_AN_H100 = {
    (0.43, 2): 1.563,
    (0.43, 3): 1.959,
    (0.43, 4): 2.168,
    (0.70, 2): 1.325,
    (0.70, 3): 1.426,
    (0.70, 4): 1.477,
    (0.95, 2): 1.116,
    (0.95, 3): 1.116,
    (0.95, 4): 1.108,
}


@pytest.mark.parametrize(("share", "ranks"), ON_AN_H100)
def test_gains_on_hardware_are_predicted(share: float, ranks: int) -> None:
    """Within 8 %, of each busy share and number of ranks that was measured."""
    profile = Profile(batch=48, host_s=0.03 * (1 - share), kernel_s=0.03 * share)
    room = RankResources(most_batch=8 * 48)
    gain = throughput(profile, room, ranks, 48) / throughput(profile, room, 1, 48)
    assert gain == pytest.approx(ON_AN_H100[share, ranks], rel=0.08)


@given(profiles, st.integers(1, 8))
def test_a_step_lies_between_the_bounds(profile: Profile, ranks: int) -> None:
    """No shorter than host or kernels alone allow, no longer than if ranks took turns."""
    rate = throughput(profile, RankResources(), ranks, profile.batch)
    step_s = ranks * profile.batch / rate - profile.reduction_s
    least = max(profile.host_s + profile.kernel_s, ranks * profile.kernel_s)
    assert least * (1 - 1e-9) <= step_s
    assert step_s <= (profile.host_s + ranks * profile.kernel_s) * (1 + 1e-9)
