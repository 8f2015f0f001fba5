"""A slowdown model as a file: read back as it was written, or refused with the fault."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.errors import ModelError
from slurm_ext.core.gpu_sharing import CorunMeasurement, SoloProfile, SpeedBasis
from slurm_ext.model.slowdown.artifact import FILE, FOLDER, load, serialize
from slurm_ext.model.slowdown.completion_kernel import CompletionKernel, JobTraits, Role
from slurm_ext.model.slowdown.model import KERNELS, slowdown_model

OWN = CompletionKernel(level=-0.2, pressure=Role(family=0.1, lengths=(1.0, 2.0)))
RUNS = [
    CorunMeasurement(job="a", partners=("b",), speed=0.8, seconds=600.0),
    CorunMeasurement(job="b", partners=("a",), speed=0.9, seconds=60.0, device="A100"),
]
KNOWN = slowdown_model(
    RUNS,
    {"a": SoloProfile(key="a", features={"y": 1.0, "x": 2.0}, mem_bytes=5.0)},
    traits={"b": JobTraits(family="f", size=2.0, vector=(0.5, 1.5))},
    widths={SpeedBasis.PAIR: 1.25},
    kernels={True: OWN},
)


def written(folder: Path, **changes: Any) -> Path:
    """KNOWN in a folder, something of it changed; its checksum fits."""
    (data,) = serialize(KNOWN, {True: OWN}, {"window_s": [1.0, 2.0]}).values()
    if changes:
        body = json.loads(data)
        del body["sha256"]
        body |= changes
        checksum = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        data = json.dumps({**body, "sha256": checksum}).encode()
    (folder / FILE).write_bytes(data)
    return folder


def test_what_is_read_back_is_what_was_written(tmp_path: Path) -> None:
    """The same bytes; tables are computed again; the folder names it."""
    again = load(written(tmp_path))
    assert (FOLDER, FILE, again.name) == ("slowdown", "slowdown.json", tmp_path.name)
    assert again.about == {"window_s": [1.0, 2.0]}
    assert again.kernels == {True: OWN, False: KERNELS[False]}
    found = again.slowdowns
    assert (found.met, found.widths, found.solos) == (KNOWN.met, KNOWN.widths, KNOWN.solos)
    assert (found.traits, found.by_counters) == (KNOWN.traits, None)
    assert set(found.tables) == {True, False}
    assert found.tables[True].kernel == OWN
    assert found.tables[False].kernel is KERNELS[False]
    assert serialize(found, {True: OWN}, again.about) == serialize(
        KNOWN, {True: OWN}, {"window_s": [1.0, 2.0]}
    )
    a, b = SoloProfile(key="a"), SoloProfile(key="b")
    assert found.speed(a, [b]) == KNOWN.speed(a, [b])


STATS = {"runs": 1, "seconds": 60.0, "log_speed": -0.1, "log_sd": 0.1, "spread": 0.1}


@pytest.mark.parametrize(
    "changes",
    [
        {"about": {}},
        {"about": {"window_s": [2.0, 1.0]}},
        {"about": {"window_s": [1.0]}},
        {"widths": {"PAIR": 0.0}},
        {"widths": {"NOBODY": 1.0}},
        {"kernels": {"tpu": {}}},
        {"kernels": {"cpu": {"level_var": 0.0}}},
        {"kernels": {"cpu": {"pressure": {"family": 0.0, "lengths": []}}}},
        {"kernels": {"cpu": {"pressure": {"lengths": [0.0]}}}},
        {"met": [["cpu", "a", ["b"], {**STATS, "log_sd": 0.0}]]},
        {"met": [["cpu", "a", ["b"], {**STATS, "spread": float("inf")}]]},
        {"met": [["cpu", "a", {}]]},
        {"traits": {"a": {"vector": ["x"]}}},
        {"solos": {"a": {"speed": 1.0}}},
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    """Named, with the advice to train again."""
    with pytest.raises(ModelError, match=r"slowdown\.json.*train again") as raised:
        load(written(tmp_path, **changes))
    assert "checksum" not in str(raised.value)


def test_levels_and_shares_of_devices_may_be_any_number(tmp_path: Path) -> None:
    """All other numbers of a kernel are variances and lengths: above 0."""
    kernels = {"gpu": {"level": -1.0, "device_share": 0.0, "noise_var": 0.5}}
    again = load(written(tmp_path, kernels=kernels, about={"window_s": [1.0, 1.0]}))
    assert again.kernels[False] == CompletionKernel(level=-1.0, device_share=0.0, noise_var=0.5)
