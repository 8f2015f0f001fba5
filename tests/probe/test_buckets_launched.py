"""Buckets by the submission in trainings of other kinds: torchrun, four ranks, FSDP beside."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.probe.buckets.construction import signature_of
from tests.probe.conftest import QUICKLY, ROOT, Environment
from tests.probe.programs_mixed import layers
from tests.probe.several_ranks import LIMIT_S, ran_ranks

CAPS, ASKED, OWN = "16,32x2,999", [16, 32, 32, 16], [96]  # KiB
PROGRAM = "tests.probe.programs_mixed"
Told = list[dict[str, Any]]
Launch = Callable[[Path, dict[str, str], int], None]


def by_hand(folder: Path, env: dict[str, str], ranks: int) -> None:
    """Each rank as srun starts it."""
    ran_ranks(PROGRAM, folder, env, ranks)


def by_torchrun(folder: Path, env: dict[str, str], ranks: int) -> None:
    """All ranks as children of torchrun, whose agent holds the store."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    subprocess.run(
        [sys.executable, "-W", "ignore", *launcher, *QUICKLY, PROGRAM, str(folder)],
        env={**env, "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=LIMIT_S,
    )


def told(launch: Launch, folder: Path, env: dict[str, str], ranks: int) -> Told:
    """What each rank of one run told."""
    launch(folder, env, ranks)
    paths = [folder / f"told-{rank}" for rank in range(ranks)]
    return [json.loads(path.read_text(encoding="ascii")) for path in paths]


@pytest.mark.parametrize(
    ("launch", "ranks"), [(by_torchrun, 2), pytest.param(by_hand, 4, marks=pytest.mark.journey)]
)
def test_a_head_beside_a_sharded_backbone_has_the_buckets(
    tmp_path: Path, environment: Environment, launch: Launch, ranks: int
) -> None:
    """All ranks have them; two ranks to the same bits of every loss, four to rounding."""
    asked = f"{signature_of(layers())}:{ranks}:{CAPS}"
    env = environment(tmp_path / "run", DLQUEUE_BUCKETS=asked)
    ours = told(launch, tmp_path, env, ranks)
    own = told(launch, tmp_path, environment(None), ranks)
    assert [(one["asked"], one["buckets"]) for one in ours] == [(asked, ASKED)] * ranks
    assert [(one["asked"], one["buckets"]) for one in own] == [(None, OWN)] * ranks
    for one, other in zip(ours, own, strict=True):
        assert one["losses"] == other["losses"] or ranks > 2
        floats = [[*map(float.fromhex, each["losses"])] for each in (one, other)]
        assert floats[0] == pytest.approx(floats[1], rel=1e-6)
