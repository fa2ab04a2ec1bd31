# SPDX-License-Identifier: LGPL-2.1-or-later
"""The model that is prepared: what its file says of its shape, and which of its units can move. What
the forward pass of these tools does not compute is refused: its importances would be wrong."""
import functools
import math
import os

from modelfile import blocks
from modelfile.reader import Gguf, GgufError
from modelfile.types import TYPES

# How each turns the values of a head: neighbouring pairs, or (i, i + half).
ARCHITECTURES = {"llama": "pairs", "qwen2": "halves", "qwen3": "halves"}
# Borders between sub-models are multiples of so many inputs: as LLM_SEGMENT_INPUTS of the service.
SEGMENT_INPUTS = 64

MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
# Which units a tensor of a layer has: its rows (outputs), and its columns (inputs).
ROWS = {"attn_q.weight": "queries", "attn_k.weight": "keys", "attn_v.weight": "keys",
        "attn_q.bias": "queries", "attn_k.bias": "keys", "attn_v.bias": "keys",
        "ffn_gate.weight": "channels", "ffn_up.weight": "channels"}
COLUMNS = {"attn_output.weight": "queries", "ffn_down.weight": "channels"}


class Source:
    """Fails with GgufError."""

    def __init__(self, path):
        self.file = file = Gguf(path)
        self.path = path
        self.name = os.path.basename(path).removesuffix(".gguf")
        self.architecture = file.values.get("general.architecture")
        if self.architecture not in ARCHITECTURES:
            raise GgufError(f"{path}: the architecture is {self.architecture}; "
                            f"{', '.join(ARCHITECTURES)} can be prepared")
        self.rope = ARCHITECTURES[self.architecture]
        count = functools.partial(self.get, file.get_count)
        self.n_layers = count("block_count")
        self.n_embd = count("embedding_length")
        self.n_ff = count("feed_forward_length")
        self.n_heads = count("attention.head_count")
        self.n_groups = count("attention.head_count_kv", self.n_heads)
        if self.n_heads % self.n_groups != 0:
            raise GgufError(f"{path}: {self.n_heads} heads are no whole groups for {self.n_groups} "
                            "of keys and values")
        self.head_dim = count("attention.key_length", self.n_embd // self.n_heads)
        self.eps = float(self.get(file.values.get, "attention.layer_norm_rms_epsilon", 1e-5))
        self.rope_base = float(self.get(file.values.get, "rope.freq_base", 10000.0))
        self.is_tied = "output.weight" not in file.tensors
        self.n_vocab = file.tensors["token_embd.weight"].dims[-1] if (
            "token_embd.weight" in file.tensors) else 0
        self.refuse_keys()
        self.check_tensors()

    def get(self, read, key, *default):
        return read(f"{self.architecture}.{key}", *default)

    @property
    def group_inputs(self):
        return self.n_heads // self.n_groups * self.head_dim

    def refuse_keys(self):
        values = self.file.values
        for key in ("rope.scaling.type", "attention.sliding_window", "expert_count"):
            value = values.get(f"{self.architecture}.{key}")
            if value not in (None, "none", 0):
                raise GgufError(f"{self.path}: models with {self.architecture}.{key} can’t be "
                                "prepared")
        dim = values.get(f"{self.architecture}.rope.dimension_count", self.head_dim)
        if dim != self.head_dim or self.head_dim % 2 != 0:
            raise GgufError(f"{self.path}: {dim} values of a head of {self.head_dim} are rotated; "
                            "all of an even number must be")

    def check_tensors(self):
        q, kv = self.n_heads * self.head_dim, self.n_groups * self.head_dim
        shapes = {"token_embd.weight": (self.n_embd, self.n_vocab), "output_norm.weight":
                  (self.n_embd,)}
        if not self.is_tied:
            shapes["output.weight"] = (self.n_embd, self.n_vocab)
        layer = {"attn_norm.weight": (self.n_embd,), "attn_q.weight": (self.n_embd, q),
                 "attn_k.weight": (self.n_embd, kv), "attn_v.weight": (self.n_embd, kv),
                 "attn_output.weight": (q, self.n_embd), "ffn_norm.weight": (self.n_embd,),
                 "ffn_gate.weight": (self.n_embd, self.n_ff),
                 "ffn_up.weight": (self.n_embd, self.n_ff),
                 "ffn_down.weight": (self.n_ff, self.n_embd)}
        optional = {"attn_q.bias": (q,), "attn_k.bias": (kv,), "attn_v.bias": (kv,),
                    "attn_q_norm.weight": (self.head_dim,), "attn_k_norm.weight": (self.head_dim,)}
        for i in range(self.n_layers):
            for name, dims in layer.items():
                shapes[f"blk.{i}.{name}"] = dims
            for name, dims in optional.items():
                if f"blk.{i}.{name}" in self.file.tensors:
                    shapes[f"blk.{i}.{name}"] = dims
        for name, dims in shapes.items():
            self.file.check(name, *dims)
        for name in self.file.tensors:
            if name not in shapes:
                raise GgufError(f"{self.path}: the tensor {name} is not of a model that can be "
                                "prepared")

    def get_type(self, name):
        return TYPES[self.file.tensors[name].type]

    def is_quantized(self):
        """Whether units move by blocks, so that no weight is rounded once more."""
        return self.count_block("attn_output") > 1 or self.count_block("ffn_down") > 1

    def count_block(self, matrix):
        """Inputs that can't be parted: the largest block of @matrix of all layers."""
        return max(self.get_type(f"blk.{i}.{matrix}.weight").block_size
                   for i in range(self.n_layers))

    def count_group_step(self, n_inputs):
        """The fewest groups whose queries are a multiple of @n_inputs inputs of attn_output; all
        where there is none."""
        return min(math.lcm(self.group_inputs, n_inputs) // self.group_inputs, self.n_groups)

    def count_weights(self):
        """Of a group of heads, and of a channel, that a smaller sub-model leaves out."""
        return 2 * self.group_inputs * self.n_embd, 3 * self.n_embd

    def read(self, name):
        """As floats: a vector, or [outputs × inputs]."""
        rows = self.file.read(name)
        return rows[0] if len(self.file.tensors[name].dims) == 1 else rows

    def read_bytes(self, name):
        """As they are in the file: [outputs × blocks × bytes of a block]."""
        tensor, kind = self.file.tensors[name], self.get_type(name)
        n_blocks = tensor.dims[0] // kind.block_size
        n_rows = math.prod(tensor.dims[1:])
        return blocks.view(self.file.data, self.file.begin + tensor.offset,
                           n_rows * n_blocks * kind.block_bytes
                           ).reshape(n_rows, n_blocks, kind.block_bytes)
