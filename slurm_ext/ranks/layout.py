"""Which rank runs where: the environment of each rank that one node starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm_ext.ranks.meeting import meeting_node

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FIRST_PORT, PORTS = 20000, 20000


@dataclass(frozen=True)
class RankLayout:
    """One node's part of the job."""

    ranks_per_gpu: int
    gpus: tuple[str, ...]  # as CUDA_VISIBLE_DEVICES names them; ("",): none, ranks share the CPU
    nodes: int = 1
    node: int = 0
    address: str = "127.0.0.1"
    port: int = FIRST_PORT

    @property
    def here(self) -> int:
        """Ranks on this node."""
        return self.ranks_per_gpu * len(self.gpus)

    def environments(self) -> Iterator[dict[str, str]]:
        """Environment of each rank of this node, as torchrun would set it."""
        for local in range(self.here):
            gpu = self.gpus[local // self.ranks_per_gpu]
            own = {
                "RANK": self.node * self.here + local,
                "WORLD_SIZE": self.nodes * self.here,
                "LOCAL_RANK": 0 if gpu else local,  # it sees one GPU only, its own
                "LOCAL_WORLD_SIZE": self.here,
                "MASTER_ADDR": self.address,
                "MASTER_PORT": self.port,
                "DLQUEUE_RANKS_PER_GPU": self.ranks_per_gpu,
            }
            variables = {name: str(value) for name, value in own.items()}
            yield {**variables, "CUDA_VISIBLE_DEVICES": gpu} if gpu else variables


def rank_layout(ranks_per_gpu: int, env: Mapping[str, str], free_port: int) -> RankLayout:
    """This node's part, from Slurm's environment. Raises ValueError with what is wrong.

    With several nodes start it once a node: `srun --ntasks-per-node=1`.
    """
    if ranks_per_gpu < 1:
        raise ValueError(f"--ranks-per-gpu is {ranks_per_gpu}; at least 1 is wanted")
    nodes, node = (_number(env, name, d) for name, d in (("SLURM_NNODES", 1), ("SLURM_NODEID", 0)))
    job = _number(env, "SLURM_JOB_ID", 0)
    alone = nodes == 1
    address = "127.0.0.1" if alone else meeting_node(env)
    if address is None:
        raise ValueError(f"{nodes} nodes: start it once on each, by srun --ntasks-per-node=1")
    return RankLayout(
        ranks_per_gpu=ranks_per_gpu,
        gpus=tuple(env.get("CUDA_VISIBLE_DEVICES", "").split(",")),
        nodes=nodes,
        node=node,
        address=address,
        port=free_port if alone else FIRST_PORT + job % PORTS,
    )


def _number(env: Mapping[str, str], name: str, otherwise: int) -> int:
    text = env.get(name, str(otherwise))
    if not text.isdecimal():
        raise ValueError(f"{name} is {text!r}; a number is wanted")
    return int(text)
