"""Whoever can lay a link into slurm.conf's folder does not choose which file root writes."""

import os
from pathlib import Path

import pytest

from slurm_ext.core.errors import InputError
from slurm_ext.install.links import pinned, resolve
from tests.install.image import Site

SLURM_USER = 65534


@pytest.mark.root
@pytest.mark.parametrize("name", ["job_submit.lua", "slurm.conf", "conf.d"])
def test_a_link_of_slurm_user_is_not_followed(
    site: Site, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """SlurmUser owns /etc/slurm: the file that his link names stays as it is, and he is named."""
    site.write("/root/secret", "Prolog=/site\n")
    secret = site.path("/root/secret")
    if name == "conf.d":
        site.write("/etc/slurm/slurm.conf", "SlurmUser=slurm\ninclude conf.d/secret\n")
        secret = secret.parent
    link = site.path(f"/etc/slurm/{name}")
    link.unlink(missing_ok=True)
    link.symlink_to(secret)
    for path in (link.parent, link):
        os.chown(path, SLURM_USER, SLURM_USER, follow_symlinks=False)
    before = site.tree()
    assert site.run("install") == 1
    assert f"is a link of another user (uid {SLURM_USER})" in capsys.readouterr().err
    assert site.tree() == before


def test_links_of_root_and_ones_own_are_followed(tmp_path: Path) -> None:
    """As the system's own resolution does it: relative, absolute, upwards, missing ends."""
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "a").symlink_to("real")
    (tmp_path / "b").symlink_to(tmp_path / "a" / "deep")
    (tmp_path / "c").symlink_to("b/../../a")
    for words in ("a", "b", "c/deep", "b/..", "b/none/x/..", "a/none", "."):
        path = tmp_path / words
        assert resolve(path) == Path(os.path.realpath(path)), words


def test_a_circle_of_links_ends(tmp_path: Path) -> None:
    """A link to itself is an error, not an endless way."""
    (tmp_path / "a").symlink_to("a")
    with pytest.raises(InputError, match="too many links"):
        resolve(tmp_path / "a")


def test_a_folder_that_becomes_a_link_is_noticed(tmp_path: Path) -> None:
    """Between the look and the write somebody puts a link in a folder's place: nothing happens."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "folder").symlink_to("elsewhere")
    with pytest.raises(NotADirectoryError) as error, pinned(tmp_path / "folder" / "file") as path:
        path.write_text("x")
    assert error.value.filename == str(tmp_path / "folder" / "file")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_pinned_folder_stays_the_same_one(tmp_path: Path) -> None:
    """A folder that is moved away while it is written to takes the file along."""
    (tmp_path / "folder").mkdir()
    with pinned(tmp_path / "folder" / "file") as path:
        (tmp_path / "folder").rename(tmp_path / "moved")
        (tmp_path / "folder").mkdir()
        path.write_text("x")
    assert (tmp_path / "moved" / "file").read_text() == "x"
    assert list((tmp_path / "folder").iterdir()) == []
