# SPDX-License-Identifier: LGPL-2.1-or-later
"""Answers that go on, log-probabilities, and a gap that is filled in. The real model."""
import json
import math
import pathlib
import re
import tempfile
import unittest

import rig

QUESTION = "Hello, how are you?"


class Continue(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = rig.Rig()

    @classmethod
    def tearDownClass(cls):
        cls.rig.close()

    def ask(self, *arguments):
        return self.rig.run("ask", "--temperature", "0", *arguments)

    def test_continue(self):
        whole = self.ask("-n", "12", "-c", "whole", QUESTION)
        first = self.ask("-n", "5", "-c", "long", QUESTION)
        rest = self.ask("-n", "7", "-c", "long", "--continue")
        self.assertEqual(rest.status, 0, rest.complaint)
        # a line that is not ended is ended by llmctl
        self.assertEqual(first.output[:-1] + rest.output, whole.output)

    def test_logprobs(self):
        outcome = self.ask("-n", "4", "--logprobs", "2", QUESTION)
        self.assertEqual(outcome.status, 0, outcome.complaint)
        entries = json.loads(outcome.output.splitlines()[-1])
        self.assertEqual(len(entries), 4)
        for entry in entries:
            self.assertEqual(len(entry["top_logprobs"]), 2)
            self.assertEqual(entry["id"], entry["top_logprobs"][0]["id"])
            self.assertLessEqual(sum(math.exp(e["logprob"]) for e in entry["top_logprobs"]), 1)
        said = b"".join(bytes(entry["bytes"]) for entry in entries).decode()
        self.assertEqual(said.strip(), outcome.output.splitlines()[0])
        lines = self.ask("-n", "4", "--logprobs", "2", "--json", QUESTION).output.splitlines()
        self.assertEqual(json.loads(json.loads(lines[-1])["done"]["logprobs"]), entries)

    def test_refused(self):
        for arguments, status, said in (
                (["--continue", QUESTION], 2, "--context"),
                (["--continue"], 2, "--context"),
                (["--continue", "-c", "x", QUESTION], 2, "prompt"),
                (["--continue", "-c", "never-made"], 1, "never-made"),
                (["--suffix", "x", "-c", "x", QUESTION], 2, "--suffix"),
                (["--suffix", "x", QUESTION], 1, "not trained to fill in"),
                (["--logprobs", "21", QUESTION], 2, "20"),
                (["-o", "n=2", QUESTION], 1, "make as many calls")):
            with self.subTest(arguments):
                outcome = self.ask(*arguments)
                self.assertEqual(outcome.status, status, outcome.complaint)
                self.assertIn(said, outcome.complaint)
                self.assertEqual(outcome.output, "")


class Infill(unittest.TestCase):
    """The same model, of which three tokens got the names of the markers."""

    def test_suffix(self):
        data = bytearray(pathlib.Path(rig.MODEL).read_bytes())
        found = [match.end() - 5 for match in re.finditer(rb"\x05\0{7}[a-z]{5}(?=.\0{7})", data, re.S)]
        for at, name in zip(found[-3:], (b"<PRE>", b"<SUF>", b"<MID>")):
            data[at:at + 5] = name
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "infill.gguf"
            path.write_bytes(data)
            before, rig.MODEL = rig.MODEL, str(path)
            service = rig.Rig()
            rig.MODEL = before
            self.addCleanup(service.close)
            outcome = service.run("ask", "-t", "0", "-n", "6", "--json", "--suffix", " for four.",
                                  "I want a table in")
            self.assertEqual(outcome.status, 0, outcome.complaint)
            done = json.loads(outcome.output.splitlines()[-1])["done"]
            counted = service.run("call", "CountTokens", '[["user", "I want a table in", {}]]',
                                  "suffix= for four.")
            self.assertEqual(counted.status, 0, counted.complaint)
            self.assertEqual(int(re.search(r"\d+", counted.output).group()), done["prompt-tokens"])


unittest.main()
