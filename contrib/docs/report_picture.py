"""Draw a report's first screen: `python -m contrib.docs.report_picture docs/images/report.webp`.

The history is made up (contrib/bench/report/history.py); the page is what `dlqueue report` writes
of it, and headless Chromium looks at it.
"""

import shutil
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from contrib.bench.report import history
from slurm_ext.cli import main as dlqueue

RUNS = 20_000
WIDTH, HEIGHT = 1100, 800
CHROMIUM = shutil.which("chromium")


def seen(page: Path) -> bytes:
    """The first screen of a page, as PNG."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        tab.goto(page.as_uri())
        picture = tab.screenshot()
        browser.close()
    return picture


def main() -> None:
    """Make up a history, report on it, look."""
    target = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        history.fill(folder / "history.db", RUNS)
        settings = folder / "dlqueue.toml"
        settings.write_text(f'[site]\ncluster = "made-up"\n[paths]\nstate_dir = "{folder}"\n')
        page = folder / "report.html"
        if dlqueue(["report", "--config", str(settings), "--output", str(page)]) == 0:
            Image.open(BytesIO(seen(page))).save(target, quality=82)


if __name__ == "__main__":
    main()
