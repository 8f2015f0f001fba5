"""Cases of test_spatial_hostile.py: what became of each network, on two ranks."""

from dataclasses import asdict
from pathlib import Path

import torch

from slurm_ext.spatial.geometry.errors import SpatialError
from slurm_ext.spatial.geometry.mesh import Mesh
from slurm_ext.spatial.verify import compare
from tests.spatial.hostile_exact import EXACT, Between, Hostile
from tests.spatial.hostile_refused import REFUSED


def case_exact(_folder: Path) -> dict[str, str]:
    """Of each network: "exact", "wrong" or why it is refused."""
    mesh = Mesh(1, (2, 1, 1))
    return {name: _outcome(between, mesh) for name, between in EXACT.items()}


def case_refused(_folder: Path) -> dict[str, str]:
    """The same of the others."""
    mesh = Mesh(1, (2, 1, 1))
    return {name: _outcome(between, mesh) for name, between in REFUSED.items()}


def _outcome(between: Between, mesh: Mesh) -> str:
    torch.manual_seed(0)
    network, x = Hostile(between).double(), torch.randn(1, 2, 8, 4, 4).double()
    with torch.no_grad():
        network(x.clone())  # the last layer learns how many channels there are
    try:
        largest = max(asdict(compare(network, x, mesh)).values())
    except SpatialError as error:
        return f"refused: {error}"
    return "exact" if largest < 1e-11 else f"wrong by {largest:.1g}"
