"""What doctor says of a node whose jobs are to have MPS."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from slurm_ext.cli.doctor.finding import Finding
from slurm_ext.cli.doctor.mps import mps
from slurm_ext.core.settings.document import Settings, parse
from tests.manual import steps
from tests.mps_program import CONTROL
from tests.mps_standin import install
from tests.whole import until

UUID = "GPU-0d0c7042-1111-2222-3333-444455556666"


def _found(folder: Path, **more: Any) -> dict[str, Finding]:
    values = {"mps.mode": "act", "mps.control": str(folder / CONTROL), **more}
    return {finding.name: finding for finding in mps(Settings("test", values))}


def test_off_is_silent(tmp_path: Path) -> None:
    """Nothing is asked where nothing is wanted."""
    assert _found(tmp_path, **{"mps.mode": "off"}) == {}


def test_a_node_in_order(short_folder: Path) -> None:
    """Programs, GPUs, room for sockets."""
    install(short_folder, [f"{UUID}, 40960, Disabled, Exclusive_Process"])
    found = _found(short_folder)
    assert [found[name].status for name in ("mps.control", "mps.gpu 0", "mps.sockets")] == [
        "ok"
    ] * 3
    assert "Exclusive_Process" in found["mps.gpu 0"].seen


def test_what_is_missing(short_folder: Path) -> None:
    """No driver here; a spool whose name leaves no room for sockets."""
    found = _found(short_folder, **{"node.spool_dir": "/spool" * 12})
    assert found["mps.control"].status == "fail"
    assert "does not answer" in found["mps.gpus"].seen
    assert "shorten node.spool_dir" in found["mps.sockets"].advice


def test_gpus_without(short_folder: Path) -> None:
    """MIG and a prohibiting compute mode are named for each GPU."""
    install(short_folder, [f"{UUID}, 1, Enabled, Default", f"{UUID}, 1, Disabled, Prohibited"])
    found = _found(short_folder)
    assert "MIG on" in found["mps.gpu 0"].seen
    assert [found[f"mps.gpu {index}"].status for index in (0, 1)] == ["warn", "warn"]


def test_another_tools_daemon(short_folder: Path) -> None:
    """It is named by pid, user and GPUs."""
    control = install(short_folder)
    env = {"CUDA_MPS_PIPE_DIRECTORY": str(short_folder), "CUDA_VISIBLE_DEVICES": UUID}
    env["CUDA_MPS_LOG_DIRECTORY"] = str(short_folder)
    subprocess.run([control, "-d"], env=env, check=True)
    written = short_folder / f"{CONTROL}.pid"
    pid = int(until(lambda: written.exists() and written.read_text(), "no daemon"))
    try:
        assert (
            f"pid {pid} of uid {os.getuid()} on GPUs {UUID}"
            in _found(short_folder)["mps.daemons"].seen
        )
    finally:
        os.kill(pid, signal.SIGKILL)


def test_the_manuals_words_are_settings() -> None:
    """INSTALL.md's section turns it on; its undo is the section without them."""
    (section,) = (step for step in steps() if step.title.startswith("MPS"))
    (toml,) = (block.text for block in section.do if block.language == "toml")
    assert parse(toml, "INSTALL.md")["mps.mode"] == "act"
    assert [block.language for block in section.undo] == ["sh"]
