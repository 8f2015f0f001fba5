"""Language models that feed themselves: `python -m ...language NAME`."""

import sys
import time

import torch
import torch.nn.functional as F  # noqa: N812 - torch's examples import it so

from .data import tokens
from .truth import Truth


class Small(torch.nn.Module):
    def __init__(self, vocabulary=64, width=48):
        super().__init__()
        self.words = torch.nn.Embedding(vocabulary, width)
        self.layers = torch.nn.LSTM(width, width, batch_first=True)
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, x):
        return self.head(self.layers(self.words(x))[0])


def word_language_model():
    """examples/word_language_model: batches cut from a tensor, parameters updated by hand."""
    torch.manual_seed(1111)
    net, truth, lr = Small(), Truth(), 0.5
    data = tokens().view(20, -1)
    for _ in range(2):
        with truth.training():
            for i in range(0, data.size(1) - 1, 16):
                x, y = data[:, i : i + 16], data[:, i + 1 : i + 17]
                net.zero_grad()
                loss = F.cross_entropy(net(x[:, : y.size(1)]).flatten(0, 1), y.flatten())
                loss.backward()
                torch.nn.utils.clip_grad_norm_(net.parameters(), 0.25)
                for p in net.parameters():
                    p.data.add_(p.grad, alpha=-lr)
                truth.trained(len(x), loss.item())
                time.sleep(0.01)
    truth.tell()


def nanogpt():
    """nanoGPT: get_batch, AdamW, micro-steps."""
    torch.manual_seed(1337)
    net, truth, data = Small(), Truth(), tokens()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.9, 0.95))

    def get_batch():
        ix = torch.randint(len(data) - 33, (12,))
        x = torch.stack([data[i : i + 32] for i in ix])
        return x, torch.stack([data[i + 1 : i + 33] for i in ix])

    with truth.training():
        x, y = get_batch()
        for _ in range(120):
            for _ in range(2):
                loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten()) / 2
                x, y = get_batch()
                loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            truth.trained(24, loss.item())
            time.sleep(0.005)
    truth.tell()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
