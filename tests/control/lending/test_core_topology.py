"""The kernel's lists of memory nodes and of hardware threads, and what is missing in them."""

import os
from pathlib import Path

from slurm_ext.control.lending.core_topology import memory_nodes, siblings


def test_threads_of_a_core_are_siblings(tmp_path: Path) -> None:
    """Each with all of them; a core with one thread, a torn list and other folders tell nothing."""
    texts = {"cpu0": "0,2\n", "cpu2": "0,2\n", "cpu1": "1\n", "cpu3": "x\n", "cpufreq": "0-9\n"}
    for name, text in texts.items():
        (tmp_path / name / "topology").mkdir(parents=True)
        (tmp_path / name / "topology/thread_siblings_list").write_text(text)
    assert siblings(str(tmp_path)) == {0: frozenset({0, 2}), 2: frozenset({0, 2})}
    assert siblings(str(tmp_path / "none")) == {}


def test_memory_nodes_have_their_cores(tmp_path: Path) -> None:
    """As the kernel lists them; a torn list tells nothing."""
    for name, text in {"node0": "0-1,4\n", "node1": "2\n", "node2": "?\n", "other": "9\n"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpulist").write_text(text)
    assert memory_nodes(str(tmp_path)) == {0: 0, 1: 0, 4: 0, 2: 1}


def test_this_machine_has_each_core_once() -> None:
    """A core is among its own siblings."""
    assert all(core in threads for core, threads in siblings().items())
    assert set(siblings()) <= set(range(os.cpu_count() or 1))
