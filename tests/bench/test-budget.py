# SPDX-License-Identifier: LGPL-2.1-or-later
"""What llmsvc-bench budget makes of what it saw: figures made up."""
import contextlib
import io
import unittest

import rig  # finds bench/

from budget import main

MIB = 1 << 20


class Figures(unittest.TestCase):
    """Ten tokens of 0.5 s, ten of 1 s, ten of 0.5 s; changes are there half a second and two seconds later."""

    def make(self, slowest):
        gaps = [0.5] * 10 + [slowest] + [1.0] * 9 + [1.2] + [0.5] * 9
        times = [sum(gaps[:i]) for i in range(1, len(gaps) + 1)]
        self.marks = times[9] + 0.01, times[19] + 0.01
        lowered, raised = self.marks
        trace = [(at / 100, (2000 if at / 100 < lowered + 0.5 or at / 100 > raised + 2 else 1000) * MIB)
                 for at in range(int(times[-1] * 100))]
        return main.sum_up(times, self.marks, trace)

    def test_figures(self):
        found = self.make(1.1)
        self.assertAlmostEqual(found["before-mib"], 2000)
        self.assertAlmostEqual(found["small-mib"], 1000)
        self.assertAlmostEqual(found["down-s"], 0.5, 1)
        self.assertAlmostEqual(found["up-s"], 2, 1)
        self.assertAlmostEqual(found["large-ms"], 500)
        self.assertAlmostEqual(found["small-ms"], 1000)
        self.assertAlmostEqual(found["slowest-of-small"], 1.2)

    def test_gap(self):
        """The token under way when the budget changed counts as well."""
        self.assertAlmostEqual(self.make(4.0)["slowest-of-small"], 4)

    def test_options(self):
        for words in ([], ["--daemon", "d"], ["--daemon", "d", "--model", "m", "--smaller", "3000"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
                main.main(words)
            self.assertIn("budget", said.getvalue())


if __name__ == "__main__":
    unittest.main()
