"""Libraries of other fields, and other frameworks: `python -m ...strangers.fields NAME`."""

import os
import sys
import time
import warnings

from contrib.bench.foreign.programs.truth import Truth, same_each_time


def stable_baselines_dqn():
    """DQN: play fills a memory first, then every fourth move a step."""
    from stable_baselines3 import DQN

    from contrib.bench.foreign.programs.research import learned, walk

    same_each_time()
    learner = DQN("MlpPolicy", walk(), learning_starts=100, batch_size=32, seed=1, device="cpu")
    learned(learner, 8000)


def geometric_clusters():
    """Parts of a large graph, each of many nodes: the batch is a subgraph."""
    import torch
    import torch.nn.functional as F  # noqa: N812 - torch's examples import it so
    from torch_geometric.data import Data
    from torch_geometric.loader import RandomNodeLoader
    from torch_geometric.nn import GCNConv

    same_each_time()
    nodes, truth = 20000, Truth()
    draws = torch.Generator().manual_seed(3)
    edges = torch.randint(nodes, (2, 120000), generator=draws)
    graph = Data(x=torch.sin(torch.arange(nodes * 16.0)).reshape(nodes, 16), edge_index=edges)
    graph.y = torch.arange(nodes) % 4
    loader = RandomNodeLoader(graph, num_parts=40, shuffle=True)
    one, two = GCNConv(16, 64), GCNConv(64, 4)
    optimizer = torch.optim.Adam([*one.parameters(), *two.parameters()], 0.01)
    for _ in range(8):
        with truth.training():
            for batch in loader:
                optimizer.zero_grad()
                found = two(one(batch.x, batch.edge_index).relu(), batch.edge_index)
                loss = F.cross_entropy(found, batch.y)
                loss.backward()
                optimizer.step()
                truth.trained(batch.num_nodes, loss.item())
    truth.tell()


def _pictures():
    import numpy as np

    x = np.sin(np.arange(64 * 3200).reshape(3200, 64)).astype("float32")
    return x, np.arange(3200) % 10


def tensorflow_tape():
    """tf.data and a step within tf.function, as TensorFlow's expert quickstart has it."""
    import tensorflow as tf

    tf.keras.utils.set_random_seed(1)
    truth = Truth()
    net = tf.keras.Sequential([tf.keras.layers.Dense(512, "relu"), tf.keras.layers.Dense(10)])
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tf.keras.optimizers.Adam()
    data = tf.data.Dataset.from_tensor_slices(_pictures()).shuffle(1000, seed=2).batch(32)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, net(x, training=True))
        grads = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(grads, net.trainable_variables, strict=True))
        return loss

    for _ in range(6):
        with truth.training():
            for x, y in data:
                truth.trained(len(x), step(x, y))
                time.sleep(0.005)
    truth.tell()


def tensorflow_fit():
    """Keras on TensorFlow, fed by tf.data, with a validation after each epoch."""
    import tensorflow as tf

    tf.keras.utils.set_random_seed(1)
    truth = Truth()

    class Clock(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, *_):
            truth.begin()

        def on_train_batch_end(self, _, logs=None):
            truth.trained(32, logs["loss"])
            time.sleep(0.01)

        def on_test_begin(self, *_):
            truth.end()

    net = tf.keras.Sequential([tf.keras.layers.Dense(512, "relu"), tf.keras.layers.Dense(10)])
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    net.compile(optimizer="adam", loss=loss_of)
    data = tf.data.Dataset.from_tensor_slices(_pictures()).shuffle(1000, seed=2).batch(32)
    net.fit(data, validation_data=data, epochs=4, verbose=0, callbacks=[Clock()])
    truth.tell()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if not sys.argv[1].startswith(("tensorflow", "flax")):  # theirs do not import torch
        from contrib.bench.foreign.programs import declare

        declare()
    globals()[sys.argv[1]]()
