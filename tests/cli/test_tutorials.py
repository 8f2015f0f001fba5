"""The tutorials by the word: their files are written, their commands typed, in order, by bash.

In a block `console`, a line after `$ ` is a command, which has to end well; the lines behind it are
in what it prints, in this order and to the letter. A block with a title is a file.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_ext.sandbox import Sandbox
from tests.manual import ROOT, blocks, text_of

PAGES = tuple(
    f"docs/tutorials/{name}.md" for name in ("researcher", "administrator", "scheduling-researcher")
)
END = "@@ended"


def shown(page: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a page, and what the page says that it prints."""
    for block in blocks(text_of(page)):
        if block.language == "console":
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, *printed = part.splitlines()
                yield command, [line.strip() for line in printed if line.strip()]


def commands(page: str) -> list[str]:
    """The commands of a page."""
    return [command for command, _ in shown(page)]


def walked(page: str, folder: Path) -> list[tuple[str, str, int]]:
    """Each command that was typed into one bash, what it printed, and its exit status."""
    for block in blocks(text_of(page)):
        if block.title:
            (folder / block.title).write_text(block.text)
    typed = commands(page)
    script = "".join(f"{command}\nprintf '\\n{END} %s\\n' $?\n" for command in typed)
    env = {name: value for name, value in os.environ.items() if "DLQUEUE" not in name}
    env |= {
        "PATH": f"{Path(sys.executable).parent}:{env['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_RUNTIME_DIR": str(folder),
    }
    done = subprocess.run(
        ["bash"], input=script, env=env, cwd=folder, capture_output=True, text=True, timeout=300
    )
    found = re.findall(rf"(.*?)^{END} (\d+)$", done.stdout, re.MULTILINE | re.DOTALL)
    assert len(found) == len(typed), done.stderr
    return [(line, out, int(end)) for line, (out, end) in zip(typed, found, strict=True)]


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty home with a short name, for sockets; a sandbox that was left in it ends."""
    with tempfile.TemporaryDirectory(prefix="dlq-") as name:
        yield Path(name)
        if (left := Path(name) / "dlqueue-sandbox").exists():
            Sandbox.attach(left).down()


@pytest.mark.journey
@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=pytest.mark.slurm if "admin" in p else ()) for p in PAGES]
)
def test_a_tutorial_can_be_followed(page: str, home: Path) -> None:
    """Every command ends well and prints what the page shows."""
    assert len(commands(page)) > 0
    for (command, expected), (_, out, status) in zip(shown(page), walked(page, home), strict=True):
        assert status == 0, command
        printed = iter(line.strip() for line in out.splitlines())
        assert [line for line in expected if line not in printed] == [], command
