# SPDX-License-Identifier: LGPL-2.1-or-later
"""Thresholds in the companion of a model, beside the sub-models that it may have."""
import os

from elastic.write import VERSION, Made, get_companion, write_file
from modelfile import head
from modelfile.head import FLOAT32, STRING, UINT32, Keys
from modelfile.reader import Gguf, GgufError
from modelfile.types import TYPES

from . import shares

PREFIX = "llmsvc.active."


def open_for(source, identity):
    """The companion that is there, or None."""
    path = get_companion(source.path)
    if not os.path.exists(path):
        return None
    found = Gguf(path)
    if found.values.get("general.type") != "companion":
        raise GgufError(f"{path} is no companion of a model: remove or rename it")
    if found.values.get("llmsvc.companion.version") != VERSION:
        raise GgufError(f"{path} is of a version that is not known here: remove it")
    if found.values.get("llmsvc.companion.weights") != identity:
        raise GgufError(f"{path} is for other weights: remove it, or make it again with "
                        "llmsvc-elastic")
    return found


def begin(source, identity):
    """The keys of a companion that has nothing yet."""
    keys = Keys()
    keys.add("general.type", STRING, "companion")
    keys.add("general.architecture", STRING, source.architecture)
    keys.add("general.name", STRING, f"companion of {source.name}")
    if "general.license" in source.file.keys:
        keys.parts.append(source.file.keys["general.license"])
    keys.add("llmsvc.companion.version", UINT32, VERSION)
    keys.add("llmsvc.companion.weights", STRING, identity)
    return keys


def copy_tensor(begun, name):
    """As it is."""
    own = begun.tensors[name]
    if own.type not in TYPES:
        raise GgufError(f"{begun.path}: the tensor {name} is of a type not known here")
    at, n_bytes = begun.begin + own.offset, head.get_bytes(own)
    if at + n_bytes > len(begun.data):
        raise GgufError(f"{begun.path} is cut off: the tensor {name} ends behind it")
    return Made(name, own.type, own.dims, lambda: begun.data[at:at + n_bytes])


def write(source, begun, identity, kept, thresholds, losses):
    """@begun: what open_for() gave. @kept: [sparsities][inputs]. @thresholds:
    [sparsities][layers][inputs]. @losses: without thresholds, then of each sparsity. Returns the
    path."""
    keys, tensors = begin(source, identity), []
    if begun is not None:
        keys = Keys()
        keys.parts = [data for key, data in begun.keys.items()
                      if not key.startswith(PREFIX) and key != "general.alignment"]
        tensors = [copy_tensor(begun, name) for name in begun.tensors]
    keys.add(PREFIX + "percent", UINT32, list(shares.SPARSITIES))
    keys.add(PREFIX + "thresholds", FLOAT32, [value for one in thresholds for layer in one
                                              for value in layer])
    keys.add(PREFIX + "kept", FLOAT32, [float(part) for parts in kept for part in parts])
    keys.add(PREFIX + "losses", FLOAT32, [float(loss) for loss in losses])
    path = get_companion(source.path)
    write_file(path, keys, tensors)
    return path
