# SPDX-License-Identifier: LGPL-2.1-or-later
"""A model made larger that says the same: every value of its residual stream, every head and every
neuron has several copies, layers that add nothing lie between its own. So a small model's text
comes at a large one's cost in bytes and operations, and drafts for it are accepted as a large one's
are."""
import collections
import dataclasses
import functools
import zlib

import numpy

from modelfile import blocks
from modelfile.head import STRING, UINT32, Keys
from modelfile.reader import GgufError
from modelfile.types import TYPES

from . import axis, weights
from .tensors import MIXTURES, PURE, make_tensors

ARCHITECTURE = "llama"
# Of weights that add nothing: to a sum of ordinary size, or to what a format can hold.
QUIET = {"F32": 1e-30, "F16": 2e-5}

# seed: of its first piece. make (first row, end row, seed of the piece): the bytes of these rows.
Made = collections.namedtuple("Made", "name type dims seed make")


class Layer:
    """Axes of a layer of the model: what a matrix reads and what it writes."""

    def __init__(self, plan, layer):
        n_heads, n_kv, dim = plan.shape.n_heads, plan.shape.n_kv_heads, plan.shape.head_dim
        kv = axis.count_copies(n_kv, plan.n_kv_heads)
        # Queries of a KV head's copies are copies of its own queries.
        per_source = numpy.bincount(kv) * (n_heads // n_kv)
        group = plan.n_heads // plan.n_kv_heads
        heads = numpy.concatenate([i * group + axis.count_copies(n, group)
                                   for i, n in enumerate(per_source)])
        of_head = numpy.repeat(numpy.arange(n_kv), n_heads // n_kv)
        channels = numpy.arange(dim)

        def spread(sources):
            return (sources[:, None] * dim + channels).ravel()

        gains = axis.draw_gains(n_kv * dim, plan.seed(f"values {layer}"))
        neurons = axis.count_copies(plan.shape.n_ff, plan.n_ff)
        if plan.scatters:
            neurons = axis.scatter(neurons, plan.seed(f"places {layer}"))
        up = axis.draw_gains(plan.shape.n_ff, plan.seed(f"neurons {layer}"))
        self.queries = axis.Axis(spread(heads))
        self.keys = axis.Axis(spread(kv))
        self.values = axis.Axis(spread(kv), gains)
        self.attention = axis.Axis(spread(heads), gains[spread(of_head)])
        self.gates = axis.Axis(neurons)
        self.neurons = axis.Axis(neurons, up)


# Names of what a matrix reads and what it writes.
MATRICES = {
    "attn_q": ("residual", "queries"), "attn_k": ("residual", "keys"),
    "attn_v": ("residual", "values"), "attn_output": ("attention", "residual"),
    "ffn_gate": ("residual", "gates"), "ffn_up": ("residual", "neurons"),
    "ffn_down": ("neurons", "residual"),
}


class Plan:
    """What of @model goes where in a file of the dimensions of @shape. @scatters: copies of a neuron
    don't lie side by side. Fails with GgufError."""

    def __init__(self, model, shape, kind, n_layers, seed, scatters=False):
        self.model, self.number, self.scatters = model, seed, scatters
        if model.values.get("general.architecture") != ARCHITECTURE:
            raise GgufError(f"{model.path}: only models of architecture {ARCHITECTURE} can be "
                            "widened")
        if model.values.get("llama.expert_count", 0) != 0 or shape.n_experts > 0:
            raise GgufError("models and shapes with experts can’t be widened")
        self.n_layers = model.get_count("llama.block_count")
        self.n_embd = model.get_count("llama.embedding_length")
        self.n_ff = model.get_count("llama.feed_forward_length")
        self.n_heads = model.get_count("llama.attention.head_count")
        self.n_kv_heads = model.get_count("llama.attention.head_count_kv", self.n_heads)
        self.head_dim = model.get_count("llama.attention.key_length", self.n_embd // self.n_heads)
        self.n_vocab = model.tensors["token_embd.weight"].dims[-1] if (
            "token_embd.weight" in model.tensors) else 0
        self.is_tied = "output.weight" not in model.tensors
        self.shape = self.fit(shape, n_layers or shape.n_layers)
        self.places = [i * self.shape.n_layers // self.n_layers for i in range(self.n_layers)]
        self.residual = axis.make_residual(self.shape.n_embd, self.n_embd, self.seed("residual"))
        self.check_tensors()
        self.mixture = MIXTURES[kind]._replace(rules=PURE)

    def fit(self, shape, n_layers):
        """@shape with the model's vocabulary and head size, as many heads as take as many bytes."""
        dim = self.head_dim
        n_kv, n_q = shape.n_kv_heads * shape.head_dim, shape.n_heads * shape.head_dim
        if self.n_heads % self.n_kv_heads != 0:
            raise GgufError(f"{self.model.path}: {self.n_heads} heads are no whole groups for "
                            f"{self.n_kv_heads} of keys and values")
        for what, own, wanted in (("layers", self.n_layers, n_layers),
                                  ("values in its residual stream", self.n_embd, shape.n_embd),
                                  ("neurons in a layer", self.n_ff, shape.n_ff),
                                  ("keys of a token", self.n_kv_heads * dim, n_kv),
                                  ("queries of a token", self.n_heads * dim, n_q)):
            if own > wanted:
                raise GgufError(f"{self.model.path} has {own} {what}, the shape {wanted}: too few")
        if n_kv % dim != 0 or n_q % n_kv != 0:
            raise GgufError(f"the shape’s {n_q} queries and {n_kv} keys of a token are no whole "
                            f"heads of {dim}")
        # The fewest queries that copies of one KV head have.
        if n_kv // dim // self.n_kv_heads * (n_q // n_kv) < self.n_heads // self.n_kv_heads:
            raise GgufError(f"the shape has {n_q // n_kv} queries for a key, too few for all of "
                            f"{self.model.path}")
        return dataclasses.replace(
            shape, architecture=ARCHITECTURE, n_layers=n_layers, n_heads=n_q // dim,
            n_kv_heads=n_kv // dim, head_dim=dim, n_vocab=self.n_vocab, is_tied=self.is_tied,
            has_qkv_biases=False, has_qk_norms=False)

    def seed(self, purpose):
        """Weights of a layer don't depend on where it lies."""
        return (self.number << 52) + (zlib.crc32(purpose.encode()) << 20)

    @functools.lru_cache(maxsize=2)
    def layer(self, layer):
        return Layer(self, layer)

    def check_tensors(self):
        """Shapes of all tensors, and that none is left out."""
        model, known = self.model, set()

        def check(name, *dims):
            model.check(name, *dims)
            known.add(name)

        q, kv = self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim
        check("token_embd.weight", self.n_embd, self.n_vocab)
        check("output_norm.weight", self.n_embd)
        if not self.is_tied:
            check("output.weight", self.n_embd, self.n_vocab)
        sizes = {"residual": self.n_embd, "queries": q, "keys": kv, "values": kv, "attention": q,
                 "gates": self.n_ff, "neurons": self.n_ff}
        for i in range(self.n_layers):
            check(f"blk.{i}.attn_norm.weight", self.n_embd)
            check(f"blk.{i}.ffn_norm.weight", self.n_embd)
            for name, (read, written) in MATRICES.items():
                check(f"blk.{i}.{name}.weight", sizes[read], sizes[written])
        for name in model.tensors:
            if name not in known:
                raise GgufError(f"{model.path}: no rule how the tensor {name} is widened")

    def find_axes(self, name):
        """What a matrix of the model reads and what it writes; None: tokens."""
        if name == "output.weight":
            return self.residual, None
        _, layer, matrix, _ = name.split(".")
        axes = vars(self.layer(int(layer))) | {"residual": self.residual}
        return tuple(axes[one] for one in MATRICES[matrix])

    def is_matrix(self, name):
        """Of a tensor of the model: whether find_axes() knows it."""
        return name == "output.weight" or len(self.model.tensors[name].dims) == 2 and (
            name.startswith("blk."))

    def rename(self, name):
        """What a tensor of the model is called in the widened one."""
        if not name.startswith("blk."):
            return name
        _, layer, rest = name.split(".", 2)
        return f"blk.{self.places[int(layer)]}.{rest}"

    def make_matrix(self, name, kind):
        def make(begin, end, seed):
            read, written = self.find_axes(name)
            rows = self.model.read(name)
            rows = rows[begin:end] if written is None else written.write(rows, begin, end)
            return blocks.pack(kind, read.read(rows, seed))
        return make

    def make_embedding(self, begin, end, _):
        rows = self.model.read("token_embd.weight")[begin:end].take(self.residual.source, axis=1)
        return blocks.pack(self.embedding_type, rows * self.residual.gain)

    def make_norm(self, name):
        def make(_begin, _end, _seed):
            values = self.model.read(name)[0][self.residual.source]
            if name == "output_norm.weight" and self.is_tied:
                # The embedding is multiplied by gains, not by weights.
                values = values * numpy.float32(self.n_embd / self.shape.n_embd)
            return blocks.pack("F32", values)
        return make

    def make_extra(self, tensor):
        """Random weights of a layer that adds nothing."""
        kind, matrix = TYPES[tensor.type], tensor.name.split(".")[2]
        # Half precision has no number that is small enough by itself.
        is_quiet = matrix in ("attn_output", "ffn_down") or (
            tensor.type == "F16" and matrix in ("attn_v", "ffn_up"))
        deviation = QUIET.get(tensor.type, tensor.deviation) if is_quiet else tensor.deviation

        def make_norm(begin, end, seed):
            return 1 + numpy.frombuffer(weights.make("F32", 0.1, seed, len(self.residual)), "<f4")

        def make(begin, end, seed):
            n = (end - begin) * tensor.dims[0] // kind.block_size
            made = weights.make(tensor.type, deviation, seed, n)
            if is_quiet and tensor.type not in QUIET:
                made = numpy.frombuffer(bytearray(made), numpy.uint8).reshape(n, kind.block_bytes)
                made[:, 0] = 0
                made[:, 1] &= 0x80  # the sign of a zero
            return made
        return make_norm if tensor.deviation is None else make

    @property
    def embedding_type(self):
        return "Q8_0" if self.mixture.type == "Q4_0" else self.mixture.type

    def make_tensors(self):
        names = {self.rename(name): name for name in self.model.tensors}
        for tensor in make_tensors(self.shape, self.mixture, self.shape.n_layers):
            name, kind = tensor.name, tensor.type
            own = names.get(name)
            if name in ("token_embd.weight", "output.weight"):
                kind = self.embedding_type
            if own is None:
                make = self.make_extra(tensor)
            elif name == "token_embd.weight":
                make = self.make_embedding
            elif len(tensor.dims) == 1:
                make = self.make_norm(own)
            else:
                make = self.make_matrix(own, kind)
            yield Made(name, kind, tensor.dims, self.seed(own or f"extra {name}"), make)

    def make_keys(self, name):
        """The model's, with the numbers of the shape; @name: of the shape."""
        shape = self.shape
        own = self.model.values.get("general.name")
        numbers = {"block_count": shape.n_layers, "embedding_length": shape.n_embd,
                   "feed_forward_length": shape.n_ff, "attention.head_count": shape.n_heads,
                   "attention.head_count_kv": shape.n_kv_heads,
                   "attention.key_length": shape.head_dim,
                   "attention.value_length": shape.head_dim}
        changed = {f"{ARCHITECTURE}.{key}": (UINT32, number) for key, number in numbers.items()}
        changed |= {"general.name": (STRING, f"{own or 'a model'}, widened to {name}"),
                    "general.file_type": (UINT32, self.mixture.file_type),
                    "general.quantization_version": (UINT32, 2)}
        rope = f"{ARCHITECTURE}.rope.dimension_count"
        if rope not in self.model.keys:
            changed[rope] = (UINT32, self.head_dim)
        keys = Keys()
        for key, data in self.model.keys.items():
            # A label of the size would be wrong, the file's own alignment is the usual one.
            if key not in changed and key not in ("general.size_label", "general.alignment"):
                keys.parts.append(data)
        for key, (kind, value) in changed.items():
            keys.add(key, kind, value)
        return keys
