# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the tables of `llmsvc-bench contexts` are made of: ratios, points that share a replay."""
import unittest
from unittest import mock

import rig  # finds bench/

from contexts import grid, tables

NAMES = {"shapes": {"8m": ["a model", 1024]}, "devices": {"disk": "", "sd": ""},
         "policies": {"llms": True, "lmk": False}}


class Tables(unittest.TestCase):
    def test_ratios(self):
        ratios = tables.Ratios()
        self.assertEqual((ratios.mean(), ratios.range()), (0, (0, 0)))
        for value in (2, 8, 0.5):
            ratios.add(value)
        self.assertAlmostEqual(ratios.mean(), 2)
        self.assertEqual(ratios.range(), (0.5, 8))

    def test_replays(self):
        """A policy that plans with devices has a replay for each of them; no point runs twice."""
        asked = []

        def run_part(name, device, policy, **_):
            asked.append((policy, *device))
            return {"calls": 1, "cells": [{"waits": []} for _ in device]}

        cells = grid.Grid(NAMES, 1)
        points = [cells.point("8m", device, "random", 0.5, 2, policy)
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
