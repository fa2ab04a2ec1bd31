# SPDX-License-Identifier: LGPL-2.1-or-later
"""A model file without some of its layers."""
import re

from modelfile import files
from modelfile.head import UINT32, Keys, get_bytes, make_head
from modelfile.reader import Gguf, GgufError


class Part:
    def __init__(self, name, tensor):
        self.name, self.dims, self.type, self.offset = name, tensor.dims, tensor.type, tensor.offset


def write(path, source, without):
    """Writes @source at @path, without the layers @without."""
    model = Gguf(source)
    key = f"{model.values.get('general.architecture')}.block_count"
    kept = [i for i in range(model.get_count(key)) if i not in without]
    if not kept or len(kept) + len(without) != model.get_count(key):
        raise GgufError(f"{source} has layers 0 to {model.get_count(key) - 1}, and needs one")
    places = {layer: i for i, layer in enumerate(kept)}
    keys = Keys()
    for name, data in model.keys.items():
        if name != key:
            keys.parts.append(data)
    keys.add(key, UINT32, len(kept))
    parts = []
    for name, tensor in model.tensors.items():
        found = re.match(r"blk\.(\d+)\.(.*)", name)
        if found is None:
            parts.append(Part(name, tensor))
        elif int(found[1]) in places:
            parts.append(Part(f"blk.{places[int(found[1])]}.{found[2]}", tensor))
    head, offsets, n_bytes = make_head(keys, parts)

    def read(part):
        begin = model.begin + part.offset
        return model.data[begin:begin + get_bytes(part)]
    files.write(path, head, n_bytes, [(offset, read, part) for offset, part in zip(offsets, parts)], 1)
