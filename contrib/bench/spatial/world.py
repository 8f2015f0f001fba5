"""Ranks of one machine, forked after torch was imported once: one task in each.

Over gloo on CPUs, over NCCL on GPUs. Where there are fewer GPUs than ranks, ranks share them: NCCL,
which refuses that within a host, is told that each rank is one of its own.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from contrib.bench.spatial import tasks

DEVICE = "BENCH_DEVICE"  # of ranks, in the environment: cpu, cuda


def on_ranks(ranks: int, task: str, *, threads: int = 1, **words: Any) -> list[Any]:
    """The result of `tasks.TASK(**words)` on each rank; a task that fails ends the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "contrib.bench.spatial.world", str(ranks), task]
        env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        done = subprocess.run([*command, folder, json.dumps(words)], env=env, check=False)
        if done.returncode:
            sys.exit(f"{task} on {ranks} ranks ended with status {done.returncode}")
        return [json.loads((Path(folder) / str(rank)).read_text()) for rank in range(ranks)]


def main() -> int:
    """Fork the ranks and wait for them."""
    ranks, folder = int(sys.argv[1]), Path(sys.argv[3])
    children = []
    for rank in range(ranks):
        child = os.fork()
        if not child:
            os._exit(_rank(rank, ranks, folder))
        children.append(child)
    return int(max(os.waitpid(child, 0)[1] != 0 for child in children))


def _rank(rank: int, ranks: int, folder: Path) -> int:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    backend = _nccl(rank, ranks) if os.environ.get(DEVICE) == "cuda" else "gloo"
    method = f"file://{folder / 'meet'}"
    dist.init_process_group(backend, init_method=method, rank=rank, world_size=ranks)
    torch.manual_seed(0)
    result = getattr(tasks, sys.argv[2])(**json.loads(sys.argv[4]))
    (folder / str(rank)).write_text(json.dumps(result))
    dist.barrier()
    dist.destroy_process_group()
    return 0


def _nccl(rank: int, ranks: int) -> str:
    """Take this rank's GPU, and single precision as it is on CPUs."""
    import torch

    gpus = torch.cuda.device_count()
    torch.cuda.set_device(rank % gpus)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    if gpus < ranks:
        os.environ |= {"NCCL_HOSTID": f"rank-{rank}", "NCCL_NET": "Socket"}
        os.environ |= {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}
    return "nccl"


if __name__ == "__main__":
    sys.exit(main())
