# SPDX-License-Identifier: LGPL-2.1-or-later
"""Preparing models, without what needs PyTorch: the table of levels, the order of units, and the
files that are written."""
import json
import pathlib
import re
import shutil
import struct
import tempfile
import types
import unittest

import rig
import numpy

from elastic import order as orders
from elastic import table as tables
from elastic import texts, tool, write
from elastic.source import Source
from elastic.state import State
from modelfile import blocks
from modelfile.reader import Gguf, GgufError
from modelfile.types import TYPES

LOSSES = [7.2, 6.9, 6.6, 6.5, 6.4, 6.4, 6.4, 6.4, 6.3]
TEXT = ("<|im_start|>user\nI would like to book a table for two at an Italian restaurant in San "
        "Jose this evening.<|im_end|>\n<|im_start|>assistant\nWhat time would you like to eat?"
        "<|im_end|>\n<|im_start|>user\nHalf past seven, please, and somewhere that is not too "
        "expensive.<|im_end|>\n<|im_start|>assistant\nShall I book a table for two at Olio at half "
        "past seven?<|im_end|>\n<|im_start|>user\nYes, please. What is the address, and do they "
        "have live music?<|im_end|>\n<|im_start|>assistant\nThey have no live music.<|im_end|>\n")


def share(table, layers, level, n_groups, n_channels):
    """Of what can be left out of @layers, if groups and channels weigh the same."""
    used = sum(table.groups[i][level] + table.channels[i][level] for i in layers)
    return used / (len(layers) * (n_groups + n_channels))


class Table(unittest.TestCase):
    def make(self, n_layers, losses=None):
        """So fine that rounding is below a thousandth part."""
        losses = losses or [n_layers - i for i in range(n_layers)]
        borders = tables.make_borders(240, 1)
        return tables.make(losses, borders, borders, 1, 1)

    def test_paper(self):
        """A half of the model is 37.5 % of the other layers where exactly a fifth are anchors, and
        a little more where 6 of 32 are."""
        for n_layers, anchors, wanted in ((40, 8, 0.375), (32, 6, (16 - 6) / 26)):
            table = self.make(n_layers)
            self.assertEqual(table.anchors, list(range(anchors)))
            level = tables.LEVELS.index(50)
            self.assertEqual(share(table, range(anchors), level, 240, 240), 1)
            self.assertAlmostEqual(share(table, range(anchors, n_layers), level, 240, 240), wanted,
                                   places=3)
            for i, percent in enumerate(tables.LEVELS):
                self.assertAlmostEqual(share(table, range(n_layers), i, 240, 240), percent / 100,
                                       places=3)

    def test_anchors_last(self):
        """Anchors are cut only where the others have nothing more to give; and then they are."""
        losses = [0.1, 9, 0.2, 0.3, 0.1, 0.2, 0.3, 5, 0.1, 0.1]
        table = tables.make(losses, [2, 4, 6, 8], tables.make_borders(768, 64), 100, 8)
        self.assertEqual(table.anchors, [1, 7])
        for level in range(len(tables.LEVELS)):
            is_whole = all(table.groups[i][level] == 8 and table.channels[i][level] == 768
                           for i in table.anchors)
            others = [i for i in range(10) if i not in table.anchors]
            is_least = all(table.groups[i][level] == 2 and table.channels[i][level] == 64
                           for i in others)
            self.assertTrue(is_whole or is_least, tables.LEVELS[level])
        # A fifth are anchors: at 20 % they can't be whole, as the others keep their least.
        self.assertFalse(table.groups[1][0] == 8 and table.channels[1][0] == 768)

    def test_limits(self):
        """Every layer keeps a group and a block; levels rise; none is larger than it is called,
        but for the least."""
        random = numpy.random.default_rng(3)
        for _ in range(50):
            n_layers, group_step = int(random.integers(1, 9)), int(random.integers(1, 4))
            n_groups, n_channels = int(random.integers(1, 17)), int(random.integers(1, 1000))
            group_weights, channel_weights = map(int, random.integers(1, 100, 2))
            group_borders = tables.make_borders(n_groups, min(group_step, n_groups))
            channel_borders = tables.make_borders(n_channels, 64)
            table = tables.make(list(random.random(n_layers)), group_borders, channel_borders,
                                group_weights, channel_weights)
            whole = n_layers * (n_groups * group_weights + n_channels * channel_weights)
            least = n_layers * (group_borders[0] * group_weights
                                + channel_borders[0] * channel_weights)
            for level, percent in enumerate(tables.LEVELS):
                used = 0
                for groups, channels in zip(table.groups, table.channels):
                    self.assertIn(groups[level], group_borders)
                    self.assertIn(channels[level], channel_borders)
                    used += groups[level] * group_weights + channels[level] * channel_weights
                    if level > 0:
                        self.assertGreaterEqual(groups[level], groups[level - 1])
                        self.assertGreaterEqual(channels[level], channels[level - 1])
                self.assertLessEqual(used, max(least, whole * percent / 100))
            self.assertEqual(used, whole)

    def test_other_levels(self):
        """What a level has does not depend on what others there are."""
        borders, losses = tables.make_borders(240, 1), [3, 2, 1, 0]
        all_levels = tables.make(losses, borders, borders, 1, 1)
        some = tables.make(losses, borders, borders, 1, 1, (40, 70, 100))
        for level, percent in enumerate(some.levels):
            at = all_levels.levels.index(percent)
            for layer in range(4):
                self.assertEqual(some.groups[layer][level], all_levels.groups[layer][at])
                self.assertEqual(some.channels[layer][level], all_levels.channels[layer][at])

    def test_anchors(self):
        self.assertEqual(tables.choose_anchors([6.4, 0, 0.1, 0, 0, 0.1, 0, 0.34]), [0, 7])
        self.assertEqual(len(tables.choose_anchors([1, 2])), 1)


def make_order(source, **more):
    """By chance, but for the first unit, which goes to the end."""
    random = numpy.random.default_rng(1)
    groups = random.random((source.n_layers, source.n_groups)) + 1
    channels = random.random((source.n_layers, source.n_ff)) + 1
    groups[:, 0] = channels[:, :32] = 0
    return orders.make(source, groups, channels, **more)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.text = self.folder / "text.txt"
        self.text.write_text(TEXT, encoding="utf-8")

    def make(self, source, order, kind=None):
        path = str(self.folder / "made.gguf")
        write.write_model(source, order, path, kind)
        return path

    def check_moved(self, source, order, path):
        """Every tensor has the values of the source, in their new places and no others."""
        made = Source(path)
        self.assertEqual(list(made.file.keys.items()), list(source.file.keys.items()))
        self.assertEqual(list(made.file.tensors), list(source.file.tensors))
        n_moved = 0
        for name in source.file.tensors:
            self.assertEqual(made.file.tensors[name].type, source.file.tensors[name].type)
            self.assertEqual(made.file.tensors[name].dims, source.file.tensors[name].dims)
            wanted = orders.move(order, source, name, source.read(name))
            numpy.testing.assert_array_equal(made.read(name), wanted)
            n_moved += not numpy.array_equal(wanted, source.read(name))
        self.assertGreaterEqual(n_moved, (3 + 4 * (source.n_groups > 1)) * source.n_layers)

    def test_quantized(self):
        """Blocks stay whole, so that every weight is what it was, and the model says the same."""
        source = Source(str(rig.MODEL))
        order = make_order(source)
        for units in order.channels:
            first = units.reshape(-1, 32)
            self.assertTrue((first == first[:, :1] + numpy.arange(32)).all())
        path = self.make(source, order)
        self.check_moved(source, order, path)
        before = rig.measure_perplexity(rig.MODEL, self.text)
        self.assertAlmostEqual(rig.measure_perplexity(path, self.text) / before, 1, delta=1e-4)

    def test_wrong_order(self):
        """The perplexity notices a tensor that stays behind."""
        source = Source(str(rig.MODEL))
        order = make_order(source)
        order.groups[3] = numpy.roll(order.groups[3], 1)
        moves = orders.ROWS.pop("attn_v.weight")
        try:
            path = self.make(source, order)
        finally:
            orders.ROWS["attn_v.weight"] = moves
        before = rig.measure_perplexity(rig.MODEL, self.text)
        self.assertGreater(abs(rig.measure_perplexity(path, self.text) / before - 1), 0.01)

    def test_floats(self):
        """Single units move; queries of a group with it, and biases with their rows."""
        for name in ("qwen2-tied", "qwen3"):
            source = Source(str(rig.DATA / "architectures" / f"{name}.gguf"))
            order = make_order(source)
            self.check_moved(source, order, self.make(source, order))

    def test_parted_blocks(self):
        """An order of single units can't be applied to blocks."""
        source = Source(str(rig.MODEL))
        with self.assertRaises(ValueError):
            self.make(source, make_order(source, by_block=False))
        self.assertFalse((self.folder / "made.gguf").exists())

    def make_adapters(self, source, table, rank=2):
        """Of each level but the last, of the shapes that it has."""
        adapters, random = {}, numpy.random.default_rng(5)
        for level, percent in enumerate(tables.LEVELS[:-1]):
            pairs = adapters[percent] = {}
            for i in range(source.n_layers):
                queries = table.groups[i][level] * source.group_inputs
                channels = table.channels[i][level]
                for name, n_in, n_out in (("attn_q", source.n_embd, queries),
                                          ("attn_output", queries, source.n_embd),
                                          ("ffn_down", channels, source.n_embd)):
                    pairs[f"blk.{i}.{name}.weight"] = (
                        random.random((rank, n_in), numpy.float32),
                        random.random((n_out, rank), numpy.float32))
        return adapters

    def make_companion(self, adapted):
        source = Source(str(rig.MODEL))
        path = self.make(source, make_order(source))
        made = Source(path)
        table = tables.make_for(made, [6.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.3])
        adapters = self.make_adapters(made, table) if adapted else {}
        write.write_companion(made, tool.identify(rig.TOOL, path), table, adapters, LOSSES, 16.0,
                              write.get_companion(path))
        return path, made, table, adapters

    def test_companion(self):
        """The service finds in it what was written, and counts the same shares."""
        for adapted in (False, True):
            path, made, table, adapters = self.make_companion(adapted)
            levels = rig.inspect(path)["sub-models"]
            self.assertEqual([level["level"] for level in levels], list(tables.LEVELS))
            key = Gguf(write.get_companion(path)).keys["llmsvc.levels.losses"]
            self.assertEqual(key[-4 * len(LOSSES):], struct.pack(f"<{len(LOSSES)}f", *LOSSES))
            shares = write.make_shares(made, table, adapters)
            for i, level in enumerate(levels):
                self.assertEqual(level["rank"], 2 if adapted and i < 8 else 0)
                for what, values in shares.items():
                    self.assertAlmostEqual(level[what], 100 * values[i], places=3)
            self.assertIn("  100 %  100.0 %     100.0 %  100.0 %",
                          rig.run_tool("inspect", "--summary", path).stdout)

    def test_quality(self):
        """llmsvc-tool quality measures each level, and the companion keeps what it had."""
        path, _, _, adapters = self.make_companion(True)
        before = Gguf(write.get_companion(path))
        tasks = self.folder / "tasks.jsonl"
        prompt = TEXT[:TEXT.index("What time")]
        tasks.write_text("".join(json.dumps({"prompt": prompt, "answer": answer}) + "\n" for answer in (
            "What time would you like to eat?", '<tool_call>{"name": "f", "arguments": {}}</tool_call>')),
            encoding="utf-8")
        long = {"prompt": prompt * 40, "answer": "Yes."}
        alone = self.folder / "long.jsonl"
        alone.write_text(json.dumps(long) + "\n", encoding="utf-8")
        outcome = rig.run_tool("quality", "--model", path, "--windows", 1, "--max-tokens", 4, tasks, alone)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        self.assertIn("longer than the model's context of 1024 tokens: 1 of 3 tasks", outcome.stderr)
        self.assertIn("replies: 1\n", outcome.stdout)
        refused = rig.run_tool("quality", "--model", path, "--windows", 1, alone)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("All tasks are longer", refused.stderr)
        levels = rig.inspect(path)["sub-models"]
        self.assertEqual([level["level"] for level in levels], list(tables.LEVELS))
        self.assertEqual([level["rank"] for level in levels], [2] * 8 + [0])
        self.assertEqual((levels[-1]["quality"], levels[-1]["divergence"]), (100, 0))
        self.assertEqual(levels[-1]["valid-calls"], 0)
        for smaller, larger in zip(levels, levels[1:]):
            self.assertLessEqual(smaller["quality"], larger["quality"])
        self.assertGreater(min(level["divergence"] for level in levels[:-1]), 0)
        self.assertGreater(levels[0]["reply-nll"], levels[-1]["reply-nll"])
        after = Gguf(write.get_companion(path))
        self.assertEqual(list(after.tensors), list(before.tensors))
        for key, data in before.keys.items():
            self.assertEqual(after.keys[key], data)
        self.assertIn("quality", outcome.stdout)
        # the same model in all turns is that model
        found = [rig.run_tool("accuracy", "--model", path, "--max-tokens", 4, *more, tasks) for more in (
            (), ("--turns", "100,100"), ("--turns", "100,55"))]
        self.assertEqual([one.returncode for one in found], [0, 0, 1], found)
        self.assertEqual(found[0].stdout, found[1].stdout)
        self.assertIn("no sub-model of 55 percent", found[2].stderr)

    def test_random_weights(self):
        """llmsvc-bench make-gguf --levels makes a companion that the service takes."""
        path = str(self.folder / "160m.gguf")
        outcome = rig.run_bench("make-gguf", "--shape", "160m", "--type", "Q8_0", "--layers", 2,
                                "--levels", "--tool", rig.TOOL, path)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        levels = rig.inspect(path)["sub-models"]
        self.assertEqual([level["rank"] for level in levels], [8] * 8 + [0])

    def test_other_model(self):
        """A companion is for the weights of one file: of the one that was not reordered it is none."""
        path, *_ = self.make_companion(False)
        shutil.copy(rig.MODEL, path)
        found = rig.inspect(path)
        self.assertTrue(found["usable"])
        self.assertNotIn("sub-models", found)
        self.assertIn("it is for the weights", found["companion-reason"])

    def test_hidden_costs(self):
        """A table with larger counts than its shares say is refused."""
        source = Source(str(rig.MODEL))
        path = self.make(source, make_order(source))
        table = tables.make_for(source, [1.0] * source.n_layers)
        true = write.make_shares
        smaller = tables.Table(table.levels, table.anchors, table.groups, [[64] * 8 + [768]] * source.n_layers)
        write.make_shares = lambda made, _, adapters: true(made, smaller, adapters)
        try:
            write.write_companion(source, tool.identify(rig.TOOL, path), table, {}, LOSSES, 16.0,
                                  write.get_companion(path))
        finally:
            write.make_shares = true
        self.assertIn("level 20", rig.inspect(path)["companion-reason"])

    def test_types(self):
        """Blocks of each type and back: as near as they are fine, and those of llama.cpp for Q4_1."""
        random = numpy.random.default_rng(1)
        values = random.standard_normal((4, 64), numpy.float32)
        for kind, error in (("F32", 0), ("F16", 2e-3), ("Q8_0", 0.02), ("Q4_0", 0.3), ("Q4_1", 0.2)):
            packed = blocks.pack(kind, values)
            self.assertEqual(packed.size, 4 * 64 // TYPES[kind].block_size * TYPES[kind].block_bytes)
            found = blocks.unpack(kind, packed.reshape(-1)).reshape(4, 64)
            self.assertLessEqual(abs(found - values).max(), error)
        # from -1 to 2: the least value and a step of 0.2 in halves, then 16 levels
        ramp = numpy.linspace(-1, 2, 32, dtype=numpy.float32)[None]
        packed = blocks.pack("Q4_1", ramp)[0]
        self.assertEqual(list(packed[:4].view("<f2")), [numpy.float16(0.2), -1])
        self.assertEqual([packed[4] & 15, packed[19] >> 4], [0, 15])

    def test_requantized(self):
        """From floats to a smaller type: nearly the same, and named so."""
        source = Source(str(rig.DATA / "architectures" / "qwen3.gguf"))
        path = self.make(source, make_order(source), "F16")
        made = Source(path)
        self.assertEqual(made.file.values["general.file_type"], 1)
        self.assertEqual(made.file.tensors["blk.0.attn_q.weight"].type, "F16")
        self.assertEqual(made.file.tensors["blk.0.attn_norm.weight"].type, "F32")

    def test_refused(self):
        """Models whose forward pass would be another one."""
        for name, reason in (("llama-llama3", "rope_freqs"), ("llama-yarn", "rope.scaling"),
                             ("llama-experts", "expert"), ("gemma2", "architecture"),
                             ("llama-biases", "attn_output.bias")):
            with self.assertRaisesRegex(GgufError, reason):
                Source(str(rig.DATA / "architectures" / f"{name}.gguf"))


class Parts(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def test_sort(self):
        self.assertEqual(list(orders.sort_units([1, 5, 3], 1)), [1, 2, 0])
        # Runs by their sum; what is left over stays behind.
        self.assertEqual(list(orders.sort_units([1, 1, 4, 0, 0, 3, 99], 2)), [2, 3, 4, 5, 0, 1, 6])

    def test_state(self):
        """What was found is not made again; a folder of another run is refused."""
        made = []

        def make():
            made.append(1)
            return {"a": numpy.arange(3)}
        for _ in range(2):
            state = State(str(self.folder / "state"), {"seed": 1})
            self.assertEqual(list(state.keep("units", make)["a"]), [0, 1, 2])
        self.assertEqual(len(made), 1)
        with self.assertRaisesRegex(GgufError, "another seed"):
            State(str(self.folder / "state"), {"seed": 2})

    def test_texts(self):
        """Windows that measure are not among those that teach."""
        paths = [self.folder / name for name in ("tokens.u16", "others.u16")]
        numpy.arange(40 * 16, dtype="<u2").tofile(paths[0])
        numpy.arange(1000, 1000 + 3 * 16, dtype="<u2").tofile(paths[1])
        options = types.SimpleNamespace(windows=list(map(str, paths)), window=16, context=7, text=[],
                                        own=0)
        kinds = texts.read(options, types.SimpleNamespace(n_vocab=4096))
        self.assertEqual([kind.name for kind in kinds], ["tokens.u16", "others.u16"])
        for kind, n_learned, n_checked in zip(kinds, (36, 2), (4, 1)):
            self.assertEqual((kind.learned.shape, kind.checked.shape),
                             ((n_learned, 8), (n_checked, 8)))
            self.assertLess(kind.learned.max(), kind.checked.min())
        # of each in turn, as long as it has any
        mixed = texts.mix(kinds, 6)
        self.assertEqual(list(mixed[:, 0]), [0, 1000, 16, 1016, 32, 48])
        with self.assertRaisesRegex(GgufError, "vocabulary"):
            texts.read(options, types.SimpleNamespace(n_vocab=100))

    def test_own_text(self):
        """What the model draws is one more kind, kept as what takes long is."""
        options = types.SimpleNamespace(windows=[], window=99, context=15, text=[], own=4,
                                        tool=rig.TOOL, model=str(rig.MODEL))
        source, kept = Source(str(rig.MODEL)), {}

        def keep(name, make):
            if name not in kept:
                kept[name] = make()
            return kept[name]
        first = texts.read(options, source, keep)[0]
        self.assertEqual((first.learned.shape, first.checked.shape), ((3, 16), (1, 16)))
        options.tool = "/nowhere"
        again = texts.read(options, source, keep)[0]
        numpy.testing.assert_array_equal(first.learned, again.learned)

    def test_manual(self):
        """It has every option, and no other."""
        page = (rig.SOURCE / "docs/man/llmsvc-elastic.1.md").read_text(encoding="utf-8")
        options = page.split("## Options", 1)[1].split("\n## ", 1)[0]
        listed = re.findall(r"^- `--([\w-]+)", options, re.M)
        known = re.findall(r"^  --([\w-]+)", rig.run("--help").stdout, re.M)
        self.assertEqual(sorted(listed), sorted(known))

    def test_wrong_usage(self):
        for words, reason in (((), "required"), ((rig.MODEL, self.folder), "--text"),
                              ((rig.MODEL, self.folder, "--text", "x", "--rank", "0"), "--rank"),
                              ((rig.MODEL, self.folder, "--text", "x", "--type", "Q9"), "--type"),
                              ((rig.MODEL, self.folder, "--text", "x", "--levels", "60,40"),
                               "rising"),
                              ((rig.MODEL, self.folder, "--text", "x", "--levels", "0,101"),
                               "rising"),
                              ((rig.MODEL, self.folder, "--own", "-1"), "--own")):
            outcome = rig.run(*words)
            self.assertEqual(outcome.returncode, 2, outcome)
            self.assertIn(reason, outcome.stderr)
        for words, reason in (((self.folder / "no.gguf", self.folder), "no.gguf"),
                              ((rig.SOURCE / "README.md", self.folder), "no GGUF file"),
                              ((rig.MODEL, rig.MODEL.parent), "folder of the model itself"),
                              ((rig.MODEL, self.folder, "--type", "Q4_0"), "quantized already")):
            outcome = rig.run(*words, "--text", rig.SOURCE / "README.md")
            self.assertEqual(outcome.returncode, 1, outcome)
            self.assertIn(reason, outcome.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
