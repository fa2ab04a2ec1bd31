# SPDX-License-Identifier: LGPL-2.1-or-later
"""llmsvc-distill-draft with PyTorch: its model is the engine's, a short training comes nearer to the
target, and a run that was stopped ends as one that was not."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is missing: python3-torch")
    sys.exit(77)
import numpy

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ["LLM_TEST_DATA"])
DRAFT = DATA / "models/llmsvc-demo-draft-1M-F32.gguf"
TARGET = pathlib.Path(os.environ["LLM_MODEL_DIR"]) / "llmsvc-demo-8M-Q8_0.gguf"

sys.path.insert(0, str(SOURCE / "offline"))
sys.dont_write_bytecode = True

from distill import answers, files, folder, learning, llama


def read_goldens():
    """Greedy answers of the draft by another program: (prompt, answer) in tokens."""
    with open(DATA / "golden/greedy_llmsvc-demo-draft-1M-F32.jsonl", encoding="utf-8") as file:
        return [(row["prompt_ids"], row["ids"]) for row in map(json.loads, file)]


def run(folder_path, *arguments):
    return subprocess.run(
        [sys.executable, "-B", SOURCE / "offline/llmsvc-distill-draft", "--target", TARGET,
         "--draft", DRAFT, "--texts", folder_path / "texts.u16", "--window", "1025",
         "--tokens", "12", "--documents", "12", "--threads", "1", "--rate", "0.001",
         *map(str, arguments)], text=True, capture_output=True)


class Model(unittest.TestCase):
    def test_goldens(self):
        """Answers to prompts, together and one behind the other, are those of another program."""
        file = files.Gguf(DRAFT)
        model, end, goldens = llama.Llama(file), files.Pieces(file).end, read_goldens()
        made = answers.make(model, end, [(numpy.array(prompt), [len(prompt)])
                                         for prompt, _ in goldens], 64, 1)
        for found, (prompt, ids) in zip(made, goldens):
            n = int(found.lengths[0])
            self.assertEqual(found.tokens[:len(prompt)].tolist(), prompt)
            self.assertEqual(found.tokens[len(prompt):len(prompt) + n].tolist(), ids[:n])
            self.assertEqual(n, min(len(ids), 64) - 1)

    def test_itself(self):
        """What was kept of a model's distributions is what the model has on all rows at once: each
        answer sees its text, and no other answer."""
        file = files.Gguf(DRAFT)
        model, end = llama.Llama(file), files.Pieces(file).end
        prompt = max((prompt for prompt, _ in read_goldens()), key=len)
        made = answers.make(model, end, [(numpy.array(prompt), [20, 40, len(prompt)])], 50, 1)
        self.assertEqual(len(made[0].begins), 6)
        divergence, same = learning.judge(model, made)
        self.assertLess(abs(divergence), 1e-4)
        self.assertGreater(same, 0.99)
        spoilt = made[0]._replace(begins=made[0].begins - numpy.uint16(1))
        self.assertGreater(learning.judge(model, [spoilt])[0], 1e-3)

    def test_refused(self):
        file = files.Gguf(TARGET)
        file.values = {**file.values, "general.architecture": "gemma2"}
        with self.assertRaisesRegex(files.GgufError, "architecture is gemma2"):
            llama.Llama(file)
        file = files.Gguf(TARGET)
        file.tensors = {**file.tensors, "blk.0.attn_q.bias": file.tensors["output_norm.weight"]}
        with self.assertRaisesRegex(files.GgufError, "blk.0.attn_q.bias is not known"):
            llama.Llama(file)


class Runs(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.made = pathlib.Path(made.name)
        windows = numpy.zeros((12, 1025), "<u2")
        for window, (prompt, ids) in zip(windows, read_goldens()):
            document = (prompt + ids)[:1025]
            window[:len(document)] = document
        windows.tofile(self.made / "texts.u16")

    def check(self, outcome):
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return outcome.stdout

    def test_resume(self):
        """12 steps at once; and 12 with a checkpoint of what would have been when it was stopped:
        the same file. Fewer steps before that cost nothing, as their last ones don't count."""
        arguments = ("--check", self.made / "texts.u16", "--steps", "12")
        said = self.check(run(self.made, *arguments, "--work", self.made / "a",
                              "--out", self.made / "a.gguf"))
        before, after = (float(word) for word in said.replace(",", "").split()[1:5:2])
        self.assertLess(after, 0.9 * before)
        self.check(run(self.made, "--steps", "4", "--work", self.made / "b",
                       "--out", self.made / "b.gguf"))
        self.assertTrue((self.made / "b/steady.npz").exists())
        (self.made / "b/answers-00000.npz").unlink()
        self.check(run(self.made, *arguments, "--work", self.made / "b",
                       "--out", self.made / "b.gguf"))
        self.assertEqual((self.made / "a.gguf").read_bytes(), (self.made / "b.gguf").read_bytes())
        # Nothing is left to be done.
        (self.made / "b.gguf").unlink()
        outcome = run(self.made, *arguments, "--work", self.made / "b",
                      "--out", self.made / "b.gguf")
        self.check(outcome)
        self.assertEqual(outcome.stderr, "")
        self.assertEqual((self.made / "a.gguf").read_bytes(), (self.made / "b.gguf").read_bytes())

    def test_wrong(self):
        out = ("--steps", "2", "--work", self.made / "w", "--out", self.made / "o.gguf")
        for arguments, named in ((("--header", "<|im_start|>robot\n"), "no document has a reply"),
                                 (("--window", "1000"), "--window"),
                                 (("--draft", self.made / "texts.u16"), "is no GGUF file"),
                                 (("--draft", DATA / "architectures/qwen2.gguf"), "vocabulary"),
                                 (("--texts", self.made / "none"), "none: No such file")):
            outcome = run(self.made, *out, *arguments)
            self.assertEqual(outcome.returncode, 1, outcome.stderr)
            self.assertIn(named, outcome.stderr)
            self.assertNotIn("Traceback", outcome.stderr)
        (self.made / "c").mkdir()
        self.check(run(self.made, *out[:2], "--work", self.made / "c", *out[4:]))
        for name, arguments, named in (("steady.npz", (), "steady.npz is damaged"),
                                       ("none", ("--seed", "2"), "another --seed")):
            if (self.made / "c" / name).exists():
                (self.made / "c" / name).write_bytes(b"x")
                for path in (self.made / "c").glob("steps-*"):
                    path.unlink()
            outcome = run(self.made, *out[:2], "--work", self.made / "c", *out[4:], *arguments)
            self.assertEqual(outcome.returncode, 1)
            self.assertIn(named, outcome.stderr)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
