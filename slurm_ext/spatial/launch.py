"""Start of a rank under any launcher: torchrun, srun, mpiexec, or none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from slurm_ext.ranks.meeting import meeting_node

if TYPE_CHECKING:
    from collections.abc import Mapping

# Rank, number of ranks and rank inside its node. MPI comes before Slurm: mpiexec in a batch script
# inherits Slurm's variables of the one batch task.
LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
)
FIRST_PORT, PORTS = 20000, 12000  # below those that the kernel gives to clients


def rank_of(env: Mapping[str, str]) -> tuple[int, int, int]:
    """Rank, number of ranks and local rank by the environment; (0, 1, 0) if nobody launched it."""
    for rank, world, local in LAUNCHERS:
        if rank in env and world in env:
            return int(env[rank]), int(env[world]), int(env.get(local, env[rank]))
    return 0, 1, 0


def meeting_point(env: Mapping[str, str]) -> str:
    """The address at which the ranks of this job step meet: tcp://host:port."""
    host = env.get("MASTER_ADDR") or meeting_node(env) or "127.0.0.1"
    job, step = (int(env.get(name, "0")) for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    port = env.get("MASTER_PORT") or str(FIRST_PORT + (job * 7 + step) % PORTS)
    return f"tcp://{host}:{port}"


def start() -> torch.device:
    """Join the other ranks, by NCCL where there are GPUs, else by gloo; the rank's device."""
    rank, world, local = rank_of(os.environ)
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", local % torch.cuda.device_count()) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if gpu else "gloo",
        init_method=meeting_point(os.environ),
        rank=rank,
        world_size=world,
    )
    return device
