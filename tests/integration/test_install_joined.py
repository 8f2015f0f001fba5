"""`dlqueue install` on a real Slurm whose site has scripts of its own, and `uninstall` after it."""

import json
import subprocess
import sys
from typing import Any

import pytest

from slurm_ext.core.errors import SlurmError
from slurm_ext.sandbox import Sandbox
from tests.conftest import MakeSandbox
from tests.whole import until

pytestmark = [pytest.mark.slurm, pytest.mark.root]

LUA = """\
function slurm_job_submit(job_desc, part_list, submit_uid)
  if job_desc.name == "bad" then slurm.log_user("not on my cluster") return slurm.ERROR end
  if job_desc.name == "early" then return slurm.SUCCESS end
  slurm.log_user("the site says hello")
  return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end

slurm.log_info("initialized")
return slurm.SUCCESS
"""
NAMES = "#!/bin/sh\nenv | cut -d= -f1 | sort\n"
OURS = {"DLQUEUE_DECISION", "DLQUEUE_RUN_DIR"}


class Site:
    """A Slurm with a prolog, a folder of epilogs, a task prolog and a job_submit.lua."""

    def __init__(self, slurm: Sandbox) -> None:
        self.slurm, self.etc = slurm, slurm.path("site/dlqueue")
        self.etc.mkdir(parents=True)
        spool = slurm.path("nodes/n1/dlqueue")
        text = slurm.layout.settings.read_text() + f'node.spool_dir = "{spool}"\n'
        (self.etc / "dlqueue.toml").write_text(text)
        slurm.path("out").mkdir(exist_ok=True)
        slurm.path("out").chmod(0o1777)
        self.script("prolog.sh", f"/usr/bin/touch {slurm.path('out')}/prolog.$SLURM_JOB_ID")
        self.script("epilog.d/50-own", f"/usr/bin/touch {slurm.path('out')}/epilog.$SLURM_JOB_ID")
        self.script("task.sh", "echo export SITE=1")
        (slurm.layout.etc / "job_submit.lua").write_text(LUA)
        with slurm.layout.slurm_conf.open("a") as file:
            site = slurm.path("site")
            file.write(f"Prolog={site}/prolog.sh\nEpilog={site}/epilog.d/*\n")
            file.write(f"TaskProlog={site}/task.sh\nJobSubmitPlugins=lua\nPrologFlags=Serial")
        slurm.restart("slurmctld")
        slurm.restart("slurmd")
        slurm.wait_for_nodes()

    def script(self, name: str, text: str) -> None:
        """One of the site's own."""
        path = self.slurm.path(f"site/{name}")
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def dlqueue(self, *words: str) -> Any:
        """The JSON that a command answers."""
        command = [sys.executable, "-m", "slurm_ext.cli", *words, "--json"]
        if "install" in words[0]:
            command += ["--units", str(self.slurm.path("site/units"))]
        env = {"DLQUEUE_CONFIG": str(self.etc / "dlqueue.toml")}
        return json.loads(self.slurm.run(command, env=env).stdout)

    def job(self) -> tuple[int, set[str]]:
        """A job that met all of the site's own scripts, and the names in its environment."""
        slurm = self.slurm
        job_id, said = slurm.sbatch(script=NAMES)
        assert slurm.wait(job_id) == "COMPLETED"
        assert said == "sbatch: the site says hello\n"
        for name in ("prolog", "epilog"):
            until(slurm.path(f"out/{name}.{job_id}").exists, f"the site's {name} did not run")
        return job_id, set(slurm.output(job_id).splitlines())

    def files(self) -> dict[str, tuple[bytes, int]]:
        """What installing could touch."""
        slurm = self.slurm
        paths = [*slurm.layout.etc.rglob("*"), *slurm.path("site").rglob("*")]
        kept = [path for path in paths if path.is_file()]
        return {str(path): (path.read_bytes(), path.stat().st_mode) for path in kept}


def test_installed_beside_a_sites_own_scripts_and_taken_out_again(
    make_sandbox: MakeSandbox,
) -> None:
    """Both are heard, a job is recorded; afterwards every file is byte for byte what it was."""
    site = Site(make_sandbox(advisor=True))
    before, (_, names) = site.files(), site.job()
    assert "SITE" in names
    assert not names & OURS
    assert site.dlqueue("install", "--dry-run")["changes"]
    assert site.files() == before
    told = site.dlqueue("install", "--reconfigure")
    assert told["warnings"] == []
    _both_are_heard(site)
    assert site.dlqueue("install")["changes"] == []
    site.dlqueue("uninstall", "--reconfigure")
    assert site.files() == before
    _, names = site.job()
    assert "SITE" in names
    assert not names & OURS
    assert site.slurm.status()["nodes"] == {"n1": "idle"}


def _both_are_heard(site: Site) -> None:
    """The job is decided on and recorded, the site's refusal stays one, its exit status counts."""
    job_id, names = site.job()
    assert {"SITE", *OURS} <= names
    run = until(lambda: _epilogs(site, job_id), f"no record of job {job_id}")
    assert run["state"] == "COMPLETED"
    assert run["decision"]
    with pytest.raises(SlurmError, match="not on my cluster"):
        site.slurm.sbatch("-Jbad", script=NAMES)
    early, said = site.slurm.sbatch("-Jearly", script=NAMES)
    assert site.slurm.wait(early) == "COMPLETED"
    assert said == ""
    assert set(site.slurm.output(early).splitlines()) >= OURS
    _exit_status(site)


def _epilogs(site: Site, job_id: int) -> Any:
    """What the node's record says of the job; None while there is none."""
    try:
        runs = site.dlqueue("history", "show", str(job_id))["runs"]
    except SlurmError:
        return None
    return next((run for run in runs if run["source"] == "epilog"), None)


def _exit_status(site: Site) -> None:
    """The launcher ends as the site's own script does, signals among it."""
    launcher = site.etc / "hooks" / "site_prolog"
    for text, status in (("exit 7", 7), ("kill -TERM $$", -15)):
        own = site.slurm.path("site/prolog.sh")
        kept = own.read_text()
        own.write_text(f"#!/bin/sh\n{text}\n")
        assert subprocess.run([launcher], timeout=60).returncode == status
        own.write_text(kept)
