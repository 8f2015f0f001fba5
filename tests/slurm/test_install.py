"""INSTALL.md, followed word by word on a private Slurm: forwards, and backwards again."""

import configparser
import json
import os
import pwd
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from slurm_ext.facts.errors import SlurmError
from slurm_ext.sandbox import Sandbox, Spec
from tests.conftest import MakeSandbox
from tests.manual import ROOT, Block, Step, steps
from tests.wheel import PIP, build
from tests.whole import until

pytestmark = [pytest.mark.slurm, pytest.mark.root]

PLACES = (
    "/etc/dlqueue",
    "/etc/systemd/system",
    "/opt/dlqueue",
    "/run/dlqueue",
    "/shared",
    "/var/lib/dlqueue",
    "/var/spool/dlqueue",
)
OURS = {"DLQUEUE_DECISION", "DLQUEUE_NUM_WORKERS", "DLQUEUE_RUN_DIR", "PYTHONPATH"}
LIBRARIES = Path(pytest.__file__).parents[1]
HURRY = {
    "advisor": {"deadline_ms": 1000, "reconcile_s": 0.5, "breaker_s": 1},
    "policy": {"holdout_share": 0.0},
}
"""What differs from a site: no control group by chance, and nothing that takes half a minute."""

TRAINING = """#!/bin/sh
exec {python} - <<'END'
import time
import torch
from torch.utils.data import DataLoader, Dataset
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
    import os
    print("workers", os.environ.get("DLQUEUE_NUM_WORKERS"))
END
"""
NAMES = "#!/bin/sh\nenv | cut -d= -f1 | sort\necho CPUs $SLURM_CPUS_ON_NODE\n"


class Site:
    """A private Slurm in which the page's absolute paths lie under one folder."""

    def __init__(self, slurm: Sandbox, wheel: Path) -> None:
        self.slurm, self.wheel = slurm, wheel
        self.advisor: subprocess.Popen[bytes] | None = None
        self.user: str | None = None
        for place in PLACES:
            Path(self.there(place)).parent.mkdir(parents=True, exist_ok=True)
        for place in ("/etc/systemd/system", "/shared"):
            Path(self.there(place)).mkdir()

    def there(self, text: str) -> str:
        """A text with every path of the page moved into the sandbox."""
        root = self.slurm.layout.root
        text = re.sub("|".join(PLACES), lambda found: f"{root}/site{found[0]}", text)
        return text.replace("/etc/slurm/", f"{root}/etc/")

    @property
    def settings(self) -> Path:
        """dlqueue.toml."""
        return Path(self.there("/etc/dlqueue/dlqueue.toml"))

    def follow(self, block: Block) -> None:
        """Do what one block says."""
        if block.language == "sh":
            for line in block.text.splitlines():
                self.command(line)
        elif block.language == "toml":
            self.set(tomllib.loads(self.there(block.text)))
        elif block.language == "ini":
            with self.slurm.layout.slurm_conf.open("a") as file:
                file.write(self.there(block.text))
        else:
            raise AssertionError(f"nobody knows what to do with {block}")

    def command(self, line: str) -> None:
        """One line of shell; what concerns network and systemd is done by hand."""
        words = self.there(line).split()
        if words[0] == "systemctl":
            self.systemctl(*words[1:])
        elif "venv" in words:
            self.make_environment(Path(words[-1]))
        elif "pip" in line:
            python = Path(words[0]).with_name("python")
            pip = [*PIP, "--python", str(python), "install", "--no-deps", "--no-index"]
            subprocess.run([*pip, str(self.wheel)], check=True, timeout=60)
        else:
            self.shell(line)
        if "--sample" in line:
            self.settings.write_text(self.there(self.settings.read_text()))
            conf = str(self.slurm.layout.slurm_conf)
            self.set({**HURRY, "paths": {"slurm_conf": conf}})

    def shell(self, line: str) -> str:
        """What a command of the page prints; it has to succeed."""
        env = {"DLQUEUE_CONFIG": str(self.settings)}
        done = self.slurm.run(["sh", "-euc", self.there(line)], env=env, cwd=ROOT)
        return str(done.stdout)

    def asked(self, command: str) -> Any:
        """The JSON that a command of dlqueue's answers."""
        return json.loads(self.shell(f"/opt/dlqueue/bin/dlqueue {command} --json"))

    def make_environment(self, folder: Path) -> None:
        """A virtual environment of its own, which borrows only our libraries."""
        python, self.user = _interpreter()
        subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
        (library,) = folder.glob("lib/python3*/site-packages")
        (library / "borrowed.pth").write_text(str(LIBRARIES))

    def set(self, changes: Mapping[str, Any]) -> None:
        """Keys added to dlqueue.toml."""
        known = tomllib.loads(self.settings.read_text())
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in _flat(_merged(known, changes))]
        self.settings.write_text("".join(lines))

    def systemctl(self, verb: str, *words: str) -> None:
        """As systemd would, for the one unit of ours and for slurmctld."""
        if words and words[-1] == "slurmctld":
            self.slurm.restart("slurmctld")
        elif verb == "enable":
            self.start(words[-1])
        elif verb == "reload":
            self.reload()
        elif verb == "disable":
            self.stop()
        else:
            assert (verb, words) == ("daemon-reload", ())

    def start(self, unit: str) -> None:
        """Run the installed unit as its user, who gets the folders that it asks for."""
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(self.there(f"/etc/systemd/system/{unit}.service"))
        service = parser["Service"]
        user = pwd.getpwnam(self.user or service["User"])
        for place in (
            f"/var/lib/{service['StateDirectory']}",
            f"/run/{service['RuntimeDirectory']}",
        ):
            folder = Path(self.there(place))
            folder.mkdir(exist_ok=True)
            os.chown(folder, user.pw_uid, user.pw_gid)
        with self.slurm.path("log/advisor.log").open("ab") as log:
            process = self.advisor = subprocess.Popen(
                self.there(service["ExecStart"]).split(),
                env={**self.slurm.env, "DLQUEUE_CONFIG": str(self.settings)},
                user=user.pw_uid,
                group=user.pw_gid,
                extra_groups=[],
                cwd="/",
                stdout=log,
                stderr=log,
            )
        socket = Path(self.there("/run/dlqueue/advisor.sock"))
        until(lambda: socket.exists() or process.poll() is not None, "it does not serve")
        assert process.poll() is None, self.slurm.log("advisor")

    def reload(self) -> None:
        """SIGHUP, until it was heeded."""
        assert self.advisor is not None
        said = "refresh: settings read again"  # the keeper says so too, at another time
        before = self.slurm.log("advisor").count(said)
        self.advisor.send_signal(signal.SIGHUP)
        heeded = lambda: self.slurm.log("advisor").count(said) > before  # noqa: E731
        until(heeded, "the advisor did not read its settings again")

    def stop(self) -> None:
        """End the advisor, if there is one; systemd then removes its runtime folder."""
        if self.advisor is not None:
            self.advisor.terminate()
            self.advisor.wait(20)
            self.advisor = None
            Path(self.there("/run/dlqueue")).rmdir()

    def job(self, script: str, *words: str) -> tuple[int, str, list[str]]:
        """A job of the page's partition: its id, what sbatch said, what it printed."""
        job_id, said = self.slurm.sbatch("--partition=gpu", *words, script=script)
        assert self.slurm.wait(job_id) == "COMPLETED", self.slurm.output(job_id)
        return job_id, said, self.slurm.output(job_id).splitlines()

    def left(self) -> list[str]:
        """Which of the page's folders there are, and every file in them."""
        folders = [Path(self.there(place)) for place in PLACES]
        files = [path for folder in folders for path in folder.rglob("*")]
        return sorted(str(path) for path in [*folders, *files] if path.exists())


def _interpreter() -> tuple[str, str | None]:
    """A Python for /opt, and root where SlurmUser could not run it (it lies in /root, say)."""
    slurm = pwd.getpwnam("slurm")
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        try:
            subprocess.run(
                [python, "-c", "import numpy"],
                env={"PYTHONPATH": str(LIBRARIES)},
                user=slurm.pw_uid,
                group=slurm.pw_gid,
                check=True,
                stderr=subprocess.DEVNULL,
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return python, None
    return sys.executable, "root"


def _merged(known: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(known)
    for key, value in changes.items():
        both[key] = _merged(both.get(key, {}), value) if isinstance(value, dict) else value
    return both


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a site gets it."""
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def site(short_folder: Path, wheel: Path) -> Iterator[Site]:
    """A cluster that has never heard of dlqueue."""
    spec = Spec(cpus=4, slurm_conf="PartitionName=gpu Nodes=ALL")
    with Sandbox(short_folder / "s", spec) as slurm:
        made = Site(slurm, wheel)
        try:
            yield made
        finally:
            made.stop()


def test_the_page_forwards_and_backwards(site: Site) -> None:
    """Each step keeps its promise, each undo takes it back, and in the end nothing is left."""
    walk = [step for step in steps() if re.match(r"\d\. ", step.title)]
    at_first, (_, _, as_before) = site.left(), site.job(NAMES)
    kept = []
    for step, promise in zip(walk, PROMISES, strict=True):
        kept.append(_texts(site))
        for block in step.do:
            site.follow(block)
        promise(site)
    _the_switch(site)
    while walk:
        _undo(site, walk.pop(), kept.pop())
        if walk:
            _still(site, len(walk))
    assert site.job(NAMES)[1:] == ("", as_before)
    assert site.left() == at_first
    assert site.slurm.status()["nodes"] == {"n1": "idle"}


def _texts(site: Site) -> dict[Path, str]:
    """The two files that the page adds lines to."""
    files = (site.settings, site.slurm.layout.slurm_conf)
    return {path: path.read_text() for path in files if path.exists()}


def _undo(site: Site, step: Step, texts: Mapping[Path, str]) -> None:
    """The step's lines out of both files, then its commands."""
    for path, text in texts.items():
        path.write_text(text)
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
