"""A node on which hooks are run by hand."""

import fcntl
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.node.mps import daemon as mps_daemon
from tests.node.by_hand import Node
from tests.node.by_mps import MpsNode


@pytest.fixture
def make_node(short_folder: Path) -> Iterator[Callable[..., Node]]:
    """`make_node(**settings)`: nodes that are gone, processes and all, after the test."""
    nodes: list[Node] = []

    def make(**settings: Any) -> Node:
        root = short_folder / f"node{len(nodes)}"
        root.mkdir()
        nodes.append(Node(root, **settings))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    """One node with the folder transport and no squeue."""
    return make_node()


@pytest.fixture
def only_mps() -> Iterator[None]:
    """No other test's daemons meanwhile: they would be another tool's on the same GPU."""
    with Path(tempfile.gettempdir(), "dlqueue-mps-tests.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def make_mps(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch, only_mps: None
) -> Iterator[Callable[..., MpsNode]]:
    """`make_mps(**settings)`: a node with the stand-in for MPS, gone with its daemons."""
    # Each command of the stand-in is a start of Python, on a machine that may be busy.
    monkeypatch.setattr(mps_daemon, "TALK_S", 6.0)
    nodes: list[MpsNode] = []

    def make(**settings: Any) -> MpsNode:
        root = short_folder / f"node{len(nodes)}"
        root.mkdir()
        nodes.append(MpsNode(root, **settings))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()
