"""A loader that only its loop holds is gone while its pass runs; torch's iterator is not."""

import json
from pathlib import Path

import pytest

from tests.probe.conftest import Environment, Python

INLINE = """
import time, torch
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self): return 240
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((4,), float(index))
torch.manual_seed((1 << 40) + 7)
net = torch.nn.Linear(4, 1)
optimiser = torch.optim.SGD(net.parameters(), lr=1e-6)
for _ in range(2):
    for x in DataLoader(Numbers(), batch_size=4, num_workers=WORKERS):
        net(x).sum().backward()
        optimiser.step()
print(net.weight.tolist())
"""


@pytest.mark.parametrize("own", [0, 1, 2])
def test_workers_move_into_a_loader_that_nothing_holds(
    environment: Environment, python: Python, tmp_path: Path, own: int
) -> None:
    """Three work whatever the user's number is, with the same result and without a fault."""
    program = ["-c", INLINE.replace("WORKERS", str(own))]
    plain = python(program, environment(None))
    done = python(program, environment(tmp_path / "run", DLQUEUE_NUM_WORKERS="3"))
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, "")
    (path,) = (tmp_path / "run").glob("summary-*.json")
    summary = json.loads(path.read_text())
    (loader,) = summary["loaders"]
    assert (summary["faults"], loader["left_alone"], loader["started_workers"]) == ([], None, 3)
