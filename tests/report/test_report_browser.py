"""The pages in a real browser: quiet, alone, accessible, and a user's word is never markup."""

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slurm_ext.cli import main
from slurm_ext.report.formatting import name
from tests.cli.explain.a_whole_job import JOB, whole_job
from tests.report.conftest import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium"),
    pytest.mark.skipif(importlib.util.find_spec("playwright") is None, reason="needs playwright"),
]
SERIOUS = ("serious", "critical")
PATIENCE_MS = 120_000  # of a busy machine
SCHEMES: tuple[Any, ...] = ("light", "dark")
TRACE = "job,submit_s,duration_s,gpus\n1,0,100,6\n2,1,50,4\n3,2,20,2\n4,3,9000,1\n"
PAGES = ("report", "simulate", "job", "listed")
PRICED = '[report]\ngpu_hour_prices = ["A100 = 1.8", "* = 1"]\ncore_hour_price = 0.02\n'
NARROW: Any = {"width": 360, "height": 700}
OPEN = "document.querySelectorAll('details').forEach(one => one.open = true)"
# Letters outside of the window, of their plot, or of whatever cuts off what sticks out of it.
CUT_OFF = """() => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
    const bounds = element => [...(function* () {
        for (let at = element; at !== document.body; at = at.parentElement)
            if (at.matches("svg") || getComputedStyle(at).overflowX !== "visible") yield at;
    })()].map(one => one.getBoundingClientRect());
    while (walker.nextNode()) {
        const node = walker.currentNode, range = document.createRange();
        if (node.parentElement.closest("thead, caption, title, desc, .skip")) continue;
        range.selectNodeContents(node);
        const limits = [{left: 0, right: innerWidth}, ...bounds(node.parentElement)];
        for (const box of range.getClientRects())
            if (limits.some(one => box.left < one.left - 1 || box.right > one.right + 1))
                found.push(node.textContent);
    }
    return found;
}"""
REACHABLE = "a[href], summary, [tabindex='0']"


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """One for the whole module."""
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-background-networking", "--disable-dev-shm-usage"]
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=flags, timeout=PATIENCE_MS
        )
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def pages(whole_history: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report with everything, the page of a replay, that of a job, and one that it lists."""
    folder = tmp_path_factory.mktemp("pages")
    made = {name: folder / f"{name}.html" for name in PAGES}
    settings = folder / "report.toml"
    settings.write_text((whole_history / "dlqueue.toml").read_text() + PRICED)
    words = ["report", "--config", str(settings), "--output", str(made["report"]), "--jobs", "1"]
    assert main(words) == 0
    (made["listed"],) = (folder / "report-jobs").iterdir()
    trace = folder / "a<b>.csv"
    trace.write_text(TRACE)
    words = ["simulate", str(trace), "--nodes", "1", "--html", str(made["simulate"])]
    assert main(words) == 0
    config = str(whole_job(folder, "".join(HOSTILE)))
    assert main(["explain", str(JOB), "--config", config, "--html", str(made["job"])]) == 0
    return made


class Visit:
    """A page that is open, with what it asked for and said since."""

    def __init__(self, browser: "Browser", path: Path, scheme: Any = "light") -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        # bypass_csp: the page allows no script at all, and axe is one.
        self.page: Page = browser.new_page(color_scheme=scheme, bypass_csp=True)
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri(), wait_until="load")

    def violations(self, *rules: str) -> list[str]:
        """What axe-core finds serious with every fold open, in the first row of each table."""
        from axe_playwright_python.sync_playwright import Axe

        # Rows are alike, and axe looks at the contrast of each cell.
        self.page.evaluate(
            "document.querySelectorAll('tbody tr:nth-child(n+2)').forEach(row => row.remove())"
        )
        self.page.evaluate(OPEN)
        options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
        found = Axe().run(self.page, options=options).response["violations"]
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:200]}"
            for one in found
            if one["impact"] in SERIOUS
        ]


@pytest.fixture(params=["report", "simulate"])
def path(request: pytest.FixtureRequest, pages: dict[str, Path]) -> Path:
    """Each page."""
    return pages[request.param]


@pytest.fixture(params=PAGES)
def any_path(request: pytest.FixtureRequest, pages: dict[str, Path]) -> Path:
    """Each page, where pages of the same templates differ."""
    return pages[request.param]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_is_said_asked_or_hard_to_read(browser: "Browser", path: Path, scheme: Any) -> None:
    """No console message, no request but for the file, nothing serious for axe-core."""
    visit = Visit(browser, path, scheme)
    # In the dark only colours differ.
    assert visit.violations(*(["color-contrast"] if scheme == "dark" else [])) == []
    assert visit.said == []
    assert visit.asked == [path.as_uri()]
    visit.page.close()


def test_light_and_dark_are_two(browser: "Browser", path: Path) -> None:
    """The page follows the reader's choice."""
    colours = []
    for scheme in SCHEMES:
        visit = Visit(browser, path, scheme)
        colours.append(visit.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        visit.page.close()
    assert len(set(colours)) == 2


def test_nothing_is_cut_off_on_a_narrow_screen(browser: "Browser", any_path: Path) -> None:
    """Every word is inside of the window, of plots and opened folds too; columns have names."""
    page = Visit(browser, any_path).page
    page.set_viewport_size(NARROW)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    page.evaluate(OPEN)
    assert page.evaluate(CUT_OFF) == []
    assert page.evaluate("[...document.querySelectorAll('tbody td')].length > 0")
    assert page.query_selector_all("tbody td:not([data-head])") == []
    page.close()


def test_what_is_cut_off_is_seen(browser: "Browser", pages: dict[str, Path]) -> None:
    """The check before finds a table that scrolls, and letters beside a plot."""
    page = Visit(browser, pages["simulate"]).page
    page.set_viewport_size(NARROW)
    for css in (".scroll {overflow: auto} td {min-width: 50rem}", "svg text {font-size: 200px}"):
        page.add_style_tag(content=css)
        assert page.evaluate(CUT_OFF)
    page.close()


def test_a_job_is_a_link_away_and_back(browser: "Browser", pages: dict[str, Path]) -> None:
    """The report's first job leads to its page, which leads back to the report."""
    page = Visit(browser, pages["report"]).page
    page.click("td a[href^='report-jobs/']")
    assert page.url == pages["listed"].as_uri()
    page.click("text=the report")
    assert page.url == pages["report"].as_uri()
    page.close()


def test_it_prints(browser: "Browser", path: Path) -> None:
    """Paper gets all of it."""
    visit = Visit(browser, path)
    printed = visit.page.pdf()
    visit.page.close()
    assert printed.startswith(b"%PDF")


def test_the_keyboard_reaches_everything(browser: "Browser", path: Path) -> None:
    """Tab visits every link, fold and table that scrolls; Enter opens a fold."""
    visit = Visit(browser, path)
    page = visit.page
    page.evaluate(OPEN)
    page.evaluate("window.seen = new Set(); document.activeElement.blur()")
    wanted = page.evaluate(f'document.querySelectorAll("{REACHABLE}").length')
    for _ in range(wanted):
        page.keyboard.press("Tab")
        page.evaluate("window.seen.add(document.activeElement)")
    missed = page.evaluate(
        f'[...document.querySelectorAll("{REACHABLE}")].filter(e => !window.seen.has(e)).length'
    )
    assert (missed, wanted > 0) == (0, True)
    page.close()


def test_enter_opens_a_fold(browser: "Browser", pages: dict[str, Path]) -> None:
    """The figures behind a plot are one key away."""
    page = Visit(browser, pages["report"]).page
    page.focus("summary")
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector('details').open")
    page.close()


def test_every_plot_is_told_in_words(browser: "Browser", path: Path) -> None:
    """A screen reader hears a name and a description; ids are unique."""
    page = Visit(browser, path).page
    plots = page.query_selector_all("svg[role=img]")
    assert plots
    for plot in plots:
        ids = (plot.get_attribute("aria-labelledby") or "").split()
        assert all(page.inner_html(f"#{one}").strip() for one in ids)
    every = page.eval_on_selector_all("[id]", "all => all.map(one => one.id)")
    page.close()
    assert len(every) == len(set(every))


@pytest.mark.parametrize("kind", ["report", "job"])
def test_a_hostile_name_is_text(browser: "Browser", pages: dict[str, Path], kind: str) -> None:
    """Markup, scripts, turned writing, templates: each stands there as a word, and runs nowhere."""
    visit = Visit(browser, pages[kind])
    page = visit.page
    cells = "\n".join(page.eval_on_selector_all("bdi", "all => all.map(one => one.textContent)"))
    assert page.evaluate("window.hacked") is None
    assert page.query_selector_all("script, img, iframe, object, embed") == []
    page.close()
    shown = HOSTILE if kind == "report" else ["".join(HOSTILE)]
    assert [told for told in map(name, shown) if told[:40] not in cells] == []
    assert "\u202e" not in cells
