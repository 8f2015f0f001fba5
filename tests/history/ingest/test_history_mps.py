"""What MPS a run had is a column of its row."""

import json
from pathlib import Path

from slurm_ext.history.ingest.spool_folder import ingest_folder
from slurm_ext.history.store.store import open_history
from tests.history.conftest import Spool

SHARED = Path(__file__).parents[2] / "golden" / "spool" / "v1-shared-gpu.json"


def test_the_mps_of_a_record_is_kept(database: Path, spool: Spool) -> None:
    """As the record has it; a run without MPS has none."""
    spool("plain.json")
    (database.parent / "spool" / "shared.json").write_text(SHARED.read_text())
    with open_history(database) as history:
        ingest_folder(history, database.parent / "spool", now_s=0.0)
        found = dict(history.conn.execute("SELECT job_id, mps FROM runs").fetchall())
    assert found[1042] is None
    assert json.loads(found[1043]) == json.loads(SHARED.read_text())["mps"]
