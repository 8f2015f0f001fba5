"""Starts a program of these tests after torch, at which Python's garbage collector does not look.

`python -m tests.probe.quickly MODULE WORD...` is `python -m MODULE WORD...` at half of the cost:
the collector walks through torch's modules while they come and, twice, when Python ends. The probe
finds torch as where a program imports it first; what is made later is collected as ever.
"""

import gc
import runpy
import sys

gc.disable()
import torch  # noqa: E402, F401 - the imports that are to be quick

gc.freeze()
gc.enable()

if __name__ == "__main__":
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
