"""Training programs, each as its library's documentation has it; `truth` counts along."""

import contextlib

_POOLS = ("roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool", "deform_conv2d")
_NAMES = ("nms", "qnms", "qroi_align", *_POOLS, *(f"_{name}_backward" for name in _POOLS))


def declare():
    """Name torchvision's operators, where its binary is made for another build of torch.

    Many libraries import it, and it asks for them; none is called here.
    """
    import torch

    with contextlib.suppress(ImportError):
        try:
            import torchvision  # noqa: F401 - it is asked whether it works
        except RuntimeError:
            for name in _NAMES:
                torch.library.define(f"torchvision::{name}", "(Tensor a) -> Tensor")
