# SPDX-License-Identifier: LGPL-2.1-or-later
"""Adapters (LoRA) that win back of a level what it lost: trained on what the whole model says, or on
the next token; the weights themselves stay as they are. Each level has its own."""
import math

import torch

from .model import ADAPTED, Adapters, get_loss
from .training import Training, get_divergence

ALPHA = 16.0
RATE = 2e-3
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


class Trainer(Training):
    """Of the adapters of one level. @kinds: of texts, [windows × tokens] each."""

    def __init__(self, model, layers, kinds, options, seed, path):
        self.model, self.layers, self.rank = model, layers, options.rank
        self.whole = model.cut() if options.learn == WHOLE else None
        self.halves = make_halves(layers, self.rank, seed)
        super().__init__([half for one in self.halves for pair in one.values() for half in pair],
                         self.get_loss, kinds, RATE, options.batch, options.tokens, seed, path)

    def get_loss(self, batch):
        logits = self.model.run(batch[:, :-1], self.layers, wrap(self.halves, self.rank))
        if self.whole is None:
            return get_loss(logits, batch[:, 1:])
        with torch.no_grad():
            whole = self.model.run(batch[:, :-1], self.whole)
        return get_divergence(logits, whole)

    def run(self, report):
        """Returns the halves."""
        super().run(report)
        return self.halves
