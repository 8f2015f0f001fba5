"""Kits whose `fit` is that of scikit-learn or Keras: `python -m ...kits.fitting NAME`."""

import time

import torch
from torch.utils.data import DataLoader

from contrib.bench.foreign.programs.data import Images, model
from contrib.bench.foreign.programs.kits import STEP_S, start
from contrib.bench.foreign.programs.truth import Truth, same_each_time


def skorch():
    from skorch import NeuralNetClassifier
    from skorch.callbacks import Callback

    same_each_time()
    truth = Truth()

    class Clock(Callback):
        def on_epoch_begin(self, *_args, **_named):
            truth.begin()

        def on_epoch_end(self, *_args, **_named):
            truth.end()

        def on_batch_end(self, _net, batch, training, loss, **_named):
            if training:
                truth.trained(len(batch[0]), loss.item())

    net = NeuralNetClassifier(
        model,
        criterion=torch.nn.CrossEntropyLoss,
        max_epochs=3,
        batch_size=16,
        iterator_train__shuffle=True,
        train_split=None,
        callbacks=[("clock", Clock())],
        callbacks__print_log=None,
        callbacks__train_loss=None,
    )
    net.fit(Images(), y=None)
    truth.tell()


def poutyne():
    """Keras's way for torch: `fit` with a validation loader and callbacks."""
    from poutyne import Callback, Model

    same_each_time()
    truth = Truth()

    class Clock(Callback):
        def on_epoch_begin(self, *_):
            truth.begin()

        def on_train_batch_end(self, _, logs):
            truth.trained(16, logs["loss"])
            time.sleep(STEP_S)
            if truth.steps % 20 == 0:
                truth.end()

    net = model()
    kit = Model(net, torch.optim.SGD(net.parameters(), 1e-3), "cross_entropy")
    kit.fit_generator(
        DataLoader(Images(320), batch_size=16, shuffle=True),
        DataLoader(Images(160), batch_size=16),
        epochs=3,
        callbacks=[Clock()],
        verbose=False,
    )
    truth.tell()


def tabnet():
    """A table in memory, `fit` with an evaluation set and patience."""
    import numpy as np
    from pytorch_tabnet.callbacks import Callback
    from pytorch_tabnet.tab_model import TabNetClassifier

    truth = Truth()

    class Clock(Callback):
        def on_epoch_begin(self, *_args, **_named):
            truth.begin()

        def on_batch_end(self, _, logs=None):
            truth.trained(64, logs["loss"])
            if truth.steps % 15 == 0:
                truth.end()

    x = np.sin(np.arange(960 * 12).reshape(960, 12)).astype("float32")
    y = (x.sum(1) > 0).astype(int)
    TabNetClassifier(verbose=0, seed=3, n_d=4, n_a=4).fit(
        x,
        y,
        eval_set=[(x[:200], y[:200])],
        max_epochs=25,
        patience=50,
        batch_size=64,
        virtual_batch_size=32,
        drop_last=False,
        callbacks=[Clock()],
    )
    truth.tell()


if __name__ == "__main__":
    start(globals())
