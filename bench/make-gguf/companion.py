# SPDX-License-Identifier: LGPL-2.1-or-later
"""The file beside a model that holds what was prepared for it (NAME.llmsvc.gguf), for the widened
model: adapters are widened as the matrices are that they belong to. What else such a file may hold
is refused, as leaving it out would change what the widened model does."""
import os

from modelfile import blocks
from modelfile.head import Keys
from modelfile.reader import Gguf, GgufError

from .widen import Made

SUFFIX = ".llmsvc.gguf"
HALVES = (".lora_a", ".lora_b")
KEYS = ("general.", "adapter.")


def get_path(model):
    return model.removesuffix(".gguf") + SUFFIX


def find(model):
    """That of the model's file @model, None where there is none."""
    return Gguf(get_path(model)) if os.path.exists(get_path(model)) else None


class Companion:
    """Fails with GgufError. @file: a Gguf. @plan: of the model that it lies beside."""

    def __init__(self, file, plan):
        self.file, self.plan = file, plan
        for key in file.keys:
            if not key.startswith(KEYS):
                raise GgufError(f"{file.path}: no rule how {key} is widened")
        if file.values.get("adapter.type") != "lora":
            raise GgufError(f"{file.path}: only adapters of type lora can be widened")
        for name in file.tensors:
            self.check(name)

    def check(self, name):
        base, half = name[:-7], name[-7:]
        if (half not in HALVES or base not in self.plan.model.tensors or
                not self.plan.is_matrix(base)):
            raise GgufError(f"{self.file.path}: no rule how the tensor {name} is widened")
        n_in, n_out = self.plan.model.tensors[base].dims
        rank = self.file.tensors[name].dims[-1 if half == HALVES[0] else 0]
        self.file.check(name, *((n_in, rank) if half == HALVES[0] else (rank, n_out)))

    def make_tensors(self):
        for name, tensor in self.file.tensors.items():
            base, half = name[:-7], name[-7:]
            read, written = self.plan.find_axes(base)
            dims = (len(read), tensor.dims[1]) if half == HALVES[0] else (
                tensor.dims[0], tensor.dims[1] if written is None else len(written))
            yield Made(self.plan.rename(base) + half, tensor.type, dims, self.plan.seed(name),
                       self.make_half(name, tensor.type, base, half))

    def make_half(self, name, kind, base, half):
        def make(begin, end, seed):
            read, written = self.plan.find_axes(base)
            rows = self.file.read(name)
            if half == HALVES[0]:
                rows = read.read(rows[begin:end], seed)
            else:
                rows = rows[begin:end] if written is None else written.write(rows, begin, end)
            return blocks.pack(kind, rows)
        return make

    def make_keys(self):
        keys = Keys()
        keys.parts += self.file.keys.values()
        return keys
