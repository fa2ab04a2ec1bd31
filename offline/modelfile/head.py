# SPDX-License-Identifier: LGPL-2.1-or-later
"""What comes before the weights of a GGUF file: keys and the table of tensors."""
import math
import struct

from .types import TYPES

ALIGNMENT = 32
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
CODES = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}


def text(value):
    value = value.encode()
    return struct.pack("<Q", len(value)) + value


class Keys:
    def __init__(self):
        self.parts = []

    def add(self, key, kind, value):
        """@value: a list makes an array."""
        pack = text if kind == STRING else lambda one: struct.pack(CODES[kind], one)
        if isinstance(value, list):
            self.parts.append(text(key) + struct.pack("<IIQ", ARRAY, kind, len(value)) +
                              b"".join(map(pack, value)))
        else:
            self.parts.append(text(key) + struct.pack("<I", kind) + pack(value))


def get_bytes(tensor):
    kind = TYPES[tensor.type]
    return math.prod(tensor.dims) // kind.block_size * kind.block_bytes


def align(offset):
    return (offset + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def make_head(keys, tensors):
    """The head, where each tensor begins in the file, and the bytes of the file."""
    parts = [struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys.parts)), *keys.parts]
    offsets, at = [], 0
    for tensor in tensors:
        parts.append(text(tensor.name) + struct.pack(f"<I{len(tensor.dims)}QIQ", len(tensor.dims),
                                                     *tensor.dims, TYPES[tensor.type].number, at))
        offsets.append(at)
        at = align(at + get_bytes(tensor))
    head = b"".join(parts)
    begin = align(len(head))
    return head, [begin + offset for offset in offsets], begin + at
