# SPDX-License-Identifier: LGPL-2.1-or-later
"""make-gguf --widen of a model with sub-models: a level of the widened model says what that of the model
says. Of one with activation thresholds: the widened one has them, and says what the model says."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import rig

from active import companion, shares
from elastic import tool
from elastic.source import Source

TOOL = os.environ["LLM_TOOL"]
TEXT = pathlib.Path(os.environ["LLM_TEST_DATA"], "golden", "heldout_sgd_chatml.txt")
N_BYTES = 8000
N_LAYERS = 10


def run_tool(*words):
    return subprocess.run([TOOL, *map(str, words)], check=True, capture_output=True, text=True).stdout


def read_levels(path):
    return {level["level"]: level for level in
            json.loads(run_tool("inspect", "--json", path))["sub-models"]}


def measure(path, text, *options):
    return float(run_tool("perplexity", "--model", path, *options, text).rpartition(": ")[2])


class Levels(unittest.TestCase):
    def test_levels(self):
        with tempfile.TemporaryDirectory() as folder:
            model = rig.put_beside(folder)
            text = pathlib.Path(folder, "text")
            text.write_bytes(TEXT.read_bytes()[:N_BYTES])
            made = pathlib.Path(folder, "made.gguf")
            outcome = rig.run("make-gguf", "--widen", model, "--shape", "160m", "--layers", N_LAYERS,
                              "--type", "Q8_0", "--tool", TOOL, made)
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            own, widened = read_levels(model), read_levels(made)
            self.assertEqual(list(own), list(widened))
            for percent in list(own)[:-1]:
                # layers that add nothing are cut as the others are; the embedding is a smaller part
                self.assertLess(widened[percent]["weights"], own[percent]["weights"])
                self.assertEqual(widened[percent]["rank"], own[percent]["rank"])
            for percent in (40, 100):
                mine, its = (measure(path, text, "--sub-model", percent) for path in (model, made))
                self.assertLess(abs(its / mine - 1), 0.02, (percent, mine, its))

    def test_thresholds(self):
        with tempfile.TemporaryDirectory() as folder:
            model = shutil.copy(rig.MODEL, folder)
            source = Source(model)
            n = len(shares.SPARSITIES)
            companion.write(source, None, tool.identify(TOOL, model), shares.make_uniform(),
                            [[[(s + 1) / (layer + 2) / 10] * 4 for layer in range(source.n_layers)]
                             for s in range(n)], [2.0] * (n + 1))
            text = pathlib.Path(folder, "text")
            text.write_bytes(TEXT.read_bytes()[:N_BYTES])
            made = pathlib.Path(folder, "made.gguf")
            outcome = rig.run("make-gguf", "--widen", model, "--shape", "160m", "--layers", N_LAYERS,
                              "--type", "Q8_0", "--tool", TOOL, made)
            self.assertEqual(outcome.returncode, 0, outcome.stderr)
            own, widened = (json.loads(run_tool("inspect", "--json", path))["active"]
                            for path in (model, made))
            self.assertEqual(own, widened)
            mine, its = measure(model, text), measure(made, text)
            self.assertLess(abs(its / mine - 1), 0.02, (mine, its))


unittest.main()
