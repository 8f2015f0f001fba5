"""Files with workers' totals: as many as workers live, however many loaders a program makes."""

import json
from pathlib import Path

from slurm_ext.probe.passes.loader_meter import LoaderMeter
from slurm_ext.probe.passes.one_pass import Pass
from tests.probe.conftest import Environment, Python

LOADERS = """
import importlib, json, os
import torch
from torch.utils.data import DataLoader, TensorDataset

def left_by(length, **named):
    for _ in DataLoader(TensorDataset(torch.arange(length)), batch_size=2, num_workers=2, **named):
        pass
    return sum(name.startswith("fetch-") for name in os.listdir(os.environ["DLQUEUE_RUN_DIR"]))

lasting = [left_by(8, persistent_workers=True) for _ in range(4)]
importlib.import_module("_dlqueue_probe.passes.meters")._MAX_LOADERS = 1
print(json.dumps([lasting, [left_by(length) - lasting[-1] for length in (10, 12)]]))
"""


def test_no_totals_pile_up(tmp_path: Path, environment: Environment, python: Python) -> None:
    """Lasting workers of a loader that each epoch makes anew, and those of loaders beyond the most.

    The former's totals go once others took their place; the latter's, which nobody reads, never
    come.
    """
    done = python(["-c", LOADERS], environment(tmp_path / "run"))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [[2, 2, 2, 2], [0, 0]]
    assert not list((tmp_path / "run").glob("fetch-*"))


class Sampled:
    """Stands for the iterator of a pass."""


def test_totals_stay_for_as_long_as_their_workers_may_be_asked(tmp_path: Path) -> None:
    """Another loader's pass that ends in between takes nothing from an iterator that lives."""
    meter = LoaderMeter(0, {"persistent": True, "batch_size": 1}, str(tmp_path))
    first, second = Sampled(), Sampled()
    for number, iterator in enumerate((first, second, first)):
        (tmp_path / f"fetch-{id(iterator)}").touch()
        current = Pass(iterator, meter)
        current.made.join((id(iterator),))
        meter.begin(current)
        meter.end(current)
        assert len(list(tmp_path.glob("fetch-*"))) == min(number + 1, 2)
    del second, iterator
    meter.begin(current := Pass(first, meter))
    meter.end(current)
    assert [path.name for path in tmp_path.glob("fetch-*")] == [f"fetch-{id(first)}"]
