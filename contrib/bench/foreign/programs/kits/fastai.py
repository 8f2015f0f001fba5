"""fastai's Learner: `python -m ...kits.fastai NAME`."""

import time

import torch

from contrib.bench.foreign.programs.data import Images, model
from contrib.bench.foreign.programs.kits import STEP_S, start
from contrib.bench.foreign.programs.truth import Truth, same_each_time


def _fit(train, check, ways, callbacks=(), step_s=0.0):
    """Three epochs by a Learner's `ways`."""
    import fastai.callback.progress  # noqa: F401 - it gives a Learner no_bar
    from fastai.basics import Callback, DataLoaders, Learner

    same_each_time()
    truth = Truth()

    class Clock(Callback):
        def before_train(self):
            truth.begin()

        def after_train(self):
            truth.end()

        def after_batch(self):
            if self.training:
                truth.trained(len(self.xb[0]), self.loss.item())
                time.sleep(step_s)

    dls = DataLoaders.from_dsets(Images(train), Images(check), bs=16, num_workers=0, device="cpu")
    loss_func = torch.nn.CrossEntropyLoss()
    learner = Learner(dls, model(), loss_func=loss_func, cbs=[Clock(), *callbacks])
    with learner.no_bar(), learner.no_logging():
        getattr(learner, ways)(3, 1e-3)
    truth.tell()


def plain():
    _fit(400, 100, "fit")


def one_cycle():
    """One cycle of rates, gradients accumulated over two batches."""
    from fastai.callback.schedule import Learner as _  # noqa: F401 - it gives fit_one_cycle
    from fastai.callback.training import GradientAccumulation

    _fit(320, 160, "fit_one_cycle", [GradientAccumulation(32)], STEP_S)


if __name__ == "__main__":
    start(globals())
