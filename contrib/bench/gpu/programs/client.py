"""A small CUDA program on libcuda alone: it starts in a moment, and can fault.

It prints {"ready", "codes", "start_s", "sms", "free_mib", "total_mib"} once it has a context (the
code of each call by name; `ready` is false where one failed, and `sms` is the number of
multiprocessors that it may use). For each line of stdin it prints {"codes"}: {"alloc_mib": N}
takes so much memory; {"fault": true} writes to address 0; {} only synchronises.
"""

import ctypes
import json
import sys
import time
from typing import Any

MULTIPROCESSORS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
NULL_WRITER = b""".version 6.0
.target sm_50
.address_size 64
.visible .entry null_writer()
{
    .reg .b64 %target;
    mov.b64 %target, 0;
    st.global.b32 [%target], 7;
    ret;
}
"""


class Cuda:
    """Calls into the driver, whose codes are kept."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.codes: dict[str, int] = {}

    def call(self, name: str, *arguments: Any) -> bool:
        """One call; True if it succeeded."""
        self.codes[name] = int(getattr(self._library, name)(*arguments))
        return self.codes[name] == 0

    def start(self) -> dict[str, Any]:
        """A context on the first device."""
        began = time.perf_counter()
        device, context, sms = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        by = ctypes.byref
        ready = (
            self.call("cuInit", 0)
            and self.call("cuDeviceGet", by(device), 0)
            and self.call("cuCtxCreate_v2", by(context), 0, device)
            and self.call("cuMemGetInfo_v2", by(free), by(total))
            and self.call("cuDeviceGetAttribute", by(sms), MULTIPROCESSORS, device)
        )
        return {
            "ready": ready,
            "codes": self.codes,
            "start_s": time.perf_counter() - began,
            "sms": sms.value,
            "free_mib": free.value >> 20,
            "total_mib": total.value >> 20,
        }

    def act(self, told: dict[str, Any]) -> dict[str, Any]:
        """One line of stdin."""
        self.codes = {}
        if told.get("alloc_mib"):
            memory = ctypes.c_uint64()
            size = ctypes.c_size_t(int(told["alloc_mib"]) << 20)
            self.call("cuMemAlloc_v2", ctypes.byref(memory), size)
        if told.get("fault"):
            self._fault()
        self.call("cuCtxSynchronize")
        return {"codes": self.codes}

    def _fault(self) -> None:
        module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        if self.call("cuModuleLoadData", ctypes.byref(module), NULL_WRITER) and self.call(
            "cuModuleGetFunction", ctypes.byref(kernel), module, b"null_writer"
        ):
            self.call("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)


def main() -> None:
    """Start, and do what each line says."""
    try:
        cuda = Cuda()
    except OSError as error:
        print(json.dumps({"ready": False, "codes": {}, "why": str(error)}), flush=True)
        return
    print(json.dumps(cuda.start()), flush=True)
    for line in sys.stdin:
        print(json.dumps(cuda.act(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
