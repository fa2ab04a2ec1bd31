# SPDX-License-Identifier: LGPL-2.1-or-later
"""Finds thresholds on calibration windows and measures them on others."""
import os

import numpy
import torch
from elastic import texts, tool
from elastic.model import Model, get_loss
from progress import Progress

from . import companion, shares

# Rows of each input whose magnitudes are kept for quantiles.
N_ROWS = 4096
# Digits of a quantile that can be asked for.
N_QUANTILES = 2000


class Calibration:
    def __init__(self, source, options):
        self.source, self.model = source, Model(source)
        self.layers = self.model.cut()
        kinds = texts.read(options, source)
        self.learned = torch.from_numpy(texts.mix(kinds, options.calibration))
        self.checked = torch.from_numpy(numpy.concatenate([kind.checked for kind in kinds]))
        self.quantiles = self.measure_inputs()

    def measure_inputs(self):
        """Magnitudes in the dense model that 0, 1, … of N_QUANTILES parts are below:
        [layers × inputs][N_QUANTILES + 1]"""
        found = {}

        def watch(layer, name, values):
            rows = found.setdefault((layer, name), [])
            if sum(map(len, rows)) < N_ROWS:
                rows.append(values.flatten(0, 1).abs())
            return values
        with torch.no_grad():
            for window in self.learned:
                self.model.run(window[None, :-1], self.layers, change=watch)
        quantiles = {}
        for key, rows in found.items():
            ordered = torch.cat(rows)[:N_ROWS].flatten().sort().values
            places = torch.linspace(0, len(ordered) - 1, N_QUANTILES + 1).round().long()
            quantiles[key] = ordered[places]
        return quantiles

    def find_thresholds(self, kept):
        """[layers][inputs] for the parts of the inputs that stay."""
        places = [round((1 - k) * N_QUANTILES) for k in kept]
        return [[float(self.quantiles[layer, name][place]) if place > 0 else 0.0
                 for name, place in zip(shares.INPUTS, places)]
                for layer in range(self.source.n_layers)]

    def measure(self, thresholds, windows):
        """The loss with all rows sparse."""
        def change(layer, name, values):
            threshold = thresholds[layer][shares.INPUTS.index(name)]
            return values.where(values.abs() >= threshold, torch.zeros(()))
        total = 0.0
        with torch.no_grad():
            for i in range(0, len(windows), 4):
                batch = windows[i:i + 4]
                logits = self.model.run(batch[:, :-1], self.layers, change=change)
                total += get_loss(logits, batch[:, 1:], "sum").item()
        return total / (len(windows) * (windows.shape[1] - 1))

    def choose(self, options):
        """The kept parts of each sparsity."""
        if options.uniform:
            return shares.make_uniform()
        search = shares.Search(shares.count_weights(self.source),
                               lambda kept: self.measure(self.find_thresholds(kept), self.learned),
                               options.step / 100)
        progress, found = Progress("shares", len(shares.SPARSITIES)), []
        for i, percent in enumerate(shares.SPARSITIES):
            found.append(search.find(percent))
            progress.report(i + 1)
        return found


def run(source, options):
    """Writes the companion of the model. Fails with GgufError."""
    torch.set_num_threads(options.threads or os.cpu_count())
    identity = tool.identify(options.tool, source.path)
    # Before minutes of work: one that can't be added to.
    begun = companion.open_for(source, identity)
    one = Calibration(source, options)
    kept = one.choose(options)
    thresholds = [one.find_thresholds(parts) for parts in kept]
    dense = one.measure([[0.0] * len(shares.INPUTS)] * source.n_layers, one.checked)
    losses = [one.measure(found, one.checked) for found in thresholds]
    path = companion.write(source, begun, identity, kept, thresholds, [dense, *losses])
    print(f"sparsity   loss  {'  '.join(shares.INPUTS)}\n     0 %  {dense:5.3f}")
    for percent, loss, parts in zip(shares.SPARSITIES, losses, kept):
        columns = "  ".join(f"{k:{len(name)}.1%}" for k, name in zip(parts, shares.INPUTS))
        print(f"  {percent:4} %  {loss:5.3f}  {columns}")
    print(f"{path}: {os.path.getsize(path) / 1e3:.1f} kB")
