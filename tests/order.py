"""The order of test files: those that wait beside those that compute, the longest of them first.

Processes take file after file (pytest-xdist's loadfile). Where all of them compute at one time and
all of them wait at another, cores are idle; and whoever takes a long file last keeps all waiting.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

# Folders whose tests start programs of seconds, as those marked `slurm` do.
SLOW = {"packages", "probe", "ranks", "spatial"}
# Files of half a minute and more by themselves.
LONGEST = {
    "test_ansible.py",
    "test_install.py",
    "test_package_life.py",
    "test_tutorials.py",
    "test_demo.py",
    "test_kept_resources_real.py",
    "test_simulate_site_real.py",
    "test_question_hosts.py",
    "test_loop.py",
    "test_energy_real_slurm.py",
    "test_probe_headroom.py",
    "test_probe_lifted.py",
    "test_probe_gated.py",
    "test_probe_together.py",
    "test_probe_tuning.py",
    "test_buckets_real.py",
}
SHARE = 0.85  # of the run in which slow files begin; quick ones fill up what is left
LAST = 2.0  # a test that wants the machine for itself: then nobody waits for it


def in_turn(items: list[pytest.Item]) -> None:
    """Put slow files, in their own order, between the quick ones; each file's tests stay as is."""
    slow = {item.path: item.path.name not in LONGEST for item in items if is_slow(item)}
    quick = dict.fromkeys(item.path for item in items if item.path not in slow)
    places = {**_spread(sorted(slow, key=slow.__getitem__), SHARE), **_spread(quick, 1.0)}
    places |= {item.path: LAST for item in items if item.get_closest_marker("alone")}
    items.sort(key=lambda item: places[item.path])


def is_slow(item: pytest.Item) -> bool:
    """True if the item starts programs of seconds and waits for them."""
    return item.get_closest_marker("slurm") is not None or item.path.parent.name in SLOW


def _spread(paths: Iterable[Path], share: float) -> dict[Path, float]:
    """A place between 0 and `share` for each."""
    known = [*paths]
    return {path: share * at / len(known) for at, path in enumerate(known)}
