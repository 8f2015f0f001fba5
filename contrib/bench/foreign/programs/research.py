"""Libraries of several fields, as their tutorials use them: `python -m ...research NAME`."""

import sys
import warnings

import torch
from torch.utils.data import DataLoader, TensorDataset

from . import declare
from .data import Images, model
from .truth import Truth, same_each_time


def pyro():
    """Stochastic variational inference: `SVI.step` and an optimiser for each parameter."""
    import pyro
    import pyro.distributions as dist
    from pyro.infer import SVI, Trace_ELBO
    from pyro.infer.autoguide import AutoDiagonalNormal
    from pyro.nn import PyroModule, PyroSample

    class Regression(PyroModule):
        def __init__(self):
            super().__init__()
            self.net = PyroModule[torch.nn.Linear](768, 1)
            self.net.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 768]).to_event(2))

        def forward(self, x, y=None):
            mean = self.net(x.flatten(1)).squeeze(-1)
            with pyro.plate("data", len(x)):
                return pyro.sample("y", dist.Normal(mean, 1.0), obs=y)

    pyro.clear_param_store()
    net, truth = Regression(), Truth()
    svi = SVI(net, AutoDiagonalNormal(net), pyro.optim.Adam({"lr": 1e-3}), loss=Trace_ELBO())
    loader = DataLoader(Images(), batch_size=16, shuffle=True)
    for _ in range(3):
        with truth.training():
            for x, y in loader:
                truth.trained(len(x), svi.step(x, y.float()))
    truth.tell()


def gpytorch():
    """A stochastic variational Gaussian process, by minibatches."""
    import gpytorch
    from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

    class Process(gpytorch.models.ApproximateGP):
        def __init__(self, points):
            spread = CholeskyVariationalDistribution(points.size(0))
            super().__init__(VariationalStrategy(self, points, spread))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    x = torch.linspace(0, 1, 2000).unsqueeze(-1).repeat(1, 3)
    y, truth = torch.sin(x[:, 0] * 6), Truth()
    net, likelihood = Process(x[:32]), gpytorch.likelihoods.GaussianLikelihood()
    optimizer = torch.optim.Adam([*net.parameters(), *likelihood.parameters()], lr=0.01)
    objective = gpytorch.mlls.VariationalELBO(likelihood, net, num_data=len(y))
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
    for _ in range(3):
        with truth.training():
            for some, wanted in loader:
                optimizer.zero_grad()
                loss = -objective(net(some), wanted)
                loss.backward()
                optimizer.step()
                truth.trained(len(some), loss.item())
    truth.tell()


def metric_learning():
    """Triplets mined within each batch; a sampler that takes four of each class."""
    from pytorch_metric_learning import losses, miners, samplers

    data = Images()
    labels = [index % data.classes for index in range(len(data))]
    sampler = samplers.MPerClassSampler(labels, m=4, length_before_new_iter=len(labels))
    loader = DataLoader(data, batch_size=40, sampler=sampler, drop_last=True)
    net, truth = model(16), Truth()
    mine, objective = miners.MultiSimilarityMiner(), losses.TripletMarginLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for _ in range(4):
        with truth.training():
            for x, y in loader:
                optimizer.zero_grad()
                found = net(x)
                loss = objective(found, y, mine(found, y))
                loss.backward()
                optimizer.step()
                truth.trained(len(x), loss.item())
    truth.tell()


def walk():
    """A game on a line, of 20 moves."""
    import gymnasium
    import numpy as np

    class Walk(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-20, 20, (2,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, **_):
            self.place, self.time = 0, 0
            return np.zeros(2, np.float32), {}

        def step(self, action):
            self.place, self.time = self.place + (1 if action else -1), self.time + 1
            seen = np.array([self.place, self.time / 20], np.float32)
            return seen, float(self.place), self.time >= 20, False, {}

    return Walk()


def learned(learner, moves):
    """Learn from so many moves, with a clock of its own on the optimiser's steps."""
    from stable_baselines3.common.callbacks import BaseCallback

    truth = Truth()

    class Clock(BaseCallback):
        def _on_step(self):
            return True

        def _on_training_start(self):
            truth.begin()

        def _on_training_end(self):
            truth.end()

    step = learner.policy.optimizer.step

    def counted(*args, **named):
        step(*args, **named)
        truth.trained(32, sum(float(p.sum()) for p in learner.policy.parameters()))

    learner.policy.optimizer.step = counted
    learner.learn(moves, callback=Clock())
    truth.tell()


def stable_baselines():
    """PPO on an environment of its own: no loader, many steps for each stretch of play."""
    from stable_baselines3 import PPO

    learner = PPO("MlpPolicy", walk(), n_steps=256, batch_size=32, n_epochs=4, seed=1, device="cpu")
    learned(learner, 8192)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    declare()
    same_each_time()
    globals()[sys.argv[1]]()
