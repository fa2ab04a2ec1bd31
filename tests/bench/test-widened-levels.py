# SPDX-License-Identifier: LGPL-2.1-or-later
"""make-gguf --widen of a model with sub-models: a level of the widened model says what that of the model
says."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import rig

TOOL = os.environ["LLM_TOOL"]
TEXT = pathlib.Path(os.environ["LLM_TEST_DATA"], "golden", "heldout_sgd_chatml.txt")
N_BYTES = 8000
N_LAYERS = 10


def run_tool(*words):
    return subprocess.run([TOOL, *map(str, words)], check=True, capture_output=True, text=True).stdout


def read_levels(path):
    return {level["level"]: level for level in
            json.loads(run_tool("inspect", "--json", path))["sub-models"]}


def measure(path, level, text):
    return float(run_tool("perplexity", "--model", path, "--sub-model", level, text).rpartition(": ")[2])


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
                mine, its = measure(model, percent, text), measure(made, percent, text)
                self.assertLess(abs(its / mine - 1), 0.02, (percent, mine, its))


unittest.main()
