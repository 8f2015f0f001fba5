"""INSTALL.md, followed word by word on a private Slurm: forwards, and backwards again."""

import json
import pwd
import re
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from slurm_ext.core.errors import SlurmError
from slurm_ext.core.settings.document import drop_ins
from slurm_ext.sandbox import Sandbox, SandboxSpec
from tests.a_site import Site
from tests.conftest import MakeSandbox
from tests.manual import Block, Step, steps
from tests.whole import until

pytestmark = [pytest.mark.slurm, pytest.mark.root, pytest.mark.journey]

OURS = {"DLQUEUE_DECISION", "DLQUEUE_NUM_WORKERS", "DLQUEUE_RUN_DIR", "PYTHONPATH"}
TRAINING = """#!/bin/sh
exec {python} - <<'END'
import os
import time
import torch
from torch.utils.data import DataLoader, Dataset
os.environ["DLQUEUE_EMULATED"] = "1"  # its step sleeps where a GPU would compute
class Slow(Dataset):
    def __len__(self):
        return 160
    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.zeros(8)
if __name__ == "__main__":
    for epoch in range(2):
        for batch in DataLoader(Slow(), batch_size=4, num_workers=1):
            time.sleep(0.005)
    print("workers", os.environ.get("DLQUEUE_NUM_WORKERS"))
END
"""
NAMES = "#!/bin/sh\nenv | cut -d= -f1 | sort\necho CPUs $SLURM_CPUS_ON_NODE\n"


def _findings(site: Site) -> dict[str, dict[str, str]]:
    return {each["name"]: each for each in site.asked("doctor")["findings"]}


def _ours(printed: list[str]) -> set[str]:
    """What dlqueue added to a job's environment."""
    return OURS & set(printed)


def _listed(site: Site) -> list[dict[str, Any]]:
    """The recorded runs; none before there is a history."""
    try:
        return list(site.asked("history ls")["runs"])
    except SlurmError:
        return []


def _shown(site: Site, job_id: int) -> Any:
    """What the node's record says of the job, as soon as it is there."""

    def found() -> Any:
        if (job_id, "epilog") not in [(run["job_id"], run["source"]) for run in _listed(site)]:
            return None
        return site.asked(f"history show {job_id}")["runs"][-1]

    return until(found, f"no record of job {job_id}")


# -- what the page promises after each step ---------------------------------------------------


def package(site: Site) -> None:
    """The package is the installed one, whole enough to say what is missing: the advisor."""
    where = site.shell(
        "/opt/dlqueue/bin/python -I -c 'import slurm_ext; print(slurm_ext.__file__)'"
    )
    assert where.startswith(site.there("/opt/dlqueue"))
    assert _findings(site)["advisor"]["status"] == "warn"


def advisor(site: Site) -> None:
    """It answers as SlurmUser, and notes jobs as Slurm tells them."""
    assert _findings(site)["advisor"]["status"] == "ok"
    assert (Path(site.there("/run/dlqueue/advisor.sock")).stat().st_mode & 0o777) == 0o660
    listed = until(lambda: _listed(site), "the job of before was not noted")
    assert {run["source"] for run in listed} == {"reconcile"}


def measuring(site: Site) -> None:
    """One measured record a job, through a folder that only root and SlurmUser can enter."""
    job_id, said, printed = site.job(NAMES)
    assert said == ""
    assert _ours(printed) == {"DLQUEUE_RUN_DIR"}
    run = _shown(site, job_id)
    assert run["state"] == "COMPLETED"
    shared = Path(site.there("/shared/dlqueue"))
    until(lambda: not list(shared.iterdir()), "what was taken in stays in the folder")
    spool = Path(site.there("/var/spool/dlqueue")).stat()
    assert (spool.st_uid, spool.st_mode & 0o777) == (0, 0o711)


def shadow(site: Site) -> None:
    """One environment variable more; `explain` knows what would have been done."""
    job_id, said, printed = site.job(NAMES)
    assert said == ""
    assert _ours(printed) == {"DLQUEUE_DECISION", "DLQUEUE_RUN_DIR"}
    _shown(site, job_id)
    assert site.asked(f"explain {job_id}")["decision"]["mode"] == "shadow"


def probe(site: Site) -> None:
    """A training is measured and not touched."""
    job_id, said, printed = _train(site)
    assert (said, printed) == ("", ["workers None"])
    run = _shown(site, job_id)
    assert run["loader_workers"] == 1
    assert 5 < run["loader_samples_per_s"] < 100  # ten milliseconds each, at best
    until(lambda: _knows(site), "the advisor has not learned")


def _advice(site: Site, pattern: str) -> list[str]:
    """Submits a training, which is told what `pattern` says; what it printed."""
    _, said, printed = _train(site)
    assert re.fullmatch(pattern, said), f"{said!r} {site.slurm.log('slurmctld')[-2000:]}"
    return printed


def _train(site: Site) -> tuple[int, str, list[str]]:
    """A training, under a name that no other job has: like names count as like jobs."""
    return site.job(TRAINING.format(python=sys.executable), "-Jtraining")


def _knows(site: Site) -> bool:
    script = site.slurm.path("out/training.sh")
    script.write_text(TRAINING.format(python=sys.executable))
    said = site.asked(f"predict {script}")
    return bool(said["source"] == "advisor" and said["runs"])


def telling(site: Site) -> None:
    """One line; the job stays as written."""
    pattern = r"sbatch: dlqueue advises .*workers 1 -> .*Nothing was changed\.\n"
    assert _advice(site, pattern) == ["workers None"]


def acting(site: Site) -> None:
    """The same job gets its workers, and is told how to opt out; who opts out gets nothing."""
    printed = _advice(site, r"sbatch: dlqueue: .*workers 1 -> .*--comment=dlqueue=off\n")
    assert int(printed[0].split()[1]) > 1
    _, said, printed = site.job(NAMES, "--comment=dlqueue=off")
    assert said == ""
    assert _ours(printed) == set()


PROMISES: tuple[Callable[[Site], None], ...] = (
    package,
    advisor,
    measuring,
    shadow,
    probe,
    telling,
    acting,
)


@pytest.fixture
def site(short_folder: Path, wheel: Path) -> Iterator[Site]:
    """A cluster that has never heard of dlqueue."""
    spec = SandboxSpec(cpus=4, slurm_conf="PartitionName=gpu Nodes=ALL")
    with Sandbox(short_folder / "s", spec) as slurm:
        made = Site(slurm, wheel)
        try:
            yield made
        finally:
            made.down()


def test_the_page_forwards_and_backwards(site: Site) -> None:
    """Each step keeps its promise, each undo takes it back, and in the end nothing is left."""
    walk = [step for step in steps() if re.match(r"\d\. ", step.title)]
    at_first, (_, _, as_before) = site.left(), site.job(NAMES)
    conf = site.slurm.layout.slurm_conf.read_bytes()
    kept = []
    for step, promise in zip(walk, PROMISES, strict=True):
        kept.append(_files(site))
        for block in step.do:
            site.follow(block)
        promise(site)
    _the_switch(site)
    _the_controller(site)
    _sharing(site)
    _monitoring(site)
    _login_nodes(site)
    while walk:
        _undo(site, walk.pop(), kept.pop())
        if walk:
            _still(site, len(walk))
    assert site.job(NAMES)[1:] == ("", as_before)
    assert site.left() == at_first
    assert site.slurm.layout.slurm_conf.read_bytes() == conf
    assert site.slurm.status()["nodes"] == {"n1": "idle"}


def _files(site: Site) -> set[Path]:
    """The files that the page adds, one for each block of settings."""
    return set(drop_ins(site.settings.with_suffix(".d")))


def _undo(site: Site, step: Step, files: set[Path]) -> None:
    """The step's files are removed, then its commands run."""
    for path in _files(site) - files:
        path.unlink()
    for block in step.undo:
        site.follow(block)


def _still(site: Site, steps_left: int) -> None:
    """A job after an undo gets what the steps that are left promise, and no more."""
    _, said, printed = site.job(NAMES)
    assert said == ""
    wanted = {"DLQUEUE_RUN_DIR"} if steps_left >= 3 else set()
    wanted |= {"DLQUEUE_DECISION"} if steps_left >= 4 else set()
    wanted |= {"PYTHONPATH"} if steps_left >= 5 else set()
    assert _ours(printed) == wanted, f"after {steps_left} steps"


def _the_controller(site: Site) -> None:
    """In shadow it tells what it sees of a node, touches nothing, and leaves nothing behind."""
    (section,) = (step for step in steps() if step.title.startswith("Moving CPUs"))
    before, files = _configured(site), _files(site)
    for block in section.do:
        site.follow(block)
    status = site.asked("control status")
    assert (status["mode"], status["jobs"]) == ("shadow", [])
    assert site.job(NAMES)[1] == ""
    _undo(site, section, files)
    assert _configured(site) == before


def _sharing(site: Site) -> None:
    """In shadow nobody is told anything and nothing is changed; the undo leaves no line behind."""
    (section,) = (step for step in steps() if step.title.startswith("Sharing GPUs"))
    before, files = _configured(site), _files(site)
    for block in section.do:
        site.follow(block)
    assert site.job(NAMES)[1] == ""
    _undo(site, section, files)
    assert _configured(site) == before


def _monitoring(site: Site) -> None:
    """/metrics is there, and gone again."""
    (section,) = (step for step in steps() if step.title == "Monitoring")
    files = _files(site)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    for block in section.do:
        site.follow(Block(block.language, block.text.replace("9847", port)))
    where = f"http://127.0.0.1:{port}/metrics"
    until(lambda: "dlqueue_decisions_total" in _answer(where), "nothing at /metrics")
    assert site.job(NAMES)[1] == ""
    _undo(site, section, files)
    assert _answer(where) == ""


def _login_nodes(site: Site) -> None:
    """The port answers, without a word of settings for who asks; then it is closed again."""
    (section,) = (step for step in steps() if step.title.startswith("Login and web"))
    files = _files(site)
    munge = f'node.munge_socket = "{site.slurm.layout.munge_socket}"\n'
    # A private Slurm has a munge of its own, and another SlurmUser than the unit.
    uid = pwd.getpwnam(site.user or "slurm").pw_uid
    trusted = f"advisor.trusted_uids = [0, {uid}]\n"
    site.drop_in(munge + trusted)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    for block in section.do:
        site.follow(Block(block.language, block.text.replace("6829", port)))
    login = site.slurm.path("login.toml")
    login.write_text(f'{munge}{trusted}advisor.address = "127.0.0.1:{port}"\n')
    until(lambda: _findings(site)["questions"]["status"] == "ok", "no question is answered")
    asking = f"/opt/dlqueue/bin/dlqueue jobs --all --json --config {login}"
    assert json.loads(site.shell(asking))["jobs"]
    _undo(site, section, files)
    with pytest.raises(SlurmError, match="no advisor answers"):
        site.shell(asking)


def _answer(where: str) -> str:
    """What is told there; nothing while nobody listens."""
    try:
        with urlopen(where, timeout=60) as answer:
            return str(answer.read(), "utf-8")
    except URLError:
        return ""


def _configured(site: Site) -> dict[str, str]:
    """What lies in the page's folders of configuration."""
    etc = [Path(path) for path in site.left() if "/site/etc/" in path]
    return {str(path): path.read_text() for path in etc if path.is_file()}


def _the_switch(site: Site) -> None:
    """While the kill file is there a job is as it always was."""
    site.shell("touch /etc/dlqueue/off")
    try:
        _, said, printed = site.job(NAMES)
        assert said == ""
        assert _ours(printed) == set()
    finally:
        site.shell("rm /etc/dlqueue/off")


def test_a_site_with_scripts_of_its_own(make_sandbox: MakeSandbox) -> None:
    """Joined as the page says, both are heard; without ours, the site's own go on."""
    slurm = make_sandbox(advisor=True)
    _join(slurm)
    assert {"SITE", "DLQUEUE_RUN_DIR", "DLQUEUE_DECISION"} <= _greeted(slurm)
    with pytest.raises(SlurmError, match="not on my cluster"):
        slurm.sbatch("-Jbad", script="#!/bin/sh\n")
    slurm.path("etc/lua/dlqueue.lua").unlink()
    slurm.path("etc/prolog").unlink()
    slurm.restart("slurmctld")
    assert "DLQUEUE_DECISION" not in _greeted(slurm)
    assert slurm.status()["nodes"] == {"n1": "idle"}


def _greeted(slurm: Sandbox) -> set[str]:
    """Names in the environment of a job that met all of the site's own scripts."""
    job_id, said = slurm.sbatch(script=NAMES)
    assert slurm.wait(job_id) == "COMPLETED"
    assert said == "sbatch: the site says hello\n"
    for key in OWN:
        until(slurm.path(f"out/{key}.{job_id}").exists, f"the site's {key} did not run")
    return set(slurm.output(job_id).splitlines())


OWN = {"Prolog": "prolog", "Epilog": "epilog", "TaskProlog": "task_prolog"}
OWN_LUA = """{at_top}
function slurm_job_submit(job_desc, part_list, submit_uid)
  if job_desc.name == "bad" then slurm.log_user("not on my cluster") return slurm.ERROR end
  slurm.log_user("the site says hello")
  {at_end}
  return slurm.SUCCESS
end
function slurm_job_modify() return slurm.SUCCESS end
"""


def _join(slurm: Sandbox) -> None:
    """The site's scripts, with the page's lines in the places that it names, put to work."""
    (section,) = (step for step in steps() if step.title.startswith("A site with scripts"))
    call, at_top, at_end = (block.text for block in section.do)
    etc, out = slurm.layout.etc, slurm.path("out")
    out.mkdir()
    out.chmod(0o1777)
    conf = "PrologFlags=Alloc\nJobSubmitPlugins=lua\n"
    for key, name in OWN.items():
        script = etc / f"site_{name}"
        ours = call.replace("/etc/dlqueue/hooks/prolog", str(etc / name))
        site = f"echo export SITE=1\n/usr/bin/touch {out}/{key}.$SLURM_JOB_ID\n"
        script.write_text(f"#!/bin/sh\n{ours}{site}")
        script.chmod(0o755)
        conf += f"{key}={script}\n"
    at_top = at_top.replace("/etc/dlqueue/lua", str(etc / "lua"))
    (etc / "job_submit.lua").write_text(OWN_LUA.format(at_top=at_top, at_end=at_end))
    with slurm.layout.slurm_conf.open("a") as file:
        file.write(conf)
    slurm.restart("slurmctld")
    slurm.restart("slurmd")
    slurm.wait_for_nodes()
