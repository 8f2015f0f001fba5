"""Joules and memory traffic of the whole node, from folders laid out as kernels do."""

from pathlib import Path

import pytest

from slurm_ext.node.counters.perf.syscall import PerfEvent, PerfKernel
from slurm_ext.node.counters.perf.uncore import Uncore, encoded
from slurm_ext.node.counters.power import PowerMeter


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    """Two packages and the memory of one; the same package again through another driver."""
    wraps = "1000000000"
    for zone, name in {
        "intel-rapl:0": "package-0",
        "intel-rapl:1": "package-1",
        "intel-rapl:0:0": "core",
        "intel-rapl:0:1": "dram",
        "intel-rapl-mmio:0": "package-0",
    }.items():
        files = {"name": name, "energy_uj": "100000000", "max_energy_range_uj": wraps}
        _write(tmp_path / zone, files)
    return tmp_path


def test_joules_are_added_over_packages_and_past_the_wrap(powercap: Path) -> None:
    """950 J of a range of 1000, then 50: 100 J more, and no package twice."""
    power = PowerMeter({}, str(powercap))
    power.sample()
    for joules in (400, 800, 200):
        (powercap / "intel-rapl:0" / "energy_uj").write_text(f"{joules}000000\n")
        power.sample()
    assert power.totals() == {
        "node_energy_cpu": ("rapl/node", pytest.approx(1100.0)),
        "node_energy_dram": ("rapl/node", 0.0),
    }
    assert PowerMeter({"node_energy_cpu": 7.0}, str(powercap)).totals() == {}  # no reading yet


def test_a_meter_that_vanishes_or_is_not_there_is_missing(powercap: Path, tmp_path: Path) -> None:
    """One that was never read gives no sum of the others; none at all gives nothing."""
    power = PowerMeter({}, str(powercap))
    (powercap / "intel-rapl:1" / "energy_uj").unlink()
    power.sample()
    assert set(power.totals()) == {"node_energy_dram"}
    assert PowerMeter({}, str(tmp_path / "none")).totals() == {}


def test_terms_of_sysfs_become_a_config() -> None:
    """Bits as the kernel's format files say, also where a term is spread."""
    plain = {"event": "config:0-7", "umask": "config:8-15"}
    assert encoded("event=0x04,umask=0x03", plain) == 0x0304
    spread = {"event": "config:0-7,32-35", "umask": "config:8-15"}
    assert encoded("event=0x107,umask=0x38", spread) == (1 << 32) | 0x3807
    with pytest.raises(ValueError, match="does not fit"):
        encoded("event=0x1ff", plain)
    with pytest.raises(ValueError, match="no place"):
        encoded("edge=1", plain)


class _Controllers(PerfKernel):
    """Every counter reads 1000, half of its time without a place."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[tuple[int, int]] = []

    def open(self, event: PerfEvent, *, pid: int = -1, cpu: int = -1) -> int:
        self.opened.append((event.config, cpu))
        return 100 + len(self.opened)

    def read(self, fd: int) -> tuple[int, int, int]:
        return 1000, 100, 50

    def close(self, fd: int) -> None:
        pass


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    """One memory controller of an Intel server with two sockets."""
    files = {"type": "14", "cpumask": "0,16", "format/event": "config:0-7"}
    files |= {"format/umask": "config:8-15", "events/cas_count_read": "event=0x04,umask=0x03"}
    files |= {"events/cas_count_read.unit": "MiB", "events/cas_count_read.scale": "6.103515625e-5"}
    _write(tmp_path / "uncore_imc_0", files)
    return tmp_path


def test_memory_traffic_is_the_nodes_and_in_bytes(devices: Path) -> None:
    """64 bytes a count, each socket, scaled for the time without a place; the source says node."""
    kernel = _Controllers()
    uncore = Uncore(kernel, devices=str(devices))
    assert kernel.opened == [(0x0304, 0), (0x0304, 16)]
    name, (source, value) = next(iter(uncore.totals().items()))
    assert (name, source) == ("perf_mem_bytes", "perf/uncore_imc/node")
    assert value == pytest.approx(2 * 2000 * 64)


def test_amds_data_fabric_is_used_only_where_its_codes_are_known(tmp_path: Path) -> None:
    """Zen 3 counts eight channels; Zen 4 has other codes and is left alone."""
    formats = {"format/event": "config:0-7,32-35,59-60", "format/umask": "config:8-15"}
    _write(tmp_path / "amd_df", {"type": "11", "cpumask": "0", **formats})
    for model, channels in ((1, 8), (0x11, 0)):
        info = tmp_path / "cpuinfo"
        info.write_text(f"vendor_id : AuthenticAMD\ncpu family : 25\nmodel : {model}\n")
        kernel = _Controllers()
        Uncore(kernel, devices=str(tmp_path), cpuinfo=str(info))
        assert len(kernel.opened) == channels


def test_where_no_memory_controller_shows_nothing_is_counted(tmp_path: Path) -> None:
    """As in a virtual machine: missing, with the reason."""
    uncore = Uncore(_Controllers(), devices=str(tmp_path))
    assert uncore.totals() == {}
    assert "memory controller" in uncore.why
