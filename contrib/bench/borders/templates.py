"""Attacks by a report template, which would run commands as the maker of the report."""

import subprocess
import sys
from pathlib import Path

from contrib.bench.borders.attack import Attack, Happened
from slurm_ext.history.store.store import open_history

COMMAND = "{{ cycler.__init__.__globals__.os.system('touch %s') }}"


def run_by_template(folder: Path) -> Happened:
    """Name a template that was copied from somewhere, and make a report as root."""
    proof, templates = folder / "proof", folder / "templates"
    templates.mkdir()
    (templates / "energy.html.jinja").write_text(COMMAND % proof)
    open_history(folder / "history.db").close()
    config = folder / "dlqueue.toml"
    config.write_text(f'[paths]\nstate_dir = "{folder}"\n[report]\ntemplates = "{templates}"\n')
    argv = [sys.executable, "-m", "slurm_ext.cli", "report", "--config", str(config)]
    argv += ["--output", str(folder / "report.html")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    made = (folder / "report.html").exists() and "ours stands in" in done.stderr
    if proof.exists():
        return Happened(held=False, what="its command ran")
    what = "it was named, and ours stood in for it"
    return Happened(held=made, what=what if made else done.stderr[-200:])


ATTACKS = (
    Attack(
        name="template_runs_commands",
        row=12,
        tried="a site's report template calls os.system",
        before="it ran, as whoever made the report",
        act=run_by_template,
    ),
)
