# SPDX-License-Identifier: LGPL-2.1-or-later
"""GGUF files with random weights at the shapes of well-known models: speed does not depend on what
weights say. With --widen, files of such a shape that say what a small model says. Several threads
make and write pieces; the same arguments give the same bytes."""
import math
import os
import sys

from lib import figures

from modelfile import blocks, files, reader
from modelfile.head import make_head
from modelfile.types import TYPES

from . import companion, head, levels, weights, widen, widened_active, widened_levels
from .shapes import SHAPES
from .tensors import MIXTURES, make_tensors

# Weights that one thread makes and writes at a time: blocks of 32 and of 256 fit.
PIECE_VALUES = 1 << 20


def cut_random(tensors, offsets, seed):
    n = seed << 32
    for tensor, offset in zip(tensors, offsets):
        kind = TYPES[tensor.type]
        n_blocks = math.prod(tensor.dims) // kind.block_size
        step = PIECE_VALUES // kind.block_size
        for first in range(0, n_blocks, step):
            yield (offset + first * kind.block_bytes, weights.make, tensor.type, tensor.deviation,
                   n, min(step, n_blocks - first))
            n += 1


def write_random(path, name, mixture, n_layers, seed, n_threads):
    """Returns the bytes of the file."""
    shape = SHAPES[name]
    n_layers = n_layers or shape.n_layers
    tensors = list(make_tensors(shape, mixture, n_layers))
    keys = head.make_keys(name, shape, mixture, n_layers)
    start, offsets, n_bytes = make_head(keys, tensors)
    files.write(path, start, n_bytes, cut_random(tensors, offsets, seed), n_threads)
    return n_bytes


def cut_widened(tensors, offsets):
    for tensor, offset in zip(tensors, offsets):
        kind = TYPES[tensor.type]
        row_bytes = tensor.dims[0] // kind.block_size * kind.block_bytes
        n_rows = math.prod(tensor.dims[1:])
        step = max(1, PIECE_VALUES // tensor.dims[0])
        for i, first in enumerate(range(0, n_rows, step)):
            yield (offset + first * row_bytes, tensor.make, first, min(first + step, n_rows),
                   tensor.seed + i)


class Progress:
    """A line on stderr for every tenth, so that large files show that they get on."""

    def __init__(self, path):
        self.path, self.tenths = path, 0

    def report(self, share):
        if int(share * 10) > self.tenths:
            self.tenths = int(share * 10)
            print(f"{self.path}: {self.tenths * 10} %", file=sys.stderr)


def write_widened(path, keys, tensors, n_threads):
    tensors = list(tensors)
    start, offsets, n_bytes = make_head(keys, tensors)
    files.write(path, start, n_bytes, cut_widened(tensors, offsets), n_threads,
                Progress(path).report)
    return n_bytes


def make_widened(options):
    """Fails with GgufError and OSError before anything is written, but for full disks."""
    model = reader.Gguf(options.widen)
    beside = companion.find(options.widen)
    has_levels = beside is not None and widened_levels.has_levels(beside)
    is_active = beside is not None and not has_levels and widened_active.has_thresholds(beside)
    # copies side by side would be left out, and read, together
    plan = widen.Plan(model, SHAPES[options.shape], options.type, options.layers, options.seed,
                      scatters=is_active)
    if beside is not None and not has_levels and not is_active:
        beside = companion.Companion(beside, plan)
    if os.path.exists(options.file) and os.path.samefile(options.file, options.widen):
        raise reader.GgufError(f"{options.file} is the model itself")
    if beside is None and os.path.exists(companion.get_path(options.file)):
        raise reader.GgufError(f"{companion.get_path(options.file)} is of another model: remove it")
    shape = plan.shape
    print(f"{options.file}: {options.widen} in the shape of {SHAPES[options.shape].like}, "
          f"{shape.n_layers} layers ({plan.n_layers} of the model’s), {shape.n_embd} values, "
          f"{shape.n_ff} neurons, vocabulary of {shape.n_vocab}")
    print(f"{shape.n_heads} heads of {shape.head_dim}, {shape.n_kv_heads} of keys and values: "
          f"the model’s size of a head, and the shape’s bytes of a token", flush=True)
    n_bytes = write_widened(options.file, plan.make_keys(options.shape), plan.make_tensors(),
                            options.threads)
    if beside is not None:
        path = companion.get_path(options.file)
        if is_active:
            widened_active.write(beside, plan, options.file, options.tool or "llmsvc-tool")
        elif has_levels:
            widened_levels.Widened(beside, plan, options.file).write(path, options.tool or "llmsvc-tool")
        else:
            write_widened(path, beside.make_keys(), beside.make_tensors(), options.threads)
        print(f"{path}: the companion")
    return n_bytes


def print_list():
    print("Shapes:")
    for name, shape in SHAPES.items():
        print(f"  {name:12} {shape.like}, {shape.n_layers} layers of {shape.n_embd}")
    print("Types:\n ", *MIXTURES)
    print("Types with --widen:\n ", *blocks.TYPES)


def main(arguments):
    parser = figures.Options("make-gguf", __doc__)
    parser.add("shape", meta="NAME", help="Whose shape it has (see --list)")
    parser.add("type", meta="T", help="Number format or mixture (see --list)")
    parser.add("widen", meta="MODEL", help="Say what the model of this GGUF file says")
    parser.add("layers", int, 0, help="Layers (those of the shape)")
    parser.add("seed", int, 1, help="Other weights (1)")
    parser.add("threads", int, 0, help="Threads that write (all processors)")
    parser.add_flag("levels", "Write a companion with sub-models beside it, too; not with --widen")
    parser.add("tool", meta="FILE", help="The llmsvc-tool that names the weights of a model with levels")
    parser.add_flag("list", "Print shapes and types")
    parser.add_argument("file", metavar="FILE", nargs="?")
    options = parser.parse_args(arguments)
    if options.list:
        print_list()
        return 0
    options.type = (options.type or "").upper()
    if (options.file is None or options.shape not in SHAPES or
            options.type not in (MIXTURES if options.widen is None else blocks.TYPES) or
            not 0 <= options.layers <= 1024 or options.threads < 0 or
            (options.levels and options.widen is not None)):
        parser.error("make-gguf needs --shape NAME, --type T (both of those that --list prints) "
                     "and FILE")
    try:
        if options.widen is not None:
            n_bytes = make_widened(options)
        else:
            n_bytes = write_random(options.file, options.shape, MIXTURES[options.type],
                                   options.layers, options.seed, options.threads)
            if options.levels:
                beside = levels.make(options.file, options.seed, options.tool or "llmsvc-tool")
                print(f"{beside}: the companion")
    except reader.GgufError as error:
        return figures.fail(error)
    except OSError as error:
        name = error.filename or options.file
        what = "read" if name == options.widen else "written"
        print(f"llmsvc-bench: {name} can’t be {what}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{options.file}: {SHAPES[options.shape].like}, {n_bytes / (1 << 20):.0f} MiB")
    return 0
