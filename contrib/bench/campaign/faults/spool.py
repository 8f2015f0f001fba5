"""Records that are torn, come twice, come again, or were never records."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from contrib.bench.campaign.cluster import TAUGHT, Cluster
from contrib.bench.campaign.faults.disks import node_spools
from contrib.bench.campaign.faults.fault import Break, every, on_records
from tests.whole import waiting_run

_BAD = Path(__file__).parents[4] / "tests" / "bad_input" / "spool"


def _again(period_s: float, act: Callable[[Cluster, int], object]) -> Break:
    @contextmanager
    def broken(cluster: Cluster) -> Iterator[None]:
        def turn(number: int) -> None:
            with suppress(OSError):
                act(cluster, number)

        with every(period_s, turn):
            yield

    return broken


def _files(cluster: Cluster, pattern: str) -> list[Path]:
    return [path for spool in node_spools(cluster) for path in sorted(spool.glob(pattern))]


def _tear_states(cluster: Cluster, number: int) -> None:
    """Halve or empty a node's notes of its jobs, as a power cut may."""
    for path in _files(cluster, "state/*.json") + _files(cluster, "state/*.end"):
        if hash(path.name) % 2:
            _tear(path, number)


def _tear_records(cluster: Cluster, number: int) -> None:
    for path in _files(cluster, "out/*.json"):
        _tear(path, number)


def _tear(path: Path, number: int) -> None:
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size // 2 if number % 2 else 0)


def _spool(cluster: Cluster) -> Path:
    return cluster.slurm.path("dlqueue/spool")


def _seen(cluster: Cluster) -> Path:
    folder = cluster.slurm.path("seen")
    folder.mkdir(exist_ok=True)
    return folder


def _double(cluster: Cluster, number: int) -> None:
    """Each record that arrives is copied, under another name."""
    for path in _spool(cluster).glob("[!.]*.json"):
        with suppress(OSError):
            shutil.copy(path, _seen(cluster) / path.name)
            shutil.copy(path, _spool(cluster) / f".{number}")
            (_spool(cluster) / f".{number}").rename(_spool(cluster) / f"copy-{number}-{path.name}")


def _replay(cluster: Cluster, number: int) -> None:
    """Records that were taken in come again, under their own names."""
    _keep(cluster)
    kept = sorted(_seen(cluster).iterdir())
    for path in kept[number % 3 :: 3]:
        hidden = _spool(cluster) / f".replayed-{number}"
        shutil.copy(path, hidden)
        hidden.rename(_spool(cluster) / path.name)


def _keep(cluster: Cluster) -> None:
    for path in _files(cluster, "out/*.json"):
        with suppress(OSError):
            shutil.copy(path, _seen(cluster) / path.name)


def _hostile(cluster: Cluster, number: int) -> None:
    """Bad records, links, pipes, folders and giants among the good ones."""
    spool, bad = _spool(cluster), sorted(_BAD.iterdir())
    for path in bad:
        hidden = spool / f".{number}-{path.name}"
        hidden.write_bytes(path.read_bytes())
        hidden.rename(spool / f"{number}-{path.name}")
    (spool / f"link-{number}.json").symlink_to("/etc/passwd")
    (spool / f"loop-{number}.json").symlink_to(f"loop-{number}.json")
    (spool / f"device-{number}.json").symlink_to("/dev/zero")
    os.mkfifo(spool / f"pipe-{number}.json")
    (spool / f"folder-{number}.json").mkdir()
    with (spool / f"giant-{number}.json").open("wb") as giant:
        giant.truncate(1 << 32)
    absurd = waiting_run("absurd", TAUGHT + 50_000 + number)
    absurd["times"]["end_s"] = 1e300
    (spool / f"absurd-{number}.json").write_text(json.dumps(absurd))


FAULTS = (
    on_records("spool_states_torn", "the nodes' notes are torn", _again(0.5, _tear_states)),
    on_records("spool_records_torn", "records are torn on the nodes", _again(0.02, _tear_records)),
    on_records("spool_doubled", "records come twice at once", _again(0.02, _double)),
    on_records("spool_replayed", "records come again and again", _again(0.1, _replay)),
    on_records("spool_hostile", "bad records, links, pipes and giants", _again(2.0, _hostile)),
)
