# SPDX-License-Identifier: LGPL-2.1-or-later
"""How many groups of heads and channels of each layer each level has. Anchor layers, without which
the model loses most, stay whole as long as the others have anything to give; every layer keeps a
group and a block. What a level adds is never taken away again by the next."""
import dataclasses

LEVELS = (20, 30, 40, 50, 60, 70, 80, 90, 100)
# As many as the service knows.
MAX_LEVELS = 16
# Of the layers are anchors: the power law that the paper finds.
ANCHOR_SHARE = 0.2
# Heads are cut half as fast as channels: the demo model's loss on windows kept for measuring was
# 2.00 at 40 % and 1.59 at 60 % with equal shares, and is 1.92 and 1.49 so.
HEADS_FIRST = 2
# Tokens before the one whose operations are counted.
DEPTH = 512


def choose_anchors(losses):
    """@losses: what the loss grows by without each layer. At least one layer, never all."""
    n = min(max(1, round(ANCHOR_SHARE * len(losses))), len(losses) - 1)
    return sorted(sorted(range(len(losses)), key=lambda i: -losses[i])[:n])


def make_borders(n, step):
    """Where a level may end: multiples of @step, and the whole."""
    return list(range(step, n, step)) + [n]


@dataclasses.dataclass
class Table:
    """groups, channels: by layer, for each of the levels."""
    levels: tuple
    anchors: list
    groups: list
    channels: list


class Budget:
    """Counts that grow one border at a time."""

    def __init__(self, n_layers, group_borders, channel_borders, group_weights, channel_weights):
        self.borders = (group_borders, channel_borders)
        self.weights = (group_weights, channel_weights)
        self.at = [[0, 0] for _ in range(n_layers)]
        self.whole = n_layers * sum(borders[-1] * weights for borders, weights
                                    in zip(self.borders, self.weights))
        self.used = n_layers * sum(borders[0] * weights for borders, weights
                                   in zip(self.borders, self.weights))

    def get(self, layer, kind):
        return self.borders[kind][self.at[layer][kind]]

    def price(self, layer, kind):
        at = self.at[layer][kind]
        return (self.borders[kind][at + 1] - self.borders[kind][at]) * self.weights[kind]

    def find_next(self, layers):
        """The (layer, kind) of which there is least so far; the first of @layers that are alike.
        None: all are whole."""
        favour = (1 / HEADS_FIRST, 1)
        waiting = [(self.get(layer, kind) / self.borders[kind][-1] * favour[kind], place, kind,
                    layer)
                   for place, layer in enumerate(layers) for kind in (0, 1)
                   if self.at[layer][kind] + 1 < len(self.borders[kind])]
        return None if not waiting else min(waiting)[:1:-1]

    def grow(self, layer, kind):
        self.used += self.price(layer, kind)
        self.at[layer][kind] += 1


def make(losses, group_borders, channel_borders, group_weights, channel_weights, levels=LEVELS):
    """@losses: what the loss grows by without each layer. The weights are those of one group and of
    one channel. A level has at most its part of all that can be left out, but for the least that
    layers keep, and is the same whatever other levels there are."""
    n_layers = len(losses)
    anchors = choose_anchors(losses) if n_layers > 1 else []
    order = sorted(range(n_layers), key=lambda i: -losses[i])
    first = [i for i in order if i in anchors]
    last = [i for i in order if i not in anchors]
    budget = Budget(n_layers, group_borders, channel_borders, group_weights, channel_weights)
    table = Table(tuple(levels), anchors, *([[] for _ in range(n_layers)] for _ in range(2)))
    for percent in levels:
        limit = percent * budget.whole // 100
        while (found := budget.find_next(first) or budget.find_next(last)) is not None:
            if budget.used + budget.price(*found) > limit:
                break
            budget.grow(*found)
        for layer in range(n_layers):
            table.groups[layer].append(budget.get(layer, 0))
            table.channels[layer].append(budget.get(layer, 1))
    return table


def make_for(source, losses, levels=LEVELS):
    """For the model @source."""
    return make(losses, make_borders(source.n_groups, source.count_group_step(64)),
                make_borders(source.n_ff, 64), *source.count_weights(), levels)


@dataclasses.dataclass
class Cost:
    weights: int = 0      # all that a level holds
    operations: int = 0   # products of one token, with attention to DEPTH others
    bytes: int = 0        # of weights, read for one token

    def add_matrix(self, kind, n_in, n_out):
        self.weights += n_in * n_out
        self.operations += n_in * n_out
        self.bytes += n_in * n_out // kind.block_size * kind.block_bytes


def measure(source, table, level, adapters=()):
    """The Cost of level number @level. @adapters: (inputs, outputs) of each half, in F16."""
    cost = Cost()
    sizes = {}
    for layer in range(source.n_layers):
        queries = table.groups[layer][level] * source.group_inputs
        channels = table.channels[layer][level]
        sizes[layer] = {"attn_q": (source.n_embd, queries), "attn_output": (queries, source.n_embd),
                        "ffn_gate": (source.n_embd, channels), "ffn_up": (source.n_embd, channels),
                        "ffn_down": (channels, source.n_embd)}
        cost.operations += 2 * queries * DEPTH
    for name, tensor in source.file.tensors.items():
        kind, parts = source.get_type(name), name.split(".")
        if len(tensor.dims) == 1:
            cost.weights += tensor.dims[0]
            cost.bytes += tensor.dims[0] * kind.block_bytes
        elif name == "token_embd.weight" and not source.is_tied:
            cost.weights += tensor.dims[0] * tensor.dims[1]   # one row of it is read
        elif parts[0] == "blk" and parts[2] in sizes[int(parts[1])]:
            cost.add_matrix(kind, *sizes[int(parts[1])][parts[2]])
        else:
            cost.add_matrix(kind, *tensor.dims)
    for n_in, n_out in adapters:
        cost.weights += n_in * n_out
        cost.operations += n_in * n_out
        cost.bytes += 2 * n_in * n_out
    return cost
