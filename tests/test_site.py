"""The documentation site: whole, readable on a telephone, and loaded from nowhere else."""

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurm_ext.cli.common.commands import COMMANDS
from slurm_ext.core.settings.table import TABLE
from slurm_ext.node.record.fields import HEAD, PARTS, SECTIONS
from tests.house import PACKAGE
from tests.manual import GUIDES, ROOT, text_of
from tests.report.test_report_browser import CHROMIUM, Visit, browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["browser"]  # a fixture
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mkdocs") is None, reason="needs mkdocs (contrib/packaging/setup.sh)"
)
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
PAGES = ("index.html", "tutorials/administrator.html", "reference/settings.html", "install.html")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a link that leads nowhere is an error."""
    folder = tmp_path_factory.mktemp("site")
    words = ["build", "--strict", "--config-file", "contrib/docs/mkdocs.yml"]
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", *words, "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder


class Loaded(HTMLParser):
    """What a page has its reader's browser load, and its text."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.text = ""
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what this tag loads."""
        self.targets.add(dict(attrs).get(LOADS.get(tag, "")) or "")

    def handle_data(self, data: str) -> None:
        """Note what is shown."""
        self.text += data


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """Pages and style sheets name files of the site alone."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(GUIDES)
    outside = re.compile(r"^(\w+:)?//")
    assert {url for page in pages for url in Loaded(page).targets if outside.match(url)} == set()
    for sheet in site.rglob("*.css"):
        urls = re.findall(r"url\(['\"]?([^)'\"]+)", sheet.read_text(encoding="utf-8"))
        assert [url for url in urls if outside.match(url)] == []


@pytest.mark.parametrize("uri", PAGES)
def test_a_page_is_quiet_and_fits_a_telephone(site: Path, browser: "Browser", uri: str) -> None:
    """No request leaves the folder, nothing is complained of, nothing sticks out at 360 pixels."""
    visit = Visit(browser, site / uri)
    visit.page.set_viewport_size({"width": 360, "height": 700})
    width = visit.page.evaluate("document.documentElement.scrollWidth")
    visit.page.close()
    assert [url for url in visit.asked if not url.startswith(site.as_uri())] == []
    assert visit.said == []
    assert width <= 360


if CHROMIUM is None:
    test_a_page_is_quiet_and_fits_a_telephone = pytest.mark.skip("needs Debian's chromium")(
        test_a_page_is_quiet_and_fits_a_telephone
    )


def test_the_reference_has_everything(site: Path) -> None:
    """Every setting, command and field of a record, with its sentence."""
    settings, commands, record = (
        Loaded(site / "reference" / f"{name}.html").text
        for name in ("settings", "commands", "record")
    )
    said = {row.key: row.doc.replace("`", "") for row in TABLE}
    assert [key for key in said if key not in settings or said[key] not in settings] == []
    assert [name for name in COMMANDS if f"usage: dlqueue {name}" not in commands] == []
    fields = [field for part in (HEAD, *SECTIONS.values(), *PARTS.values()) for field in part]
    assert [field[0] for field in fields if field[-1] not in record] == []


def test_a_docstring_stands_where_the_page_links_to_code(site: Path) -> None:
    """What a model does is written down once, beside its code."""
    text = Loaded(site / "explanation" / "curve.html").text
    assert "The throughput curve of a data-loaded training" in text
    assert "From slurm_ext/model/throughput/curve/points.py" in text


def test_every_model_and_policy_is_explained() -> None:
    """Each room of models and of policies is named by a page of explanations."""
    pages = "".join(text_of(page) for page in GUIDES if "explanation" in page)
    rooms = [
        path.relative_to(PACKAGE.parent)
        for room in ("model", "policy")
        for path in (PACKAGE / room).iterdir()
        if (path / "__init__.py").exists()
    ]
    assert len(rooms) > 8
    assert [str(room) for room in rooms if f"({'../' * 2}{room}/" not in pages] == []
