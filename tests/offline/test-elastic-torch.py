# SPDX-License-Identifier: LGPL-2.1-or-later
"""Preparing models: what needs PyTorch."""
import json
import os
import pathlib
import shutil
import tempfile
import types
import unittest
import unittest.mock

import rig
import numpy
import torch

from elastic import adapters as training
from elastic import importance
from elastic import order as orders
from elastic import table as tables
from elastic.model import Masks, Model, get_loss, measure_loss
from elastic.source import Source
from elastic.training import get_divergence

torch.set_num_threads(1)


def find(name):
    return str(rig.DATA / "architectures" / f"{name}.gguf")


def make_tokens(n_texts=1, n=40):
    """Those of which the files have the logits, and further ones."""
    rows = [[1 + i] for i in range(n_texts)]
    for row in rows:
        while len(row) < n:
            row.append((5 * row[-1] + 17) % 64)
    return torch.tensor(rows)


def tokenize(text):
    return json.loads(rig.run_tool("tokenize", "--json", "--model", rig.MODEL, text).stdout)["ids"]


def make_order(source, **more):
    random = numpy.random.default_rng(1)
    return orders.make(source, random.random((source.n_layers, source.n_groups)),
                       random.random((source.n_layers, source.n_ff)), **more)


class Forward(unittest.TestCase):
    def test_logits(self):
        """Those of llama.cpp; and the same when units lie in another order."""
        for name in ("qwen2-tied", "qwen3"):
            source = Source(find(name))
            wanted = numpy.fromfile(rig.DATA / "architectures" / f"{name}.logits", "<f4")
            for order in (None, make_order(source)):
                model = Model(source, order)
                with torch.no_grad():
                    found = model.run(make_tokens(), model.cut()).numpy().ravel()
                self.assertLess(abs(found - wanted).max(), 1e-4 * abs(wanted).max())

    def test_llama(self):
        """RoPE of pairs, and quantized weights: the perplexity that llmsvc-tool finds."""
        source = Source(str(rig.MODEL))
        content = "I would like to book a table at an Italian restaurant. " * 20
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder) / "text"
            text.write_text(content)
            wanted = rig.measure_perplexity(rig.MODEL, text)
        tokens, model, losses = tokenize(content), Model(source), []
        half = rig.N_CTX // 2
        # As llmsvc-tool measures: the second half of each window is scored.
        for begin in range(0, len(tokens) - rig.N_CTX + 1, rig.N_CTX):
            window = torch.tensor([tokens[begin:begin + rig.N_CTX]])
            window[0, 0] = 1
            with torch.no_grad():
                logits = model.run(window[:, :-1], model.cut())
            losses.append(get_loss(logits[:, half:], window[:, half + 1:], "none"))
        self.assertAlmostEqual(torch.cat(losses).mean().exp().item() / wanted, 1, delta=1e-3)

    def test_blocks(self):
        """Attention in blocks is attention."""
        source = Source(find("qwen3"))
        model, tokens = Model(source), make_tokens(2, 50)
        with torch.no_grad():
            wanted = model.run(tokens, model.cut())
            with unittest.mock.patch("elastic.model.BLOCK", 7):
                found = model.run(tokens, model.cut())
        self.assertLess((found - wanted).abs().max().item(), 1e-4)

    def test_cut(self):
        """A level computes what the whole model does when the other units give nothing."""
        source = Source(find("qwen2-tied"))
        model = Model(source, make_order(source))
        n_groups, n_channels = 1, source.n_ff // 2
        masks = Masks(source, 1)
        with torch.no_grad():
            for i in range(source.n_layers):
                masks.groups[i][:, :, n_groups:] = 0
                masks.channels[i][:, :, n_channels:] = 0
            wanted = model.run(make_tokens(), model.cut(), masks=masks)
            layers = model.cut([n_groups] * source.n_layers, [n_channels] * source.n_layers)
            found = model.run(make_tokens(), layers)
        self.assertLess((found - wanted).abs().max().item(), 1e-4)
        self.assertEqual(layers[0].tensors["ffn_down.weight"].shape[1], n_channels)


class Importance(unittest.TestCase):
    def test_first_order(self):
        """The importance of a unit is what the loss changes by as it begins to vanish."""
        source = Source(find("qwen3"))
        model = Model(source)
        text = make_tokens()
        groups, channels = importance.measure_by_gradient(model, text, lambda share: None)
        step = 1e-2

        def measure(change):
            masks = Masks(source, 1)
            with torch.no_grad():
                change(masks)
                return get_loss(model.run(text[:, :-1], model.cut(), masks=masks), text[:, 1:],
                                "sum").item()
        for layer, unit in ((0, 0), (1, 0)):
            def change(masks, size, layer=layer, unit=unit):
                masks.groups[layer][:, :, unit] += size
            slope = (measure(lambda masks: change(masks, step))
                     - measure(lambda masks: change(masks, -step))) / (2 * step)
            self.assertAlmostEqual(abs(slope), groups[layer, unit], delta=0.02 + 0.05 * abs(slope))
        best = int(channels[0].argmax())

        def change_channel(masks, size):
            masks.channels[0][:, :, best] += size
        slope = (measure(lambda masks: change_channel(masks, step))
                 - measure(lambda masks: change_channel(masks, -step))) / (2 * step)
        self.assertAlmostEqual(abs(slope), channels[0, best], delta=0.02 + 0.05 * abs(slope))

    def test_order_counts(self):
        """On the demo model both importances are better than chance, which is better than the
        inverted order."""
        source = Source(str(rig.MODEL))
        tokens = tokenize((rig.SOURCE / "README.md").read_text(encoding="utf-8"))
        texts = torch.tensor(tokens[:12 * 65]).view(12, 65)
        model = Model(source)
        table = tables.make_for(source, [6.4, 0, 0, 0, 0, 0, 0, 0.3])
        level = tables.LEVELS.index(60)

        def measure(groups, channels):
            ordered = Model(source, orders.make(source, groups, channels, by_block=False))
            layers = ordered.cut([counts[level] for counts in table.groups],
                                 [counts[level] for counts in table.channels])
            return measure_loss(ordered, layers, texts)
        gradient = importance.measure_by_gradient(model, texts, lambda share: None)
        activation = importance.measure_by_activation(model, texts, lambda share: None)
        random = numpy.random.default_rng(2)
        chance = measure(random.random(gradient[0].shape), random.random(gradient[1].shape))
        self.assertLess(measure(*gradient), chance)
        self.assertLess(measure(*activation), chance)
        self.assertGreater(measure(-gradient[0], -gradient[1]), chance)


class Adapters(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def make(self, path, tokens=40 * 200, learn="next"):
        source = Source(find("qwen3"))
        model = Model(source)
        layers = model.cut([1] * source.n_layers, [source.n_ff // 2] * source.n_layers)
        options = types.SimpleNamespace(rank=4, batch=2, tokens=tokens, learn=learn)
        texts = make_tokens(8, 41)
        return model, layers, texts, training.Trainer(model, layers, [texts], options, 1, str(path))

    def test_training(self):
        """The loss falls, and the weights stay as they are."""
        model, layers, texts, trainer = self.make(self.folder / "one.pt")
        before = measure_loss(model, layers, texts)
        weights = layers[0].tensors["attn_q.weight"].clone()
        halves = trainer.run(lambda n_done, note: None)
        after = measure_loss(model, layers, texts, training.wrap(halves, 4))
        self.assertLess(after, before - 0.3)
        self.assertTrue(torch.equal(weights, layers[0].tensors["attn_q.weight"]))
        self.assertEqual(measure_loss(model, layers, texts), before)

    def test_learns_whole(self):
        """The level comes nearer to the whole model."""
        model, layers, texts, trainer = self.make(self.folder / "one.pt", learn="whole")

        def measure(adapters):
            with torch.no_grad():
                whole = model.run(texts[:, :-1], model.cut())
                found = get_divergence(model.run(texts[:, :-1], layers, adapters), whole)
            return found.item()
        before = measure(None)
        halves = trainer.run(lambda n_done, note: None)
        self.assertLess(measure(training.wrap(halves, 4)), before / 2)
        with torch.no_grad():
            whole = model.run(texts[:, :-1], model.cut())
        self.assertLess(abs(get_divergence(whole, whole).item()), 1e-6)

    def test_resume(self):
        """What was interrupted ends as what was not."""
        whole = self.make(self.folder / "whole.pt")[3]
        halves = whole.run(lambda n_done, note: None)

        class Stop(Exception):
            pass

        def stop(n_done, note):
            if n_done > 0.7 * whole.n_steps:
                raise Stop
        with self.assertRaises(Stop):
            self.make(self.folder / "parts.pt")[3].run(stop)
        again = self.make(self.folder / "parts.pt")[3]
        self.assertGreater(again.step, 0)
        resumed = again.run(lambda n_done, note: None)
        for one, other in zip(halves, resumed):
            for name in one:
                for a, b in zip(one[name], other[name]):
                    self.assertTrue(torch.equal(a, b))


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        # The tokens of a text, as the README has them, in windows.
        tokens = tokenize((rig.SOURCE / "README.md").read_text(encoding="utf-8"))
        self.windows = self.folder / "windows.u16"
        numpy.array(tokens, "<u2")[:16 * 65].tofile(self.windows)

    def prepare(self, *words):
        outcome = rig.run(rig.MODEL, self.folder / "out", "--windows", self.windows, "--window",
                          65, "--context", 64, "--calibration", 4, "--threads", 1, "--tool",
                          rig.TOOL, *words)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return outcome

    def test_whole(self):
        """Both files, the table printed, and a second run that has nothing left to do."""
        first = self.prepare("--tokens", 256, "--batch", 2)
        path = self.folder / "out" / rig.MODEL.name
        levels = rig.inspect(path)["sub-models"]
        self.assertEqual([level["rank"] for level in levels], [8] * 8 + [0])
        self.assertIn("by neuron", first.stdout)
        self.assertIn("level 20: 2 of 2", first.stderr)
        text = rig.SOURCE / "CONTRIBUTING.md"
        self.assertAlmostEqual(rig.measure_perplexity(path, text)
                               / rig.measure_perplexity(rig.MODEL, text), 1, delta=1e-4)
        self.assertLess(os.path.getsize(self.folder / "out" / "llmsvc-demo-8M-Q8_0.llmsvc.gguf"),
                        5e6)

        before = {one: one.read_bytes() for one in (self.folder / "out").iterdir() if one.is_file()}
        again = self.prepare("--tokens", 256, "--batch", 2)
        self.assertNotIn("level", again.stderr)
        self.assertEqual(again.stdout, first.stdout)
        self.assertEqual(before, {one: one.read_bytes() for one in before})

    def test_orders(self):
        """What a prepared model loses is compared with other orders; the inverted one is worse, and
        adapters that are shuffled are no good."""
        self.prepare("--tokens", 2048, "--batch", 2, "--levels", "40,80")
        path = self.folder / "out" / rig.MODEL.name
        outcome = rig.run_bench("orders", path, "--windows", self.windows, "--window", 65, "--context",
                                64, "--calibration", 4, "--levels", "40", "--tool", rig.TOOL,
                                "--threads", 1, "--json")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        found = json.loads(outcome.stdout)
        self.assertEqual(found["texts"], [self.windows.name])
        rows = {arm: (percent, *texts[0]) for arm, percent, texts in found["rows"]}
        self.assertEqual(rows["whole model"][0], 100)
        self.assertEqual(rows["whole model"][2], 0)
        self.assertEqual(rows["as prepared"][0], 40)
        for worse in ("inverted", "layers left out"):
            self.assertGreater(rows[worse][2], rows["as prepared"][2])
        self.assertLess(rows["with adapters"][2], rows["as prepared"][2])
        self.assertGreater(rows["adapters, shuffled"][2], rows["with adapters"][2])
        wrong = rig.run_bench("orders", rig.MODEL, "--windows", self.windows)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("llmsvc-demo-8M-Q8_0.llmsvc.gguf", wrong.stderr)

    def test_forward_only(self):
        outcome = self.prepare("--forward-only")
        self.assertNotIn("with adapter", outcome.stdout)
        levels = rig.inspect(self.folder / "out" / rig.MODEL.name)["sub-models"]
        self.assertEqual({level["rank"] for level in levels}, {0})


if __name__ == "__main__":
    unittest.main()
