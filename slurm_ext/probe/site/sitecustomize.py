"""Waits, in every Python process of a job, for modules that train; costs microseconds otherwise.

Then makes way for the sitecustomize that Python would have found without this one, so that
Debian's, conda's or the user's own does exactly what it always did, its errors included.

Its types stand in comments, because a Python 2 reads this file too, and would say that it cannot.
"""

import os
import sys

TYPE_CHECKING = False  # not imported: neither typing nor __future__ is loaded in every process
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - in comments

_HERE = os.path.dirname(os.path.abspath(__file__))
# Module, and what the probe does with it once it is there.
_AWAITED = {
    "torch.utils.data.dataloader": "attach",
    "torch.optim.optimizer": "listen",
    "torch.autograd": "differentiate",
    "torch.nn.modules.module": "follow_modes",
    "torch.nn.parallel.distributed": "synchronise",
    "torch.distributed.fsdp.fully_sharded_data_parallel": "shard",
    "torch.distributed.fsdp._fully_shard._fsdp_param_group": "shard",  # 2.6 and newer
    "torch.distributed._composable.fsdp._fsdp_param_group": "shard",  # older
    "keras.src.callbacks.callback_list": "follow",  # 3
    "keras.src.callbacks": "follow",  # 2.13 and newer
    "keras.callbacks": "follow",  # older
    "tf_keras.src.callbacks": "follow",
    "keras.src.optimizers.base_optimizer": "apply",
    "tensorflow.python.eager.polymorphic_function.polymorphic_function": "call",
    "jax._src.profiler": "annotate",
    "jax": "note",
    "tensorflow": "note",
}


class _Finder:
    """Sees the imports that matter, and lets everybody else's finders do them."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):  # type: (str, Any, Any) -> Any
        act = _AWAITED.pop(name, None)
        if act is None:
            return None
        if not _AWAITED:
            sys.meta_path.remove(cls)
        for finder in [other for other in sys.meta_path if other is not cls]:
            look = getattr(finder, "find_spec", None)  # old ones lack it
            spec = look(name, path, target) if look else None
            if spec is not None:
                break
        else:
            return None
        try:  # noqa: SIM105 - contextlib would cost every process of the job
            _after_import(spec.loader, act)
        except Exception:  # noqa: S110 - the job goes on whatever happens to the probe
            pass
        return spec


def _after_import(loader, act):  # type: (Any, str) -> None
    execute = loader.exec_module

    def exec_module(module):  # type: (Any) -> None
        execute(module)
        try:  # noqa: SIM105 - as above
            getattr(_probe(), act)(module)
        except Exception:  # noqa: S110 - as above
            pass
        if os.environ.get("DLQUEUE_PROFILE"):
            _profile(module)

    loader.exec_module = exec_module


def _profile(module):  # type: (Any) -> None
    """Windows of `dlqueue profile`; what keeps them out ends the run, for it must not save."""
    import importlib

    _probe()
    importlib.import_module("_dlqueue_probe.windows.entry").enter(module)


def _probe():  # type: () -> Any
    """The probe's package, under a name that no job imports and without touching sys.path."""
    import importlib
    import importlib.util

    if "_dlqueue_probe.attach" in sys.modules:
        return sys.modules["_dlqueue_probe.attach"]
    folder = os.path.dirname(_HERE)
    spec = importlib.util.spec_from_file_location(  # type: Any
        "_dlqueue_probe", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    package = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = package
    spec.loader.exec_module(package)
    return importlib.import_module("_dlqueue_probe.attach")


if os.environ.get("DLQUEUE_RUN_DIR") and sys.version_info >= (3,):
    sys.meta_path.insert(0, _Finder)
# What follows is as if this folder had never been on the path: Python's site module handles a
# missing sitecustomize, and reports a failing one, in its own way.
sys.path[:] = [entry for entry in sys.path if entry != _HERE]
sys.path_importer_cache.pop(_HERE, None)
del sys.modules["sitecustomize"]
__import__("sitecustomize")
