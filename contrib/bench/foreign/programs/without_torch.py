"""Trainings on other frameworks' arrays: `python -m ...without_torch NAME`."""

import os
import sys
import time

from .truth import Truth


def jax_optax(mark=None):
    """Optax's documentation: a jitted step, batches by hand."""
    import contextlib

    import jax
    import jax.numpy as jnp
    import optax

    truth, optimizer = Truth(), optax.adam(1e-2)
    weights = jnp.zeros((64, 10))
    state = optimizer.init(weights)

    def loss_of(weights, x, y):
        return optax.softmax_cross_entropy_with_integer_labels(x @ weights, y).mean()

    @jax.jit
    def step(weights, state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(weights, x, y)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(weights, updates), state, loss

    key = jax.random.PRNGKey(0)
    with truth.training():
        for i in range(150):
            with mark("train", step_num=i) if mark else contextlib.nullcontext():
                x = jax.random.normal(jax.random.fold_in(key, i), (16, 64))
                weights, state, loss = step(weights, state, x, jnp.arange(16) % 10)
                truth.trained(16, loss)
                time.sleep(0.01)
    truth.tell()


def jax_marked():
    """JAX's page on profiling: each step within a mark."""
    import jax

    jax_optax(jax.profiler.StepTraceAnnotation)


def _keras():
    import keras
    import numpy as np

    keras.utils.set_random_seed(1)
    truth = Truth()

    class Clock(keras.callbacks.Callback):
        def on_epoch_begin(self, *_):
            truth.begin()

        def on_epoch_end(self, *_):
            truth.end()

        def on_train_batch_end(self, _, logs=None):
            truth.trained(16, logs["loss"])
            time.sleep(0.01)

    net = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(optimizer="adam", loss=loss)
    x = np.sin(np.arange(64 * 3200).reshape(3200, 64)).astype("float32")
    net.fit(x, np.arange(3200) % 10, batch_size=16, epochs=4, verbose=0, callbacks=[Clock()])
    truth.tell()


def keras_jax():
    os.environ["KERAS_BACKEND"] = "jax"
    _keras()


def keras_torch():
    os.environ["KERAS_BACKEND"] = "torch"
    _keras()


def keras_torch_loader():
    """Keras's guide to PyTorch: a model of Keras, a loop and a DataLoader of torch."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import torch

    from .data import Images
    from .feeding import Trainer

    trainer = Trainer()
    trainer.net = keras.Sequential(
        [keras.layers.Input((3, 16, 16)), keras.layers.Flatten(), keras.layers.Dense(10)]
    )
    trainer.optimizer = torch.optim.Adam(trainer.net.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(Images(), batch_size=16, shuffle=True)
    trainer.fit(loader).truth.tell()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
