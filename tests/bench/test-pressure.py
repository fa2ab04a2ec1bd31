# SPDX-License-Identifier: LGPL-2.1-or-later
"""Traces through the policy: damage is named with its line; and Trim of the real service."""
import os
import pathlib
import tempfile
import unittest

import rig

from lib.group import Group, NoGroup

LIMIT_MIB = 256
MADE_UP = ("machine-mib 4096 # GiB\nmodel-mib 600\ncontexts-mib 1500\nbusy 1\n\n"
           "0 1000\n30 3800\n60 1000\n")
DAMAGES = {
    "speed 5\n0 1\n1 2": "t.txt:1: that is no description",
    "busy\n0 1\n1 2": "t.txt:1: that is no description",
    "busy many\n0 1\n1 2": "t.txt:1: that is no description",
    "0 1\nbusy 1\n1 2": "t.txt:2: that is no description",
    "0 1\n1 2 3\n": "t.txt:2: a line of this trace has another number",
    "recorded 1\n0 1\n1 2": "t.txt:2: a line of this trace has another number",
    "0 1\n1 x": "t.txt:2: that is no number",
    "0 1\n1 -2": "t.txt:2: that is no number",
    "0 1\n2 1\n2 1": "t.txt:3: time does not go on",
    "busy 1\n0 1": "t.txt:1: a trace needs two lines",
    "": "t.txt:1: a trace needs two lines",
}


class Traces(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.path = pathlib.Path(temporary.name, "t.txt")

    def test_made_up(self):
        self.path.write_text(MADE_UP)
        figures = rig.read_json("pressure", "--json", self.path)["t"]
        self.assertEqual(figures["bound-gib"], 4)
        # Others ask for more than there is beside the weights, and get it from the service.
        self.assertLess(figures["least-budget-gib"], figures["moments"][0][2])
        self.assertGreater(figures["given-gib"], 0)
        self.assertGreater(figures["killed-without"], figures["killed"])
        seconds = [moment[0] for moment in figures["moments"]]
        self.assertTrue(59 < seconds[-1] < 60)
        self.assertEqual(seconds, sorted(seconds))

    def test_damaged(self):
        for text, complaint in DAMAGES.items():
            with self.subTest(text):
                self.path.write_text(text)
                outcome = rig.run("pressure", self.path)
                self.assertEqual(outcome.returncode, 1)
                self.assertIn(complaint, outcome.stderr)

    def test_options(self):
        for wrong in ([], ["--trim"], ["--trim", *rig.SERVICE, "--runs", "0"],
                      ["--ladder"], ["--ladder", *rig.SERVICE, "--step", "0"]):
            self.assertEqual(rig.run("pressure", *wrong).returncode, 2)

    def test_ladder(self):
        trace = rig.read_json("pressure", "--ladder", *rig.SERVICE, "--contexts", "4", "--words",
                              "60", "--step", "256", "--steps", "4", "--no-storage", "--json")
        first, asked, last = trace[0], trace[1:-1], trace[-1]
        self.assertEqual([line["what"] for line in trace],
                         ["before", *["asked"] * len(asked), "calm"])
        self.assertEqual((first["narrowed"], first["evicted"]), (0, 0))
        self.assertGreater(last["narrowed"], 0)
        # The sanitizer keeps freed memory for a while.
        if "LLM_ADDRESS_SANITIZER" not in os.environ:
            self.assertLess(asked[-1]["anonymous"], first["anonymous"])
        # bits before chunks, one after the other
        self.assertEqual(next(line for line in asked if line["narrowed"])["evicted"], 0)
        for before, after in zip(trace, trace[1:]):
            self.assertGreaterEqual(after["narrowed"] + after["evicted"],
                                    before["narrowed"] + before["evicted"])

    def test_levels(self):
        """While another program takes the memory of the service's group, classes of calls have a smaller
        sub-model, interactive ones never, and all have the whole model again behind it."""
        try:
            Group(LIMIT_MIB << 20).close()
        except NoGroup as error:
            self.skipTest(str(error))
        with tempfile.TemporaryDirectory() as folder:
            trace = rig.read_json(
                "pressure", "--ladder", "--daemon", rig.DAEMON, "--model", rig.put_beside(folder),
                "--contexts", "2", "--words", "20", "--step", "4096", "--steps", "2", "--no-storage",
                "--limit", LIMIT_MIB, "--least-quality", "90", "--json")
        squeezed = [line["levels"] for line in trace if line["what"] == "squeezed"]
        self.assertEqual({levels["interactive"] for levels in squeezed}, {100})
        least = min(levels["background"] for levels in squeezed)
        self.assertLess(least, 100)
        self.assertEqual(min(levels["responsive"] for levels in squeezed), least)
        self.assertEqual(min(line["held"] for line in trace), least)
        self.assertEqual(trace[-1]["levels"], dict.fromkeys(trace[-1]["levels"], 100))
        self.assertEqual(trace[-1]["held"], 100)

    def test_trim(self):
        figures = rig.read_json("pressure", "--trim", *rig.SERVICE, "--contexts", "2", "--words",
                                "100", "--runs", "2", "--json")
        self.assertEqual(len(figures["reply"]["samples"]), 2)
        self.assertLess(figures["anonymous after"]["median"], figures["anonymous before"]["median"])
        self.assertGreater(figures["freed, as it says"]["median"], 0)


unittest.main()
