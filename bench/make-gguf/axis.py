# SPDX-License-Identifier: LGPL-2.1-or-later
"""Values of a widened model as multiples of a model's own, and matrices between such values."""
import numpy

from . import weights

# Copies of a column differ by chance, by up to this part of their row's rms: else rows that read
# the same would be alike, could be compressed, and would share their errors of quantization.
NOISE = 0.8


def count_copies(n, n_source):
    """@n copies of @n_source values, those of one value side by side: what comes first in a model,
    being more important, comes first in the widened one, and a prefix stays a prefix."""
    return numpy.arange(n) * n_source // n


def scatter(source, seed):
    """The same in random order."""
    return source[numpy.argsort(weights.Random(seed).next(len(source)), kind="stable")]


class Axis:
    """Value i is gain[i] times the value source[i] of the model. A sum over all of them, each times
    its weight, is the sum over the model's: the weights of a value's copies times their gains add
    up to 1."""

    def __init__(self, source, gain=None):
        self.source = source
        self.gain = numpy.ones(len(source), numpy.float32) if gain is None else gain
        self.order = numpy.argsort(source, kind="stable")
        self.place = None if (self.order == numpy.arange(len(source))).all() else (
            numpy.argsort(self.order))
        self.counts = numpy.bincount(source)
        self.starts = numpy.cumsum(self.counts) - self.counts
        squares = numpy.add.reduceat(self.gain[self.order].astype(float) ** 2, self.starts)
        self.weight = (self.gain / squares[source]).astype(numpy.float32)
        self.sorted_weight = self.weight[self.order]
        self.sorted_share = (self.weight * self.gain)[self.order]

    def __len__(self):
        return len(self.source)

    def read(self, rows, seed):
        """Columns for @rows of a matrix that reads the model's values: they give the same products
        with the widened ones. What makes copies differ adds up to nothing."""
        size = NOISE * numpy.sqrt((rows * rows).mean(axis=1, keepdims=True))
        noise = weights.make("F32", 1 / 3 ** 0.5, seed, rows.shape[0] * len(self))
        made = numpy.frombuffer(noise, numpy.float32).reshape(rows.shape[0], len(self)) * size
        rows = rows - numpy.add.reduceat(made * self.sorted_share, self.starts, axis=1)
        made += numpy.repeat(rows, self.counts, axis=1)
        made *= self.sorted_weight
        return made if self.place is None else made.take(self.place, axis=1)

    def write(self, rows, begin, end):
        """Rows @begin to @end of a matrix whose outputs are the widened values."""
        return rows[self.source[begin:end]] * self.gain[begin:end, None]


def draw_gains(n, seed):
    """0.85 to 1.15, of either sign."""
    bits = weights.Random(seed).next(n)
    gains = 0.85 + 0.3 * ((bits >> numpy.uint64(11)) / 9007199254740992.0)
    return numpy.where(bits & numpy.uint64(1), -gains, gains).astype(numpy.float32)


def make_residual(n, n_source, seed):
    """The residual stream: copies in random order, the squares of a value's gains add up to
    @n / @n_source, so that the mean square is the model's and an RMS norm divides by the same."""
    source = scatter(count_copies(n, n_source), seed)
    gains = draw_gains(n, seed + 1)
    squares = numpy.bincount(source, gains.astype(float) ** 2)
    return Axis(source, (gains * numpy.sqrt(n / n_source / squares[source])).astype(numpy.float32))
