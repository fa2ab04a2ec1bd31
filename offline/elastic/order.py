# SPDX-License-Identifier: LGPL-2.1-or-later
"""The order in which units lie: the most important first. A unit moves with all that belongs to it,
so that the model computes what it did."""
import dataclasses

import numpy

from .source import COLUMNS, ROWS


def sort_units(importance, step):
    """Indices by falling importance; runs of @step neighbours stay together, and what is left
    behind the last whole run stays last."""
    n_whole = len(importance) // step
    sums = numpy.asarray(importance, float)[:n_whole * step].reshape(n_whole, step).sum(axis=1)
    runs = numpy.argsort(-sums, kind="stable")
    whole = (runs[:, None] * step + numpy.arange(step)).ravel()
    return numpy.concatenate((whole, numpy.arange(n_whole * step, len(importance))))


def spread(units, size):
    """Indices of the values of units that have @size each."""
    return (numpy.asarray(units)[:, None] * size + numpy.arange(size)).ravel()


@dataclasses.dataclass
class Order:
    """By layer: which group, and which channel, lies in each place."""
    groups: list
    channels: list

    def find(self, source, layer, units):
        """Indices of values: @units is one of those of ROWS and COLUMNS."""
        if units == "channels":
            return self.channels[layer]
        return spread(self.groups[layer],
                      source.group_inputs if units == "queries" else source.head_dim)

    def find_moves(self, source, name):
        """Indices for the rows and for the columns of a tensor; None for what stays."""
        parts = name.split(".", 2)
        if parts[0] != "blk":
            return None, None
        return tuple(None if parts[2] not in units else
                     self.find(source, int(parts[1]), units[parts[2]]) for units in (ROWS, COLUMNS))


def make(source, groups, channels, by_block=None):
    """@groups, @channels: importances by layer. @by_block: whether blocks of a format stay whole,
    as the source's do by default."""
    if by_block is None:
        by_block = source.is_quantized()
    group_step = channel_step = 1
    if by_block:
        group_step = source.count_group_step(source.count_block("attn_output"))
        channel_step = source.count_block("ffn_down")
    return Order([sort_units(one, group_step) for one in groups],
                 [sort_units(one, channel_step) for one in channels])


def move(order, source, name, values):
    """@values: floats of the tensor @name: a vector, or [outputs × inputs]."""
    rows, columns = order.find_moves(source, name)
    if rows is not None:
        values = values[rows]
    return values if columns is None else values[:, columns]


def move_blocks(order, source, name):
    """Bytes of the tensor @name, whose blocks stay as they are."""
    data = source.read_bytes(name)
    rows, columns = order.find_moves(source, name)
    if len(source.file.tensors[name].dims) == 1:
        # One row, whose values are the units.
        return data if rows is None else data[:, rows]
    if rows is not None:
        data = data[rows]
    if columns is not None:
        size = source.get_type(name).block_size
        first = columns.reshape(-1, size)
        if not (first == first[:, :1] + numpy.arange(size)).all() or (first[:, 0] % size).any():
            raise ValueError(f"{name}: the order parts blocks of {size}")
        data = data[:, first[:, 0] // size]
    return data
