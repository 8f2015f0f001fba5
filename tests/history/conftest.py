"""A state folder with a spool, and records to put into it."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent.parent / "golden" / "spool" / "v1.json"
COUNTERS = len(json.loads(GOLDEN.read_text())["counters"])
Spool = Callable[..., Path]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where the history will be; its spool exists."""
    (tmp_path / "spool").mkdir()
    return tmp_path / "history.db"


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """Puts the golden record into the spool, changed by section; returns the file."""
    golden = json.loads(GOLDEN.read_text())

    def put(name: str = "a.json", *, record_id: str | None = None, **sections: Any) -> Path:
        body = copy.deepcopy(golden)
        if record_id is not None:
            body["record_id"] = record_id
        for section, value in sections.items():
            body[section] = {**body[section], **value} if isinstance(value, dict) else value
        path = tmp_path / "spool" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(body))
        return path

    return put
