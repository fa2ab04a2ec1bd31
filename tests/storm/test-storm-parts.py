# SPDX-License-Identifier: LGPL-2.1-or-later
"""What storms are made of: plans; and, where control groups can be made, the eater in one."""
import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "bench"))
import rig

from lib.group import Group, NoGroup
from lib.process import MIB
from storm.eater import Eater
from storm.plan import N_ANSWER, N_APPS, Plan

N_STORMS = 10
# Far longer than anything here takes: no test asserts how long.
MAX_STEPS, STEP_S = 6000, 0.01


def wait_for(condition):
    for _ in range(MAX_STEPS):
        if condition():
            return
        time.sleep(STEP_S)
    raise AssertionError("It does not come")


class Plans(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plan = Plan(rig.MODEL, N_STORMS, 1)

    def test_sizes(self):
        """The eater leaves less than the weights in two of three levels, and something in all."""
        plan = self.plan
        beside = plan.limit - 2 * plan.model_bytes
        left = [plan.limit - level - plan.file_bytes - beside for level in plan.levels]
        self.assertGreater(plan.budget, plan.limit)
        self.assertEqual(plan.levels, sorted(set(plan.levels)))
        self.assertGreater(left[0], plan.model_bytes)
        self.assertTrue(all(0 < size < plan.model_bytes for size in left[1:]))

    def test_repeats(self):
        again, other = Plan(rig.MODEL, N_STORMS, 1), Plan(rig.MODEL, N_STORMS, 2)
        self.assertEqual(self.plan.order, again.order)
        self.assertEqual(self.plan.texts, again.texts)
        self.assertNotEqual(self.plan.texts[0][0], other.texts[0][0])
        self.assertNotEqual(self.plan.texts[0][0], self.plan.texts[1][0])
        counts = collections.Counter(self.plan.order)
        self.assertEqual(sorted(counts.values()), [3, 3, 4])

    def test_turns(self):
        """A context begins once, then goes through its turns again and again, and never grows
        beyond what the model sees."""
        plan = self.plan
        n = plan.n_turns
        self.assertEqual([plan.get_place(turn) for turn in range(2 * n + 1)],
                         [0, *range(1, n + 1), *range(1, n + 1)])
        self.assertEqual(len(plan.texts), N_APPS)
        for texts in plan.texts:
            lengths = [len(ids) for _, ids in texts]
            self.assertEqual(len(texts), n + 1)
            self.assertGreaterEqual(lengths[0], plan.n_begin)
            self.assertLess(sum(lengths) + (n + 1) * N_ANSWER, plan.n_ctx)


def find_disk():
    """Where files have pages in the cache, which those of a tmpfs are not."""
    places = [tempfile.gettempdir(), os.environ["G_TEST_BUILDDIR"], "/var/tmp"]
    types = subprocess.run(["stat", "-f", "-c", "%T", *places], capture_output=True, text=True, check=True).stdout
    return next(place for place, kind in zip(places, types.split()) if kind not in ("tmpfs", "ramfs"))


class Groups(unittest.TestCase):
    """Nothing is looked at where no control group can be made."""

    def make(self, limit, most, n_bytes):
        try:
            group = Group(limit)
        except NoGroup as error:
            print(f"no control groups here: {error}", file=sys.stderr)
            return None, None
        self.addCleanup(group.close)
        folder = tempfile.TemporaryDirectory(dir=find_disk())
        self.addCleanup(folder.cleanup)
        eater = Eater(group, most, pathlib.Path(folder.name, "file"), n_bytes, 0.04)
        self.addCleanup(eater.close)
        return group, eater

    def test_eater(self):
        group, eater = self.make(64 * MIB, 40 * MIB, 8 * MIB)
        if group is None:
            return
        before = group.read()
        eater.set_level(40 * MIB)
        wait_for(lambda: eater.shared.rounds >= 2)
        full = group.read()
        self.assertEqual(eater.shared.held, 40 * MIB)
        self.assertGreater(eater.shared.longest_ns, 0)
        self.assertGreaterEqual(full["usage"], before["usage"] + 40 * MIB)
        self.assertGreaterEqual(full["cache"], before["cache"] + 4 * MIB)
        eater.set_level(0)
        wait_for(lambda: eater.shared.held == 0)
        after = group.read()
        self.assertLess(after["usage"], full["usage"] - 35 * MIB)
        self.assertEqual(after["oom-kills"], 0)
        self.assertTrue(eater.is_alive())

    def test_limit(self):
        """More than there is: its wait shows in its own group, its end in the count of kills."""
        group, eater = self.make(32 * MIB, 64 * MIB, MIB)
        if group is None:
            return
        eater.set_level(64 * MIB)
        wait_for(lambda: not eater.is_alive())
        reading = group.read()
        self.assertEqual(reading["oom-kills"], 1)
        self.assertGreater(reading["eater"]["some-us"], 0)
        self.assertEqual(reading["server"]["some-us"], 0)


unittest.main()
