#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""make-iq.py LIBGGML: writes the files of IQ2 and IQ3, the shape and the keys of Q6_K.gguf.

LIBGGML is the path of a libggml-base.so of llama.cpp, whose quantizer writes the blocks; all
inputs matter alike to it. Run it only after a change: the logits belong to the files."""

import ctypes
import pathlib
import struct
import sys

import numpy

HERE = pathlib.Path(__file__).parent
F32 = 0
TYPES = {"IQ2_XXS": 16, "IQ2_XS": 17, "IQ3_XXS": 18, "IQ3_S": 21, "IQ2_S": 22}
SIZES = {4: 4, 5: 4, 6: 4, 7: 1}
STRING, ARRAY = 8, 9
ALIGNMENT = 32


class Reader:
    """The header of a GGUF file."""

    def __init__(self, data):
        self.data = data
        self.at = 8
        n_tensors, n_keys = self.take("<QQ")
        begin = self.at
        for _ in range(n_keys):
            self.text()
            self.skip(self.take("<I")[0])
        self.keys = n_keys, data[begin:self.at]
        self.tensors = [self.tensor() for _ in range(n_tensors)]
        self.begin = -(-self.at // ALIGNMENT) * ALIGNMENT

    def take(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def text(self):
        length = self.take("<Q")[0]
        self.at += length
        return self.data[self.at - length:self.at].decode()

    def skip(self, kind):
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            kind, length = self.take("<IQ")
            for _ in range(length):
                self.skip(kind)
        else:
            self.at += SIZES[kind]

    def tensor(self):
        name = self.text()
        dims = self.take(f"<{self.take('<I')[0]}Q")
        return name, dims, *self.take("<IQ")


def make_weights(generator, rows, columns):
    """Sixteen neighbours share a scale and a shift, so that all parts of a block matter."""
    groups = rows, columns // 16, 1
    values = generator.standard_normal((rows, columns // 16, 16))
    values = values * generator.uniform(0.3, 1.7, groups) + generator.uniform(-0.5, 0.5, groups)
    return numpy.ascontiguousarray(values.reshape(rows, columns) / columns**0.5, numpy.float32)


def main(path):
    library = ctypes.CDLL(path)
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
                                            *[ctypes.c_int64] * 3, ctypes.c_void_p]
    model = Reader((HERE / "Q6_K.gguf").read_bytes())
    for name, kind in TYPES.items():
        generator = numpy.random.default_rng(kind)
        infos, contents = [], b""
        for tensor, dims, old, offset in model.tensors:
            if old == F32:
                at = model.begin + offset
                piece = model.data[at:at + 4 * dims[0]]
            else:
                weights = make_weights(generator, dims[1], dims[0])
                matters = numpy.ones(dims[0], numpy.float32)
                buffer = ctypes.create_string_buffer(weights.nbytes)
                size = library.ggml_quantize_chunk(kind, weights.ctypes.data, buffer, 0, dims[1],
                                                   dims[0], matters.ctypes.data)
                piece = buffer.raw[:size]
            text = tensor.encode()
            infos.append(struct.pack("<Q", len(text)) + text
                         + struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
                         + struct.pack("<IQ", F32 if old == F32 else kind, len(contents)))
            contents += piece + bytes(-len(piece) % ALIGNMENT)
        head = (b"GGUF" + struct.pack("<IQQ", 3, len(infos), model.keys[0]) + model.keys[1]
                + b"".join(infos))
        (HERE / f"{name}.gguf").write_bytes(head + bytes(-len(head) % ALIGNMENT) + contents)


main(sys.argv[1])
