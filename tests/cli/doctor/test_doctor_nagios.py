"""doctor as a monitoring plugin; its checks of rights, clocks, timeouts and what is installed."""

import json
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from slurm_ext.cli import config, main
from slurm_ext.cli.doctor import command as doctor_command
from slurm_ext.cli.doctor.access import clock, counters, installed, permissions
from slurm_ext.cli.doctor.finding import FAIL, OK, WARN, Finding
from slurm_ext.cli.doctor.nagios import state_of, summary
from slurm_ext.cli.doctor.slurm import slurm
from slurm_ext.core.settings.document import Settings, load

FINE = Finding("fine", OK, "yes")
ODD = Finding("odd", WARN, "a | b", "look")
BROKEN = Finding("broken", FAIL, "no", "mend it")


def by_name(findings: Iterable[Finding]) -> dict[str, Finding]:
    """Findings by what they are about."""
    return {finding.name: finding for finding in findings}


@pytest.mark.parametrize(
    ("found", "state", "said"),
    [
        ([FINE, FINE], 0, "DLQUEUE OK - 2 checks | ok=2 warning=0 critical=0"),
        ([FINE, ODD], 1, "DLQUEUE WARNING - odd | ok=1 warning=1 critical=0"),
        ([ODD, BROKEN, FINE], 2, "DLQUEUE CRITICAL - broken | ok=1 warning=1 critical=1"),
        (
            [ODD] * 6,
            1,
            "DLQUEUE WARNING - odd, odd, odd, odd, odd, ... | ok=0 warning=6 critical=0",
        ),
        ([], 3, "DLQUEUE UNKNOWN - 0 checks | ok=0 warning=0 critical=0"),
    ],
)
def test_one_line_says_the_worst(found: list[Finding], state: int, said: str) -> None:
    """Its status, the checks that have it, and counts."""
    assert (state_of(found), summary(found)) == (state, said)


def test_a_plugin_prints_the_line_first_and_never_a_second_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong follows, the worst first, a line each."""
    monkeypatch.setattr(doctor_command, "_look", lambda _: ([ODD, BROKEN, FINE], []))
    assert main(["doctor", "--nagios"]) == 2
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("DLQUEUE CRITICAL - ")
    assert rest == ["CRITICAL: broken: no; mend it", "WARNING: odd: a / b; look"]
    assert main(["doctor", "--nagios", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["state"] == "critical"


def test_what_stops_it_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Settings that cannot be read: exit 3 and a line, not a traceback."""
    (tmp_path / "dlqueue.toml").write_text("site.mode = 3\n")
    assert main(["doctor", "--nagios", "--config", str(tmp_path / "dlqueue.toml")]) == 3
    assert capsys.readouterr().out.startswith("DLQUEUE UNKNOWN - ")
    words = ["doctor", "--nagios", "--json", "--config", str(tmp_path / "dlqueue.toml")]
    assert main(words) == 3
    document = json.loads(capsys.readouterr().out)
    assert (document["state"], document["findings"]) == ("unknown", [])
    assert "site.mode" in document["error"]


def test_files_that_others_can_write(tmp_path: Path) -> None:
    """Root runs the hooks: whoever can change them is root."""
    config.write(Settings(), tmp_path)
    settings = Settings(str(tmp_path / "dlqueue.toml"))
    assert by_name(permissions(settings))["permissions"].status == OK
    (tmp_path / "hooks" / "prolog").chmod(0o757)
    found = by_name(permissions(settings))["permissions"]
    assert (found.status, "hooks/prolog" in found.seen) == (FAIL, True)


@pytest.mark.parametrize(("off_s", "status"), [(0, OK), (-4, OK), (60, WARN), (-4000, FAIL)])
def test_a_clock_that_is_off(off_s: float, status: str) -> None:
    """The controller tells its time; munge refuses what is minutes away."""
    now_s = 1_800_000_000.0
    told = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(now_s + off_s))
    found = by_name(clock({f"Configuration data as of {told}": ""}, now_s))
    assert found["clock"].status == status
    assert list(clock({"Configuration data as of nothing": ""}, now_s)) == []


def test_counters_that_are_not_to_be_had() -> None:
    """Perf events are a site's to allow; without a GPU, NVML is no news."""
    perf = {"name": "perf events", "counts": "", "why": "not permitted"}
    found = by_name(counters([perf]))
    assert (found["perf access"].status, found["perf access"].seen) == (WARN, "not permitted")
    assert found["NVML"].status == OK


def test_an_installation_that_is_out_of_date(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Settings that changed since, until `dlqueue install` is run again."""
    conf, toml = tmp_path / "slurm.conf", tmp_path / "dlqueue" / "dlqueue.toml"
    conf.write_text("ClusterName=c\n")
    words = ["--config", str(toml), "--slurm-conf", str(conf)]
    assert list(installed(Settings(str(toml)))) == []
    assert main(["install", "hooks", *words]) == 0
    assert by_name(installed(load(toml)))["installed"].status == OK
    toml.write_text("node.probe = true\n")
    found = by_name(installed(load(toml)))["installed"]
    assert (found.status, "node.json" in found.seen) == (WARN, True)
    assert main(["install", "hooks", *words]) == 0
    assert by_name(installed(load(toml)))["installed"].status == OK
    capsys.readouterr()


class Told:
    """A `scontrol` that prints a configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def findings(self, **config: str) -> dict[str, Finding]:
        """What doctor says of it."""
        text = "".join(f"{key} = {value}\n" for key, value in config.items())
        (self.folder / "config").write_text(text)
        command = self.folder / "scontrol"
        command.write_text(f"#!/bin/sh\ncat {self.folder}/config\n")
        command.chmod(0o755)
        return by_name(slurm(Settings("x", {"paths.slurm_bin": str(self.folder)})))


@pytest.mark.parametrize(
    ("key", "value", "status"),
    [
        ("PrologEpilogTimeout", "65534", None),
        ("PrologEpilogTimeout", "60 sec", OK),
        ("PrologEpilogTimeout", "5", FAIL),
        ("EpilogTimeout", "6 sec", FAIL),
    ],
)
def test_slurm_must_be_more_patient_than_our_hooks(
    tmp_path: Path, key: str, value: str, status: str | None
) -> None:
    """A hook that Slurm stops drains the node; ours stop by themselves before."""
    found = Told(tmp_path).findings(**{key: value}).get(f"{key}, Epilog")
    assert (found and found.status) == status


def test_a_killer_behind_our_launcher_is_found(tmp_path: Path) -> None:
    """The site's own epilog is looked into wherever it is called from, and so are others."""
    site = tmp_path / "epilog.sh"
    site.write_text("#!/bin/sh\npkill -u $SLURM_JOB_USER\n")
    launcher = tmp_path / "site_epilog"
    launcher.write_text(f'#!/bin/sh\n/etc/dlqueue/hooks/epilog\nexec {site} "$@"\n')
    found = Told(tmp_path).findings(Epilog=str(launcher), TaskEpilog=str(site))
    assert str(site) in found["Epilog kills"].seen
    assert "TaskEpilog kills" in found
