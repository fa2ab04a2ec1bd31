# SPDX-License-Identifier: LGPL-2.1-or-later
"""Activation thresholds, without what needs PyTorch: how shares are found, and the companion."""
import pathlib
import shutil
import tempfile
import unittest

import rig
from active import companion, shares
from elastic import table as tables
from elastic import tool, write
from elastic.source import Source
from modelfile.reader import Gguf, GgufError

WEIGHTS = (3, 1, 6, 3)


def measure(kept):
    """The second operator is nearly free, the first is dear."""
    prices = (4, 0.01, 1, 0.5)
    return 2 + sum(price * (1 - k) ** 2 for price, k in zip(prices, kept))


class Shares(unittest.TestCase):
    def test_search(self):
        search, before = shares.Search(WEIGHTS, measure, 0.05), (1.0,) * 4
        for percent in shares.SPARSITIES:
            kept = search.find(percent)
            self.assertAlmostEqual(shares.find_sparsity(kept, WEIGHTS), percent, places=6)
            self.assertLess(measure(kept), measure((1 - percent / 100,) * 4) + 1e-9)
            self.assertTrue(all(shares.LEAST_KEPT - 1e-9 <= k <= 1 for k in kept))
            self.assertLess(sum(kept), sum(before))
            before = kept
            if percent == 50:
                self.assertGreater(kept[0], kept[3])
                self.assertGreater(kept[0], kept[2])


class Companion(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "model.gguf"
        shutil.copy(rig.MODEL, self.path)
        self.source = Source(str(self.path))
        self.identity = tool.identify(rig.TOOL, str(self.path))

    def write(self, begun, first):
        n = len(shares.SPARSITIES)
        thresholds = [[[first + i + j / 4 for j in range(4)] for _ in range(self.source.n_layers)]
                      for i in range(n)]
        return companion.write(self.source, begun, self.identity, shares.make_uniform(), thresholds,
                               [2.0 + i / 8 for i in range(n + 1)])

    def check(self):
        found = rig.inspect(self.path)
        self.assertNotIn("companion-reason", found)
        self.assertEqual([one["sparsity"] for one in found["active"]], list(shares.SPARSITIES))
        self.assertAlmostEqual(found["active"][4]["ffn-down"], 50, places=4)
        self.assertAlmostEqual(found["active"][0]["loss"], 2.125)
        return found

    def test_alone(self):
        self.assertIsNone(companion.open_for(self.source, self.identity))
        self.write(None, 0)
        self.assertNotIn("sub-models", self.check())
        # once more replaces what was there
        begun = companion.open_for(self.source, self.identity)
        path = self.write(begun, 1)
        self.check()
        self.assertEqual(len([key for key in Gguf(path).keys if key.startswith("llmsvc.active.")]), 4)

    def test_beside_sub_models(self):
        losses = list(range(self.source.n_layers))
        table = tables.make_for(self.source, losses)
        path = write.get_companion(str(self.path))
        write.write_companion(self.source, self.identity, table, {}, [1.0] * len(tables.LEVELS), 16,
                              path)
        before = rig.inspect(self.path)["sub-models"]
        self.write(companion.open_for(self.source, self.identity), 0)
        self.assertEqual(self.check()["sub-models"], before)

    def test_other_weights(self):
        self.write(None, 0)
        with self.assertRaisesRegex(GgufError, "other weights"):
            companion.open_for(self.source, "0123456789abcdef")
        pathlib.Path(write.get_companion(str(self.path))).write_bytes(b"GGUF")
        with self.assertRaises(GgufError):
            companion.open_for(self.source, self.identity)


if __name__ == "__main__":
    unittest.main()
