"""JAX's libraries and Keras 3: `python -m ...newcomers.functional NAME`."""

import os
import sys
import time
import warnings

import numpy as np

from contrib.bench.foreign.programs.truth import Truth

STEP_S = 0.006


def _rows(count=1600):
    return np.sin(np.arange(count * 64).reshape(count, 64)).astype("float32"), np.arange(count) % 10


def _keras(kind):
    """A model whose `train_step` is the program's own, as Keras's guide for this backend has it."""
    import keras

    keras.utils.set_random_seed(1)
    truth = Truth()

    class Clock(keras.callbacks.Callback):
        def on_epoch_begin(self, *_):
            truth.begin()

        def on_train_batch_end(self, _, logs=None):
            truth.trained(32, logs["loss"])
            time.sleep(STEP_S)

        def on_epoch_end(self, *_):
            truth.end()

    entrance = keras.Input((64,))
    held = keras.layers.Dense(256, "relu")(entrance)
    net = kind()(entrance, keras.layers.Dense(10)(held))
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(optimizer="adam", loss=loss_of, jit_compile=False)

    class Rows(keras.utils.PyDataset):
        def __len__(self):
            return 50

        def __getitem__(self, number):
            time.sleep(STEP_S)
            return tuple(one[number * 32 : number * 32 + 32] for one in _rows())

    net.fit(Rows(), epochs=5, verbose=0, callbacks=[Clock()])
    truth.tell()


def keras_train_step():
    """On torch: zero_grad, backward, `optimizer.apply` by hand within `train_step`."""
    os.environ["KERAS_BACKEND"] = "torch"

    def kind():
        import keras
        import torch

        class Own(keras.Model):
            def train_step(self, data):
                x, y = data
                self.zero_grad()
                loss = self.compute_loss(y=y, y_pred=self(x, training=True))
                loss.backward()
                weights = list(self.trainable_weights)
                with torch.no_grad():
                    self.optimizer.apply([one.value.grad for one in weights], weights)
                return {"loss": loss}

        return Own

    _keras(kind)


def keras_by_hand():
    """On torch: the guide's loop from scratch, a torch loader, Keras's optimiser."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import torch

    keras.utils.set_random_seed(1)
    truth = Truth()
    x, y = _rows()
    rows = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    loader = torch.utils.data.DataLoader(rows, batch_size=32, shuffle=True)
    net = keras.Sequential([keras.layers.Dense(128, "relu"), keras.layers.Dense(10)])
    optimizer = keras.optimizers.Adam(1e-3)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for _ in range(4):
        with truth.training():
            for x, y in loader:
                loss = loss_of(y, net(x, training=True))
                net.zero_grad()
                loss.backward()
                with torch.no_grad():
                    weights = net.trainable_weights
                    optimizer.apply([one.value.grad for one in weights], weights)
                truth.trained(len(x), loss.item())
                time.sleep(STEP_S)
    truth.tell()


def _jax(made):
    """A loop over batches of arrays; `made` returns a step that keeps its own state."""
    truth, step = Truth(), made()
    x, y = _rows()
    for epoch in range(5):
        order = np.random.default_rng(epoch).permutation(len(x))
        with truth.training():
            for first in range(0, len(x), 32):
                part = order[first : first + 32]
                truth.trained(32, step(x[part], y[part]))
                time.sleep(STEP_S)
    truth.tell()


def flax_nnx():
    """nnx.Optimizer and nnx.jit, as Flax's basics have it."""
    import optax
    from flax import nnx

    def made():
        class Net(nnx.Module):
            def __init__(self, rngs):
                self.one, self.two = nnx.Linear(64, 128, rngs=rngs), nnx.Linear(128, 10, rngs=rngs)

            def __call__(self, x):
                return self.two(nnx.relu(self.one(x)))

        net = Net(nnx.Rngs(0))
        optimizer = nnx.Optimizer(net, optax.adam(1e-3), wrt=nnx.Param)

        @nnx.jit
        def step(net, optimizer, x, y):
            def loss_of(net):
                return optax.softmax_cross_entropy_with_integer_labels(net(x), y).mean()

            loss, grads = nnx.value_and_grad(loss_of)(net)
            optimizer.update(net, grads)
            return loss

        return lambda x, y: step(net, optimizer, x, y)

    _jax(made)


def flax_train_state():
    """flax.training's TrainState, `apply_gradients` within jax.jit, as its examples have it."""
    import jax
    import optax
    from flax import linen
    from flax.training.train_state import TrainState

    def made():
        net = linen.Sequential([linen.Dense(128), linen.relu, linen.Dense(10)])
        kept = net.init(jax.random.key(0), np.zeros((1, 64), "float32"))["params"]
        state = TrainState.create(apply_fn=net.apply, params=kept, tx=optax.adam(1e-3))

        @jax.jit
        def train_step(state, x, y):
            def loss_of(params):
                found = state.apply_fn({"params": params}, x)
                return optax.softmax_cross_entropy_with_integer_labels(found, y).mean()

            loss, grads = jax.value_and_grad(loss_of)(state.params)
            return state.apply_gradients(grads=grads), loss

        def step(x, y):
            nonlocal state
            state, loss = train_step(state, x, y)
            return loss

        return step

    _jax(made)


def equinox():
    """eqx.filter_jit around filter_value_and_grad and optax."""
    import equinox as eqx
    import jax
    import optax

    def made():
        net = eqx.nn.MLP(64, 10, 128, 1, key=jax.random.key(0))
        solver = optax.adam(1e-3)
        kept = solver.init(eqx.filter(net, eqx.is_array))

        @eqx.filter_jit
        def make_step(net, kept, x, y):
            def loss_of(net):
                found = jax.vmap(net)(x)
                return optax.softmax_cross_entropy_with_integer_labels(found, y).mean()

            loss, grads = eqx.filter_value_and_grad(loss_of)(net)
            updates, kept = solver.update(grads, kept)
            return eqx.apply_updates(net, updates), kept, loss

        def step(x, y):
            nonlocal net, kept
            net, kept, loss = make_step(net, kept, x, y)
            return loss

        return step

    _jax(made)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    globals()[sys.argv[1]]()
