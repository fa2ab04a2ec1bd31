# SPDX-License-Identifier: LGPL-2.1-or-later
"""What units and layers matter, on a calibration text."""
import numpy
import torch

from .model import Masks, get_loss, measure_loss


def measure_by_gradient(model, texts, report, n_batch=2):
    """|∂loss/∂unit · unit|, the first-order term of what the loss grows by without the unit, of
    each text, added up. Returns importances of groups and of channels, [layers × units]."""
    source = model.source
    groups = numpy.zeros((source.n_layers, source.n_groups))
    channels = numpy.zeros((source.n_layers, source.n_ff))
    layers = model.cut()
    for begin in range(0, len(texts), n_batch):
        batch = texts[begin:begin + n_batch]
        masks = Masks(source, len(batch))
        logits = model.run(batch[:, :-1], layers, masks=masks)
        get_loss(logits, batch[:, 1:], "sum").backward()
        # A mask stands before its unit: its gradient is the sum of the unit times its own.
        for i in range(source.n_layers):
            groups[i] += masks.groups[i].grad.abs().sum(0).flatten().numpy()
            channels[i] += masks.channels[i].grad.abs().sum(0).flatten().numpy()
        report(begin + len(batch))
    return groups, channels


def measure_by_activation(model, texts, report, n_batch=2):
    """The size of what units add to the residual stream, without gradients: the mean magnitude of
    a channel times the length of its column of ffn_down; the mean length of what a group's heads
    add."""
    source = model.source
    groups = numpy.zeros((source.n_layers, source.n_groups))
    channels = numpy.zeros((source.n_layers, source.n_ff))
    layers = model.cut()
    lengths = [layer.tensors["ffn_down.weight"].norm(dim=0) for layer in layers]

    def watch(i, heads, neurons):
        out = layers[i].tensors["attn_output.weight"]
        size = source.group_inputs
        for group in range(source.n_groups):
            added = heads[:, :, group] @ out[:, group * size:(group + 1) * size].T
            groups[i, group] += added.norm(dim=-1).sum().item()
        channels[i] += (neurons.abs().sum((0, 1)) * lengths[i]).numpy()

    with torch.no_grad():
        for begin in range(0, len(texts), n_batch):
            batch = texts[begin:begin + n_batch]
            model.run(batch[:, :-1], layers, watch=watch)
            report(begin + len(batch))
    return groups, channels


def measure_layers(model, texts, report, keep=lambda name, make: make()):
    """The loss of the whole model, and what it grows by without each layer. @keep: as that of State, of each
    loss."""
    layers = model.cut()

    def measure(name, without):
        return float(keep(f"without-{name}", lambda: {
            "loss": numpy.array(measure_loss(model, layers, texts, without=without))})["loss"])
    whole = measure("none", set())
    losses = []
    for i in range(model.source.n_layers):
        losses.append(measure(i, {i}) - whole)
        report(i + 1)
    return whole, losses
