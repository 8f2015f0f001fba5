"""`explain` and the line at a run's end name one number of workers."""

import json
from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.cli.run.end_line import end_json, end_line
from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history

GOLDEN = Path(__file__).parents[2] / "golden" / "spool" / "v1.json"


@pytest.mark.parametrize("stayed", [True, False])
def test_a_search_that_began_in_the_first_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, stayed: bool
) -> None:
    """Both tell the later passes' workers: those at which the search stayed, if it did."""
    record = json.loads(GOLDEN.read_text())
    loader = record["probe"]["summaries"][0]["loaders"][0]
    loader["phases"][0]["workers"] = 0.2
    rates = [{"workers": 4, "samples_per_s": 140.0, "wait": 0.1}]
    names = ("workers", "settled_s", "settled_batches")
    values = (4, 3.0, 12) if stayed else (None, None, None)
    loader["tuned"] = {**dict(zip(names, values, strict=True)), "rates": rates}
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / f"{record['record_id']}.json").write_text(json.dumps(record))
    with open_history(tmp_path / "history.db") as history:
        ingest_folder(history, tmp_path / "spool", now_s=2e9)
    config = tmp_path / "dlqueue.toml"
    config.write_text(f'[paths]\nstate_dir = "{tmp_path}"\n')
    at_its_end = end_line(1042, {"record": record}, None)
    assert f"samples/s with 4 workers, {'tuned to 4, ' * stayed}" in at_its_end
    said = json.loads(end_json(1042, {"record": record}, None, []))
    assert said["probe"]["trainings"][0]["workers"] == 4
    assert main(["explain", "1042", "--config", str(config)]) == 0
    assert "with 4 workers" in capsys.readouterr().out
    assert main(["explain", "1042", "--json", "--config", str(config)]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["probe"]["trainings"] == said["probe"]["trainings"]
