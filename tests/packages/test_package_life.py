"""A package's life on a machine: installed, upgraded, removed, purged; Slurm never notices."""

from pathlib import Path

import pytest

from slurm_ext.core.settings.document import Settings
from slurm_ext.core.settings.render import NODE_PROGRAM, render_folder
from tests.packages.machine import Machine

pytestmark = [pytest.mark.root, pytest.mark.journey]

CONF = "ClusterName=trial\nSlurmUser=root\nNodeName=n1\n"
HOOKS = "/etc/dlqueue/hooks"
# slurmctld, as far as the packages ask it.
SCONTROL = "#!/bin/sh\nsed 's/=/ = /' /etc/slurm/slurm.conf\n"
QUICK = {"PYTHONDONTWRITEBYTECODE": "1"}  # nothing is compiled as a package comes
JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_UID": "0",
    "SLURM_JOB_USER": "root",
    "SLURM_CLUSTER_NAME": "trial",
    "SLURMD_NODENAME": "n1",
    "SLURM_JOB_NODELIST": "n1",
}


@pytest.fixture
def site(machine: Machine) -> Machine:
    """With a Slurm whose controller answers."""
    machine.write("/etc/slurm/slurm.conf", CONF)
    machine.write("/usr/bin/scontrol", SCONTROL, "755")
    return machine


def joined(site: Machine, packages: Path) -> None:
    """The packages are there, and `dlqueue install` has joined the hooks to slurm.conf."""
    site.run(
        f"dpkg --no-triggers -i {packages}/dlqueue-node_*.deb {packages}/dlqueue-advisor_*.deb",
        QUICK,
    )
    site.run("dlqueue install files hooks")
    assert f"Prolog={HOOKS}/prolog" in site.run("cat /etc/slurm/slurm.conf")


def copied_from_the_controller(site: Machine) -> None:
    """/etc/dlqueue, of which a node's part runs the hooks; and slurm.conf, which names them."""
    for name, text, mode in render_folder(Settings(), Path("/etc/dlqueue")):
        here = text.replace(str(NODE_PROGRAM), "/opt/dlqueue/lib/slurm_ext/node/__main__.py")
        site.write(f"/etc/dlqueue/{name}", here, f"{mode:o}")
    site.write("/etc/slurm/slurm.conf", f"{CONF}Prolog={HOOKS}/prolog\nEpilog={HOOKS}/epilog\n")


def hooks_end_well(site: Machine) -> None:
    """As slurmd runs them: bare, and drains the node for any other exit status than 0."""
    for hook in ("prolog", "task_prolog", "epilog"):
        site.run(f"{HOOKS}/{hook}", JOB)


def test_a_nodes_part_needs_nothing_but_the_systems_python(site: Machine, packages: Path) -> None:
    """Installed, measured, upgraded, removed and purged, while Slurm names its hooks."""
    site.run(f"dpkg -i {packages}/dlqueue-node_*.deb")
    copied_from_the_controller(site)
    hooks_end_well(site)
    assert site.run("cd /var/spool/dlqueue/out; ls *.json") == "cluster-7-0-n1.json\n"
    assert site.has("/opt/dlqueue/lib/slurm_ext/node/__pycache__")
    site.run(f"dpkg -i {packages}/later/dlqueue-node_*.deb")
    hooks_end_well(site)
    told = site.run("dpkg -r dlqueue-node")
    assert "jobs go on, unmeasured" in told
    assert not site.has("/opt/dlqueue")
    hooks_end_well(site)
    told = site.run("dpkg -P dlqueue-node")
    assert "/var/spool/dlqueue stays: it has records that were not delivered" in told
    assert "/etc/dlqueue stays, because Slurm may run" in told
    hooks_end_well(site)


def test_a_node_that_slurm_left_is_clean_after_a_purge(site: Machine, packages: Path) -> None:
    """slurm.conf names no hook: settings and an empty spool go."""
    site.run(f"dpkg --no-triggers -i {packages}/dlqueue-node_*.deb", QUICK)
    site.run(f"mkdir -p {HOOKS} /var/spool/dlqueue/out")
    assert site.run("dpkg -P dlqueue-node").count("stays") == 0
    assert not site.has("/etc/dlqueue")
    assert not site.has("/var/spool/dlqueue")
    assert not site.has("/opt/dlqueue")


@pytest.mark.parametrize(
    "named", ["Prolog=/etc/slurm/own", "TaskProlog=/etc/dlqueue/hooks/task_prolog"]
)
def test_a_hook_stays_while_anything_of_slurms_leads_to_it(
    site: Machine, packages: Path, named: str
) -> None:
    """A script of the site that calls it, too."""
    site.run(f"dpkg --no-triggers -i {packages}/dlqueue-node_*.deb", QUICK)
    site.write(f"{HOOKS}/prolog", "#!/bin/sh\n", "755")
    site.write("/etc/slurm/own", f"#!/bin/sh\n{HOOKS}/prolog\n", "755")
    site.write("/etc/slurm/slurm.conf", f"{CONF}{named}\n")
    site.run("dpkg -P dlqueue-node")
    assert site.has(f"{HOOKS}/prolog")


def test_a_hook_stays_while_nobody_knows(site: Machine, packages: Path) -> None:
    """A controller that does not answer may run it."""
    site.run(f"dpkg --no-triggers -i {packages}/dlqueue-node_*.deb; mkdir -p {HOOKS}", QUICK)
    site.write("/usr/bin/scontrol", "#!/bin/sh\nexit 1\n", "755")
    site.run("dpkg -P dlqueue-node")
    assert site.has(HOOKS)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/opt/slurm/sbin/slurmd", ""),
        ("/usr/local/bin/systemctl", '#!/bin/sh\n[ "$*" = "cat slurmctld.service" ]\n'),
    ],
    ids=["folder", "unit"],
)
def test_a_hook_stays_while_slurm_rests(
    site: Machine, packages: Path, path: str, text: str
) -> None:
    """A Slurm that is on no PATH, has no /etc/slurm and does not run may name hooks, too."""
    site.run(f"dpkg --no-triggers -i {packages}/dlqueue-node_*.deb", QUICK)
    site.write(f"{HOOKS}/prolog", "#!/bin/sh\n", "755")
    site.run("rm -rf /opt/slurm /etc/slurm $(which -a slurmd slurmctld scontrol)")
    site.run("mount -t tmpfs none /proc")  # with daemons of other tests
    site.write(path, text, "755")
    site.run("dpkg -P dlqueue-node")
    assert site.has(f"{HOOKS}/prolog")


def test_the_advisors_part_is_upgraded_and_removed(site: Machine, packages: Path) -> None:
    """Slurm's files keep their lines, and its hooks end well, with the package and without."""
    joined(site, packages)
    assert site.run("dlqueue --version") == "dlqueue 0.1.0\n"
    told = site.run(f"dpkg --no-triggers -i {packages}/later/*.deb", QUICK)
    assert "those of before" not in told
    conf = site.run("cat /etc/slurm/slurm.conf")
    told = site.run("dpkg --no-triggers -r dlqueue-advisor dlqueue-node")
    assert "Slurm's files keep dlqueue's lines" in told
    assert site.run("cat /etc/slurm/slurm.conf") == conf
    assert not site.has("/opt/dlqueue")
    hooks_end_well(site)


def test_launchers_stay_where_nodes_may_have_their_own_slurm_conf(
    site: Machine, packages: Path
) -> None:
    """Removed with its lines in Slurm's files, it leaves the launchers, and they end well."""
    joined(site, packages)
    told = site.run(
        "dpkg --no-triggers -r dlqueue-advisor dlqueue-node", {"DLQUEUE_UNINSTALL": "1"}
    )
    assert f"{HOOKS} stays: nodes may have copies of slurm.conf" in told
    assert site.run("cat /etc/slurm/slurm.conf") == CONF
    assert not site.has("/opt/dlqueue")
    hooks_end_well(site)


def test_an_environment_that_pip_made_is_not_mixed_in(site: Machine, packages: Path) -> None:
    """Its older code would go before the package's own."""
    site.run("mkdir -p /opt/dlqueue/lib/python3.11/site-packages/slurm_ext")
    told = site.run(
        f"dpkg -i {packages}/dlqueue-node_*.deb {packages}/dlqueue-advisor_*.deb", status=1
    )
    assert "/opt/dlqueue was made by pip: move it away first" in told


def test_an_rpm_comes_and_goes(site: Machine, packages: Path) -> None:
    """Erased, it takes dlqueue out of Slurm's files if the administrator says so.

    What it needs is Debian's here, unknown to rpm.
    """
    conf = f"{CONF}SlurmctldParameters=enable_configless\n"
    site.write("/etc/slurm/slurm.conf", conf)
    site.run("rpm --initdb --dbpath /rpm")
    node, advisor = (f"{packages}/dlqueue-{name}-*.rpm" for name in ("node", "advisor"))
    site.run(f"rpm --dbpath /rpm --nodeps -i {node} {advisor}", QUICK)
    assert site.run("dlqueue --version") == "dlqueue 0.1.0\n"
    site.run("dlqueue install files hooks")
    erase = "rpm --dbpath /rpm --nodeps -e dlqueue-advisor dlqueue-node"
    site.run(erase, {"DLQUEUE_UNINSTALL": "1"})
    assert site.run("cat /etc/slurm/slurm.conf") == conf
    assert not site.has("/opt/dlqueue")
    assert not site.has("/etc/dlqueue/hooks")


def test_a_python_that_is_too_old_is_told_as_the_package_comes(
    site: Machine, packages: Path
) -> None:
    """EL8's is 3.6; hooks end well with it, and the package is installed."""
    site.write("/usr/bin/python3.6", "#!/bin/sh\nexit 1\n", "755")
    site.write("/etc/dlqueue/node.json", '{\n "node.python": "/usr/bin/python3.6"\n}\n')
    told = site.run(f"dpkg --no-triggers -i {packages}/dlqueue-node_*.deb", QUICK)
    assert "/usr/bin/python3.6 is no Python of 3.9 or newer" in told
    site.write("/etc/dlqueue/node.json", '{\n "node.python": "/usr/bin/python3"\n}\n')
    assert "no Python of" not in site.run(
        f"dpkg --no-triggers -i {packages}/dlqueue-node_*.deb", QUICK
    )
