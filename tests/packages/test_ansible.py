"""The roles of contrib/ansible, on a controller, a node and a login node that run Slurm."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.packages.building import LATER
from tests.packages.hosts import Hosts, three_hosts
from tests.whole import until

pytestmark = [pytest.mark.root, pytest.mark.slurm, pytest.mark.journey, pytest.mark.timeout(1800)]

UNCHANGED = {"ctl1": 0, "n1": 0, "login1": 0}
CONF = "/etc/slurm/slurm.conf"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, packages: Path) -> Iterator[Hosts]:
    """A site that runs Slurm."""
    with three_hosts(tmp_path_factory.mktemp("hosts"), packages) as site:
        yield site


@pytest.fixture(scope="module")
def site(hosts: Hosts) -> Hosts:
    """The same after the first run of the playbook."""
    assert min(hosts.play().values()) > 0
    return hosts


def test_a_check_tells_and_changes_nothing(hosts: Hosts) -> None:
    """Packages would come to a bare site; none has come, and slurm.conf is the site's."""
    before = hosts.on("ctl1", f"cat {CONF}")
    assert min(hosts.play("--check").values()) > 0
    assert hosts.on("ctl1", f"cat {CONF}") == before
    for machine in hosts.machines.values():
        assert not machine.has("/opt/dlqueue")
        assert not machine.has("/etc/dlqueue")


def test_a_job_is_recorded_after_the_first_run(site: Hosts) -> None:
    """Slurmctld's plugin decides on it, the node's hooks measure it, the login node tells of it.

    The site's own prolog and epilog run beside the hooks, and no node drains.
    """
    job = site.on("login1", "cd /tmp; sbatch --parsable --wrap true").strip()

    def recorded() -> Any:
        shown = site.on("ctl1", f"dlqueue history show {job} --json 2>&1 || true")
        runs = json.loads(shown)["runs"] if shown.startswith("{") else []
        return any(run["source"] == "epilog" for run in runs)

    until(recorded, f"no record of job {job}")
    explained = json.loads(site.on("ctl1", f"dlqueue explain {job} --json"))
    assert explained["decision"]["mode"] == "shadow"
    told = json.loads(site.on("login1", "dlqueue jobs --all --json"))
    assert [run["job_id"] for run in told["jobs"]] == [int(job)]
    assert site.on("ctl1", "sinfo --noheader --list-reasons") == ""
    own = "/run/own-epilog\n/run/own-prolog\n"
    until(lambda: site.on("n1", "ls /run/own-*") == own, "the site's own scripts have not run")


def test_a_second_run_changes_nothing(site: Hosts) -> None:
    """As it is with everything that may be run as often as one likes."""
    assert site.play() == UNCHANGED


@pytest.mark.long(short="packages/test_ansible.py::test_a_check_tells_and_changes_nothing")
def test_a_check_of_a_whole_site_finds_nothing(site: Hosts) -> None:
    """A site that is as the playbook wants it needs no change."""
    assert site.play("--check") == UNCHANGED


@pytest.mark.long(
    short="packages/test_package_life.py::test_the_advisors_part_is_upgraded_and_removed"
)
def test_new_settings_and_packages_reach_every_host(site: Hosts) -> None:
    """A text that is empty now goes, and what nodes read of the settings is renewed there."""
    assert '"node.probe": true' in site.on("n1", "cat /etc/dlqueue/node.json")
    settings = {"10-site": site.settings["10-site"].replace("probe = true\n", ""), "20-no": ""}
    changes = site.play(
        dlqueue_controller_settings=settings, dlqueue_common_folder=str(site.packages / "later")
    )
    assert min(changes.values()) > 0
    assert '"node.probe": true' not in site.on("n1", "cat /etc/dlqueue/node.json")
    for machine in site.machines.values():
        assert machine.run("dpkg-query -W -f '${Version}' dlqueue-node") == LATER
    assert "restart dlqueue" in site.on("ctl1", "cat /run/systemctl.log")
