"""Torch's own buckets, for a module that was constructed with others and had no pass yet."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Tuple

Registered = Tuple[Callable[..., Any], Any, Any]  # a communication hook: by what, and with what
_CAP_BYTES = 25 << 20  # torch's, but for the first bucket


def restore(module: Any, hooks: Iterable[Registered]) -> None:
    """Build the reducer again with those sizes, and register its hooks.

    The way is that of torch for a copy of the module (`__setstate__`).
    """
    _forget_caps(module)
    if hasattr(module, "_comm_hooks"):
        module._comm_hooks = []
    parameters, sparse = module._build_params_for_reducer()
    names = module._build_debug_param_to_name_mapping(parameters)
    module._ddp_init_helper(parameters, sparse, names, module.static_graph)
    if module.static_graph:
        module.reducer._set_static_graph()
        module.logger._set_static_graph()
    for register, args, options in hooks:
        register(module, *args, **options)


def _forget_caps(module: Any) -> None:
    """Caps of a module that was given none: torch 2.13 keeps them in an object, too."""
    config = getattr(module, "_bucket_config", None)
    if config is not None:
        module._bucket_config = type(config).create(None, None, False)
    own = {
        "bucket_bytes_cap": _CAP_BYTES,
        "bucket_bytes_cap_default": True,
        "bucket_bytes_cap_list": [],
    }
    for name, value in own.items():
        if hasattr(module, name):
            setattr(module, name, value)
