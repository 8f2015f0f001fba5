"""A manifest is data of this user's own folder; a hostile one starts and removes nothing."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.core.errors import SandboxError
from slurm_ext.sandbox import Sandbox, SandboxSpec
from slurm_ext.sandbox.layout import SandboxLayout
from slurm_ext.sandbox.manifest import SandboxManifest, read_manifest, write_manifest
from slurm_ext.sandbox.plan import read_plan

NOBODY = 65534


def manifest_of(root: Path, **spec: Any) -> SandboxManifest:
    """What `up` writes before the supervisor runs."""
    subnet = "198.18.7" if spec.get("namespaces") else None
    fields = {"first_port": 20001, "subnet": subnet, "slurm_version": [22, 5]}
    return SandboxManifest(read_plan(SandboxSpec(**spec), SandboxLayout(root), fields), False)


def changed(root: Path, *path: str, value: object) -> None:
    """Write a good manifest but for one value."""
    write_manifest(manifest_of(root))
    file = root / "sandbox.json"
    body = part = json.loads(file.read_text())
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    file.write_text(json.dumps(body))


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Another process attaches to the same plan, and ends the same supervisor."""
    manifest = manifest_of(tmp_path, nodes=3, gpus=1, sharing="mps").with_supervisor(4242, 7)
    write_manifest(manifest)
    assert read_manifest(tmp_path) == manifest
    assert (tmp_path / "sandbox.json").stat().st_mode & 0o777 == 0o600


def test_a_manifest_holds_no_command_and_no_path(tmp_path: Path) -> None:
    """Whatever a file says, nothing in it is run: a program's name stands nowhere in it."""
    write_manifest(manifest_of(tmp_path, nodes=2, accounting=True, advisor=True))
    text = (tmp_path / "sandbox.json").read_text()
    assert [word for word in ("/", "munged", "slurmd", "argv", "undo", "ip ") if word in text] == []


def test_a_folder_that_is_no_sandbox_is_named(tmp_path: Path) -> None:
    """`status` and `down` of a wrong folder say how a sandbox is made."""
    with pytest.raises(SandboxError, match="is no sandbox"):
        read_manifest(tmp_path)
    with pytest.raises(SandboxError, match="is no sandbox"):
        read_manifest(tmp_path / "missing")


def test_a_torn_manifest_is_named(tmp_path: Path) -> None:
    """Half a sandbox.json is an error message, not a traceback."""
    (tmp_path / "sandbox.json").write_text('{"spec": ')
    with pytest.raises(SandboxError, match=r"sandbox\.json: cannot be read"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("text", ["[]", "3", "null", "{}", '{"spec": {}}', '{"v": 1}'])
def test_a_manifest_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    """JSON that no `sandbox up` of this release wrote."""
    (tmp_path / "sandbox.json").write_text(text)
    with pytest.raises(SandboxError, match="not written by this release"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("plan", "subnet"), "10.0.0"),
        (("plan", "first_port"), 22),
        (("plan", "first_port"), "20001; rm -r /"),
        (("plan", "slurm_version"), ["22", 5]),
        (("plan", "slurm_version"), [22]),
        (("spec", "nodes"), 10**9),
        (("spec", "nodes"), "2"),
        (("spec", "undo"), [["touch", "/etc/x"]]),
        (("supervisor",), {"pid": 1, "started": 0}),
        (("supervisor",), {"pid": "1", "started": 0}),
        (("supervisor",), [["kill"]]),
        (("v",), 3),
    ],
)
def test_a_manifest_with_a_wrong_value_is_refused(
    tmp_path: Path, path: tuple[str, ...], value: object
) -> None:
    """Numbers out of their range and unknown words are named; nothing is done with them."""
    changed(tmp_path, *path, value=value)
    with pytest.raises(SandboxError, match=r"sandbox\.json was not written"):
        read_manifest(tmp_path)


@pytest.mark.root
def test_a_manifest_in_another_users_folder_is_not_read(short_folder: Path) -> None:
    """The folder's owner could lay any file there: a manifest of root's, linked, as well."""
    write_manifest(manifest_of(short_folder))

    os.chown(short_folder, NOBODY, NOBODY)
    with pytest.raises(SandboxError, match="another user's folder"):
        read_manifest(short_folder)
    with pytest.raises(SandboxError, match="another user's folder"):
        Sandbox(short_folder).up()


@pytest.mark.root
@pytest.mark.parametrize("fault", ["foreign", "writable", "link", "pipe"])
def test_only_a_plain_file_of_this_user_is_a_manifest(short_folder: Path, fault: str) -> None:
    """Owner, mode and kind are judged on the open file, and nothing else is read."""
    write_manifest(manifest_of(short_folder))
    file = short_folder / "sandbox.json"
    if fault == "foreign":
        os.chown(file, NOBODY, NOBODY)
    elif fault == "writable":
        file.chmod(0o666)
    elif fault == "link":
        file.rename(short_folder / "real.json")
        file.symlink_to("real.json")
    else:
        file.unlink()
        os.mkfifo(file)
    with pytest.raises(SandboxError, match=r"sandbox\.json"):
        read_manifest(short_folder)


def test_down_of_a_folder_with_a_hostile_manifest_removes_nothing(tmp_path: Path) -> None:
    """Paths of an earlier release's manifest are not removed, its commands not run."""
    victim, touched = tmp_path / "victim", tmp_path / "touched"
    victim.mkdir()
    body = {"undo": [["touch", str(touched)]], "remove": [str(victim)], "temporary": True}
    (tmp_path / "sandbox.json").write_text(json.dumps(body))
    Sandbox(tmp_path).down()
    assert victim.exists()
    assert not touched.exists()
