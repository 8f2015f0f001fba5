"""The mesh that is chosen: the best of all that divide the volume and fit into memory."""

import json
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.geometry.window import KernelWindow, halos
from slurm_ext.spatial.launch import meeting_point, rank_of
from slurm_ext.spatial.layers.kernels import Convolving, convolved, gradients
from slurm_ext.spatial.measure import profile, saved_bytes
from slurm_ext.spatial.planning.choose import fewest_ranks, meshes
from slurm_ext.spatial.planning.cost import MeshCost, cost
from slurm_ext.spatial.planning.profile import ClusterProfile, HaloLayer, NetworkProfile, parse
from slurm_ext.spatial.trial import finalists

LAYER = HaloLayer((1, 1, 1), 64, (1, 1, 1), (1, 1, 1))


def network(sizes: tuple[int, ...] = (64, 32, 32), **changes: Any) -> NetworkProfile:
    """A made-up network of a gigabyte of activations."""
    values: dict[str, Any] = {
        "parameter_bytes": 1e6,
        "state_bytes": 3e6,
        "activation_bytes": 1e9,
        "input_bytes": 4.0 * prod(sizes),
        "fixed_s": 1e-3,
        "voxel_s": 1e-6,
        **changes,
    }
    return NetworkProfile(
        sizes=sizes, strides=(4,) * len(sizes), norm_channels=(8, 8), layers=(LAYER,) * 4, **values
    )


@given(
    sizes=st.tuples(*[st.sampled_from([8, 12, 16, 24, 64])] * 3),
    ranks=st.integers(1, 12),
    samples=st.integers(1, 8),
    memory=st.floats(1e7, 2e9),
)
def test_the_choice_is_that_of_brute_force(
    sizes: tuple[int, ...], ranks: int, samples: int, memory: float
) -> None:
    """No other mesh that divides the volume, holds its halos and fits is quicker."""
    net, cluster = network(sizes), ClusterProfile(memory_bytes=memory, ranks_per_node=4)
    possible = [
        cost(net, cluster, data, space, samples // data)
        for data, *space_ in product(range(1, ranks + 1), repeat=4)
        if data * prod(space := tuple(space_)) == ranks and samples % data == 0
        if all(n % (4 * parts) == 0 or parts == 1 for n, parts in zip(sizes, space, strict=True))
    ]
    fit = [one.samples_per_s for one in possible if one.memory_bytes <= 0.92 * memory]
    found = meshes(net, cluster, ranks, samples)
    assert len(found) == len(fit)
    assert not fit or found[0].samples_per_s == max(fit)


def test_memory_decides_where_data_alone_does_not_fit() -> None:
    """Space is used when memory is exhausted; a larger volume wants more of it."""
    roomy, tight = ClusterProfile(), ClusterProfile(memory_bytes=4e8)
    assert meshes(network(), roomy, 4, 4)[0].data == 4
    best = meshes(network(), tight, 4, 1)[0]
    assert best.data == 1
    assert best.memory_bytes <= 0.92 * 4e8
    larger = fewest_ranks(network().resized((128, 64, 64)), tight)
    assert larger is not None
    assert prod(larger.space) > 8


def test_neighbours_stay_in_one_node() -> None:
    """With two ranks a node, the halo of the dimension inside a node is the cheap one."""
    net = network((64, 64, 64))
    cluster = ClusterProfile(memory_bytes=6e8, ranks_per_node=2, between_bytes_s=1e7)
    assert meshes(net, cluster, 4, 2)[0].space in {(1, 1, 2), (2, 1, 1), (1, 2, 1)}


def mesh_cost(step_s: float, memory_bytes: float = 100.0) -> MeshCost:
    """A mesh that computes so long."""
    return MeshCost(1, (4,), 1, memory_bytes, step_s, 0.0, 0.0, 0.0, 0.0)


def test_a_trial_is_of_what_the_prediction_cannot_tell_apart() -> None:
    """Of six at most, no larger ones, and not where steps are so long that it costs minutes."""
    near = [mesh_cost(0.1 + 0.01 * number) for number in range(9)]
    tried, steps = finalists(near)
    assert (tried, steps) == (near[:6], 4)
    slower, larger = mesh_cost(0.201), mesh_cost(0.1, 106.0)
    assert finalists([near[0], near[1], slower, larger])[0] == near[:2]
    assert len(finalists([mesh_cost(1.0)] * 6)[0]) == 2
    assert len(finalists([mesh_cost(2.0)] * 6)[0]) < 2
    for step_s in (0.001, 0.1, 0.3, 0.9, 1.2):
        tried, steps = finalists([mesh_cost(step_s)] * 6)
        assert steps >= 1
        assert 4 * len(tried) * (1 + steps) * step_s <= 20.0


def halos_of(share: float, bytes_s: float, fixed_s: float) -> tuple[float, tuple[str, ...]]:
    """Seconds that two parts wait for halos, and the layers that hide theirs."""
    layer = replace(LAYER, name="first", share=share)
    net = replace(network(fixed_s=fixed_s), layers=(layer, replace(layer, name="pool", share=0.0)))
    found = cost(net, ClusterProfile(inside_bytes_s=bytes_s), 1, (2, 1, 1), 1)
    return found.halo_s, found.overlap


def test_halos_are_hidden_behind_the_layer_that_wants_them() -> None:
    """Behind a third of it forward and back, and never behind a layer that computes nothing."""
    alone, none = halos_of(0.0, 1e7, 0.0)
    some, hiding = halos_of(0.6, 1e7, 0.0)
    third = 0.6 * 1e-6 * 64 * 32 * 32 / 2 / 3
    assert (none, hiding) == ((), ("first",))
    assert alone - some == pytest.approx(third * (1 - 2 / 32) + third)


def test_nothing_overlaps_where_it_does_not_pay() -> None:
    """On a quick link, beside dear calls, or on slabs that are all border."""
    assert halos_of(0.6, 1e12, 0.0)[1] == ()
    assert halos_of(0.6, 1e8, 1.0)[1] == ()
    thin = replace(network(), layers=(replace(LAYER, name="first", share=1.0),))
    thin = replace(thin, sizes=(4, 32, 32))
    assert cost(thin, ClusterProfile(inside_bytes_s=1e6), 1, (2, 1, 1), 1).overlap == ()


def test_a_profile_is_measured_and_read_back() -> None:
    """Activations of a crop, scaled by voxels, are those of the whole volume."""

    def build(sizes: tuple[int, ...]) -> nn.Module:
        convolution = nn.Conv3d(1, 4, 3, padding=1)
        return nn.Sequential(convolution, nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2))

    found = profile(build, (16, 16, 16), crops=[(8, 8, 8), (8, 8, 16)])
    whole = saved_bytes(build(()), torch.randn(1, 1, 16, 16, 16))
    assert found.activation_bytes == pytest.approx(whole, rel=0.01)
    assert found.strides == (2, 2, 2) or found.strides == (1, 1, 1)
    assert [(layer.name, layer.before) for layer in found.layers] == [("0", (1, 1, 1))]
    assert 0 < found.layers[0].share < 1
    assert len(found.axis_costs) == 3
    assert parse(json.loads(json.dumps(found.document()))) == found


def test_a_cut_costs_what_was_measured_along_its_dimension() -> None:
    """And a volume that is not divided costs what torch's own convolutions do."""
    quick = ClusterProfile(latency_s=0.0, inside_bytes_s=1e15)
    net = replace(network((64, 64, 64)), whole_voxel_s=5e-6, axis_costs=(1.0, 1.1, 1.2))
    assert meshes(net, quick, 2, 2)[0].space == (2, 1, 1)
    alike = replace(net, axis_costs=(1.2, 1.1, 1.0))
    assert meshes(alike, quick, 2, 2)[0].space == (1, 1, 2)
    assert meshes(replace(net, whole_voxel_s=0.0), quick, 2, 2)[0].data == 2


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation", "groups"),
    [
        (3, 1, (1, 1, 1), 1, 1),
        (3, 2, (1, 0, 1), 1, 2),
        (5, 1, (2, 2, 0), 1, 1),
        (3, 1, (2, 0, 2), 2, 1),
    ],
)
def test_kernels_of_slabs_give_torchs_results(
    kernel: int, stride: int, padding: tuple[int, ...], dilation: int, groups: int
) -> None:
    """Outputs and gradients in single precision are those of double precision, but for rounding."""
    torch.manual_seed(0)
    x, weight = torch.randn(1, 4, 9, 8, 7), torch.randn(6, 4 // groups, *[kernel] * 3)
    how = Convolving([stride] * 3, padding, [dilation] * 3, False, [0] * 3, groups)
    y = convolved(x, weight, torch.ones(6), how)
    grad = torch.randn_like(y)
    single = [y, *gradients(grad, x, weight, [6], how, [True] * 3)]

    wide_grad, wide_x, wide_weight = (t.double() for t in (grad, x, weight))
    exact = [convolved(wide_x, wide_weight, torch.ones(6).double(), how)]
    exact += gradients(wide_grad, wide_x, wide_weight, [6], how, [True] * 3)
    for found, wanted in zip(single, exact, strict=True):
        assert (found - wanted).abs().max() < 3e-6 * wanted.abs().max()


@pytest.mark.parametrize(
    "document",
    [{}, {"v": 2}, {"v": 1}, {"v": 1, "sizes": 3}, {"v": 1, "sizes": [[]], "strides": [-1]}],
)
def test_what_is_no_profile_is_refused(document: dict[str, object]) -> None:
    """With ValueError, whatever it holds."""
    with pytest.raises(ValueError, match=r"wanted|not a profile|whole numbers"):
        parse(document)


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    kernel=st.integers(1, 7),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    left=st.integers(0, 3),
)
def test_parts_have_what_their_outputs_read(
    sizes: list[int], kernel: int, stride: int, dilation: int, left: int
) -> None:
    """Each part has the planes of its own outputs' windows, and all outputs are made once."""
    window = KernelWindow(kernel, stride, dilation, left, left)
    try:
        found = halos(window, sizes)
    except SpatialError:
        return
    made = 0
    for size, halo in zip(sizes, found, strict=True):
        planes = size - halo.crop + halo.from_prev + halo.from_next + halo.pad_left + halo.pad_right
        assert planes >= window.reach
        made += (planes - window.reach) // stride + 1
    assert made == window.outputs(sum(sizes))


def test_a_rank_is_known_under_every_launcher() -> None:
    """MPI's variables come before those of the batch script's one task."""
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"}
    assert rank_of(slurm) == (0, 1, 0)
    assert rank_of({**slurm, "PMI_RANK": "2", "PMI_SIZE": "4"}) == (2, 4, 2)
    step = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1"}
    assert rank_of(step) == (3, 4, 1)
    assert rank_of({**step, "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}) == (1, 2, 0)
    assert meeting_point({"MASTER_ADDR": "n1", "MASTER_PORT": "5"}) == "tcp://n1:5"
    assert meeting_point(slurm).startswith("tcp://127.0.0.1:")
    typed_elsewhere = {**slurm, "SLURM_LAUNCH_NODE_IPADDR": "10.9.9.9"}
    there = {**typed_elsewhere, "SLURM_STEP_NODELIST": "localhost,n[2-3]"}
    assert meeting_point(there).startswith("tcp://localhost:")
    nameless = {**typed_elsewhere, "SLURM_STEP_NODELIST": "no-such-node.invalid"}
    assert meeting_point(nameless).startswith("tcp://10.9.9.9:")
