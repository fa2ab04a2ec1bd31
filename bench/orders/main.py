# SPDX-License-Identifier: LGPL-2.1-or-later
"""What sub-models of a prepared model lose, by how they could have been made: the order of its units, with
and without adapters, and beside layers left out. In floats, with PyTorch; on texts that nothing was found
on.

docs/elastic.md tells what the rows mean.
"""
import math
import os

from elastic.options import Parser
from lib.figures import fail, print_json
from modelfile.reader import GgufError

CALIBRATION = 48
SEED = 1


def measure_magnitudes(model, source):
    """The length of all weights of a unit, [layers × units]."""
    import numpy
    groups, channels = [], []
    for tensors in model.layers:
        squares = {name: tensor.double().pow(2) for name, tensor in tensors.items()}
        groups.append([sum(float(part.sum()) for part in (
            squares["attn_q.weight"][i * source.group_inputs:(i + 1) * source.group_inputs],
            squares["attn_v.weight"][i * source.head_dim:(i + 1) * source.head_dim],
            squares["attn_output.weight"][:, i * source.group_inputs:(i + 1) * source.group_inputs]))
            for i in range(source.n_groups)])
        channels.append((squares["ffn_gate.weight"].sum(1) + squares["ffn_up.weight"].sum(1)
                         + squares["ffn_down.weight"].sum(0)).numpy())
    return numpy.sqrt(groups), numpy.sqrt(channels)


def read_adapters(companion, table, source, level, shuffle=None):
    """Of each layer, as the service applies them; None without. @shuffle: a generator that mixes what they
    add up, so that they must fail."""
    import torch
    from elastic.model import ADAPTED, Adapters
    percent = table.levels[level]
    scale = companion.values.get("adapter.lora.alpha", 0)
    made = []
    for i in range(source.n_layers):
        n_kv = table.groups[i][level] * source.head_dim
        halves = {}
        for name in ADAPTED:
            at = f"level.{percent}.blk.{i}.{name}.weight.lora_"
            if at + "a" not in companion.tensors:
                return None
            a, b = (torch.from_numpy(companion.read(at + half).astype("float32")) for half in "ab")
            b = b[:n_kv] if name in ("attn_k", "attn_v") else b
            halves[name] = (a, b if shuffle is None else b[torch.randperm(len(b), generator=shuffle)])
        made.append(Adapters(halves, scale / len(a)))
    return made


def read_table(companion, source):
    from elastic.table import Table
    levels = companion.get_numbers("llmsvc.levels.percent")
    counts = []
    for what in ("groups", "channels"):
        items = companion.get_numbers(f"llmsvc.levels.{what}")
        counts.append([items[i * len(levels):(i + 1) * len(levels)] for i in range(source.n_layers)])
    return Table(levels, list(companion.get_numbers("llmsvc.levels.anchors")), *counts)


class Trial:
    def __init__(self, source, companion, kinds, calibration):
        import numpy
        import torch
        from elastic.model import Model
        self.source, self.companion = source, companion
        self.table = read_table(companion, source)
        self.names = [kind.name for kind in kinds]
        self.texts = [torch.from_numpy(numpy.ascontiguousarray(kind.checked)) for kind in kinds]
        self.calibration = torch.from_numpy(calibration)
        self.model = Model(source)

    def make_orders(self):
        """Importances by name; of the file's own order None."""
        import numpy
        from elastic import importance
        random = numpy.random.default_rng(SEED)
        shapes = ((self.source.n_layers, self.source.n_groups), (self.source.n_layers, self.source.n_ff))

        def tell(n_done):
            pass
        return {
            "as prepared": None,
            "forward only": importance.measure_by_activation(self.model, self.calibration, tell),
            "magnitude": measure_magnitudes(self.model, self.source),
            "random": tuple(random.random(shape) for shape in shapes),
            "inverted": tuple(-numpy.arange(shape[1], 0, -1.0) * numpy.ones(shape) for shape in shapes),
        }

    def measure(self, model, layers, adapters=None, without=()):
        """Of each text: mean loss, and divergence from the whole model."""
        import torch
        from elastic.adapters import get_divergence
        from elastic.model import get_loss
        found = []
        for text in self.texts:
            losses, divergences = [], []
            with torch.no_grad():
                for window in text:
                    batch = window[None]
                    logits = model.run(batch[:, :-1], layers, adapters, without=without)
                    whole = self.model.run(batch[:, :-1], self.model.cut())
                    losses.append(get_loss(logits, batch[:, 1:]).item())
                    divergences.append(get_divergence(logits, whole).item())
            found.append((sum(losses) / len(losses), sum(divergences) / len(divergences)))
        return found

    def cut(self, model, level):
        return model.cut([layer[level] for layer in self.table.groups],
                         [layer[level] for layer in self.table.channels])

    def choose_dropped(self, level):
        """Layers that cost least, until what is left is no more than the level has."""
        from elastic import importance
        if not hasattr(self, "costs"):
            self.costs = importance.measure_layers(self.model, self.calibration[:8], lambda n: None)[1]
        n_kept = round(self.table.levels[level] / 100 * self.source.n_layers)
        order = sorted(range(self.source.n_layers), key=lambda i: self.costs[i])
        return set(order[:self.source.n_layers - n_kept])

    def run(self, percents):
        """[(arm, level, [(loss, divergence) of each text])]"""
        import torch
        from elastic import order as orders
        from elastic.model import Model
        wanted = [level for level, percent in enumerate(self.table.levels) if percent in percents]
        rows = [("whole model", 100, self.measure(self.model, self.model.cut()))]
        for name, units in self.make_orders().items():
            model = self.model if units is None else Model(self.source, orders.make(
                self.source, *units, by_block=False))
            rows += [(name, self.table.levels[level], self.measure(model, self.cut(model, level)))
                     for level in wanted]
        for level in wanted:
            rows.append(("layers left out", self.table.levels[level], self.measure(
                self.model, self.model.cut(), without=self.choose_dropped(level))))
        for name, shuffle in (("with adapters", None), ("adapters, shuffled",
                                                        torch.Generator().manual_seed(SEED))):
            for level in wanted:
                adapters = read_adapters(self.companion, self.table, self.source, level, shuffle)
                if adapters is not None:
                    rows.append((name, self.table.levels[level], self.measure(
                        self.model, self.cut(self.model, level), adapters)))
        return rows


def print_rows(names, rows):
    columns = [f"{name}: {what}" for name in names for what in ("perplexity", "divergence")]
    print(f"| sub-model | level | {' | '.join(columns)} |")
    print("|" + "---|" * (2 + len(columns)))
    for arm, percent, found in rows:
        cells = " | ".join(f"{math.exp(loss):.2f} | {divergence:.4f}" for loss, divergence in found)
        print(f"| {arm} | {percent} % | {cells} |")


def parse(arguments):
    parser = Parser("llmsvc-bench orders", description=__doc__, allow_abbrev=False)
    parser.add_argument("model", metavar="MODEL.gguf", help="with a companion beside it")
    parser.add_texts(CALIBRATION, "orders are found on; losses are measured on the last ones of each text")
    parser.add("levels", str, "40,60,80", "N,N…", "levels that are compared (40,60,80)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(arguments)
    parser.check_texts(options)
    try:
        options.levels = [int(word) for word in options.levels.split(",")]
    except ValueError:
        parser.error(f"--levels {options.levels}: numbers are needed")
    return options


def main(arguments):
    options = parse(arguments)
    try:
        import torch
        from elastic import texts, write
        from elastic.source import Source
        from modelfile.reader import Gguf
        torch.set_num_threads(options.threads or os.cpu_count())
        source = Source(options.model)
        companion = Gguf(write.get_companion(options.model))
        if not companion.get_numbers("llmsvc.levels.percent"):
            raise GgufError(f"{companion.path} has no sub-models")
        kinds = texts.read(options, source)
        trial = Trial(source, companion, kinds, texts.mix(kinds, options.calibration))
        rows = trial.run(options.levels)
    except ModuleNotFoundError as error:
        return fail(f"{error.name} is missing: install python3-torch, python3-numpy and libopenblas0")
    except (GgufError, OSError) as error:
        return fail(error)
    if options.json:
        print_json({"texts": trial.names, "rows": rows})
    else:
        print_rows(trial.names, rows)
    return 0
