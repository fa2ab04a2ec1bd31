# SPDX-License-Identifier: LGPL-2.1-or-later
"""The forward pass in PyTorch, in floats: of the whole model, or of as many groups and channels of
each layer as a level has, which are then all that is computed."""
import math

import torch
from torch.nn import functional

from . import order as orders
from .source import MATRICES

ADAPTED = MATRICES
# Positions whose attention is computed together: few enough for caches, and what is behind them is
# left out.
BLOCK = 128


class Masks:
    """Factors of 1 whose gradients say what units matter, for each text of a batch by itself."""

    def __init__(self, source, n_texts):
        self.groups = [torch.ones(n_texts, 1, source.n_groups, 1, requires_grad=True)
                       for _ in range(source.n_layers)]
        self.channels = [torch.ones(n_texts, 1, source.n_ff, requires_grad=True)
                         for _ in range(source.n_layers)]


class Layer:
    """The tensors of a layer by their short names, each with the units that the level has."""

    def __init__(self, tensors, n_groups, n_channels, n_queries):
        self.n_groups, self.n_queries = n_groups, n_queries
        self.tensors = tensors
        self.n_channels = n_channels

    def multiply(self, x, name, adapters):
        y = functional.linear(x, self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias"))
        if adapters is not None:
            a, b = adapters.halves[name]
            y = y + functional.linear(functional.linear(x, a), b) * adapters.scale
        return y


class Adapters:
    """Of one layer: halves by the name of the matrix: [rank × inputs], [outputs × rank]."""

    def __init__(self, halves, scale):
        self.halves, self.scale = halves, scale


def attend_block(q, k, v, begin):
    """What the positions from @begin on give. @q, @v: [texts × groups × queries × positions ×
    values], @k likewise with positions last."""
    end = min(begin + BLOCK, q.shape[3])
    hidden = torch.full((end - begin, end), -math.inf).triu(begin + 1)
    scores = torch.matmul(q[..., begin:end, :], k[..., :end]) + hidden
    return torch.matmul(scores.softmax(-1), v[..., :end, :])


class Model:
    """@order: an Order, None for that of the file."""

    def __init__(self, source, order=None):
        self.source = source
        self.layers = [{} for _ in range(source.n_layers)]
        self.others = {}
        for name in source.file.tensors:
            values = source.read(name)
            if order is not None:
                values = orders.move(order, source, name, values)
            tensor = torch.from_numpy(values.astype("float32"))
            parts = name.split(".", 2)
            if parts[0] == "blk":
                self.layers[int(parts[1])][parts[2]] = tensor
            else:
                self.others[name] = tensor
        self.angles = {}

    def cut(self, groups=None, channels=None):
        """Layers of a level: @groups and @channels by layer, None for all. Views of the same
        memory."""
        source = self.source
        made = []
        for i, tensors in enumerate(self.layers):
            n = source.n_groups if groups is None else groups[i]
            n_ff = source.n_ff if channels is None else channels[i]
            n_q, n_kv = n * source.group_inputs, n * source.head_dim
            rows = {"attn_q": n_q, "attn_k": n_kv, "attn_v": n_kv, "ffn_gate": n_ff, "ffn_up": n_ff}
            columns = {"attn_output.weight": n_q, "ffn_down.weight": n_ff}
            cut = {}
            for name, tensor in tensors.items():
                if name in columns:
                    cut[name] = tensor[:, :columns[name]]
                else:
                    cut[name] = tensor[:rows.get(name.split(".")[0], len(tensor))]
            made.append(Layer(cut, n, n_ff, source.n_heads // source.n_groups))
        return made

    def normalize(self, x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.source.eps) * weight

    def rotate(self, x):
        """@x: [texts × positions × heads × values]."""
        n, dim = x.shape[1], x.shape[3]
        if n not in self.angles:
            frequencies = self.source.rope_base ** (-torch.arange(0, dim, 2, dtype=torch.double)
                                                    / dim)
            angles = torch.outer(torch.arange(n, dtype=torch.double), frequencies)
            self.angles[n] = (angles.cos().float()[:, None], angles.sin().float()[:, None])
        cos, sin = self.angles[n]
        if self.source.rope == "pairs":
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(3)
        a, b = x[..., :dim // 2], x[..., dim // 2:]
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

    def attend(self, x, layer, adapters):
        """What heads give: [texts × positions × groups × values of their queries]."""
        n_texts, n, dim = x.shape[0], x.shape[1], self.source.head_dim
        q = layer.multiply(x, "attn_q", adapters).view(n_texts, n, -1, dim)
        k = layer.multiply(x, "attn_k", adapters).view(n_texts, n, -1, dim)
        v = layer.multiply(x, "attn_v", adapters).view(n_texts, n, layer.n_groups, dim)
        for name, norm in (("q", "attn_q_norm.weight"), ("k", "attn_k_norm.weight")):
            if norm in layer.tensors:
                normal = self.normalize(q if name == "q" else k, layer.tensors[norm])
                q, k = (normal, k) if name == "q" else (q, normal)
        q, k = self.rotate(q), self.rotate(k)
        # Queries of a group beside each other, as rows of one product.
        q = q.view(n_texts, n, layer.n_groups, layer.n_queries, dim).permute(0, 2, 3, 1, 4)
        q = q / math.sqrt(dim)
        k = k.permute(0, 2, 3, 1)[:, :, None]
        v = v.permute(0, 2, 1, 3)[:, :, None]
        out = torch.cat([attend_block(q, k, v, begin) for begin in range(0, n, BLOCK)], 3)
        return out.permute(0, 3, 1, 2, 4).reshape(n_texts, n, layer.n_groups, -1)

    def run(self, tokens, layers, adapters=None, masks=None, without=(), watch=None,
            change=None):
        """Logits. @tokens: [texts × positions]. @without: layers that are left out. @watch: called
        with the layer's number, what its heads give, and what its channels give. @change: called
        with the layer's number, the name of an input of products and its values, returns those
        that are multiplied."""
        change = change or (lambda layer, name, values: values)
        x = functional.embedding(tokens, self.others["token_embd.weight"])
        for i, layer in enumerate(layers):
            if i in without:
                continue
            own = None if adapters is None else adapters[i]
            normed = self.normalize(x, layer.tensors["attn_norm.weight"])
            heads = self.attend(change(i, "attention", normed), layer, own)
            if masks is not None:
                heads = heads * masks.groups[i]
            x = x + layer.multiply(change(i, "attention-output", heads.flatten(2)), "attn_output",
                                   own)
            h = change(i, "ffn", self.normalize(x, layer.tensors["ffn_norm.weight"]))
            neurons = functional.silu(layer.multiply(h, "ffn_gate", own)) * layer.multiply(
                h, "ffn_up", own)
            if masks is not None:
                neurons = neurons * masks.channels[i]
            if watch is not None:
                watch(i, heads, neurons)
            x = x + layer.multiply(change(i, "ffn-down", neurons), "ffn_down", own)
        x = self.normalize(x, self.others["output_norm.weight"])
        return functional.linear(x, self.others.get("output.weight",
                                                    self.others["token_embd.weight"]))


def get_loss(logits, tokens, reduction="mean"):
    """Of each next token, in nats."""
    return functional.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction=reduction)


def measure_loss(model, layers, texts, adapters=None, without=(), n_batch=4):
    """The mean over the tokens of @texts: [texts × positions]."""
    total = 0.0
    with torch.no_grad():
        for i in range(0, len(texts), n_batch):
            batch = texts[i:i + n_batch]
            logits = model.run(batch[:, :-1], layers, adapters, without=without)
            total += get_loss(logits, batch[:, 1:], "sum").item()
    return total / (len(texts) * (texts.shape[1] - 1))
