"""Sites to install into."""

from pathlib import Path

import pytest

from tests.install.image import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """With a prolog, a folder of epilogs and a job_submit.lua of its own."""
    return Site(tmp_path / "root")


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the environment names a site."""
    for name in ("DLQUEUE_CONFIG", "SLURM_CONF"):
        monkeypatch.delenv(name, raising=False)
