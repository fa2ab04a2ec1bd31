# SPDX-License-Identifier: LGPL-2.1-or-later
"""Numbers to blocks of a format and back, as llama.cpp has them."""
import numpy

from . import types

TYPES = ("F32", "F16", "Q8_0", "Q4_0", "Q4_1")


def unpack(kind, data):
    """Floats from bytes."""
    if kind in ("F32", "F16"):
        return data.view("<f4" if kind == "F32" else "<f2").astype(numpy.float32)
    blocks = data.reshape(-1, types.TYPES[kind].block_bytes)
    scales = blocks[:, :2].copy().view("<f2").astype(numpy.float32)
    if kind == "Q8_0":
        return (blocks[:, 2:].copy().view(numpy.int8) * scales).ravel()
    halves = blocks[:, -16:]
    whole = numpy.hstack((halves & 15, halves >> 4)).astype(numpy.int8)
    if kind == "Q4_0":
        return ((whole - 8) * scales).ravel()
    return (whole * scales + blocks[:, 2:4].copy().view("<f2").astype(numpy.float32)).ravel()


def divide(values, scales):
    """@values by their block's scale as a file has it: half precision."""
    scales = scales.astype("<f2")
    wide = scales.astype(numpy.float32)
    inverse = numpy.divide(1, wide, out=numpy.zeros_like(wide), where=wide != 0)
    return scales.view(numpy.uint8).reshape(-1, 2), values * inverse[:, None]


def pack(kind, values):
    """Bytes of floats [rows × columns], columns whole blocks."""
    if kind in ("F32", "F16"):
        return values.astype("<f4" if kind == "F32" else "<f2").view(numpy.uint8)
    values = values.reshape(-1, 32)
    most, least = values.max(axis=1), values.min(axis=1)
    if kind == "Q8_0":
        scales, values = divide(values, numpy.maximum(most, -least) / 127)
        whole = numpy.clip(numpy.rint(values), -127, 127).astype(numpy.int8).view(numpy.uint8)
        return numpy.hstack((scales, whole))
    if kind == "Q4_1":
        values = values - least[:, None]
        scales, values = divide(values, (most - least) / 15)
        scales = numpy.hstack((scales, least.astype("<f2").view(numpy.uint8).reshape(-1, 2)))
        values += 0.5
    else:
        # The value furthest from 0 is −8.
        scales, values = divide(values, numpy.where(most > -least, most, least) / -8)
        values += 8.5
    whole = numpy.clip(values, 0, 15).astype(numpy.uint8)
    return numpy.hstack((scales, whole[:, :16] | whole[:, 16:] << 4))


def view(data, begin, n_bytes):
    """Bytes of a file in memory."""
    return numpy.frombuffer(data, numpy.uint8, n_bytes, begin)
