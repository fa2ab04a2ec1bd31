# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trains a model's weights so that with inputs left out it says what it said without: one training for
all sparsities. Gradients pass inputs that were left out as if they had not been (straight-through:
Bengio, Léonard, Courville, arXiv:1308.3432)."""
import contextlib
import os

import numpy
import torch
from elastic import texts, tool, write
from elastic.model import Model
from elastic.source import Source
from elastic.training import Training, get_divergence
from modelfile import blocks
from modelfile.head import UINT32, Keys
from progress import Progress

from . import calibrate, companion, shares

RATE = 3e-4
# Percent that windows have in turn: what hurts most comes most often, and the dense model stays what it is.
TRAINED = (70, 50, 30, 0, 80, 60, 70, 50)


def leave_out(values, kept):
    """The largest parts of each window's inputs stay, @kept: of each window. @values: [texts × positions ×
    inputs]."""
    n_values = values[0].numel()
    magnitudes = values.detach().abs().flatten(1)
    thresholds = [0.0 if part >= 1 else
                  magnitudes[i].kthvalue(min(n_values, 1 + round((1 - part) * n_values))).values.item()
                  for i, part in enumerate(kept)]
    limits = torch.tensor(thresholds)[:, None, None]
    return values + values.where(values.abs() >= limits, torch.zeros(())).sub(values).detach()


class Distillation:
    """@kept: of each of shares.SPARSITIES the parts of inputs that stay, by name of shares.INPUTS."""

    def __init__(self, source, kept, kinds, options, path):
        self.teacher, self.student = Model(source), Model(source)
        self.kept = {0: (1.0,) * len(shares.INPUTS), **dict(zip(shares.SPARSITIES, kept))}
        weights = [*self.student.others.values(),
                   *(tensor for layer in self.student.layers for tensor in layer.values())]
        for tensor in weights:
            tensor.requires_grad_(True)
        self.training = Training(weights, self.compute, kinds, RATE, options.batch, options.tokens,
                                 options.seed, path)

    def compute(self, batch):
        first = self.training.step * len(batch)
        percents = [TRAINED[i % len(TRAINED)] for i in range(first, first + len(batch))]

        def change(layer, name, values):
            at = shares.INPUTS.index(name)
            return leave_out(values, [self.kept[percent][at] for percent in percents])
        with torch.no_grad():
            whole = self.teacher.run(batch[:, :-1], self.teacher.cut())
        logits = self.student.run(batch[:, :-1], self.student.cut(), change=change)
        return get_divergence(logits, whole)

    def get(self, name):
        """The trained tensor."""
        parts = name.split(".", 2)
        own = self.student.layers[int(parts[1])][parts[2]] if parts[0] == "blk" else (
            self.student.others[name])
        return numpy.ascontiguousarray(own.detach().numpy())


def choose_kept(source, options):
    """As the model's companion has them, else found as llmsvc-active does."""
    begun = companion.open_for(source, tool.identify(options.tool, source.path))
    found = None if begun is None else begun.values.get(companion.PREFIX + "kept")
    if found is not None and len(found) == len(shares.SPARSITIES) * len(shares.INPUTS):
        return numpy.array(found).reshape(len(shares.SPARSITIES), -1).tolist()
    return calibrate.Calibration(source, options).choose(options)


def write_model(source, get, path, kind):
    """@get: a tensor by its name. @kind: of matrices, None for those of the source."""
    keys = Keys()
    changed = {"general.alignment", "general.file_type", "general.quantization_version"}
    keys.parts += [data for key, data in source.file.keys.items()
                   if key not in changed or (kind is None and key != "general.alignment")]
    if kind is not None:
        keys.add("general.file_type", UINT32, write.FILE_TYPES[kind])
        keys.add("general.quantization_version", UINT32, 2)
    tensors = []
    for name, own in source.file.tensors.items():
        own_kind = write.choose_type(source, name, kind)
        tensors.append(write.Made(name, own_kind, own.dims,
                                  lambda name=name, own_kind=own_kind: blocks.pack(own_kind, get(name))))
    write.write_file(path, keys, tensors)


def run(source, options, state):
    """Writes the model and its companion. Fails with GgufError."""
    torch.set_num_threads(options.threads or os.cpu_count())
    kinds = [torch.from_numpy(numpy.ascontiguousarray(kind.learned))
             for kind in texts.read(options, source, state.keep)]
    kept = state.keep("kept", lambda: {"kept": numpy.array(choose_kept(source, options))})["kept"].tolist()
    name = f"distilled-tokens-{options.tokens}-batch-{options.batch}-seed-{options.seed}.pt"
    one = Distillation(source, kept, kinds, options, state.get_path(name))
    one.training.run(Progress("distilling", one.training.n_steps, one.training.step).report)
    # of what the file was before: it would be refused
    with contextlib.suppress(FileNotFoundError):
        os.unlink(write.get_companion(options.out))
    write_model(source, one.get, options.out, options.type)
    options.model = options.out
    calibrate.run(Source(options.out), options)
