# SPDX-License-Identifier: LGPL-2.1-or-later
"""Random weights in any number format, made at the speed of a disk: random bits for the integers,
scales that give the weights a chosen standard deviation and the mean 0."""
import math
import sys

try:
    import numpy
except ImportError:
    sys.exit("llmsvc-bench: make-gguf needs NumPy (python3-numpy)")

from modelfile.types import TYPES

# The rms of random inner scales: 16 to 31 evenly, 32 to 63 evenly, 8 to 15, 64 to 127, odd numbers
# up to 31; and of the sixteen values of a table.
RMS_16_31, RMS_32_63, RMS_8_15, RMS_64_127, RMS_ODD_31 = 23.95, 48.39, 11.73, 97.26, 18.47
RMS_IQ4, RMS_MXFP4 = 67.44, 2.926

# Deviation of a value when the block's scale is 1, the mean of the integers that a min makes up for
# (0: there is none), where the scale and the min lie, and random numbers for inner scales.
FORMATS = {
    "Q4_0": (4.64, 0, 0, 0, 0),
    "Q4_1": (4.61, 7.5, 0, 2, 0),
    "Q5_0": (9.25, 0, 0, 0, 0),
    "Q5_1": (9.23, 15.5, 0, 2, 0),
    "Q8_0": (73.9, 0, 0, 0, 0),
    "Q2_K": (1.118 * RMS_8_15, 1.5, 80, 82, 0),
    "Q3_K": (2.345 * RMS_16_31, 0, 108, 0, 2),
    "Q4_K": (4.61 * RMS_32_63, 7.5, 0, 2, 1),
    "Q5_K": (9.23 * RMS_32_63, 15.5, 0, 2, 1),
    "Q6_K": (18.48 * RMS_64_127, 0, 208, 0, 0),
    "Q1_0": (1, 0, 0, 0, 0),
    # times the rms of a grid
    "IQ2_XXS": (RMS_ODD_31 / 8 * 23.12, 0, 0, 0, 0),
    "IQ2_XS": (RMS_ODD_31 / 8 * 24.22, 0, 0, 0, 0),
    "IQ2_S": (RMS_ODD_31 / 8 * 24.43, 0, 0, 0, 0),
    "IQ3_XXS": (RMS_ODD_31 / 4 * 30.85, 0, 0, 0, 0),
    "IQ3_S": (RMS_ODD_31 * 7.594, 0, 0, 0, 0),
    "IQ4_NL": (RMS_IQ4, 0, 0, 0, 0),
    "IQ4_XS": (RMS_IQ4 * RMS_16_31, 0, 0, 0, 2),
}

STEP, MASK = 0x9e3779b97f4a7c15, (1 << 64) - 1


class Random:
    """What figures.Random gives, many numbers at once."""

    def __init__(self, state):
        self.state = state & MASK

    def next(self, n):
        x = numpy.arange(1, n + 1, dtype=numpy.uint64)
        x *= numpy.uint64(STEP)
        x += numpy.uint64(self.state)
        self.state = (self.state + n * STEP) & MASK
        for shift, factor in ((30, 0xbf58476d1ce4e5b9), (27, 0x94d049bb133111eb)):
            x ^= x >> numpy.uint64(shift)
            x *= numpy.uint64(factor)
        x ^= x >> numpy.uint64(31)
        return x

    def fill(self, n):
        """@n random bytes."""
        whole = self.next(n // 8).view(numpy.uint8)
        return numpy.concatenate((whole, self.next(n % 8).astype(numpy.uint8)))


def half(values):
    return values.astype(numpy.float32).astype("<f2").view(numpy.uint8).reshape(-1, 2)


def cut(bits, shifts, mask):
    """A column of bits for each of @shifts."""
    columns = bits[:, None] >> numpy.array(shifts, numpy.uint64) & numpy.uint64(mask)
    return columns.astype(numpy.uint8)


def signed_scales(bits, signs):
    """Sixteen values of 6 bits, 32 ± 16 to 31."""
    magnitudes = cut(bits, range(0, 64, 4), 15) | 16
    return numpy.where(cut(signs, range(16), 1) != 0, 32 - magnitudes, 32 + magnitudes)


def store_inner_scales(kind, blocks, bits):
    """Scales inside of a block, which random bits would leave anything up to the largest."""
    if kind == "Q2_K":
        scales = 8 | blocks[:, :16] & 7
        blocks[:, :16] = scales | scales << 4
    elif kind == "Q3_K":
        s = signed_scales(bits[:, 0], bits[:, 1])
        blocks[:, 96:104] = s[:, :8] & 15 | (s[:, 8:] & 15) << 4
        blocks[:, 104:108] = (s[:, :4] >> 4 | s[:, 4:8] >> 4 << 2 | s[:, 8:12] >> 4 << 4 |
                              s[:, 12:] >> 4 << 6)
    elif kind in ("Q4_K", "Q5_K"):
        # Eight scales of 6 bits from 32 to 63, and the same for the mins: the upper bits of the
        # last four lie above the first eight bytes' 6.
        first = 32 | cut(bits[:, 0], range(0, 32, 8), 31)
        second = 32 | cut(bits[:, 0], range(32, 64, 8), 31)
        blocks[:, 4:8] = blocks[:, 8:12] = first | second >> 4 << 6
        blocks[:, 12:16] = second & 15 | (second & 15) << 4
    elif kind == "Q6_K":
        scales = blocks[:, 192:208]
        magnitudes = 64 | scales & 63
        blocks[:, 192:208] = numpy.where(scales & 128, 0 - magnitudes, magnitudes)
    elif kind == "IQ4_XS":
        s = signed_scales(bits[:, 0], bits[:, 1])[:, :8]
        upper, lower = s >> 4, s & 15
        for i in range(2):
            four = upper[:, 4 * i:4 * i + 4]
            blocks[:, 2 + i] = four[:, 0] | four[:, 1] << 2 | four[:, 2] << 4 | four[:, 3] << 6
        blocks[:, 4:8] = lower[:, ::2] | lower[:, 1::2] << 4


def make_blocks(kind, deviation, random, n_blocks):
    spread, mean, scale_at, min_at, n_inner = FORMATS[kind]
    block_bytes = TYPES[kind].block_bytes
    blocks = random.fill(n_blocks * block_bytes).reshape(n_blocks, block_bytes)
    bits = random.next(n_blocks * (1 + n_inner)).reshape(n_blocks, 1 + n_inner)
    # Blocks differ by up to a quarter either way, and in sign where a format's scale may have one,
    # so that no block is like another and means cancel out.
    scales = deviation / spread * (0.75 + (bits[:, 0] >> numpy.uint64(40)) / (1 << 24) / 2)
    if mean == 0:
        scales = numpy.where(bits[:, 0] & numpy.uint64(1), -scales, scales)
    blocks[:, scale_at:scale_at + 2] = half(scales)
    if mean != 0:
        blocks[:, min_at:min_at + 2] = half(scales * (-mean if kind in ("Q4_1", "Q5_1") else mean))
    store_inner_scales(kind, blocks, bits[:, 1:])
    return blocks


def make_mxfp4(deviation, random, n_blocks):
    """Scales are powers of two: the two next to the one wanted, in turns by chance."""
    exponent = math.log2(deviation / RMS_MXFP4)
    lower = math.floor(exponent)
    blocks = random.fill(n_blocks * 17).reshape(n_blocks, 17)
    chances = (random.next(n_blocks) >> numpy.uint64(11)) / 9007199254740992.0
    blocks[:, 0] = 127 + lower + (chances < exponent - lower)
    return blocks


def make_plain(kind, deviation, random, n):
    """Even over ±√3 deviations."""
    step = numpy.float32(deviation * 1.7320508 / 32768)
    values = random.next((n + 3) // 4).view("<i2")[:n].astype(numpy.float32) * step
    if kind == "F16":
        return values.astype("<f2")
    return values.view("<u2")[1::2] if kind == "BF16" else values


def make(kind, deviation, seed, n_blocks):
    """The bytes of @n_blocks blocks; the same @seed gives the same. Any thread."""
    random = Random(seed)
    if deviation is None:
        made = numpy.ones(n_blocks, numpy.float32)
    elif kind == "MXFP4":
        made = make_mxfp4(deviation, random, n_blocks)
    elif kind in FORMATS:
        made = make_blocks(kind, deviation, random, n_blocks)
    else:
        made = make_plain(kind, deviation, random, n_blocks)
    return made.tobytes()
