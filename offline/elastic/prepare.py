# SPDX-License-Identifier: LGPL-2.1-or-later
"""The steps of a preparation, each of which is kept as soon as it is done."""
import dataclasses
import os
import sys

import numpy
import torch

from progress import Progress

from . import adapters as training
from . import importance, texts, tool, write
from . import order as orders
from . import table as tables
from .model import Model, measure_loss
from .source import Source


def to_windows(windows):
    return torch.from_numpy(numpy.ascontiguousarray(windows))


class Preparation:
    def __init__(self, source, options, state):
        self.source, self.options, self.state = source, options, state
        kinds = texts.read(options, source, state.keep)
        self.names = [kind.name for kind in kinds]
        self.kinds = [to_windows(kind.learned) for kind in kinds]
        self.checked = [to_windows(kind.checked) for kind in kinds]
        self.calibration = to_windows(texts.mix(kinds, options.calibration))

    def measure_units(self):
        """Importances of groups and channels."""
        model = Model(self.source)
        measure = importance.measure_by_gradient
        if self.options.forward_only:
            measure = importance.measure_by_activation
        used = self.calibration

        def make():
            groups, channels = measure(model, used, Progress("units", len(used)).report)
            return {"groups": groups, "channels": channels}
        return self.state.keep("units", make)

    def measure_layers(self):
        model = Model(self.source)
        used = self.calibration[:texts.N_CHECKED]

        def make():
            report = Progress("layers", self.source.n_layers).report
            whole, losses = importance.measure_layers(model, used, report, self.state.keep)
            return {"whole": numpy.array(whole), "losses": numpy.array(losses)}
        return self.state.keep("layers", make)["losses"]

    def measure(self, model, layers, adapters=None):
        """The loss on each kind of text."""
        return numpy.array([measure_loss(model, layers, checked, adapters)
                            for checked in self.checked])

    def measure_levels(self, name, order, table):
        """The losses of each level without adapters: [levels × kinds]."""
        model, losses = Model(self.source, order), []
        for level, percent in enumerate(table.levels):
            def make(level=level, percent=percent):
                print(f"measuring level {percent} {name}", file=sys.stderr, flush=True)
                return {"losses": self.measure(model, cut(model, table, level))}
            losses.append(self.state.keep(f"level-{percent}-{name}", make)["losses"])
        return numpy.stack(losses)

    def train(self, order, table):
        """By percent of the level: (losses with adapters, {tensor: (A, B)})."""
        if self.options.tokens == 0:
            return {}
        model = Model(self.source, order)
        return {percent: self.train_level(model, table, level)
                for level, percent in enumerate(table.levels) if percent < 100}

    def train_level(self, model, table, level):
        percent, options = table.levels[level], self.options
        layers = cut(model, table, level)
        # What another run of the same importances may have otherwise.
        name = (f"level-{percent}-{options.learn}-rank-{options.rank}-tokens-{options.tokens}"
                f"-batch-{options.batch}-seed-{options.seed}")

        def make():
            trainer = training.Trainer(model, layers, self.kinds, options,
                                       options.seed * 1000 + percent,
                                       self.state.get_path(name + ".pt"))
            progress = Progress(f"level {percent}", trainer.n_steps, trainer.step)
            halves = trainer.run(progress.report)
            found = {"losses": self.measure(model, layers, training.wrap(halves, options.rank))}
            for i, one in enumerate(halves):
                for matrix, (a, b) in one.items():
                    found[f"blk.{i}.{matrix}.weight.a"] = a.detach().numpy()
                    found[f"blk.{i}.{matrix}.weight.b"] = b.detach().numpy()
            return found
        found = self.state.keep(name, make)
        names = [half[:-2] for half in found if half.endswith(".a")]
        return found["losses"], {one: (found[one + ".a"], self.fill(one, found[one + ".b"]))
                                 for one in names}

    def fill(self, name, b):
        """The service computes all of K and V at every level, and their groups without adapter
        where the level leaves them out."""
        if ".attn_k." not in name and ".attn_v." not in name:
            return b
        n_more = self.source.n_groups * self.source.head_dim - len(b)
        return numpy.concatenate((b, numpy.zeros((n_more, b.shape[1]), b.dtype)))


def cut(model, table, level):
    return model.cut([layer[level] for layer in table.groups],
                     [layer[level] for layer in table.channels])


def print_layers(losses, anchors):
    print("without layer: loss grows by")
    for i, loss in enumerate(losses):
        print(f"  {i:3}  {loss:7.3f}{'  anchor' if i in anchors else ''}")


def print_levels(names, table, shares, losses, fine, adapted):
    """@losses: [levels × kinds of text]. @fine: likewise, of single units in order where blocks of a
    format were, else None. @adapted: with adapters, by percent."""
    columns = [names]
    if fine is not None:
        columns.append([f"{name} by neuron" for name in names])
    if adapted:
        columns.append([f"{name} with adapter" for name in names])
    print("level  weights  operations  bytes   loss on " +
          "  ".join(name for column in columns for name in column))
    for level, percent in enumerate(table.levels):
        line = (f"{percent:4} %  {shares['weights'][level]:6.1%}   {shares['operations'][level]:8.1%}"
                f"  {shares['bytes'][level]:6.1%}         ")
        found = [losses[level]] + ([] if fine is None else [fine[level]])
        if percent in adapted:
            found.append(adapted[percent][0])
        print(line + "  ".join(f"{loss:{len(name)}.3f}" for column, values in zip(columns, found)
                               for name, loss in zip(column, values)))


def run(source, options, state, path):
    """Writes the file @path and its companion. Fails with GgufError."""
    if options.threads > 0:
        torch.set_num_threads(options.threads)
    else:
        torch.set_num_threads(os.cpu_count())
    one = Preparation(source, options, state)
    units = one.measure_units()
    losses = one.measure_layers()
    table = tables.make_for(source, losses, options.levels)
    print_layers(losses, table.anchors)

    order = orders.make(source, units["groups"], units["channels"])
    level_losses = one.measure_levels("ordered", order, table)
    fine = None
    if source.is_quantized():
        by_unit = orders.make(source, units["groups"], units["channels"], by_block=False)
        fine = one.measure_levels("by-neuron", by_unit, table)
    adapted = one.train(order, table)

    write.write_model(source, order, path, options.type)
    made = Source(path)
    adapters = {percent: halves for percent, (_, halves) in adapted.items()}
    identity = tool.identify(options.tool, path)
    companion = write.get_companion(path)
    best = [adapted[percent][0] if percent in adapted else level_losses[level]
            for level, percent in enumerate(table.levels)]
    write.write_companion(made, identity, table, adapters, [losses.mean() for losses in best],
                          training.ALPHA, companion)
    shares = write.make_shares(made, table, adapters)
    print_levels(one.names, table, shares, level_losses, fine, adapted)
    state.write_json("result.json", dataclasses.asdict(table) | {
        "texts": one.names, "shares": shares, "losses": level_losses.tolist(),
        "with-adapter": {percent: losses.tolist() for percent, (losses, _) in adapted.items()}})
    for one in (path, companion):
        print(f"{one}: {os.path.getsize(one) / 1e6:.2f} MB")
