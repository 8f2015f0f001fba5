"""Units give their programs no more than these use, by systemd's own measure."""

from pathlib import Path

import pytest

from contrib.bench.borders.confinement.unit_file import (
    MOST_EXPOSED,
    MOST_EXPOSED_LOOP,
    UNITS,
    exposure,
    read_unit,
)

NAMES = sorted(path.name for path in UNITS.glob("*.service"))
CAPABILITIES = {
    "dlqueue-control.service": ["CAP_DAC_OVERRIDE", "CAP_SYS_NICE", "CAP_SYS_PTRACE"],
    "dlqueue-elastic.service": ["CAP_DAC_READ_SEARCH"],
}


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_is_exposed_to_little(name: str) -> None:
    """`systemd-analyze security` finds at most 3.0 for the advisor and 4.0 for a loop."""
    assert exposure(name) <= MOST_EXPOSED.get(name, MOST_EXPOSED_LOOP)


def test_an_unrestricted_unit_is_found_exposed(tmp_path: Path) -> None:
    """The measure tells units apart: a program as root, and no more said, has over 9."""
    (tmp_path / "bare.service").write_text("[Service]\nExecStart=/bin/true\n")
    assert exposure("bare.service", tmp_path) > 9


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_has_the_capabilities_that_its_program_uses(name: str) -> None:
    """Only the node's allocator is root; the elastic loop reads reports, and the rest has none."""
    unit = read_unit(name)
    assert unit.values["CapabilityBoundingSet"] == [" ".join(CAPABILITIES.get(name, []))]
    assert unit.last("NoNewPrivileges") == "yes"
    assert (unit.last("User") == "slurm") == (name != "dlqueue-control.service")


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_makes_no_privileged_system_call(name: str) -> None:
    """Neither mounts nor modules nor other processes' memory; lists with ~ take away."""
    calls = read_unit(name).calls
    assert {"read", "openat", "clone", "connect"} <= calls
    privileged = {"mount", "init_module", "ptrace", "bpf", "setuid", "chown", "process_vm_writev"}
    assert not calls & privileged
