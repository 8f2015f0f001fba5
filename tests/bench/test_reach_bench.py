"""The benchmark of reach: what it measures is there, and what it cannot measure is named."""

from pathlib import Path

import pytest

from contrib.bench.reach import __main__ as reach
from contrib.bench.reach import installing, network, own_run
from slurm_ext.core.wire import encode_request
from tests.questions.port_rig import needs_munge

pytest.importorskip("torch")


def test_the_first_line_tells_a_rate(tmp_path: Path) -> None:
    """Of the training that both sides of the comparison run; a pair is two runs."""
    cost = own_run.cost(tmp_path, 1, 64)
    first = own_run.first_line(tmp_path, 64)
    assert "samples/s" in first["line"]
    assert cost["training_s"] > cost["nothing_s"] > 0
    assert cost["pairs"] == 1


def test_what_cannot_be_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without a project: pip's own last line, and a row that is not met."""
    monkeypatch.setattr(installing, "ROOT", tmp_path)
    figures, (row,) = reach.install_rows(tmp_path, True)
    assert "installable" in str(figures["why"])
    assert (row["met"], row["got"]) == (False, figures["why"])


@needs_munge
def test_a_small_site_answers_over_the_network(tmp_path: Path) -> None:
    """Each command by a node without a history, and a submission on the advisor's socket."""
    tmp_path.chmod(0o755)
    with network.site(tmp_path, 200) as made:
        answers = network.commands(made, 1)
        reply = made.service.say(encode_request("ping"))
    assert set(answers) == {"jobs", "explain", "predict", "bare python"}
    assert reply["v"] == 1
