# SPDX-License-Identifier: LGPL-2.1-or-later
"""The two files: the model in its new order, which is a GGUF file as any other, and its companion,
which has the table of levels and their adapters."""
import collections

import numpy
from modelfile import blocks, files
from modelfile.head import FLOAT32, STRING, UINT32, Keys, make_head
from modelfile.partial import replacing

from . import order as orders
from . import table as tables

SUFFIX = ".llmsvc.gguf"
VERSION = 1
# The numbers of general.file_type.
FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7}

Made = collections.namedtuple("Made", "name type dims make")


def get_companion(path):
    return path.removesuffix(".gguf") + SUFFIX


def write_file(path, keys, tensors):
    """Whole, or not at all."""
    head, offsets, n_bytes = make_head(keys, tensors)
    with replacing(path) as partial:
        files.write(partial, head, n_bytes,
                    [(offset, tensor.make) for offset, tensor in zip(offsets, tensors)], 1)


def choose_type(source, name, kind):
    """@kind: of matrices, None for those of the file."""
    own = source.file.tensors[name]
    if kind is None or len(own.dims) == 1:
        return own.type
    return "Q8_0" if kind in ("Q4_0", "Q4_1") and not name.startswith("blk.") else kind


def make_tensor(source, order, name, kind):
    own = source.file.tensors[name]
    kind = choose_type(source, name, kind)
    if kind == own.type:
        def make():
            return numpy.ascontiguousarray(orders.move_blocks(order, source, name))
    else:
        def make():
            values = orders.move(order, source, name, source.read(name))
            return blocks.pack(kind, numpy.ascontiguousarray(values))
    return Made(name, kind, own.dims, make)


def write_model(source, order, path, kind=None):
    """@kind: of matrices, where it is another than the source's."""
    keys = Keys()
    changed = {"general.alignment"}
    if kind is not None:
        changed |= {"general.file_type", "general.quantization_version"}
    keys.parts += [data for key, data in source.file.keys.items() if key not in changed]
    if kind is not None:
        keys.add("general.file_type", UINT32, FILE_TYPES[kind])
        keys.add("general.quantization_version", UINT32, 2)
    write_file(path, keys, [make_tensor(source, order, name, kind) for name in source.file.tensors])


def list_halves(adapters):
    """(inputs, outputs) of each half of a level's adapters, {tensor: (A, B)}."""
    return [half.shape[::-1] for pair in adapters.values() for half in pair]


def make_shares(made, table, adapters):
    """The shares of each level, of weights, operations and bytes, of the whole model @made."""
    whole = tables.measure(made, table, len(table.levels) - 1)
    shares = {"weights": [], "operations": [], "bytes": []}
    for level, percent in enumerate(table.levels):
        cost = tables.measure(made, table, level, list_halves(adapters.get(percent, {})))
        for what, values in shares.items():
            values.append(getattr(cost, what) / getattr(whole, what))
    return shares


def make_adapter_tensors(adapters):
    for percent, pairs in adapters.items():
        for name, pair in pairs.items():
            for suffix, half in zip((".lora_a", ".lora_b"), pair):
                yield Made(f"level.{percent}.{name}{suffix}", "F16", half.shape[::-1],
                           lambda half=half: blocks.pack("F16", half))


def write_companion(made, identity, table, adapters, losses, alpha, path):
    """@made: the Source of the model that was written. @adapters: by percent of the level, then by
    tensor: A [rank × inputs] and B [outputs × rank], of the level's shape. @losses: of each level, with
    its adapter where it has one."""
    keys = Keys()
    keys.add("general.type", STRING, "companion")
    keys.add("general.architecture", STRING, made.architecture)
    keys.add("general.name", STRING, f"companion of {made.name}")
    for key in ("general.license",):
        if key in made.file.keys:
            keys.parts.append(made.file.keys[key])
    keys.add("llmsvc.companion.version", UINT32, VERSION)
    keys.add("llmsvc.companion.weights", STRING, identity)
    keys.add("llmsvc.levels.percent", UINT32, list(table.levels))
    keys.add("llmsvc.levels.anchors", UINT32, list(table.anchors))
    for what in ("groups", "channels"):
        keys.add(f"llmsvc.levels.{what}", UINT32,
                 [int(n) for layer in getattr(table, what) for n in layer])
    for what, values in make_shares(made, table, adapters).items():
        keys.add(f"llmsvc.levels.{what}", FLOAT32, values)
    keys.add("llmsvc.levels.losses", FLOAT32, [float(loss) for loss in losses])
    if adapters:
        keys.add("adapter.type", STRING, "lora")
        keys.add("adapter.lora.alpha", FLOAT32, alpha)
    write_file(path, keys, list(make_adapter_tensors(adapters)))
