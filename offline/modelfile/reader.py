# SPDX-License-Identifier: LGPL-2.1-or-later
"""A GGUF file to be read: keys as they are, tensors as floats. The file is untrusted: what is wrong
with it is a GgufError that names it."""
import functools
import math
import mmap
import struct

import numpy

from . import blocks
from .head import ALIGNMENT, ARRAY, STRING
from .types import TYPES

NAMES = {kind.number: name for name, kind in TYPES.items()}
# Of single values, by the number of their type in a file.
FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q",
           11: "<q", 12: "<d"}
MAX_DIMS = 4


class GgufError(Exception):
    pass


class Tensor:
    """dims: dims[0] runs fastest. type: a name, None for one not known here."""

    def __init__(self, dims, number, offset):
        self.dims, self.type, self.offset = dims, NAMES.get(number), offset
        self.number = number


class Gguf:
    """keys: the bytes of each key with its value, by name, in the order of the file. values: single
    numbers and texts. tensors: by name, in the order of the file."""

    def __init__(self, path):
        self.path = path
        self.keys, self.values, self.tensors = {}, {}, {}
        with open(path, "rb") as file:
            try:
                self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                self.read_head()
            except (OSError, struct.error, ValueError, KeyError, OverflowError) as error:
                raise GgufError(f"{path} is no GGUF file, or a damaged one") from error

    def take(self, form):
        value = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value[0]

    def take_text(self):
        n = self.take("<Q")
        if n > len(self.data) - self.at:
            raise ValueError
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def take_value(self, kind):
        """None for an array, which is skipped."""
        if kind == STRING:
            return self.take_text()
        if kind != ARRAY:
            return self.take(FORMATS[kind])
        kind, n = self.take("<I"), self.take("<Q")
        if kind == STRING:
            for _ in range(n):
                n_bytes = self.take("<Q")
                self.at += n_bytes
        else:
            self.at += n * struct.calcsize(FORMATS[kind])
        if self.at > len(self.data):
            raise ValueError
        return None

    def read_head(self):
        if self.data[:4] != b"GGUF" or struct.unpack_from("<I", self.data, 4)[0] not in (2, 3):
            raise ValueError
        self.at = 8
        n_tensors, n_keys = self.take("<Q"), self.take("<Q")
        for _ in range(n_keys):
            begin = self.at
            name = self.take_text()
            self.values[name] = self.take_value(self.take("<I"))
            self.keys[name] = self.data[begin:self.at]
        for _ in range(n_tensors):
            name, n_dims = self.take_text(), self.take("<I")
            if not 1 <= n_dims <= MAX_DIMS:
                raise ValueError
            dims = tuple(self.take("<Q") for _ in range(n_dims))
            self.tensors[name] = Tensor(dims, self.take("<I"), self.take("<Q"))
        step = self.values.get("general.alignment", ALIGNMENT)
        if not isinstance(step, int) or step < 1:
            raise ValueError
        self.begin = -(-self.at // step) * step

    def get_count(self, key, default=None):
        """A number of things, at least one."""
        value = self.values.get(key, default)
        if not isinstance(value, int) or not 1 <= value < 1 << 24:
            raise GgufError(f"{self.path}: {key} is missing, or no number of things")
        return value

    def get_numbers(self, key):
        """The items of an array, () where there is none."""
        if self.values.get(key, ARRAY) is not None:
            return ()
        data = self.keys[key]
        begin = 8 + struct.unpack_from("<Q", data)[0]
        _, kind, n = struct.unpack_from("<IIQ", data, begin)
        return () if kind == STRING else struct.unpack_from(f"<{n}{FORMATS[kind][-1]}", data, begin + 16)

    def check(self, name, *dims):
        """That there is this tensor, in this shape."""
        tensor = self.tensors.get(name)
        if tensor is None:
            raise GgufError(f"{self.path}: the tensor {name} is missing")
        if tensor.dims != dims:
            raise GgufError(f"{self.path}: the tensor {name} has the shape {tensor.dims}, {dims} "
                            "is needed")
        if tensor.type not in blocks.TYPES:
            raise GgufError(f"{self.path}: the tensor {name} is of type "
                            f"{tensor.type or tensor.number}; {', '.join(blocks.TYPES)} can be "
                            "read here")
        kind = TYPES[tensor.type]
        n_bytes = math.prod(dims) // kind.block_size * kind.block_bytes
        if (dims[0] % kind.block_size != 0 or
                self.begin + tensor.offset + n_bytes > len(self.data)):
            raise GgufError(f"{self.path} is cut off: the tensor {name} ends behind it")
        return tensor

    # A few, as threads make neighbouring pieces of a tensor at the same time.
    @functools.lru_cache(maxsize=4)
    def read(self, name):
        """[rows × columns] of a tensor that check() has found right; a vector is one row."""
        tensor = self.tensors[name]
        kind = TYPES[tensor.type]
        n_values = math.prod(tensor.dims)
        data = numpy.frombuffer(self.data, numpy.uint8, n_values // kind.block_size *
                                kind.block_bytes, self.begin + tensor.offset)
        return blocks.unpack(tensor.type, data).reshape(-1, tensor.dims[0])
