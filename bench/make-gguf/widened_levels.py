# SPDX-License-Identifier: LGPL-2.1-or-later
"""The companion with sub-models of a prepared model, for the widened model: as copies lie side by side, in
the order of what they are copies of, a prefix of one is a prefix of the other, but for a few copies of
the next neuron, as far as the next border. What else the companion holds is of the model's own weights, and
is left out."""
import bisect

import numpy

from elastic import tool, write
from elastic.source import SEGMENT_INPUTS, Source
from elastic.table import Table
from modelfile.reader import GgufError

from .axis import Axis

READ, WRITTEN = ".lora_a", ".lora_b"
# Axes that a level cuts.
CUT = {"attention", "queries", "gates", "neurons"}


def cut_axis(whole, n):
    return Axis(whole.source[:n], whole.gain[:n])


def fill_up(rows, n):
    """@rows and rows of zeros, @n in all: what a level has no more of adds nothing."""
    return numpy.pad(rows, ((0, n - len(rows)), (0, 0)))


class Widened:
    """@file: a Gguf, the companion. @plan: of the model that it lies beside. @path: the widened model, which
    is written."""

    def __init__(self, file, plan, path):
        self.file, self.plan = file, plan
        self.made = Source(path)
        levels = [int(percent) for percent in file.get_numbers("llmsvc.levels.percent")]
        own = {}
        for what in ("groups", "channels"):
            counts = [int(n) for n in file.get_numbers(f"llmsvc.levels.{what}")]
            if len(counts) != plan.n_layers * len(levels):
                raise GgufError(f"{file.path}: llmsvc.levels.{what} is not of this model")
            own[what] = [counts[i * len(levels):(i + 1) * len(levels)] for i in range(plan.n_layers)]
        # layers that add nothing cost what the ones before them cost
        near = [bisect.bisect(plan.places, i) - 1 for i in range(plan.shape.n_layers)]
        self.table = Table(
            levels, [plan.places[int(i)] for i in file.get_numbers("llmsvc.levels.anchors")],
            [[self.widen_groups(n) for n in own["groups"][i]] for i in near],
            [[self.widen_channels(n) for n in own["channels"][i]] for i in near])

    def widen_groups(self, n):
        return -(-n * self.plan.shape.n_kv_heads // self.plan.n_kv_heads)

    def widen_channels(self, n):
        n_ff = self.plan.shape.n_ff
        n = -(-n * n_ff // self.plan.n_ff)
        return min(-(-n // SEGMENT_INPUTS) * SEGMENT_INPUTS, n_ff)

    def find_axes(self, base, level):
        """What the matrix reads and writes at a level."""
        _, layer, matrix, _ = base.split(".")
        place = self.plan.places[int(layer)]
        n = {"attn": self.table.groups[place][level] * self.made.group_inputs,
             "ffn_": self.table.channels[place][level]}[matrix[:4]]
        axes = []
        for axis in self.plan.find_axes(base):
            is_cut = any(axis is vars(self.plan.layer(int(layer)))[name] for name in CUT)
            axes.append(cut_axis(axis, n) if is_cut else axis)
        return axes

    def make_pair(self, base, level):
        prefix = f"level.{self.table.levels[level]}.{base}"
        read, written = self.find_axes(base, level)
        a, b = (self.file.read(prefix + half) for half in (READ, WRITTEN))
        a = fill_up(a.T, read.source.max() + 1).T
        b = fill_up(b, written.source.max() + 1)
        return (read.read(a, self.plan.seed(prefix)).astype(numpy.float32),
                written.write(b, 0, len(written)).astype(numpy.float32))

    def make_adapters(self):
        bases = {name.split(".", 2)[2].removesuffix(READ) for name in self.file.tensors
                 if name.startswith("level.") and name.endswith(READ)}
        adapters = {}
        for level, percent in enumerate(self.table.levels):
            pairs = {self.plan.rename(base): self.make_pair(base, level) for base in sorted(bases)
                     if f"level.{percent}.{base}{READ}" in self.file.tensors}
            if pairs:
                adapters[percent] = pairs
        return adapters

    def write(self, path, tool_path):
        write.write_companion(self.made, tool.identify(tool_path, self.made.path), self.table,
                              self.make_adapters(), self.file.get_numbers("llmsvc.levels.losses"),
                              self.file.values.get("adapter.lora.alpha", 1.0), path)


def has_levels(file):
    return "llmsvc.levels.percent" in file.keys
