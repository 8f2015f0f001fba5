"""Open OnDemand's form gets what `predict` knows, and is whole without it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.cli import main
from slurm_ext.cli.predict.ondemand import attributes, lines
from tests.manual import ROOT

APP = ROOT / "contrib" / "ondemand"
KNOWN = {
    "before": {"cpus_per_task": 2, "num_workers": 0},
    "after": {"cpus_per_task": 4, "num_workers": 3},
    "predicted_after": {"samples_per_s": 415.0, "interval": [386.0, 446.0]},
    "maximum": {"cpus_per_task": 8, "num_workers": 8},
    "runs": 2,
    "emulated": True,
    "sharing": {"share": True, "gres": "mps:50", "why": 'at most 12 % slower: "fits"\n# - :'},
}
UNKNOWN = {"before": {"cpus_per_task": 2, "num_workers": 0}, "predicted_after": None}


def form(folder: Path, dlqueue: str) -> dict[str, Any]:
    """The app's form as Ruby renders and reads it, with `dlqueue` as this shell script."""
    if not shutil.which("erb"):
        pytest.skip("ruby is not installed")
    (folder / "dlqueue").write_text(f"#!/bin/sh\n{dlqueue}\n")
    (folder / "dlqueue").chmod(0o755)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    both = "erb -T - form.yml.erb | ruby -ryaml -rjson -e 'puts YAML.load($stdin.read).to_json'"
    said = subprocess.run(["sh", "-c", both], cwd=APP, env=env, capture_output=True, check=True)
    parsed: dict[str, Any] = json.loads(said.stdout)
    return parsed


def test_values_are_what_dlqueue_would_choose() -> None:
    """With what the job could use as the ceiling, and the expectation as help."""
    found = attributes(KNOWN)
    assert (found["num_cores"]["value"], found["num_cores"]["max"]) == (4, 8)
    assert found["num_workers"]["value"] == 3
    assert found["gpu_share"]["value"] == "mps:50"
    assert "415 samples/s (386 to 446)" in found["num_cores"]["help"]
    assert "emulated" in found["num_cores"]["help"]


def test_what_is_not_known_is_left_to_the_form() -> None:
    """Cores as the script asks; no word on workers or the GPU."""
    found = attributes(UNKNOWN)
    assert list(found) == ["num_cores"]
    assert found["num_cores"]["value"] == 2
    assert "max" not in found["num_cores"]
    assert attributes({}) == {}


def test_the_form_takes_the_answer_whatever_is_in_it(tmp_path: Path) -> None:
    """Quotes, newlines and comment signs stay text; each attribute replaces the plain one."""
    (tmp_path / "said").write_text(json.dumps({"v": 1, "attributes": attributes(KNOWN)}))
    shown = form(tmp_path, f"cat '{tmp_path}/said'")["attributes"]
    assert shown["num_workers"]["value"] == 3
    assert shown["gpu_share"]["help"] == KNOWN["sharing"]["why"]  # type: ignore[index] # a mapping


@pytest.mark.parametrize("dlqueue", ["exit 1", "echo nonsense", "echo '{}'", "kill -9 $$"])
def test_the_form_is_whole_without_an_answer(tmp_path: Path, dlqueue: str) -> None:
    """Plain defaults, and every field that the page lists."""
    shown = form(tmp_path, dlqueue)
    assert {name: shown["attributes"][name]["value"] for name in shown["form"][:3]} == {
        "num_cores": 2,
        "num_workers": 2,
        "gpu_share": "none",
    }


def test_the_real_command_fills_the_real_form(tmp_path: Path) -> None:
    """A machine without history: cores as the app's own script asks for."""
    command = (
        f"DLQUEUE_CONFIG='{tmp_path}/dlqueue.toml' exec '{sys.executable}' -m slurm_ext.cli \"$@\""
    )
    (tmp_path / "dlqueue.toml").write_text(f'[paths]\nstate_dir = "{tmp_path}"\n')
    shown = form(tmp_path, command)
    assert "does not know yet" in shown["attributes"]["num_cores"]["help"]


def test_lines_are_one_attribute_each(capsys: pytest.CaptureFixture[str]) -> None:
    """`--ood` is for people's own forms, `--ood --json` for programs."""
    assert [line.partition(":")[0] for line in lines(KNOWN)] == list(attributes(KNOWN))
    assert main(["predict", "--ood", "--json", str(APP / "training.sbatch")]) == 0
    assert json.loads(capsys.readouterr().out)["v"] == 1


def test_a_form_has_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Options that exclude each other are told, not ignored."""
    assert main(["predict", "--ood", "--what-if", str(APP / "training.sbatch")]) == 2
    assert "--what-if" in capsys.readouterr().err
