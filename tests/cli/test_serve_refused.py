"""`dlqueue serve` by a user who may not: the message says who starts an advisor."""

from pathlib import Path

import pytest

from slurm_ext.advisor.service import service
from slurm_ext.cli import main
from slurm_ext.core.errors import AdvisorError


@pytest.mark.parametrize(("user_id", "told"), [(1000, True), (0, False)])
def test_an_advisor_is_roots_to_start(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    user_id: int,
    told: bool,
) -> None:
    """A user needs none for `dlqueue run`; root is told what the system says, and no more."""

    def refused(*_: object) -> None:
        raise AdvisorError("/state cannot be used: Permission denied")

    (tmp_path / "dlqueue.toml").write_text(f'[paths]\nstate_dir = "{tmp_path / "none"}"\n')
    monkeypatch.setattr(service, "serve", refused)
    monkeypatch.setattr("os.geteuid", lambda: user_id)
    assert main(["serve", "--config", str(tmp_path / "dlqueue.toml")]) == 1
    message = capsys.readouterr().err
    assert "/state cannot be used: Permission denied" in message
    assert ("root's to start; `dlqueue run` needs none" in message) == told
