"""A controller, a node and a login node with a real Slurm of their own, for Ansible to set up.

Each is a machine of `machine.py`. They have processes and network in common, and no file. Ansible
reaches them by an ssh that enters the machine; systemd's part is played by `systemctl.sh`.
"""

import json
import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from slurm_ext.sandbox.layout import free_ports
from tests.a_site import LIBRARIES
from tests.manual import ROOT
from tests.packages.machine import PATH, Machine, private_machine
from tests.whole import until

GROUPS = {"controllers": "ctl1", "nodes": "n1", "logins": "login1"}
PLAYBOOK = ROOT / "contrib" / "ansible" / "site.yml"
SLURM_CONF = """\
ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmctldParameters=enable_configless
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld/pid
SlurmdPidFile=/run/slurmd/pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MailProg=/bin/true
MpiDefault=none
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,bf_interval=1
SlurmdParameters=config_overrides
Prolog=/etc/slurm/own
Epilog=/etc/slurm/epilog.d/*
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={slurmd} CPUs=2 RealMemory=1000
PartitionName=main Nodes=ALL Default=YES
"""
# Scripts of the site, which lie on the node alone.
_OWN = {"/etc/slurm/own": "prolog", "/etc/slurm/epilog.d/50-own": "epilog"}
_UNIT = "[Service]\nExecStart={command}\nRuntimeDirectory={name}\nStateDirectory={name}\n"
_MUNGED = (
    "/usr/sbin/munged --foreground --force --key-file=/etc/slurm/munge.key"
    " --socket=/run/munge/munge.socket.2 --pid-file=/run/munge/munged.pid"
    " --log-file=/run/munge/log --seed-file=/run/munge/seed"
)
# ssh, as Ansible calls it: the last word is the command, the one before it the host.
_SSH = (
    '#!/bin/sh\nfor word; do host=$command; command=$word; done\nexec "{folder}/$host" "$command"\n'
)
# Nothing is compiled as a package comes (root's commands do that here), no manual is indexed.
_DPKG = '#!/bin/sh\nPYTHONDONTWRITEBYTECODE=1 exec /usr/bin/dpkg --no-triggers "$@"\n'
_RECAP = re.compile(r"^(\w+) +: ok=(\d+) +changed=(\d+) +unreachable=0 +failed=0 ", re.MULTILINE)


class Hosts:
    """The machines by their names, and playbooks that are run on them."""

    def __init__(self, folder: Path, machines: Mapping[str, Machine], packages: Path) -> None:
        self.folder, self.machines, self.packages = folder, machines, packages
        self.ports = free_ports(5)
        self.settings = {
            "10-site": (
                "[node]\ntransport = 'stream'\nprobe = true\n"
                f"address = '127.0.0.1:{self.ports[2]}'\n"
                f"[advisor]\nlisten = '127.0.0.1:{self.ports[2]}'\nreconcile_s = 0.5\n"
                f"listen_questions = '127.0.0.1:{self.ports[3]}'\n"
            )
        }
        self._quick = {
            "ANSIBLE_LOCAL_TEMP": str(folder),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_GATHERING": "smart",  # what a host is, is asked once
            "ANSIBLE_CACHE_PLUGIN": "jsonfile",
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(folder / "facts"),
        }
        (folder / "ssh").write_text(_SSH.format(folder=folder))
        for name, machine in machines.items():
            enter = shlex.join([*machine.enter, "env", "-i", f"PATH={PATH}", "HOME=/root"])
            (folder / name).write_text(f'#!/bin/sh\nexec {enter} sh -c "$1"\n')
        for name in ("ssh", *machines):
            (folder / name).chmod(0o755)

    def play(self, *words: str, **variables: Any) -> dict[str, int]:
        """Run the site's playbook; the number of changes of each host. It must not fail."""
        inventory = self.folder / "inventory.json"
        inventory.write_text(json.dumps(self._inventory(variables)))
        done = subprocess.run(
            [Path(sys.executable).with_name("ansible-playbook"), "-i", inventory, *words, PLAYBOOK],
            env={**os.environ, **self._quick},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=1200,
        )
        recap = {name: int(changed) for name, _, changed in _RECAP.findall(done.stdout)}
        assert done.returncode == 0, done.stdout + done.stderr
        assert set(recap) == set(self.machines), done.stdout
        return recap

    def _inventory(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        groups: dict[str, Any] = {
            f"dlqueue_{group}": {"hosts": {name: {}}} for group, name in GROUPS.items()
        }
        known: dict[str, Any] = {
            "ansible_become": False,
            "ansible_ssh_executable": str(self.folder / "ssh"),
            "ansible_ssh_transfer_method": "piped",
            "ansible_ssh_pipelining": True,
            "ansible_python_interpreter": "/usr/bin/python3",
            "dlqueue_common_folder": str(self.packages),
            "dlqueue_controller_settings": self.settings,
            "dlqueue_login_settings": {
                "10-site": f"advisor.address = '127.0.0.1:{self.ports[3]}'\n"
            },
        }
        return {"all": {"children": groups, "vars": {**known, **variables}}}

    def start_slurm(self) -> None:
        """Munge everywhere, slurmctld on the controller, slurmd without a file on the node."""
        key = secrets.token_hex(64)
        port, slurmd = self.ports[:2]
        conf = SLURM_CONF.format(
            host=socket.gethostname().partition(".")[0], port=port, slurmd=slurmd
        )
        program = (ROOT / "tests" / "packages" / "systemctl.sh").read_text()
        daemons = {
            "ctl1": ("slurmctld", "/usr/sbin/slurmctld -D"),
            "n1": ("slurmd", f"/usr/sbin/slurmd -D -N n1 --conf-server 127.0.0.1:{port}"),
        }
        for path, name in _OWN.items():
            self.machines["n1"].write(path, f"#!/bin/sh\ntouch /run/own-{name}\n", "755")
        for name, machine in self.machines.items():
            machine.write("/usr/local/bin/systemctl", program, "755")
            machine.write("/etc/slurm/munge.key", key, "400")
            machine.run("rm -f /etc/slurm/slurm.conf; mkdir -p /var/spool/slurmctld")
            machine.write("/usr/local/bin/quick-dpkg", _DPKG, "755")
            machine.write(
                "/etc/apt/apt.conf.d/quick", 'Dir::Bin::dpkg "/usr/local/bin/quick-dpkg";'
            )
            machine.run("find /var/lib/apt/lists -type f -delete")  # no archive is asked here
            if name != "n1":
                machine.write("/etc/slurm/slurm.conf", conf)
            units = {"munge": _MUNGED, **dict([daemons[name]] if name in daemons else [])}
            for unit, command in units.items():
                text = _UNIT.format(name=unit, command=command)
                machine.write(f"/etc/systemd/system/{unit}.service", text)
            machine.run("systemctl start munge")
            self._answers(name, "munge -n", "MUNGE:")
            if len(units) > 1:
                machine.run(f"systemctl start {daemons[name][0]}")
        self._answers("ctl1", "sinfo -h -o %T", "idle")

    def on(self, name: str, command: str) -> str:
        """What a command prints on a host."""
        return self.machines[name].run(command)

    def _answers(self, name: str, command: str, begin: str) -> None:
        """Wait until a command prints what it is to."""
        asking = f"{command} 2>&1 || true"
        until(lambda: self.on(name, asking).startswith(begin), f"{name}: {command} fails")

    def down(self) -> None:
        """Kill whatever runs on a machine: processes outlive its files."""
        roots = {machine.enter[-1] for machine in self.machines.values()}
        for link in Path("/proc").glob("[0-9]*/root"):
            with suppress(OSError):
                if str(link.readlink()) in roots:
                    os.kill(int(link.parent.name), signal.SIGKILL)


@contextmanager
def three_hosts(folder: Path, packages: Path) -> Iterator[Hosts]:
    """Hosts with a Slurm that runs, and without dlqueue."""
    with ExitStack() as stack:
        machines = {}
        for name in GROUPS.values():
            (folder / f"{name}.d").mkdir()
            machine = private_machine(folder / f"{name}.d", packages, LIBRARIES)
            machines[name] = stack.enter_context(machine)
        hosts = Hosts(folder, machines, packages)
        stack.callback(hosts.down)
        hosts.start_slurm()
        yield hosts
