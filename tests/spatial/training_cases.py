"""Cases of test_spatial_training.py: whole steps, and what is refused, on four ranks."""

import importlib
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from slurm_ext.spatial import checkpoint
from slurm_ext.spatial.convert import parallelise
from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.geometry.mesh import Mesh
from slurm_ext.spatial.loss import GlobalLoss
from slurm_ext.spatial.measure import choose_mesh, measured_cluster, profile
from slurm_ext.spatial.planning.profile import ClusterProfile
from slurm_ext.spatial.verify import check, check_small
from slurm_ext.spatial.volumes import Slabs, sampler

SIZES = (8, 8, 4)
EXAMPLES = Path(__file__).parents[2] / "job_templates" / "examples"


def network() -> nn.Module:
    """A small one, in double precision, the same on each call."""
    torch.manual_seed(2)
    return nn.Sequential(
        nn.Conv3d(1, 4, 3, padding=1),
        nn.BatchNorm3d(4),
        nn.ReLU(),
        nn.MaxPool3d(3, 2, 1),
        nn.Conv3d(4, 3, 3, padding=1),
    ).double()


def samples(step: int, count: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Volumes and classes of their voxels after pooling, some of which are ignored."""
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(count, 1, *SIZES, generator=generator).double()
    return x, torch.randint(-1, 3, (count, 4, 4, 2), generator=generator)


def criterion() -> nn.Module:
    """A mean over weights of classes: counts differ from slab to slab."""
    weight = torch.tensor([1.0, 2.0, 0.5]).double()
    return nn.CrossEntropyLoss(weight, ignore_index=-1)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """One with a state."""
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def serial_steps(model: nn.Module, steps: range) -> list[float]:
    """Losses of plain training on the whole batch."""
    optimizer = optimizer_of(model)
    losses = []
    for step in steps:
        x, y = samples(step)
        optimizer.zero_grad()
        loss = criterion()(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def mesh_steps(
    model: nn.Module, optimizer: torch.optim.Optimizer, mesh: Mesh, steps: range, micro: int = 1
) -> list[float]:
    """Losses of the same training on slabs, in `micro` parts of each batch."""
    loss_of, losses = GlobalLoss(criterion(), mesh), []
    for step in steps:
        x, y = samples(step)
        mine = slice(mesh.row, None, mesh.data)
        optimizer.zero_grad()
        total = 0.0
        parts = zip(x[mine].chunk(micro), y[mine].chunk(micro), strict=True)
        for volume, classes in parts:
            output = model(mesh.part(volume))
            loss = loss_of(output, mesh.part(classes)) / micro
            loss.backward()
            total += mesh.mean_over_all(loss)
        optimizer.step()
        losses.append(total)
    return losses


def case_two_by_two(_folder: Path) -> float:
    """2 data x 2 space, DistributedDataParallel over all ranks, batch norm over all samples."""
    serial = serial_steps(network(), range(4))
    mesh = Mesh(2, (2, 1, 1))
    model = DistributedDataParallel(parallelise(network(), mesh, sync_batch_norm=True))
    divided = mesh_steps(model, optimizer_of(model), mesh, range(4))
    return max(abs(a - b) for a, b in zip(serial, divided, strict=True))


def case_four_by_none(_folder: Path) -> float:
    """4 data, each with whole volumes: batch norm over all samples there, too."""
    serial = serial_steps(network(), range(4))
    mesh = Mesh(4, (1, 1, 1))
    model = DistributedDataParallel(parallelise(network(), mesh, sync_batch_norm=True))
    divided = mesh_steps(model, optimizer_of(model), mesh, range(4))
    return max(abs(a - b) for a, b in zip(serial, divided, strict=True))


def case_curve(_folder: Path) -> float:
    """Thirty steps on four parts; the benchmark takes a hundred."""
    serial = serial_steps(network(), range(30))
    mesh = Mesh(1, (2, 2, 1))
    model = DistributedDataParallel(parallelise(network(), mesh))
    divided = mesh_steps(model, optimizer_of(model), mesh, range(30))
    return max(abs(a - b) for a, b in zip(serial, divided, strict=True))


def case_overlap(_folder: Path) -> float:
    """Convolutions that compute while halos travel, on a mesh chosen among those of four parts."""
    serial = serial_steps(network(), range(6))
    chosen = choose_mesh(lambda _: network().float(), SIZES, 4, among=lambda one: one.data == 1)
    mesh = Mesh(chosen.data, chosen.space)
    assert chosen.data == 1
    names = {"0", "4"}
    assert names.issuperset(chosen.overlap)
    model = DistributedDataParallel(parallelise(network(), mesh, overlap=names))
    divided = mesh_steps(model, optimizer_of(model), mesh, range(6))
    return max(abs(a - b) for a, b in zip(serial, divided, strict=True))


def case_chosen(_folder: Path) -> dict[str, Any]:
    """The mesh that each rank gets, after a trial and of a network that no trial can divide."""
    torch.manual_seed(5)
    before = torch.get_rng_state()

    def tried(_: tuple[int, ...]) -> nn.Module:
        return nn.Sequential(nn.Conv3d(2, 4, 3, padding=1), nn.MaxPool3d(2))

    def own(_: tuple[int, ...]) -> nn.Module:
        return nn.Sequential(nn.Conv3d(2, 1, 3, padding=1), MeanOverSpace())

    chosen = [choose_mesh(build, (16, 16, 16), 1, channels=2) for build in (tried, own)]
    unmoved = bool(torch.equal(before, torch.get_rng_state()))
    return {"meshes": [(one.data, *one.space) for one in chosen], "unmoved": unmoved}


def case_chosen_by_memory(_folder: Path) -> dict[str, Any]:
    """Words where a volume for each rank does not fit, and the mesh of one volume for all."""

    def build(_: tuple[int, ...]) -> nn.Module:
        return nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv3d(4, 1, 1))

    sizes, said = (16, 16, 16), ""
    tight = ClusterProfile(memory_bytes=0.8 * profile(build, sizes).activation_bytes)
    try:
        choose_mesh(build, sizes, 4, tight)
    except SpatialError as error:
        said = str(error)
    chosen = choose_mesh(build, sizes, 1, tight)
    return {"said": said, "data": chosen.data, "free": measured_cluster().memory_bytes}


def case_example_within_memory(_folder: Path) -> tuple[int, int]:
    """Groups and parts of the example's own choice, where no rank holds a whole volume."""
    sys.path.insert(0, str(EXAMPLES))
    example = importlib.import_module("spatial_train")

    def build(sizes: tuple[int, ...]) -> nn.Module:
        model: nn.Module = example.network("unet", sizes[0])[0]
        return model

    net = profile(build, (16, 16, 16))
    whole = net.activation_bytes + net.parameter_bytes + net.state_bytes
    args = Namespace(mesh=None, overlap="", network="unet", size=16, batch=1, bf16=False)
    tight = ClusterProfile(memory_bytes=0.95 * whole)
    with patch.object(example, "measured_cluster", lambda: tight):
        mesh, _ = example.divided(args, torch.device("cpu"))
    return mesh.data, mesh.parts


def case_compiled(_folder: Path) -> float:
    """A divided model that torch.compile is given runs as it would without."""
    mesh, x = Mesh(1, (4, 1, 1)), samples(0)[0]
    model = torch.compile(parallelise(network(), mesh), backend="eager")
    with torch.no_grad():
        serial: torch.Tensor = network()(x)
        return float((model(mesh.part(x)) - mesh.part(serial)).abs().max())


def case_accumulation(_folder: Path) -> float:
    """Gradients of two halves, added up without a sync in between, against serial ones."""
    mesh, plain = Mesh(1, (4, 1, 1)), network()
    model = DistributedDataParallel(parallelise(network(), mesh))
    loss_of = GlobalLoss(nn.MSELoss(), mesh)
    x, _ = samples(0)
    for number, half in enumerate(x.chunk(2)):
        wanted = torch.ones(2, 3, 4, 4, 2).double()
        torch.autograd.backward(nn.functional.mse_loss(plain(half), wanted) / 2)
        model.require_backward_grad_sync = number == 1
        output = model(mesh.part(half))
        torch.autograd.backward(loss_of(output, torch.ones_like(output)) / 2)
    pairs = zip(plain.parameters(), model.parameters(), strict=True)
    return max(
        (p.grad - q.grad).abs().max().item()
        for p, q in pairs
        if p.grad is not None and q.grad is not None
    )


def case_resume(folder: Path) -> float:
    """Two steps on one grid, a checkpoint, two on another: against four serial ones."""
    path, losses = folder / "model.pt", []
    for begin, grid in ((0, (4, 1, 1)), (2, (2, 2, 1))):
        mesh = Mesh(1, grid)
        model = DistributedDataParallel(parallelise(network(), mesh))
        optimizer = optimizer_of(model)
        step = checkpoint.load(path, model, optimizer).get("step", 0)
        losses += mesh_steps(model, optimizer, mesh, range(step, begin + 2))
        checkpoint.save(path, model, optimizer, step=begin + 2)
    network().load_state_dict(torch.load(path, weights_only=True)["model"])  # a serial file
    return max(abs(a - b) for a, b in zip(serial_steps(network(), range(4)), losses, strict=True))


def case_half_precision(_folder: Path) -> float:
    """A step under autocast to bfloat16: the relative difference from serial under autocast."""
    mesh = Mesh(1, (2, 2, 1))
    plain, model = network().float(), parallelise(network().float(), mesh)
    x = samples(0)[0].float()
    with torch.autocast("cpu", torch.bfloat16):
        serial, slab = plain(x), model(mesh.part(x))
    serial.float().square().sum().backward()
    slab.float().square().sum().backward()
    weight, other = plain.get_parameter("0.weight"), model.get_parameter("0.weight")
    found = mesh.sum_(other.grad.clone()) if other.grad is not None else torch.zeros(1)
    wanted = weight.grad if weight.grad is not None else torch.zeros(1)
    return float((found - wanted).norm() / wanted.norm())


def case_small_check(_folder: Path) -> list[tuple[int, ...]]:
    """Volumes on which networks were compared: the smallest, or the smallest that they take."""
    mesh = Mesh(1, (2, 2, 1))
    builds = (lambda _: network(), lambda _: nn.Sequential(nn.MaxPool3d(16)))
    return [check_small(build, (256, 256, 64), mesh) for build in builds]


def case_dropout(_folder: Path) -> list[bool]:
    """Channels are dropped alike on all parts; elements of slabs are not."""
    mesh = Mesh(1, (4, 1, 1))
    x = mesh.part(torch.ones(1, 32, 16, 4, 4))
    channels = mesh.gather(parallelise(nn.Sequential(nn.Dropout3d()), mesh)(x))
    elements = mesh.gather(parallelise(nn.Sequential(nn.Dropout()), mesh)(x))
    tail = mesh.gather(parallelise(nn.Sequential(nn.Flatten(), nn.Dropout()), mesh)(x))
    return [bool((one == one[0]).all()) for one in (channels, elements, tail)]


def case_slabs_on_disk(folder: Path) -> bool:
    """Each rank reads its own part of each of its samples."""
    mesh, path, other = Mesh(2, (1, 2, 1)), folder / "x.npy", folder / "y.npy"
    volumes = np.arange(4 * 1 * 8 * 8 * 4, dtype=np.float32).reshape(4, 1, *SIZES)
    if dist.get_rank() == 0:
        np.save(path, volumes)
        np.save(other, np.arange(8, dtype=np.float32).reshape(4, 2))
    dist.barrier()
    data = Slabs(mesh, path, other)
    half = slice(4 * (mesh.rank % 2), 4 * (mesh.rank % 2) + 4)
    same = all(np.array_equal(data[i][0], volumes[i, :, :, half]) for i in range(len(data)))
    return same and list(sampler(data, mesh, shuffle=False)) == [mesh.row, mesh.row + 2]


def refusal(act: Any) -> str:
    """The message, on this rank."""
    try:
        act()
    except SpatialError as error:
        return str(error)
    return "not refused"


class MeanOverSpace(nn.Module):
    """A user's own forward, which `parallelise` cannot see through."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv3d(1, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sizes stay, so no layer would notice."""
        y: torch.Tensor = self.layer(x)
        return y - y.mean((2, 3, 4), keepdim=True)


class Coordinates(nn.Module):
    """Adds numbers along the slab, where those along the volume are meant."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv3d(1, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the type of `x`, but no slab of a volume."""
        y: torch.Tensor = self.layer(x)
        return y + torch.linspace(0, 1, x.shape[2]).view(1, 1, -1, 1, 1).to(x)


class Sum(nn.Module):
    """Of two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.ReLU()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Voxel by voxel."""
        total: torch.Tensor = self.layer(x) + y.sum(1, keepdim=True)
        return total


def case_refused(_folder: Path) -> dict[str, str]:
    """Nothing hangs, and every rank says the same."""
    mesh = Mesh(1, (4, 1, 1))

    def run(layer: nn.Module, sizes: tuple[int, ...]) -> Any:
        return lambda: parallelise(nn.Sequential(layer), mesh)(torch.ones(1, 1, *sizes))

    x = torch.ones(1, 1, 4, 4, 4)
    unequal = (4 + (mesh.rank == 1), 4, 4)
    return {
        "odd size": refusal(lambda: mesh.slab((18, 4, 4))),
        "odd slabs, stride": refusal(run(nn.Conv3d(1, 1, 3, 2, 1), (3, 4, 4))),
        "thin": refusal(run(nn.Conv3d(1, 1, 7, padding=3), (2, 4, 4))),
        "no output": refusal(run(nn.Conv3d(1, 1, 5), (4, 8, 8))),
        "unequal across": refusal(run(nn.Conv3d(1, 1, 3, padding=1), (4, 4 + (mesh.rank == 1), 4))),
        "unequal along, stride": refusal(run(nn.MaxPool3d(2), unequal)),
        "not batched": refusal(
            lambda: parallelise(nn.Sequential(nn.ReLU()), mesh)(torch.ones(4, 4, 4))
        ),
        "circular": refusal(run(nn.Conv3d(1, 1, 3, padding=1, padding_mode="circular"), (4, 4, 4))),
        "linear on slab": refusal(run(nn.Linear(4, 4), (4, 4, 4))),
        "adaptive": refusal(run(nn.AdaptiveAvgPool3d(2), (4, 4, 4))),
        "transposed": refusal(run(nn.ConvTranspose3d(1, 1, 3, 2), (4, 4, 4))),
        "modules": refusal(
            lambda: parallelise(nn.Sequential(nn.LSTM(2, 2), nn.ReLU(), nn.RMSNorm(4)), mesh)
        ),
        "mesh": refusal(lambda: Mesh(3, (1, 1, 1))),
        "loss": refusal(lambda: GlobalLoss(nn.KLDivLoss(), mesh)),
        "own forward": refusal(lambda: check(MeanOverSpace(), torch.randn(1, 1, 8, 4, 4), mesh)),
        "coordinates": refusal(lambda: parallelise(Coordinates(), mesh)(x)),
        "compiled": refusal(lambda: parallelise(_compiled(), mesh)),
        "corners": refusal(
            run(nn.Upsample(scale_factor=2, mode="trilinear", align_corners=True), (4, 4, 4))
        ),
        "overlap": refusal(lambda: parallelise(nn.Sequential(nn.ReLU()), mesh, overlap=["0", "x"])),
        "dtensor": refusal(_dtensor),
        "trusted wrongly": refusal(
            lambda: check_small(
                lambda _: nn.Sequential(nn.Conv3d(1, 1, 1), MeanOverSpace()),
                (32, 4, 4),
                mesh,
                trusted=(MeanOverSpace,),
            )
        ),
        "one in evaluation": refusal(
            lambda: parallelise(nn.Sequential(nn.ReLU()), mesh).train(mesh.rank != 2)(x)
        ),
        "one without gradients": refusal(
            lambda: parallelise(nn.Sequential(nn.ReLU()), mesh)(
                x.clone().requires_grad_(mesh.rank != 1)
            )
        ),
        "second input": refusal(
            lambda: parallelise(Sum(), mesh)(x, torch.ones(1, 1, 4, 4 + (mesh.rank == 3), 4))
        ),
        "divided twice": refusal(lambda: parallelise(parallelise(nn.ReLU(), mesh), mesh)),
    }


def _compiled() -> nn.Module:
    model = nn.Sequential(nn.Conv3d(1, 1, 1), nn.ReLU())
    model[0].compile(backend="eager")
    return model


def _dtensor() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = Mesh(1, (4, 1, 1))
    x = distribute_tensor(torch.ones(1, 1, 16, 4, 4), init_device_mesh("cpu", (4,)), [Shard(2)])
    parallelise(nn.Sequential(nn.Conv3d(1, 1, 3, padding=1)), mesh)(x)
