# SPDX-License-Identifier: LGPL-2.1-or-later
"""Prompts exactly and in W8A8 by llmsvc-bench prompts: with a model that is calibrated, and with one
that is not. How long anything takes, no test knows."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import rig

from prompts.main import Prompts, read_call

TOOL = pathlib.Path(rig.DAEMON).parent / "tool" / "llmsvc-tool"
TASKS = [{"prompt": f"<|im_start|>user\nThing {i}?<|im_end|>\n<|im_start|>assistant\n",
          "answer": '<tool_call> {"name": "f", "arguments": {}} </tool_call>'} for i in range(40)]


class Parts(unittest.TestCase):
    def test_prompts(self):
        """As many as it takes, and none that is too long."""
        prompts = Prompts([{"prompt": "a" * n, "answer": "b"} for n in (3, 3, 99, 2, 9)], len, 12, 30)
        self.assertEqual(prompts.next(), ("aaab<|im_end|>\naaa", "b"))
        self.assertEqual(prompts.next(), ("aab<|im_end|>\naaaaaaaaa", "b"))
        self.assertIsNone(prompts.next())

    def test_calls(self):
        self.assertEqual(read_call('<tool_call> {"name": "f", "arguments": {"x": 1}} </tool_call>'),
                         ("f", {"x": 1}))
        for text in ("", "hello", "<tool_call> {", "<tool_call> 5 </tool_call>", '<tool_call> {"name": 1}'):
            self.assertIsNone(read_call(text))


class Runs(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.model = self.folder / "m.gguf"
        shutil.copy(rig.MODEL, self.model)
        self.tasks = self.folder / "tasks.jsonl"
        self.tasks.write_text("".join(json.dumps(task) + "\n" for task in TASKS))

    def run_bench(self, *more):
        return rig.run("prompts", "--daemon", rig.DAEMON, "--model", self.model, "--tasks", self.tasks,
                       "--least", 80, "--most", 300, "--tokens", 2, *more)

    def test_calibrated(self):
        text = self.folder / "text"
        text.write_text("".join(task["prompt"] + task["answer"] + "<|im_end|>\n" for task in TASKS))
        done = subprocess.run([TOOL, "calibrate", "--model", self.model, "--windows", "1", "--scored", "1",
                               text], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("divergence from the exact model:", done.stdout)
        done = self.run_bench("--prompts", 2, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["counts"]["prompts"], 2)
        self.assertEqual(found["counts"]["tasks that a call answers"], 2)
        self.assertGreaterEqual(min(found["figures"]["tokens of a prompt"]["samples"]), 80)

    def test_not_calibrated(self):
        done = self.run_bench()
        self.assertEqual(done.returncode, 1)
        self.assertIn("llmsvc-tool calibrate -m", done.stderr)

    def test_usage(self):
        self.assertEqual(rig.run("prompts").returncode, 2)
        self.assertEqual(self.run_bench("--most", 20).returncode, 2)


if __name__ == "__main__":
    unittest.main()
