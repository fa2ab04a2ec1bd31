# SPDX-License-Identifier: LGPL-2.1-or-later
"""A model of architecture llama in PyTorch: what it makes of rows of tokens, each of which sees the
rows that its caller lets it see."""
import typing

import torch

from .files import GgufError

N_BLOCK = 128        # Rows that attention is computed for at a time.


class Llama:
    """Fails with GgufError. @file: a Gguf. weights: by the names of the file, F32."""

    def __init__(self, file):
        if file.values.get("general.architecture") != "llama":
            raise GgufError(f"{file.path}: the architecture is "
                            f"{file.values.get('general.architecture')}; only llama is known here")
        for key in file.keys:
            if key.startswith("llama.rope.scaling") or key.startswith("llama.expert"):
                raise GgufError(f"{file.path}: {key} is not known here")
        self.n_layers = file.get_count("llama.block_count")
        self.n_ctx = file.get_count("llama.context_length")
        self.n_heads = file.get_count("llama.attention.head_count")
        self.n_kv_heads = file.get_count("llama.attention.head_count_kv", self.n_heads)
        self.eps = file.values.get("llama.attention.layer_norm_rms_epsilon", 1e-5)
        width, n_ff = (file.get_count("llama." + key) for key in
                       ("embedding_length", "feed_forward_length"))
        if width % self.n_heads or self.n_heads % self.n_kv_heads:
            raise GgufError(f"{file.path}: heads don't divide the width")
        self.head_dim = file.get_count("llama.attention.key_length", width // self.n_heads)
        if file.get_count("llama.rope.dimension_count", self.head_dim) != self.head_dim:
            raise GgufError(f"{file.path}: only whole heads that are turned are known here")
        if "token_embd.weight" not in file.tensors:
            raise GgufError(f"{file.path}: the tensor token_embd.weight is missing")
        self.n_vocab = file.tensors["token_embd.weight"].dims[-1]
        dims = {"token_embd.weight": (width, self.n_vocab), "output_norm.weight": (width,)}
        queries, keys = self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim
        for i in range(self.n_layers):
            dims |= {f"blk.{i}.{name}.weight": shape for name, shape in {
                "attn_norm": (width,), "attn_q": (width, queries), "attn_k": (width, keys),
                "attn_v": (width, keys), "attn_output": (queries, width), "ffn_norm": (width,),
                "ffn_gate": (width, n_ff), "ffn_up": (width, n_ff),
                "ffn_down": (n_ff, width)}.items()}
        if "output.weight" in file.tensors:
            dims["output.weight"] = (width, self.n_vocab)
        unknown = sorted(set(file.tensors) - set(dims))
        if unknown:
            raise GgufError(f"{file.path}: the tensor {unknown[0]} is not known here")
        self.weights = {}
        for name, shape in dims.items():
            file.check(name, *shape)
            values = torch.from_numpy(file.read(name).copy())
            self.weights[name] = values if len(shape) > 1 else values[0]
        base = file.values.get("llama.rope.freq_base", 10000.0)
        turns = base ** (-torch.arange(0, self.head_dim, 2, dtype=torch.float64) / self.head_dim)
        angles = torch.arange(self.n_ctx, dtype=torch.float64)[:, None] * turns
        self.cos, self.sin = angles.cos().float(), angles.sin().float()

    def norm(self, x, name):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weights[name]

    def turn(self, x, positions):
        """Rotary positions on neighbouring pairs. @x: [row][head][value]."""
        cos, sin = self.cos[positions][:, None], self.sin[positions][:, None]
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    def run(self, tokens, positions, attend):
        """The last layer's output, normed. @attend: of a layer's number and the queries, keys and
        values of its rows, [row][head][value]: [row][head · value]."""
        linear, w = torch.nn.functional.linear, self.weights
        x = w["token_embd.weight"][tokens]
        for i in range(self.n_layers):
            block = f"blk.{i}."
            h = self.norm(x, block + "attn_norm.weight")
            q, k, v = (linear(h, w[f"{block}attn_{name}.weight"]).unflatten(-1, (-1, self.head_dim))
                       for name in "qkv")
            out = attend(i, self.turn(q, positions), self.turn(k, positions), v)
            x = x + linear(out, w[block + "attn_output.weight"])
            h = self.norm(x, block + "ffn_norm.weight")
            gate = torch.nn.functional.silu(linear(h, w[block + "ffn_gate.weight"]))
            x = x + linear(gate * linear(h, w[block + "ffn_up.weight"]),
                           w[block + "ffn_down.weight"])
        return self.norm(x, "output_norm.weight")

    def get_logits(self, hidden):
        output = self.weights.get("output.weight", self.weights["token_embd.weight"])
        return torch.nn.functional.linear(hidden, output)

    def spread(self, x):
        """[head][row][value] of keys or values, a copy for each head of the queries."""
        return x.transpose(0, 1).repeat_interleave(self.n_heads // self.n_kv_heads, 0)

    def attend(self, blocks):
        """For run(): attention among the rows themselves. @blocks: a Block for some rows each, which
        together are all rows in their order."""
        def attend(_, q, k, v):
            q = q.transpose(0, 1) * self.head_dim ** -0.5
            k, v = self.spread(k), self.spread(v)
            parts = []
            for block in blocks:
                keys, values = (torch.cat((x[:, :block.n_seen], x[:, block.begin:block.end]), 1)
                                for x in (k, v))
                scores = q[:, block.begin:block.end] @ keys.transpose(1, 2) + block.mask
                parts.append(torch.softmax(scores, -1) @ values)
            return torch.cat(parts, 1).transpose(0, 1).flatten(1)
        return attend


class Block(typing.NamedTuple):
    """Rows @begin to @end see some of the first @n_seen rows, and of themselves. mask: of both, one
    behind the other, added to the scores."""
    begin: int
    end: int
    n_seen: int
    mask: torch.Tensor


def cut_text(n):
    """Blocks for @n rows that see all before them."""
    for begin in range(0, n, N_BLOCK):
        end = min(begin + N_BLOCK, n)
        yield Block(begin, end, begin, torch.full((end - begin, end), -torch.inf).triu(1 + begin))
