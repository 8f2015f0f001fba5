"""The manual is part of the product: what it names exists."""

import re

import pytest

from slurm_ext.cli.common.commands import COMMANDS
from slurm_ext.core.settings.table import RETIRED_KEYS, TABLE
from tests.manual import GUIDES, ROOT, steps, text_of, understood

PAGES = (*GUIDES, "INSTALL.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
NOT_KEYS = {"slurm.conf", "gres.conf", "node.json", "job.sh", "dlqueue.toml", "history.db"}


def test_the_readme_lists_every_command_as_help_does() -> None:
    """The table of commands in README.md is the one of `dlqueue --help`."""
    rows = dict(re.findall(r"^\| `dlqueue (\w+)` \| (.+) \|$", text_of("README.md"), re.MULTILINE))
    assert rows == COMMANDS


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_resolve(page: str) -> None:
    """A relative link leads to a file of the repository."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text_of(page))
    folder = (ROOT / page).parent
    assert [target for target in targets if not (folder / target).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_settings_named_in_the_manual_exist(page: str) -> None:
    """Every `section.key` that a page mentions is, or was, a key of the settings table."""
    known = {setting.key for setting in TABLE}
    sections = {key.partition(".")[0] for key in known}
    named = set(re.findall(r"`((?:%s)\.[a-z_]+)" % "|".join(sections), text_of(page)))  # noqa: UP031 (braces)
    assert named - NOT_KEYS - RETIRED_KEYS.keys() <= known


@pytest.mark.parametrize("page", PAGES)
def test_no_page_was_left_with_a_gap(page: str) -> None:
    """No placeholder of a draft is left."""
    assert "@@" not in text_of(page)


@pytest.mark.parametrize("page", PAGES)
def test_commands_named_in_the_manual_exist(page: str) -> None:
    """`dlqueue WORD` in code is a command."""
    named = set(re.findall(r"`(?:\.venv/bin/)?dlqueue ([a-z]+)", text_of(page)))
    assert named <= set(COMMANDS)


COMMAND_LINE = re.compile(
    r"(?:^|`| )(?:[\w./]*/)?dlqueue ([a-z][\w ./=,:-]*)(?=[`\n|>])", re.ASCII | re.MULTILINE
)


def command_lines(page: str) -> set[tuple[str, ...]]:
    """The words after `dlqueue` of every command line that a page shows, up to a pipe or a `>`."""
    found = COMMAND_LINE.findall(text_of(page))
    lines = [tuple(line.replace("JOBID", "1042").split()) for line in found]
    return {words for words in lines if words[0] in COMMANDS and len(words) > 1}


@pytest.mark.parametrize("page", [*GUIDES, "INSTALL.md"])
def test_command_lines_in_the_manual_are_understood(page: str) -> None:
    """Every verb and option that a page shows is one that the command takes."""
    assert {words for words in command_lines(page) if not understood(words)} == set()


def test_the_manual_has_command_lines() -> None:
    """The expression that finds them finds them."""
    assert len(command_lines("INSTALL.md")) >= 20
    assert sum(len(command_lines(page)) for page in GUIDES) >= 40


@pytest.mark.parametrize("page", PAGES)
def test_files_named_in_the_manual_exist(page: str) -> None:
    """A path of the repository in code is one."""
    rooms = "slurm_ext|tests|contrib|site_config|job_templates"
    named = re.findall(rf"`((?:{rooms})/[\w./-]*)`", text_of(page))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_step_of_the_installation_can_be_undone() -> None:
    """Each numbered section of INSTALL.md says what to do and how to take it back."""
    walk = [step for step in steps() if step.title[0].isdecimal()]
    assert [step.title[0] for step in walk] == list("1234567")
    assert all(step.do and step.undo for step in walk)
