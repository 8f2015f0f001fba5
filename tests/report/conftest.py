"""Histories to report on: a made-up one with everything, and small ones."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_ext.history.store.store import open_history

sys.path.insert(0, str(Path(__file__).parents[2] / "contrib" / "bench"))
from contrib.bench.report import history as report_history

Settle = Callable[..., Path]
RUNS = 600
HOSTILE = (
    "<script>window.hacked=1</script>",
    '"><img src="http://127.0.0.1:9/x" onerror="window.hacked=1">',
    "\u202egnp.exe",
    "محمد تدريب",
    "עברית שם",
    "深層学習",
    "हिन्दी प्रशिक्षण",
    "ไทย",
    "👩\u200d👩\u200d👧 train",
    "{{ 7 * 7 }}{% raise %}",
    '=HYPERLINK("http://127.0.0.1:9")',
    "new\nline\ttab\0nul\x1b[31m",
    "a" * 500,
)


def site(folder: Path, *, settings: str = "") -> Path:
    """A settings file whose state folder is `folder`."""
    config = folder / "dlqueue.toml"
    config.write_text(f'[paths]\nstate_dir = "{folder}"\n{settings}', encoding="utf-8")
    return config


@pytest.fixture(scope="session")
def whole_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a history of everything, in which users and jobs have hostile names."""
    folder = tmp_path_factory.mktemp("whole")
    report_history.fill(folder / "history.db", RUNS)
    with open_history(folder / "history.db") as history:
        for number, name in enumerate(HOSTILE):
            history.conn.execute(
                "UPDATE runs SET user = ?, job_name = ? WHERE id % 40 = ?",
                (name, name, number),
            )
            history.conn.execute(
                "UPDATE decisions SET user = ?, job_name = ? WHERE job_id % 40 = ?",
                (name, name, number),
            )
    site(folder)
    return folder
