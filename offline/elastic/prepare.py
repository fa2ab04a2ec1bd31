# SPDX-License-Identifier: LGPL-2.1-or-later
"""The steps of a preparation, each of which is kept as soon as it is done."""
import dataclasses
import os

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
        learned, checked = texts.split(texts.read(options, source), options.context + 1)
        self.learned, self.checked = to_windows(learned), to_windows(checked)

    def measure_units(self):
        """Importances of groups and channels."""
        model = Model(self.source)
        measure = importance.measure_by_gradient
        if self.options.forward_only:
            measure = importance.measure_by_activation
        used = self.learned[:self.options.calibration]

        def make():
            groups, channels = measure(model, used, Progress("units", len(used)).report)
            return {"groups": groups, "channels": channels}
        return self.state.keep("units", make)

    def measure_layers(self):
        model = Model(self.source)

        def make():
            whole, losses = importance.measure_layers(model, self.learned[:len(self.checked)],
                                                      Progress("layers", self.source.n_layers).report)
            return {"whole": numpy.array(whole), "losses": numpy.array(losses)}
        return self.state.keep("layers", make)["losses"]

    def measure_levels(self, name, order, table):
        """The loss of each level without adapters."""
        def make():
            model = Model(self.source, order)
            progress, losses = Progress(f"levels {name}", len(tables.LEVELS)), []
            for level in range(len(tables.LEVELS)):
                losses.append(measure_loss(model, cut(model, table, level), self.checked))
                progress.report(level + 1)
            return {"losses": numpy.array(losses)}
        return self.state.keep(f"levels-{name}", make)["losses"]

    def train(self, order, table):
        """By percent of the level: (loss with adapters, {tensor: (A, B)})."""
        if self.options.tokens == 0:
            return {}
        model = Model(self.source, order)
        return {percent: self.train_level(model, table, level)
                for level, percent in enumerate(tables.LEVELS) if percent < 100}

    def train_level(self, model, table, level):
        percent, options = tables.LEVELS[level], self.options
        layers = cut(model, table, level)
        # What another run of the same importances may have otherwise.
        name = (f"level-{percent}-rank-{options.rank}-tokens-{options.tokens}-batch-{options.batch}"
                f"-seed-{options.seed}")

        def make():
            trainer = training.Trainer(model, layers, self.learned, options,
                                       options.seed * 1000 + percent,
                                       self.state.get_path(name + ".pt"))
            progress = Progress(f"level {percent}", trainer.n_steps, trainer.step)
            halves = trainer.run(progress.report)
            loss = measure_loss(model, layers, self.checked,
                                training.wrap(halves, options.rank))
            found = {"loss": numpy.array(loss)}
            for i, one in enumerate(halves):
                for matrix, (a, b) in one.items():
                    found[f"blk.{i}.{matrix}.weight.a"] = a.detach().numpy()
                    found[f"blk.{i}.{matrix}.weight.b"] = b.detach().numpy()
            return found
        found = self.state.keep(name, make)
        names = [half[:-2] for half in found if half.endswith(".a")]
        return float(found["loss"]), {one: (found[one + ".a"], self.fill(one, found[one + ".b"]))
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


def print_levels(shares, losses, fine, adapted):
    """@fine: of single units in order where blocks of a format were, else None. @adapted: with
    adapters, by percent."""
    print("level  weights  operations  bytes   loss" +
          ("" if fine is None else "  by neuron") + ("  with adapter" if adapted else ""))
    for level, percent in enumerate(tables.LEVELS):
        line = (f"{percent:4} %  {shares['weights'][level]:6.1%}   {shares['operations'][level]:8.1%}"
                f"  {shares['bytes'][level]:6.1%}  {losses[level]:5.3f}")
        if fine is not None:
            line += f"      {fine[level]:5.3f}"
        if percent in adapted:
            line += f"         {adapted[percent][0]:5.3f}"
        print(line)


def run(source, options, state, path):
    """Writes the file @path and its companion. Fails with GgufError."""
    if options.threads > 0:
        torch.set_num_threads(options.threads)
    else:
        torch.set_num_threads(os.cpu_count())
    one = Preparation(source, options, state)
    units = one.measure_units()
    losses = one.measure_layers()
    table = tables.make_for(source, losses)
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
            for level, percent in enumerate(tables.LEVELS)]
    write.write_companion(made, identity, table, adapters, best, training.ALPHA, companion)
    shares = write.make_shares(made, table, adapters)
    print_levels(shares, level_losses, fine, adapted)
    state.write_json("result.json", dataclasses.asdict(table) | {
        "levels": tables.LEVELS, "shares": shares, "losses": list(level_losses),
        "with-adapter": {percent: loss for percent, (loss, _) in adapted.items()}})
    for one in (path, companion):
        print(f"{one}: {os.path.getsize(one) / 1e6:.2f} MB")
