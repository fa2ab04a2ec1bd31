# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the tables of `llmsvc-bench contexts` are made of: ratios, points that share a replay."""
import argparse
import collections
import contextlib
import io
import unittest
from unittest import mock

import rig  # finds bench/

from contexts import grid, tables

NAMES = {"shapes": {"8m": ["a model", 1024]}, "devices": {"disk": "", "sd": ""},
         "policies": {"llms": True, "lmk": False}}




def make_cell(wait, share=0.5, written=0):
    """Of a replay, as its program prints it."""
    latency = {"mean-ms": wait}
    return {"switches": 2, "resident-share": share, "read-bytes": 0, "recomputed-rows": 0,
            "written-bytes": written, "wait": latency, "if-overlapped": latency,
            "without-prompt": latency, "waits": [wait * 1000] * 2}


IDLE = make_cell(0.002, 1)


class Tables(unittest.TestCase):
    def test_geometric_mean(self):
        self.assertEqual(tables.geometric_mean([]), 0)
        self.assertAlmostEqual(tables.geometric_mean([2, 8, 0.5]), 2)

    def test_spread(self):
        self.assertEqual(tables.spread([]), "–")
        self.assertEqual(tables.spread([2.5]), "2.5")
        self.assertEqual(tables.spread([1, 2, 6]), "3 (1 to 6)")

    def test_idle_cells(self):
        """A cell that waits for nothing has no ratio that says anything; one in which only the other
        policy waits for nothing is a loss, and counts."""
        won, lost, both, only = ((make_cell(1), make_cell(8)), (make_cell(1), IDLE), (IDLE, IDLE),
                                 (IDLE, make_cell(1000)))
        found = tables.Comparison([won, (make_cell(1), make_cell(2)), both, only])
        self.assertEqual(found.ratios, [8, 2])
        self.assertAlmostEqual(found.geometric_mean, 4)
        self.assertEqual((found.n_busy, found.n_first_idle, found.n_both_idle), (2, 1, 1))
        self.assertAlmostEqual(found.ratio_of_means, (8 + 2 + 0.002 + 1000) / (2 + 2 * 0.002))
        self.assertAlmostEqual(tables.Comparison([won, lost]).geometric_mean,
                               (8 * 0.002) ** 0.5)
        # All was there, but memory had to be written for the call.
        self.assertFalse(tables.waits_for_nothing(make_cell(5, 1, written=7)))
        self.assertEqual(tables.Comparison([both]).geometric_mean, 0)

    def run_parts(self, *names, **more):
        """What the parts ask for, and print: all cells wait as many ms as seed and place say."""
        options = argparse.Namespace(json=False, quick=True, seeds=[1, 2], hours=1)
        options.__dict__.update(more)
        cells = grid.Grid(NAMES, 1)
        parts = tables.Parts(options, NAMES, cells, ["8m"])
        asked = []

        def run_part(name, device, **point):
            asked.append(point)
            one = make_cell(point["seed"] * (1 + ("llms", "lmk").index(point["policy"])))
            return {"calls": 1, "cells": [one for _ in device]}

        with mock.patch.object(grid, "run_part", run_part), \
                mock.patch.object(tables, "ABLATIONS", (("nothing", "llms"), ("all", "lmk"))), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            for name in names:
                getattr(parts, f"run_{name}")()
        return asked, out.getvalue(), parts.json

    def test_seeds(self):
        asked, text, data = self.run_parts("grid", "capacity", "ablations")
        self.assertEqual({point["seed"] for point in asked}, {1, 2})
        self.assertEqual(data["comparisons"][0]["geometric-mean"], [2, 2])
        self.assertIn("| disk | lmk | 2 (2 to 2) | 2 | 2 | 2 (2 to 2) |", text)
        self.assertIn("| nothing | llms | sd | 1.5 (1 to 2) |", text)
        # Seed 1 of lmk waits 2 ms, seed 2 waits 4: all are below 10 up to the last number.
        self.assertIn("| disk | 10 ms | 50 % | 16.0 | 16.0 | 1.00 | 2 GB | 10.72 | 2.48 |", text)

    def test_sweeps(self):
        """One thing changes at a time; the rate changes nothing but the rate."""
        asked, _, _ = self.run_parts("sweeps", seeds=[1])
        base = {"chunk": 16, "longest": 1024, "interval": 300}
        seen = collections.Counter()
        for point in asked:
            changed = [name for name, value in base.items() if point[name] != value]
            self.assertLessEqual(len(changed), 1)
            seen.update(changed)
            self.assertEqual((point["contexts"], point["share"], point["pattern"]),
                             (16, 0.25, "markov"))
        # Five other rates on two devices: lmk, which plans nothing, needs a replay for each, too.
        self.assertEqual(seen["interval"], 2 * 2 * 5)
        self.assertTrue(seen["chunk"] and seen["longest"])

    def test_replays(self):
        """A policy that plans with devices has a replay for each of them; no point runs twice."""
        asked = []

        def run_part(name, device, policy, **_):
            asked.append((policy, *device))
            return {"calls": 1, "cells": [{"waits": []} for _ in device]}

        cells = grid.Grid(NAMES, 1)
        points = [cells.point("8m", device, "random", 0.5, 2, policy, 1)
                  for device in ("disk", "sd") for policy in ("llms", "lmk")]
        with mock.patch.object(grid, "run_part", run_part):
            cells.run(points)
            cells.run(points)
        self.assertCountEqual(asked, [("llms", "disk"), ("llms", "sd"), ("lmk", "disk", "sd")])
        self.assertEqual(cells.n_calls, 3)
        made = cells.to_json()
        self.assertEqual([cell["policy"] for cell in made], ["llms", "lmk", "llms", "lmk"])
        self.assertFalse(any("waits" in cell for cell in made))


if __name__ == "__main__":
    unittest.main()
