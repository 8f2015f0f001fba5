"""What doctor says of gres.conf, where jobs are to share GPUs."""

from pathlib import Path

import pytest

from slurm_ext.cli.doctor.finding import Finding
from slurm_ext.cli.doctor.sharing import judge_gres, sharing
from slurm_ext.core.settings.document import Settings

FRAGMENT = Path(__file__).parents[3] / "site_config" / "slurm" / "gres.conf"


def found(folder: Path, gres: str = "mps", **config: str) -> dict[str, Finding]:
    """The findings, by what they are about."""
    settings = Settings(values={"sharing.mode": "shadow", "sharing.gres": gres})
    told = {"GresTypes": "gpu,mps", "SLURM_CONF": str(folder / "slurm.conf"), **config}
    return {one.name: one for one in sharing(settings, told)}


def test_off_is_silent(tmp_path: Path) -> None:
    """Nothing is asked where nothing is wanted."""
    assert list(sharing(Settings(values={"sharing.mode": "off"}), {})) == []


def test_the_fragment_that_we_ship_is_in_order(tmp_path: Path) -> None:
    """INSTALL.md's own file passes."""
    (tmp_path / "gres.conf").write_text(FRAGMENT.read_text())
    assert {one.status for one in found(tmp_path).values()} == {"ok"}


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    """A kind that Slurm was not told of, a file that cannot be read, a file without the kind."""
    told = found(tmp_path, "shard")
    assert (told["sharing.gres"].status, told["gres.conf"].status) == ("warn", "warn")
    assert "add shard to GresTypes" in told["sharing.gres"].advice
    assert "No such file" in told["gres.conf"].seen
    (tmp_path / "gres.conf").write_text("Name=gpu File=/dev/nvidia0\n")
    assert found(tmp_path)["gres.conf"].status == "fail"


@pytest.mark.parametrize(
    ("kind", "text", "status", "said"),
    [
        ("mps", "Name=mps Count=100", "warn", "only one GPU of a node serves mps"),
        ("mps", "Name=mps Count=100 Flags=all_sharing", "ok", ""),
        ("mps", 'NODENAME=n[1-4] name="MPS" count=1 flags=one_sharing', "warn", "only one GPU"),
        ("mps", "Name=mps Count=1 # Flags=all_sharing", "warn", "only one GPU"),
        ("mps", "Name=mps Flags=all_sharing\nName=mps Flags=one_sharing", "warn", "whole cluster"),
        ("mps", "# Name=mps Flags=all_sharing\n", "fail", "add Name=mps"),
        ("shard", "Name=shard Count=8", "ok", ""),
        ("shard", "Name=shard Count=8 Flags=one_sharing", "warn", "only one GPU"),
        ("shard", "Name=mps Count=8 Flags=all_sharing", "fail", "add Name=shard"),
        ("mps", "Name=mps junk = = Flags\x00=\n\n", "warn", "only one GPU"),
    ],
)
def test_flags_are_held_against_what_sharing_needs(
    kind: str, text: str, status: str, said: str
) -> None:
    """Mps wants all_sharing said, shard wants one_sharing unsaid; comments say nothing."""
    finding = judge_gres(text, kind)
    assert finding.status == status
    assert said in finding.advice
