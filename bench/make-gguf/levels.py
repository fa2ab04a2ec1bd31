# SPDX-License-Identifier: LGPL-2.1-or-later
"""A companion for a model with random weights: the levels that llmsvc-elastic would make for a model
of that shape whose first layers matter most, and adapters of random numbers. What the sub-models say
is noise, as what the model says is; what they cost is what those of a real model of the shape do."""
import math

import numpy

from elastic import table as tables
from elastic import tool, write
from elastic.source import MATRICES, Source

# As those of llmsvc-elastic.
RANK = 8
ALPHA = 16.0


def get_sizes(source, table, layer, level):
    """(inputs, outputs) of the matrices of a level."""
    queries = table.groups[layer][level] * source.group_inputs
    keys = source.n_groups * source.head_dim
    channels = table.channels[layer][level]
    return {"attn_q": (source.n_embd, queries), "attn_k": (source.n_embd, keys),
            "attn_v": (source.n_embd, keys), "attn_output": (queries, source.n_embd),
            "ffn_gate": (source.n_embd, channels), "ffn_up": (source.n_embd, channels),
            "ffn_down": (channels, source.n_embd)}


def make_adapters(source, table, seed):
    """By percent, then by tensor: A [rank × inputs] and B [outputs × rank]; the whole model has
    none."""
    random = numpy.random.default_rng(seed)
    adapters = {}
    for level, percent in enumerate(table.levels[:-1]):
        pairs = adapters[percent] = {}
        for layer in range(source.n_layers):
            sizes = get_sizes(source, table, layer, level)
            for matrix in MATRICES:
                n_in, n_out = sizes[matrix]
                pairs[f"blk.{layer}.{matrix}.weight"] = (
                    random.standard_normal((RANK, n_in), numpy.float32) / math.sqrt(n_in),
                    random.standard_normal((n_out, RANK), numpy.float32) / 1000)
    return adapters


def make(path, seed, tool_path):
    """For the model in the file @path. Fails with GgufError. Returns the companion's path."""
    source = Source(path)
    table = tables.make_for(source, [float(source.n_layers - i) for i in range(source.n_layers)])
    companion = write.get_companion(path)
    write.write_companion(source, tool.identify(tool_path, path), table,
                          make_adapters(source, table, seed),
                          [1 - percent / 100 for percent in table.levels], ALPHA, companion)
    return companion
