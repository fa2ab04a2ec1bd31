# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sub-models and shorter prompts from a shell, with the demo model as it is installed."""
import re
import unittest

import rig

QUESTION = ("I am looking for a hotel in the city of San Francisco, and it would be really nice if it "
            "had wifi, as I have to work there; is there one?")


class Levels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = rig.Rig(has_companion=True)
        cls.addClassCleanup(cls.rig.close)

    def ask(self, *options, text=QUESTION):
        outcome = self.rig.run("ask", "-v", "-n", "4", *options, text)
        self.assertEqual(outcome.status, 0, outcome.complaint)
        return outcome.complaint

    def test_target(self):
        """A fresh install answers for a target with a level that is good enough, and says what it costs."""
        # nothing of them is in memory from another call
        found = re.search(r"(\d+) % of the model, ([\d.]+) % as good", self.ask(
            "--ttft-share", "60", text="Tell me which trains go from Vienna to Graz on Sunday, please."))
        self.assertIsNotNone(found)
        self.assertLess(int(found[1]), 100)
        self.assertGreaterEqual(float(found[2]), 95)
        self.assertNotIn("of the model", self.ask())
        smaller = re.search(r"(\d+) % of the model", self.ask(
            "--ttft-share", "20", "--least-quality", "0",
            text="Can you play some songs by a band from Iceland, or by one from Norway?"))
        self.assertEqual(int(smaller[1]), 20)

    def test_table(self):
        shown = self.rig.run("model", "show").output
        for percent in (20, 30, 40, 50, 60, 70, 80, 100):
            self.assertRegex(shown, rf"(?m)^{percent} +[\d.]+ % +[\d.]+ % +[\d.]+ % ")

    def test_prompt(self):
        found = re.search(r"(\d+) % of the prompt, without (\d+) tokens", self.ask("--prompt-level", "60"))
        self.assertLessEqual(int(found[1]), 61)
        self.assertGreater(int(found[2]), 5)
        # what can't be reached is told
        found = re.search(r"(\d+) % of the prompt", self.ask("--prompt-level", "20", text="Is it far?"))
        self.assertGreater(int(found[1]), 20)
        self.assertNotIn("of the prompt", self.ask("--prompt-level", "100"))

    def test_own_draft(self):
        answers = [self.rig.run("ask", "-t", "0", "-n", "12", "-o", f"draft={draft}", QUESTION).output
                   for draft in ("off", "own", "auto")]
        self.assertEqual(len(set(answers)), 1, answers)


unittest.main()
