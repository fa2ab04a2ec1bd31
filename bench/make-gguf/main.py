# SPDX-License-Identifier: LGPL-2.1-or-later
"""GGUF files with random weights at the shapes of well-known models: speed does not depend on what
weights say. Several threads make and write pieces; the same arguments give the same bytes."""
import concurrent.futures
import math
import os
import sys

from lib import figures

from . import head, weights
from .shapes import MIXTURES, SHAPES, TYPES, make_tensors

# Weights that one thread makes and writes at a time: blocks of 32 and of 256 fit.
PIECE_VALUES = 1 << 20


def write_all(file, data, offset):
    while data:
        n = os.pwrite(file, data, offset)
        data, offset = data[n:], offset + n


def write_piece(file, tensor, offset, first_block, seed):
    kind = TYPES[tensor.type]
    n_blocks = min(PIECE_VALUES // kind.block_size,
                   math.prod(tensor.dims) // kind.block_size - first_block)
    write_all(file, weights.make(tensor.type, tensor.deviation, seed, n_blocks),
              offset + first_block * kind.block_bytes)


def write(path, name, mixture, n_layers, seed, n_threads):
    """Returns the bytes of the file. On failure nothing stays."""
    shape = SHAPES[name]
    n_layers = n_layers or shape.n_layers
    tensors = list(make_tensors(shape, mixture, n_layers))
    start, offsets, n_bytes = head.make_head(name, shape, mixture, n_layers, tensors)
    file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC, 0o644)
    try:
        os.truncate(file, n_bytes)
        write_all(file, start, 0)
        with concurrent.futures.ThreadPoolExecutor(n_threads or os.cpu_count()) as pool:
            pieces = []
            for tensor, offset in zip(tensors, offsets):
                step = PIECE_VALUES // TYPES[tensor.type].block_size
                n_pieces = -(-math.prod(tensor.dims) // PIECE_VALUES)
                pieces += [pool.submit(write_piece, file, tensor, offset, i * step,
                                       (seed << 32) + len(pieces) + i) for i in range(n_pieces)]
            for piece in concurrent.futures.as_completed(pieces):
                piece.result()
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(file)
    return n_bytes


def print_list():
    print("Shapes:")
    for name, shape in SHAPES.items():
        print(f"  {name:12} {shape.like}, {shape.n_layers} layers of {shape.n_embd}")
    print("Types:\n ", *MIXTURES)


def main(arguments):
    parser = figures.Options("make-gguf", __doc__)
    parser.add("shape", meta="NAME", help="Whose shape it has (see --list)")
    parser.add("type", meta="T", help="Number format or mixture (see --list)")
    parser.add("layers", int, 0, help="Layers (those of the shape)")
    parser.add("seed", int, 1, help="Other weights (1)")
    parser.add("threads", int, 0, help="Threads that write (all processors)")
    parser.add_flag("list", "Print shapes and types")
    parser.add_argument("file", metavar="FILE", nargs="?")
    options = parser.parse_args(arguments)
    if options.list:
        print_list()
        return 0
    mixture = MIXTURES.get((options.type or "").upper())
    if (options.file is None or options.shape not in SHAPES or mixture is None or
            not 0 <= options.layers <= 1024 or options.threads < 0):
        parser.error("make-gguf needs --shape NAME, --type T (both of those that --list prints) "
                     "and FILE")
    try:
        n_bytes = write(options.file, options.shape, mixture, options.layers, options.seed,
                        options.threads)
    except OSError as error:
        print(f"llmsvc-bench: {options.file} can’t be written: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{options.file}: {SHAPES[options.shape].like}, {n_bytes / (1 << 20):.0f} MiB")
    return 0
