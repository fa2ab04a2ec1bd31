# SPDX-License-Identifier: LGPL-2.1-or-later
"""llmsvc-active as a user runs it: what it finds is what llmsvc-tool measures."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import rig

TEXT = ("<|im_start|>user\nI would like to book a table for two at an Italian restaurant in San "
        "Jose this evening.<|im_end|>\n<|im_start|>assistant\nWhat time would you like to eat?"
        "<|im_end|>\n") * 12


class Run(unittest.TestCase):
    def test_run(self):
        with tempfile.TemporaryDirectory() as folder:
            model, text = pathlib.Path(folder) / "model.gguf", pathlib.Path(folder) / "text"
            shutil.copy(rig.MODEL, model)
            text.write_text(TEXT)
            done = subprocess.run([sys.executable, rig.SOURCE / "offline/llmsvc-active", "--text", text,
                                   "--window", "65", "--context", "64", "--calibration", "1",
                                   "--step", "25", "--threads", "1", "--tool", rig.TOOL, model],
                                  text=True, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            active = rig.inspect(model)["active"]
            self.assertEqual(len(active), 8)
            for one in active:
                self.assertIn(f"{one['loss']:5.3f}", done.stdout)
            found = []
            for more in ((), ("--active", 30), ("--active", 80),
                         ("--active", 30, "--keep-smallest")):
                outcome = rig.run_tool("perplexity", *more, "--exact", "--threads", 1, "--model",
                                       model, "--ctx", 64, text)
                self.assertEqual(outcome.returncode, 0, outcome.stderr)
                found.append(float(outcome.stdout.rsplit("perplexity: ", 1)[1]))
            self.assertLess(found[1], 1.5 * found[0])
            self.assertGreater(found[2], found[1])
            self.assertGreater(found[3], 5 * found[1])
            divergences = []
            for active in (30, 80):
                outcome = rig.run_tool("divergence", "--whole", "--active", active, "--exact", "--threads", 1,
                                       "--model", model, "--tokens", 64, "--windows", 99, "--text", text)
                self.assertEqual(outcome.returncode, 0, outcome.stderr)
                figures = dict(line.split(": ") for line in outcome.stdout.splitlines())
                self.assertAlmostEqual(float(figures["perplexity of the whole model"]) / found[0], 1, delta=1e-3)
                divergences.append(float(figures["mean divergence"]))
            self.assertGreater(divergences[0], 0)
            self.assertGreater(divergences[1], 2 * divergences[0])

    def test_usage(self):
        done = subprocess.run([sys.executable, rig.SOURCE / "offline/llmsvc-active", rig.MODEL],
                              text=True, capture_output=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--text", done.stderr)


class Distill(unittest.TestCase):
    def run_distill(self, folder, *more):
        text = pathlib.Path(folder) / "text"
        text.write_text(TEXT)
        return subprocess.run([sys.executable, rig.SOURCE / "offline/llmsvc-distill", "--text", text, "--window",
                               "65", "--context", "64", "--calibration", "1", "--step", "25", "--threads", "1",
                               "--tool", rig.TOOL, *map(str, more)], text=True, capture_output=True)

    def measure(self, folder, model, percent):
        """The loss of rows that leave out so much."""
        outcome = rig.run_tool("perplexity", "--active", percent, "--exact", "--threads", 1, "--model", model,
                               "--ctx", 64, pathlib.Path(folder) / "text")
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return float(outcome.stdout.rsplit("perplexity: ", 1)[1])

    def test_distill(self):
        """Sparse answers lose less than before, the whole model stays what it was, and what is done counts."""
        with tempfile.TemporaryDirectory() as folder:
            model, out = pathlib.Path(folder) / "model.gguf", pathlib.Path(folder) / "out.gguf"
            shutil.copy(rig.MODEL, model)
            done = subprocess.run([sys.executable, rig.SOURCE / "offline/llmsvc-active", "--own", "4", "--window",
                                   "65", "--context", "64", "--calibration", "1", "--step", "25", "--threads",
                                   "1", "--tool", rig.TOOL, model], text=True, capture_output=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = self.run_distill(folder, "--tokens", 64 * 4 * 12, model, out)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(rig.inspect(out)["active"]), 8)
            self.assertLess(self.measure(folder, out, 70), 0.8 * self.measure(folder, model, 70))
            self.assertLess(self.measure(folder, out, 0), 1.2 * self.measure(folder, model, 0))
            done = self.run_distill(folder, "--tokens", 64 * 4 * 12, model, out)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("distilling", done.stderr)
            before = out.read_bytes()
            done = self.run_distill(folder, "--tokens", 64 * 4, model, out)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotEqual(out.read_bytes(), before)
            done = self.run_distill(folder, "--own", 2, model, out)
            self.assertEqual(done.returncode, 1)
            self.assertIn("another own", done.stderr)

    def test_usage(self):
        with tempfile.TemporaryDirectory() as folder:
            for words, status, said in (((), 2, "required"), ((rig.MODEL, rig.MODEL), 1, "itself"),
                                        (("--type", "Q3", rig.MODEL, "x"), 2, "are possible"),
                                        (("--tokens", 0, rig.MODEL, "x"), 2, "at least 1")):
                done = self.run_distill(folder, *words)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
