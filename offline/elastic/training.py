# SPDX-License-Identifier: LGPL-2.1-or-later
"""Training that goes on where a file left off: Adam, a rate that rises and falls, batches that have as
much of each kind of text."""
import math
import os

import torch
from modelfile.partial import replacing
from torch.nn import functional

from . import texts

WARM_UP = 0.05
# Steps that are lost at most.
SAVE_EVERY = 50


def get_divergence(logits, whole):
    """Of what the whole model says of each next token (Kullback-Leibler), in nats: Hinton, Vinyals,
    Dean, arXiv:1503.02531."""
    known = functional.log_softmax(whole, -1).flatten(0, 1)
    return functional.kl_div(functional.log_softmax(logits, -1).flatten(0, 1), known,
                             reduction="batchmean", log_target=True)


class Training:
    """@compute: the loss of a batch, [windows × tokens]. @kinds: of texts, likewise. @n_tokens: of all
    batches. @path: where it is kept."""

    def __init__(self, parameters, compute, kinds, rate, n_batch, n_tokens, seed, path):
        self.parameters, self.compute, self.kinds, self.path = parameters, compute, kinds, path
        self.rate, self.n_batch = rate, n_batch
        self.optimizer = torch.optim.Adam(parameters, lr=rate, betas=(0.9, 0.99))
        self.n_steps = max(1, n_tokens // (n_batch * (kinds[0].shape[1] - 1)))
        self.step = 0
        random = torch.Generator().manual_seed(seed)
        self.orders = [torch.randperm(len(windows), generator=random) for windows in kinds]
        if os.path.exists(path):
            self.load()

    def load(self):
        state = torch.load(self.path)
        with torch.no_grad():
            for mine, theirs in zip(self.parameters, state["parameters"]):
                mine.copy_(theirs)
        self.optimizer.load_state_dict(state["optimizer"])
        self.step = state["step"]

    def save(self):
        state = {"parameters": [one.detach() for one in self.parameters], "step": self.step,
                 "optimizer": self.optimizer.state_dict()}
        # its own way to write a file hides what went wrong
        with replacing(self.path) as partial, open(partial, "wb") as file:
            torch.save(state, file)

    def find_rate(self):
        """Rises at first, and falls to a tenth."""
        share = self.step / self.n_steps
        return self.rate * min(1.0, (self.step + 1) / (WARM_UP * self.n_steps + 1)) * (
            0.55 + 0.45 * math.cos(math.pi * share))

    def take_batch(self):
        windows = []
        for i in range(self.step * self.n_batch, (self.step + 1) * self.n_batch):
            kind, at = texts.find(len(self.kinds), i)
            order = self.orders[kind]
            windows.append(self.kinds[kind][order[at % len(order)]])
        return torch.stack(windows)

    def run(self, report):
        while self.step < self.n_steps:
            for group in self.optimizer.param_groups:
                group["lr"] = self.find_rate()
            loss = self.compute(self.take_batch())
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
            self.optimizer.step()
            self.step += 1
            report(self.step, f", loss {loss.item():.3f}")
            if self.step % SAVE_EVERY == 0 or self.step == self.n_steps:
                self.save()
