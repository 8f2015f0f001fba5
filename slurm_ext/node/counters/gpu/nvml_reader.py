"""NVIDIA GPUs through NVML, in a process of its own: a call into a sick driver may never return.

One line of JSON a question and an answer. Everything here may fail for one GPU, one figure or
altogether: each figure that cannot be had is left out, and a GPU that is gone says so.
Names and units are NVML's (nvml.h): percent, mW, mJ, MHz, KiB where not said otherwise.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_NVLINK_TX, _NVLINK_RX = (
    138,
    139,
)  # NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_*, KiB since the driver's start
_PCIE_TX, _PCIE_RX = 197, 198  # NVML_FI_DEV_PCIE_COUNT_*_BYTES
_ALL_LINKS = 0xFFFFFFFF
_32_BITS = 1  # NVML_VALUE_TYPE_UNSIGNED_INT
_GPM = {"sm_active": 2, "sm_occupancy": 3, "tensor_active": 5, "dram_active": 10}
_NOT_FOUND = 6  # of a handle: gone; of a figure: there is none now
_LOST = (15, 28)  # GPU_IS_LOST, GPU_NOT_FOUND


class NvmlReader:
    """Holds the library open; `read` answers for the GPUs that it is asked for."""

    def __init__(self) -> None:
        self.nvml = _library()
        self.nvml.nvmlInit()
        self._gpm: dict[str, Any] = {}
        self._seen_us: dict[str, int] = {}

    def listed(self) -> list[dict[str, Any]]:
        """Every GPU of the node: UUID, minor number, PCI address, whether MIG is on, its name."""
        nvml, gpus = self.nvml, []
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                gpus.append(
                    {
                        "uuid": _text(nvml.nvmlDeviceGetUUID(handle)),
                        "minor": self._maybe(nvml.nvmlDeviceGetMinorNumber, handle),
                        "pci": self._maybe(
                            lambda h: _text(nvml.nvmlDeviceGetPciInfo(h).busId), handle
                        ),
                        "mig": self._mig(handle),
                        "name": self._maybe(lambda h: _text(nvml.nvmlDeviceGetName(h)), handle),
                    }
                )
            except nvml.NVMLError:
                continue  # one that fell off the bus is not there for us
        return gpus

    def read(self, uuids: list[str]) -> dict[str, dict[str, Any]]:
        """UUID to its figures now; `{"lost": why}` where the GPU is gone."""
        return {uuid: self._one(uuid) for uuid in uuids}

    def _one(self, uuid: str) -> dict[str, Any]:
        try:
            handle = self.nvml.nvmlDeviceGetHandleByUUID(uuid.encode())
            if self._mig(handle):
                return {"mig": True}
            return dict(self._figures(uuid, handle))
        except self.nvml.NVMLError as error:
            if error.value in (_NOT_FOUND, *_LOST):
                return {"lost": str(error)[:200]}
            return {"refused": str(error)[:200]}

    def _figures(self, uuid: str, handle: Any) -> Iterator[tuple[str, Any]]:
        nvml = self.nvml
        rates = self._maybe(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._maybe(nvml.nvmlDeviceGetMemoryInfo, handle)
        yield "util", rates and rates.gpu
        yield "mem_util", rates and rates.memory
        yield "mem_bytes", memory and memory.used
        yield "power_mw", self._maybe(nvml.nvmlDeviceGetPowerUsage, handle)
        yield "energy_mj", self._maybe(nvml.nvmlDeviceGetTotalEnergyConsumption, handle)
        yield "sm_mhz", self._maybe(lambda h: nvml.nvmlDeviceGetClockInfo(h, 1), handle)
        yield "mem_mhz", self._maybe(lambda h: nvml.nvmlDeviceGetClockInfo(h, 2), handle)
        yield from self._traffic(handle)
        yield from self._activity(uuid, handle)
        yield "processes", self._processes(uuid, handle)

    def _traffic(self, handle: Any) -> Iterator[tuple[str, Any]]:
        """Bytes since the driver's start, over PCIe and over all NVLinks together.

        An H100's PCIe counters (driver 580) have 32 bits, which are full within a second: there the
        rate stands instead, of the 20 ms in which NVML looks.
        """
        fields = [(_PCIE_TX, 0), (_PCIE_RX, 0), (_NVLINK_TX, _ALL_LINKS), (_NVLINK_RX, _ALL_LINKS)]
        names = ("pcie_tx_bytes", "pcie_rx_bytes", "nvlink_tx_kib", "nvlink_rx_kib")
        values = self._maybe(lambda h: self.nvml.nvmlDeviceGetFieldValues(h, fields), handle) or ()
        for name, field in zip(names, values):
            if field.valueType != _32_BITS:
                yield name, _field_value(field)
        if any(field.valueType == _32_BITS for field in values[:2]):
            ask = self.nvml.nvmlDeviceGetPcieThroughput
            yield "pcie_tx_kb_s", self._maybe(lambda h: ask(h, 0), handle)
            yield "pcie_rx_kb_s", self._maybe(lambda h: ask(h, 1), handle)

    def _activity(self, uuid: str, handle: Any) -> Iterator[tuple[str, Any]]:
        """GPM metrics since the last call, percent: Hopper and newer."""
        nvml = self.nvml
        try:
            if (
                uuid not in self._gpm
                and not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice
            ):
                return
            now = nvml.nvmlGpmSampleAlloc()
            nvml.nvmlGpmSampleGet(handle, now)
            before, self._gpm[uuid] = self._gpm.get(uuid), now
            if before is None:
                return
            query = nvml.c_nvmlGpmMetricsGet_t()
            query.version, query.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(_GPM)
            query.sample1, query.sample2 = before, now
            for place, metric in enumerate(_GPM.values()):
                query.metrics[place].metricId = metric
            nvml.nvmlGpmMetricsGet(query)
            nvml.nvmlGpmSampleFree(before)
        except (nvml.NVMLError, AttributeError):
            return  # an older driver, or an older nvidia-ml-py
        for place, name in enumerate(_GPM):
            if query.metrics[place].nvmlReturn == 0:
                yield name, query.metrics[place].value

    def _processes(self, uuid: str, handle: Any) -> dict[str, dict[str, Any]] | None:
        """Pid to memory and to the mean of its utilisation samples since the last call."""
        nvml = self.nvml
        running = [
            self._maybe(ask, handle)
            for ask in (
                nvml.nvmlDeviceGetComputeRunningProcesses,
                nvml.nvmlDeviceGetGraphicsRunningProcesses,
            )
        ]
        if running[0] is None:
            return None
        figures: dict[str, dict[str, Any]] = {}
        for process in (*running[0], *(running[1] or ())):
            figures.setdefault(str(process.pid), {})["mem_bytes"] = process.usedGpuMemory
        for pid, shares in self._samples(uuid, handle).items():
            figures.setdefault(str(pid), {})["sm_util"] = sum(shares) / len(shares)
        return figures

    def _samples(self, uuid: str, handle: Any) -> dict[int, list[int]]:
        since = self._seen_us.get(uuid, 0)
        ask = self.nvml.nvmlDeviceGetProcessUtilization
        samples = self._maybe(lambda h: ask(h, since), handle) or ()
        shares: dict[int, list[int]] = {}
        for sample in samples:
            if sample.timeStamp > since and sample.smUtil <= 100:
                shares.setdefault(sample.pid, []).append(sample.smUtil)
                self._seen_us[uuid] = max(self._seen_us.get(uuid, 0), sample.timeStamp)
        return shares

    def _mig(self, handle: Any) -> bool:
        mode = self._maybe(self.nvml.nvmlDeviceGetMigMode, handle)
        return bool(mode and mode[0])

    def _maybe(self, ask: Callable[[Any], Any], handle: Any) -> Any:
        """An answer; None for what this GPU or driver does not know. Raises if it is gone."""
        try:
            return ask(handle)
        except self.nvml.NVMLError as error:
            if error.value in _LOST:
                raise
            return None


def _field_value(field: Any) -> int | None:
    """A field's value by its type; None if the GPU has no such field."""
    kinds = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal"}
    kind = kinds.get(field.valueType)
    return None if field.nvmlReturn != 0 or kind is None else int(getattr(field.value, kind))


def _text(value: Any) -> str:
    raw: str = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    return raw


def _library() -> Any:
    """nvidia-ml-py, also where the hooks' Python was started without its site-packages.

    Only its folders are added, nothing in them is run (no .pth file): the caller is root.
    """
    try:
        import pynvml
    except ImportError:
        import site

        head = os.path.dirname(os.path.dirname(sys.executable))
        own = os.path.exists(os.path.join(head, "pyvenv.cfg"))
        sys.path.extend(site.getsitepackages([head]) if own else site.getsitepackages())
        import pynvml
    return pynvml


def serve(asking: int, answering: int) -> None:
    """Answer questions until the pipe closes: `{"list": true}` or `{"read": [UUID, ...]}`."""
    import json
    import time

    with os.fdopen(asking, "rb") as questions, os.fdopen(answering, "wb") as answers:
        try:
            reader: NvmlReader | None = NvmlReader()
            reply: dict[str, Any] = {"ready": True}
        # Whatever is wrong with the driver or its library: the answer is that there is none.
        except Exception as error:
            reader, reply = None, {"failed": f"{type(error).__name__}: {error}"[:300]}
        while True:
            reply["cpu_s"] = time.process_time()
            answers.write(json.dumps(reply).encode() + b"\n")
            answers.flush()
            line = questions.readline()
            if not line or reader is None:
                return
            try:
                question = json.loads(line)
                reply = (
                    {"gpus": reader.listed()}
                    if "list" in question
                    else {"read": reader.read(question["read"])}
                )
            except Exception as error:
                reply = {"failed": f"{type(error).__name__}: {error}"[:300]}
