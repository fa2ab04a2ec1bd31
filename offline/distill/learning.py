# SPDX-License-Identifier: LGPL-2.1-or-later
"""The draft learns what the target would have given: the Kullback–Leibler divergence of the target's
distributions from the draft's, over the tokens that were kept of each and all others as one."""
import math
import zipfile

import numpy
import torch
from modelfile.arrays import save as save_arrays

from . import llama
from .folder import FolderError
from .options import BATCH

WARMUP = 50          # Steps, the same in every run, also in one that goes on.
DECAY = 0.3          # The part of the steps, the last one, in which the rate falls to 0.
BETAS = (0.9, 0.98)
LEAST = 1e-6         # Of a chance: what is below costs no more.


def cut_answers(begins, lengths, at):
    """Blocks for answers that stand one behind the other from row @at on: each sees the text up to
    where it begins, and itself."""
    answers = [(begin, length) for begin, length in zip(begins, lengths) if length > 0]
    while answers:
        n, total = 0, 0
        while n < len(answers) and (n == 0 or total + answers[n][1] <= llama.N_BLOCK):
            total += answers[n][1]
            n += 1
        some, answers = answers[:n], answers[n:]
        n_seen = max(begin for begin, _ in some)
        mask, row = torch.full((total, n_seen + total), -torch.inf), 0
        for begin, length in some:
            mask[row:row + length, :begin] = 0
            mask[row:row + length, n_seen + row:n_seen + row + length].triu_(1)
            row += length
        yield llama.Block(at, at + total, n_seen, mask)
        at += total


class Rows:
    """An Answers as what a model is run on."""

    def __init__(self, answers):
        n_text = int(answers.n_text[0])
        lengths, begins = answers.lengths.tolist(), answers.begins.tolist()
        self.tokens = torch.from_numpy(answers.tokens.astype("int64"))
        self.positions = torch.cat([torch.arange(n_text)] + [
            torch.arange(begin, begin + length) for begin, length in zip(begins, lengths)])
        self.blocks = [*llama.cut_text(n_text), *cut_answers(begins, lengths, n_text)]
        self.learned = torch.from_numpy(answers.learned.astype("int64"))
        self.ids = torch.from_numpy(answers.ids.astype("int64"))
        self.chances = torch.from_numpy(answers.chances.astype("float32"))


def compare(model, rows):
    """Of each learned row: its divergence, and whether both find the same token likeliest."""
    hidden = model.run(rows.tokens, rows.positions, model.attend(rows.blocks))[rows.learned]
    logits = model.get_logits(hidden)
    found = torch.log_softmax(logits, -1).gather(-1, rows.ids)
    rest = (1 - rows.chances.sum(-1)).clamp_min(LEAST)
    found_rest = (1 - found.exp().sum(-1)).clamp_min(LEAST)
    chances = rows.chances.clamp_min(LEAST)
    losses = (chances * (chances.log() - found)).sum(-1) + rest * (rest.log() - found_rest.log())
    return losses, logits.detach().argmax(-1) == rows.ids[:, 0]


def judge(model, documents):
    """Mean divergence, and the part of rows in which both find the same token likeliest."""
    with torch.inference_mode():
        parts = [compare(model, Rows(answers)) for answers in documents]
    losses, same = (torch.cat(part) for part in zip(*parts))
    return losses.mean().item(), same.float().mean().item()


def get_rate(step, n_steps):
    """The part of the full learning rate: constant, then down to 0, so that more steps can go on
    from where that begins."""
    return min(1, (n_steps - step) / (DECAY * n_steps))


def get_steady(n_steps):
    """Steps with the full rate."""
    return math.floor(n_steps * (1 - DECAY))


class Course:
    """A model in training: its weights change in place."""

    def __init__(self, model, rate, seed):
        self.model, self.rate, self.seed, self.step = model, rate, seed, 0
        self.parameters = list(model.weights.values())
        for parameter in self.parameters:
            parameter.requires_grad_(True)
        matrices = [parameter for parameter in self.parameters if parameter.dim() > 1]
        vectors = [parameter for parameter in self.parameters if parameter.dim() == 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}],
            lr=rate, betas=BETAS)

    def save(self, path):
        arrays = {"step": self.step}
        for name, parameter in self.model.weights.items():
            state = self.optimizer.state[parameter]
            arrays |= {f"weights.{name}": parameter.detach().numpy(),
                       f"mean.{name}": state["exp_avg"].numpy(),
                       f"square.{name}": state["exp_avg_sq"].numpy()}
        save_arrays(path, arrays)

    def load(self, path, n_most):
        """False if it is of more steps than @n_most."""
        try:
            with numpy.load(path) as arrays:
                step = int(arrays["step"])
                if step > n_most:
                    return False
                for name, parameter in self.model.weights.items():
                    weights, mean, square = (torch.from_numpy(arrays[f"{part}.{name}"]).view_as(
                        parameter) for part in ("weights", "mean", "square"))
                    parameter.data.copy_(weights)
                    self.optimizer.state[parameter] = {"step": torch.tensor(float(step)),
                                                       "exp_avg": mean, "exp_avg_sq": square}
        except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile) as error:
            raise FolderError(f"{path} is damaged; remove it, its steps are taken again") from error
        self.step = step
        return True

    def choose(self, n_documents):
        """The documents of this step: each once in a round, in another order every round."""
        begin = self.step * BATCH
        chosen = []
        for i in range(begin, begin + BATCH):
            order = torch.Generator().manual_seed(self.seed + i // n_documents)
            chosen.append(torch.randperm(n_documents, generator=order)[i % n_documents].item())
        return chosen

    def advance(self, documents, n_steps):
        """One step; returns its mean divergence."""
        rate = self.rate * min(get_rate(self.step, n_steps), (self.step + 1) / WARMUP)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        chosen = [Rows(documents[i]) for i in self.choose(len(documents))]
        n_rows, total = sum(len(rows.learned) for rows in chosen), 0.0
        for rows in chosen:
            loss = compare(self.model, rows)[0].sum() / n_rows
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        return total
