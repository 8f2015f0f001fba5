"""Disks of a node that are full or read-only cost measurements, and nothing else."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.by_hand import BURN, TOKEN, Node, cpu_s, wait_for


@pytest.fixture
def small_disk(node: Node) -> Iterator[Path]:
    """A tmpfs of 1 MiB under the node's spool."""
    spool = node.root / "spool"
    spool.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(spool)], check=True)
    yield spool
    node.close()
    subprocess.run(["umount", "-l", str(spool)], check=True)


def _fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass


@pytest.mark.root
def test_a_disk_that_fills_up_during_the_job_keeps_room_for_its_record(
    node: Node, small_disk: Path
) -> None:
    """The prolog's reserve is enough for the record, the token and the counters in it."""
    node.prolog(70)
    (small_disk / "run/70.0/decision").write_text(TOKEN)
    node.job(70, BURN.format(0.5)).wait()
    wait_for(lambda: node.state("70.0").get("meter", {}).get("totals", {}).get("cpu_user"))
    _fill(small_disk)
    node.epilog(70, 256)
    (record,) = node.delivered()
    assert (record["outcome"]["exit_code"], record["decision"]) == (1, TOKEN)
    assert cpu_s(record) > 0


@pytest.mark.root
def test_a_full_disk_costs_the_measurement_and_nothing_else(node: Node, small_disk: Path) -> None:
    """Prolog and epilog on a disk without a single free block: exit 0, silent; later jobs work."""
    _fill(small_disk)
    node.prolog(71)
    node.epilog(71)
    (small_disk / "filler").unlink()
    node.prolog(72)
    node.epilog(72)
    records = node.delivered()
    assert 72 in [record["identity"]["job_id"] for record in records]


@pytest.mark.root
def test_a_read_only_spool_is_harmless(node: Node, small_disk: Path) -> None:
    """Exit 0 and silent from every hook."""
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for hook in ("prolog", "task_prolog", "epilog", "ship"):
        done = node.hook(hook, node.env(73))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
