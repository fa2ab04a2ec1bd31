# SPDX-License-Identifier: LGPL-2.1-or-later
"""Parts of the whole model's time: how they are found of calls in turns. How quickly anything comes
is no part of it."""
import os
import time
import unittest
import unittest.mock

import rig

from levels.main import describe, find_part
from lib import process


def results(first, further=0):
    return {"ttft-ms": first, "tpot-ms": further}


class Parts(unittest.TestCase):
    def test_medians(self):
        """A disturbed call changes no part."""
        pairs = [(results(4), results(10)), (results(5), results(900)), (results(6), results(10))]
        self.assertAlmostEqual(find_part(pairs, "ttft-ms"), 0.5)
        self.assertIsNone(find_part(pairs, "tpot-ms"))
        self.assertIsNone(find_part(pairs, "ttft-forecast-ms"))

    def test_errors(self):
        """Of the forecast, over what was measured."""
        found = describe([(0.5, 0.5)] * 8 + [(0.6, 0.5), (0.4, 0.5)])
        self.assertAlmostEqual(found["error-p50"], 0)
        self.assertAlmostEqual(found["error-p90"], 0.2)
        self.assertAlmostEqual(found["measured"], 0.5)
        self.assertEqual(found["n"], 10)

    def test_other_load(self):
        """What the process itself takes is none of others: here two processors are busy beside it."""
        pid = os.getpid()

        def read_busy_s():
            return process.read_own_s(pid) + 2 * time.monotonic()
        with unittest.mock.patch.object(process, "read_busy_s", read_busy_s):
            load = process.OtherLoad(pid)
            until = time.process_time() + 0.3
            while time.process_time() < until:
                pass
            self.assertAlmostEqual(load.get(), 2, delta=0.2)

    def test_without_companion(self):
        outcome = rig.run("levels", *rig.SERVICE, "--tokens", 2)
        self.assertEqual(outcome.returncode, 2, outcome.stderr)
        self.assertIn("no companion", outcome.stderr)


if __name__ == "__main__":
    unittest.main()
