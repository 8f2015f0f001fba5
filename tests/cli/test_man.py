"""Manual pages are made from the commands' own help, and are good roff."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from slurm_ext.cli import main
from slurm_ext.cli.common.command_facts import EXAMPLES, OVERVIEW_FILES, files, statuses
from slurm_ext.cli.common.commands import COMMANDS
from slurm_ext.cli.man import pages
from slurm_ext.node.record.fields import HEAD, PARTS, SECTIONS
from tests.manual import understood


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """All pages."""
    return pages()


def test_every_command_has_a_page(made: dict[str, str]) -> None:
    """And the first page points to each."""
    assert set(made) == {"dlqueue", "dlqueue-record", *(f"dlqueue-{name}" for name in COMMANDS)}
    for command in COMMANDS:
        assert f"\\fBdlqueue\\-{command}\\fR(1)" in made["dlqueue"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_ends_with_examples_exit_statuses_and_files(
    command: str, made: dict[str, str]
) -> None:
    """In this order, each with all that command_facts.py says of the command."""
    _, examples, rest = made[f"dlqueue-{command}"].partition(".SH EXAMPLES\n")
    shown, _, rest = rest.partition(".SH EXIT STATUS\n")
    ended, _, named = rest.partition(".SH FILES\n")
    assert examples
    assert shown.count(".TP") == len(EXAMPLES[command]) > 0
    assert ended.count(".TP") == len(statuses(command))
    assert named.count(".TP") == len(files(command))


@pytest.mark.parametrize("line", [line for rows in EXAMPLES.values() for line, _ in rows])
def test_an_example_is_understood(line: str) -> None:
    """Its command takes every word of it."""
    assert understood(shlex.split(line)[1:])


def test_a_page_names_only_files_that_the_first_page_explains() -> None:
    """Who reads `man dlqueue` has read of all places but the loops' folder."""
    named = {row for command in COMMANDS for row in files(command)}
    assert {path for path, _ in named - set(OVERVIEW_FILES)} == {"/var/lib/dlqueue/control"}


def test_the_run_records_page_has_every_field(made: dict[str, str]) -> None:
    """With its sentence, and the column of history.db that keeps it."""
    for columns in (HEAD, *SECTIONS.values(), *PARTS.values()):
        for name, *_, column, about in columns:
            assert f"\\fB{name}\\fR (" in made["dlqueue-record"]
            assert about.replace("-", "\\-") in made["dlqueue-record"]
            assert f"column {column}" in made["dlqueue-record"]


def test_a_page_is_the_same_each_time(made: dict[str, str]) -> None:
    """Packages can be built reproducibly: no date of today in it."""
    assert pages() == made


def test_groff_has_nothing_to_complain_of(made: dict[str, str]) -> None:
    """All pages are set for a terminal without a warning, options and all."""
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    for name, page in made.items():
        command = ["groff", "-man", "-Tutf8", "-ww", "-P-c", "-P-b", "-P-u"]
        done = subprocess.run(command, input=page, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, ""), name
        assert name in done.stdout.lower()
        assert "--json" in done.stdout


def test_pages_are_written_into_a_folder(
    tmp_path: Path, made: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """`--output DIR` makes the folder and says what it wrote."""
    folder = tmp_path / "man1"
    assert main(["man", "--output", str(folder)]) == 0
    said = capsys.readouterr().out.split()
    assert {Path(line).stem for line in said} == set(made)
    assert (folder / "dlqueue-predict.1").read_text() == made["dlqueue-predict"]


def test_a_folder_that_cannot_be_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder is named, with what to give."""
    (tmp_path / "file").touch()
    assert main(["man", "predict", "--output", str(tmp_path / "file")]) == 1
    said = capsys.readouterr().err
    assert str(tmp_path / "file") in said
    assert "give a folder" in said
