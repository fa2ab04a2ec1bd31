# SPDX-License-Identifier: LGPL-2.1-or-later
"""What llmsvc-bench draft makes of answers, and that it measures all methods. How fast they are, no
test knows; that a text which guesses have changed is a fault is tested on figures made up."""
import contextlib
import io
import json
import pathlib
import tempfile
import types
import unittest

import rig  # finds bench/

from draft import main, tables
from sparse import main as sparse

DRAFT = rig.SOURCE / "tests/data/models/llmsvc-demo-draft-1M-F16.gguf"
PROMPTS = ("Find me", "red blue red blue red blue red")
METHODS = ["plain", "lookup", "chain:3", "fixed:2,1", "paper", "tree", "tree:4", "big-little"]


def make_answer(method, prompt, seconds, tokens=11, passes=10, text="x", **more):
    return {"model": "7b", "draft": "1m", "task": "reply", "limit-mib": 2000,
            "most-tokens": 64, "id": prompt, "method": method, "run": 0, "tokens": tokens,
            "seconds": seconds, "passes": passes, "drafted": 0, "accepted": 0, "text": text, **more}


class Options(unittest.TestCase):
    def test_active(self):
        """Sparse answers are one more choice of methods; disks and budgets are several."""
        words = ["m.gguf", "--task", "t", "--limit", "1000", "--limit", "2000", "--disk", "300", "--disk", "0"]
        options = main.parse([*sparse.DEFAULTS, *words, "--tokens", "6"], "active")
        self.assertEqual(options.methods, ["plain", "active:30", "active:50", "active:70"])
        self.assertEqual((options.limit, options.disks, options.tokens), ([1000, 2000], [300, 0], 6))
        for slow in ["--disk", "300"], ["--iops", "4000"]:
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
                main.parse([*sparse.DEFAULTS, "m.gguf", "--task", "t", *slow], "active")
            self.assertIn("active needs --limit", said.getvalue())


class Cells(unittest.TestCase):
    def make(self, answers):
        return {cell["method"]: cell for cell in tables.make_cells(answers)}

    def test_ratios(self):
        """Two prompts of ten tokens behind the first: 20 s plain, 8 s with guesses."""
        cells = self.make([
            make_answer("plain", "a", 9), make_answer("plain", "b", 11),
            make_answer("tree", "a", 2, passes=4, drafted=40, accepted=6, **{"peak-mib": 1900}),
            make_answer("tree", "b", 6, passes=6, drafted=10, accepted=4, **{"peak-mib": 1950})])
        tree = cells["tree"]
        self.assertAlmostEqual(cells["plain"]["ms-per-token"], 1000)
        self.assertAlmostEqual(tree["ms-per-token"], 400)
        self.assertAlmostEqual(tree["tokens-per-pass"], 2)
        self.assertAlmostEqual(tree["accepted-share"], 0.2)
        self.assertAlmostEqual(tree["times-plain"], 2.5)
        self.assertAlmostEqual(tree["least-times-plain"], 11 / 6)
        self.assertAlmostEqual(tree["of-tokens-per-pass"], 1.25)
        self.assertEqual((tree["same-text"], tree["peak-mib"], tree["prompts"]), (1, 1950, 2))

    def test_median(self):
        """Of several runs of a prompt; an answer of one token has no time per token."""
        cells = self.make([make_answer("plain", "a", seconds) for seconds in (9, 1, 2)]
                          + [make_answer("plain", "b", 0, tokens=1, passes=0)])
        self.assertAlmostEqual(cells["plain"]["ms-per-token"], 200)
        self.assertEqual((cells["plain"]["prompts"], cells["plain"]["runs"]), (1, 3))

    def test_common_prompts(self):
        """Ratios are of prompts that both answered: one that took long is no gain."""
        cells = self.make([make_answer("plain", "a", 10), make_answer("plain", "b", 1000),
                           make_answer("tree", "a", 5)])
        self.assertAlmostEqual(cells["tree"]["times-plain"], 2)

    def test_other_draft(self):
        """Plain decoding has no draft; what has none to be compared with has no ratio."""
        cells = self.make([make_answer("plain", "a", 10), make_answer("tree", "a", 5, draft="1b")])
        self.assertAlmostEqual(cells["tree"]["times-plain"], 2)
        lone = self.make([make_answer("tree", "a", 5)])["tree"]
        self.assertIsNone(lone["times-plain"])
        self.assertTrue(tables.is_as_it_should(lone))

    def test_lengths(self):
        """Answers that were cut elsewhere are others."""
        cells = tables.make_cells([make_answer("plain", "a", 10),
                                   make_answer("tree", "a", 5, **{"most-tokens": 8})])
        self.assertEqual([cell["times-plain"] for cell in cells], [1, None])

    def test_changed_text(self):
        cells = self.make([make_answer("plain", "a", 10), make_answer("plain", "b", 10),
                           make_answer("tree", "a", 5), make_answer("tree", "b", 5, text="y"),
                           make_answer("big-little", "a", 5, text="y")])
        self.assertEqual(cells["tree"]["same-text"], 0.5)
        self.assertFalse(tables.is_as_it_should(cells["tree"]))
        self.assertTrue(tables.is_as_it_should(cells["big-little"]))

    def test_best_chain(self):
        cells = tables.make_cells([make_answer("plain", "a", 10), make_answer("chain:2", "a", 6),
                                   make_answer("chain:8", "a", 4), make_answer("chain:16", "a", 5),
                                   make_answer("peer chain:4", "a", 1),
                                   make_answer("tree", "a", 2, **{"forecast-ms": 190})])
        more = tables.make_cells([make_answer("chain:1", prompt, 1) for prompt in "ab"])
        best = tables.find_best_chain(cells + more)[tables.name_set(cells[0])]
        self.assertEqual(best["method"], "chain:8")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            tables.print_cells(cells)
        row = next(line for line in out.getvalue().splitlines() if line.startswith("| tree |"))
        self.assertEqual(row, "| tree | 1 | 200.0 | – | 1.00 | – | 5.00 | 5.00 | 5.00 | 2.00 | "
                         "1.00 | 190.0 |")

    def test_peer(self):
        found = tables.read_peer("x\ndecoded   31 tokens in    5.500 seconds, speed:    5.636 "
                                 "t/s\n\nn_draft   = 8\nn_predict = 31\nn_drafted = 64\n"
                                 "n_accept  = 21\n")
        self.assertEqual(found, {"tokens": 32, "seconds": 5.5, "drafted": 64, "accepted": 21,
                                 "passes": 10})
        self.assertIsNone(tables.read_peer("error: unable to load model"))


class Runs(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.task = self.folder / "task.jsonl"
        self.task.write_text("".join(json.dumps({"id": str(i), "prompt": prompt}) + "\n"
                                     for i, prompt in enumerate(PROMPTS)))

    def test_methods(self):
        """All give plain's text but big–little, in pieces as at once."""
        answers = self.folder / "answers.jsonl"
        run = ("draft", rig.MODEL, "--draft", DRAFT, "--task", self.task, "--tokens", 12,
               "--runs", 1, "--cache", self.folder / "cache", "--answers", answers,
               "--methods", ";".join(METHODS))
        rig.read_json(*run, "--prompts", 1, "--json")
        report = rig.read_json(*run, "--first", 1, "--prompts", 9, "--json")
        cells = {cell["method"]: cell for cell in report["cells"]}
        self.assertEqual(list(cells), METHODS)
        for method, cell in cells.items():
            self.assertEqual((cell["prompts"], cell["task"]), (2, "task"), method)
            self.assertGreater(cell["ms-per-token"], 0)
            if method != "big-little":
                self.assertEqual(cell["same-text"], 1, method)
        self.assertEqual(cells["plain"]["tokens-per-pass"], 1)
        self.assertLess(cells["chain:3"]["accepted-share"], 1)
        # What was measured is there without measuring again.
        again = ("draft", "--prompts", 0, "--answers", answers)
        self.assertEqual(rig.read_json(*again, "--json"), report)
        self.assertIn("| chain:3 | 2 |", rig.run(*again).stdout)

    def test_mapped(self):
        """Weights that come by page faults give the same text."""
        report = rig.read_json("draft", rig.MODEL, "--task", self.task, "--tokens", 4, "--runs", 1,
                               "--prompts", 1, "--methods", "plain;mapped", "--json")
        self.assertEqual({cell["method"]: cell["same-text"] for cell in report["cells"]},
                         {"plain": 1, "mapped": 1})

    def test_peer(self):
        """A program that says what llama-speculative-simple would."""
        peer = self.folder / "peer"
        peer.write_text("#!/bin/sh\n[ \"$5\" = --draft-max ] && echo "
                        "\"decoded $6 tokens in 2.0 seconds, speed: 1 t/s\"\n")
        peer.chmod(0o700)
        report = rig.read_json("draft", rig.MODEL, "--draft", DRAFT, "--task", self.task,
                               "--tokens", 4, "--runs", 1, "--prompts", 1, "--methods", "plain", "--peer-draft",
                               peer, "--chain", "4", "--json")
        cells = {cell["method"]: cell for cell in report["cells"]}
        self.assertEqual(cells["peer chain:4"]["ms-per-token"], 500)

    def test_wrong(self):
        for arguments in ((), (rig.MODEL,), ("--prompts", 0),
                          (rig.MODEL, "--task", self.task, "--chain", "x"),
                          (rig.MODEL, "--task", self.task, "--tokens", 1),
                          (rig.MODEL, "--task", self.task, "--peer-draft", "true"),
                          (rig.MODEL, "--stream", 1)):
            self.assertEqual(rig.run("draft", *arguments).returncode, 2, arguments)
        outcome = rig.run("draft", rig.MODEL, "--task", self.task, "--methods", "luck")
        self.assertEqual(outcome.returncode, 1)
        self.assertRegex(outcome.stderr, "unknown method .luck")

    def test_longest(self):
        folder = self.folder / "short"
        folder.mkdir()
        options = types.SimpleNamespace(longest=10, first=0)
        copy = main.copy_tasks(options, self.task, folder)
        self.assertEqual([json.loads(line)["id"] for line in copy.read_text().splitlines()], ["0"])
        # nothing measured is no measurement
        outcome = rig.run("draft", rig.MODEL, "--task", self.task, "--longest", 10, "--first", 1)
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("has no prompts left: ", outcome.stderr)

    def test_random_words(self):
        """The same on every machine, and each of them another."""
        paths = [self.folder / name for name in ("one", "other")]
        for path in paths:
            main.make_random_tasks(path)
        prompts = [json.loads(line)["prompt"] for line in paths[0].read_text().splitlines()]
        self.assertEqual(paths[0].read_bytes(), paths[1].read_bytes())
        self.assertEqual(len(set(prompts)), main.RANDOM_PROMPTS)
        self.assertTrue(all(len(prompt) >= main.RANDOM_CHARACTERS for prompt in prompts))


unittest.main()
