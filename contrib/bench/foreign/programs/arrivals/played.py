"""Reinforcement learning, online and from a memory: `python -m ...arrivals.played NAME`."""

import time

import torch

from contrib.bench.foreign.programs.kits import STEP_S, start
from contrib.bench.foreign.programs.research import walk
from contrib.bench.foreign.programs.truth import Truth, same_each_time


def d3rlpy():
    """d3rlpy: DQN from a recorded memory, `fit` by steps."""
    import d3rlpy
    import numpy as np
    from d3rlpy.logging import NoopAdapterFactory

    same_each_time()
    d3rlpy.seed(1)
    truth = Truth()
    seen = np.sin(np.arange(4000).reshape(1000, 4)).astype("float32")
    ends = (np.arange(1000) % 50 == 49).astype("float32")
    memory = d3rlpy.dataset.MDPDataset(seen, np.arange(1000) % 2, seen[:, 0], ends)
    learner = d3rlpy.algos.DQNConfig(batch_size=32).create(device="cpu")
    learner.build_with_dataset(memory)

    def stepped(_, __, ___):
        truth.trained(32, 0.0)
        time.sleep(STEP_S)

    with truth.training():
        learner.fit(
            memory,
            n_steps=300,
            n_steps_per_epoch=100,
            logger_adapter=NoopAdapterFactory(),
            show_progress=False,
            callback=stepped,
        )
    truth.saw(float(next(iter(learner.impl.q_function.parameters())).sum()))
    truth.tell()


def tianshou():
    """Tianshou: DQN with a vectorised environment, collectors and a replay buffer."""
    from tianshou.algorithm import DQN
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OffPolicyTrainerParams
    from tianshou.utils.net.common import Net

    same_each_time()
    truth = Truth()
    world = walk()
    worlds = DummyVectorEnv([walk for _ in range(4)])
    worlds.seed(1)
    shape, actions = world.observation_space.shape, world.action_space.n
    net = Net(state_shape=shape, action_shape=actions, hidden_sizes=[32])

    class Counted(DQN):
        def _update_with_batch(self, batch):
            found = super()._update_with_batch(batch)
            truth.trained(len(batch), found.loss)
            time.sleep(STEP_S)
            return found

    policy = DiscreteQLearningPolicy(model=net, action_space=world.action_space, eps_training=0.1)
    learner = Counted(policy=policy, optim=AdamOptimizerFactory(lr=1e-3), target_update_freq=50)
    collector = Collector(learner, worlds, VectorReplayBuffer(2000, 4), exploration_noise=True)
    collector.reset()
    collector.collect(n_step=200)
    with truth.training():
        learner.run_training(
            OffPolicyTrainerParams(
                training_collector=collector,
                max_epochs=3,
                epoch_num_steps=800,
                collection_step_num_env_steps=8,
                update_step_num_gradient_steps_per_sample=0.125,
                batch_size=32,
                show_progress=False,
                verbose=False,
            )
        )
    truth.tell()


def torchrl():
    """TorchRL: a collector, a replay buffer sampled for each step, a soft target update."""
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

    same_each_time()
    truth = Truth()
    net = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    target = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    target.load_state_dict(net.state_dict())
    memory = TensorDictReplayBuffer(storage=LazyTensorStorage(5000), batch_size=64)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    with truth.training():
        for turn in range(60):
            seen = torch.sin(torch.arange(400.0).reshape(100, 4) * (turn + 1))
            with torch.no_grad():
                action = net(seen).argmax(1)
            time.sleep(STEP_S)
            rows = {"seen": seen, "action": action, "reward": seen[:, 0], "next": seen.roll(1, 0)}
            memory.extend(TensorDict(rows, batch_size=100))
            for _ in range(4):
                batch = memory.sample()
                with torch.no_grad():
                    wanted = batch["reward"] + 0.9 * target(batch["next"]).amax(1)
                found = net(batch["seen"]).gather(1, batch["action"][:, None])[:, 0]
                loss = torch.nn.functional.smooth_l1_loss(found, wanted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                truth.trained(64, loss.item())
                time.sleep(STEP_S / 2)
                for mine, theirs in zip(net.parameters(), target.parameters(), strict=True):
                    theirs.data.lerp_(mine.data, 0.01)
    truth.tell()


if __name__ == "__main__":
    start(globals())
