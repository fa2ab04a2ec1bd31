# SPDX-License-Identifier: LGPL-2.1-or-later
"""Adapters (LoRA) that win back of a level what it lost: trained on what the whole model says, or on
the next token; the weights themselves stay as they are. Each level has its own."""
import math
import os

import torch
from modelfile.partial import replacing
from torch.nn import functional

from . import texts
from .model import ADAPTED, Adapters, get_loss

ALPHA = 16.0
RATE = 2e-3
WARM_UP = 0.05
# Steps that are lost at most.
SAVE_EVERY = 50
WHOLE, NEXT = "whole", "next"


def make_halves(layers, rank, seed):
    """Of each layer by matrix: A, and B, which is 0 at first, so that training starts where the
    level is."""
    random = torch.Generator().manual_seed(seed)
    made = []
    for layer in layers:
        halves = {}
        for name in ADAPTED:
            n_out, n_in = layer.tensors[f"{name}.weight"].shape
            a = torch.randn(rank, n_in, generator=random) / math.sqrt(n_in)
            halves[name] = (a.requires_grad_(), torch.zeros(n_out, rank, requires_grad=True))
        made.append(halves)
    return made


def wrap(halves, rank):
    return [Adapters(one, ALPHA / rank) for one in halves]


def get_divergence(logits, whole):
    """Of what the whole model says of each next token (Kullback-Leibler), in nats: Hinton, Vinyals,
    Dean, arXiv:1503.02531."""
    known = functional.log_softmax(whole, -1).flatten(0, 1)
    return functional.kl_div(functional.log_softmax(logits, -1).flatten(0, 1), known,
                             reduction="batchmean", log_target=True)


class Trainer:
    """Goes on where a file that save() wrote left off. @kinds: of texts, [windows × tokens] each:
    a batch has as much of each."""

    def __init__(self, model, layers, kinds, options, seed, path):
        self.model, self.layers, self.kinds, self.path = model, layers, kinds, path
        self.rank, self.n_batch = options.rank, options.batch
        self.whole = model.cut() if options.learn == WHOLE else None
        self.halves = make_halves(layers, self.rank, seed)
        self.parameters = [half for one in self.halves for pair in one.values() for half in pair]
        self.optimizer = torch.optim.Adam(self.parameters, lr=RATE, betas=(0.9, 0.99))
        self.n_steps = max(1, options.tokens // (self.n_batch * (kinds[0].shape[1] - 1)))
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
        return RATE * min(1.0, (self.step + 1) / (WARM_UP * self.n_steps + 1)) * (
            0.55 + 0.45 * math.cos(math.pi * share))

    def take_batch(self):
        windows = []
        for i in range(self.step * self.n_batch, (self.step + 1) * self.n_batch):
            kind, at = texts.find(len(self.kinds), i)
            order = self.orders[kind]
            windows.append(self.kinds[kind][order[at % len(order)]])
        return torch.stack(windows)

    def get_loss(self, batch, logits):
        if self.whole is None:
            return get_loss(logits, batch[:, 1:])
        with torch.no_grad():
            whole = self.model.run(batch[:, :-1], self.whole)
        return get_divergence(logits, whole)

    def run(self, report):
        """Returns the halves."""
        while self.step < self.n_steps:
            batch = self.take_batch()
            for group in self.optimizer.param_groups:
                group["lr"] = self.find_rate()
            logits = self.model.run(batch[:, :-1], self.layers, wrap(self.halves, self.rank))
            loss = self.get_loss(batch, logits)
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
            self.optimizer.step()
            self.step += 1
            report(self.step, f", loss {loss.item():.3f}")
            if self.step % SAVE_EVERY == 0 or self.step == self.n_steps:
                self.save()
        return self.halves
