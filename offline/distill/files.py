# SPDX-License-Identifier: LGPL-2.1-or-later
"""GGUF files of the models, read and written."""
import struct
import types

import numpy

from modelfile import blocks, head, reader
from modelfile.partial import replacing

Gguf, GgufError = reader.Gguf, reader.GgufError
# By llama.cpp's number of the mixture.
TYPES = {"F32": 0, "F16": 1, "Q8_0": 7}


class Pieces:
    """The texts of a vocabulary's tokens, and its tokens with a meaning of their own."""

    def __init__(self, file):
        self.texts = read_texts(file, "tokenizer.ggml.tokens")
        self.bos = self.get_token(file, "tokenizer.ggml.bos_token_id")
        self.end = self.get_token(file, "tokenizer.ggml.eot_token_id",
                                  file.values.get("tokenizer.ggml.eos_token_id"))

    def get_token(self, file, key, default=None):
        token = file.values.get(key, default)
        if not isinstance(token, int) or not 0 <= token < len(self.texts):
            raise GgufError(f"{file.path}: {key} is missing, or is no token of the vocabulary")
        return token


def read_texts(file, key):
    """An array of texts."""
    data = file.keys.get(key)
    if data is None:
        raise GgufError(f"{file.path}: {key} is missing")
    at = 8 + len(key.encode())
    kind, inner, n = struct.unpack_from("<IIQ", data, at)
    if (kind, inner) != (head.ARRAY, head.STRING):
        raise GgufError(f"{file.path}: {key} is no array of texts")
    at += 16
    texts = []
    for _ in range(n):
        n_bytes = struct.unpack_from("<Q", data, at)[0]
        texts.append(data[at + 8:at + 8 + n_bytes].decode(errors="replace"))
        at += 8 + n_bytes
    return texts


def make_key(key, kind, value):
    keys = head.Keys()
    keys.add(key, kind, value)
    return keys.parts[0]


def write(path, source, kind, arrays, description):
    """A file with the keys of the Gguf @source and weights of type @kind from @arrays, by name, in
    shapes as in @source; vectors are F32. @path is replaced at the end or not at all."""
    keys = dict(source.keys)
    keys["general.file_type"] = make_key("general.file_type", head.UINT32, TYPES[kind])
    keys["general.description"] = make_key("general.description", head.STRING, description)
    if kind == "Q8_0":
        keys["general.quantization_version"] = make_key("general.quantization_version",
                                                        head.UINT32, 2)
    tensors = [types.SimpleNamespace(name=name, dims=tensor.dims,
                                     type=kind if len(tensor.dims) > 1 else "F32")
               for name, tensor in source.tensors.items()]
    start, offsets, n_bytes = head.make_head(types.SimpleNamespace(parts=list(keys.values())),
                                             tensors)
    with replacing(path) as partial, open(partial, "wb") as out:
        out.write(start)
        for tensor, offset in zip(tensors, offsets):
            out.seek(offset)
            out.write(blocks.pack(tensor.type, numpy.asarray(arrays[tensor.name],
                                                             numpy.float32).reshape(-1)
                                  ).tobytes())
        out.truncate(n_bytes)
