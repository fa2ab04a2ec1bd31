# SPDX-License-Identifier: LGPL-2.1-or-later
"""A soak of half a minute: no turn is lost, all kinds of calls are made, and the service ends with
what it had in the middle. How long anything takes, no test knows; that a lost turn, growth and slow
answers are found is tested on figures made up."""
import copy
import unittest

import rig

from lib.figures import Random
from soak import report
from soak.app import OPERATIONS
from soak.book import UNSEEN, Book, Wrong
from soak.watch import HELD, sum_up

SOAK = ("soak", *rig.SERVICE, "--quick", "--json")
SECONDS = 100


def as_messages(*texts):
    return [(("user", "assistant")[i % 2], text, {}) for i, text in enumerate(texts)]


class Books(unittest.TestCase):
    def setUp(self):
        self.book = Book()
        self.book.begin(5)
        self.book.add("one", "eins")
        self.book.add("two", "zwei")

    def test_same(self):
        self.book.compare(as_messages("one", "eins", "two", "zwei"), 7)

    def test_lost_turn(self):
        with self.assertRaisesRegex(Wrong, "2 messages, acknowledged were 4"):
            self.book.compare(as_messages("one", "eins"), 7)

    def test_lost_revision(self):
        with self.assertRaisesRegex(Wrong, "revision 6, acknowledged was 7"):
            self.book.compare(as_messages("one", "eins"), 6)

    def test_changed_answer(self):
        with self.assertRaisesRegex(Wrong, "Message 4 of 4"):
            self.book.compare(as_messages("one", "eins", "two", "drei"), 7)

    def test_doubt(self):
        """A turn whose caller left may be there or not, but whole."""
        self.book.doubt_add("three", UNSEEN)
        other = copy.deepcopy(self.book)
        self.book.compare(as_messages("one", "eins", "two", "zwei", "three", "drei"), 8)
        other.compare(as_messages("one", "eins", "two", "zwei"), 7)
        # From then on it is known.
        with self.assertRaises(Wrong):
            self.book.compare(as_messages("one", "eins", "two", "zwei", "three", "vier"), 8)
        other.doubt_add("three", UNSEEN)
        with self.assertRaises(Wrong):
            other.compare(as_messages("one", "eins", "two", "zwei", "three"), 8)

    def test_roll_back(self):
        self.book.doubt_roll_back(1)
        self.book.compare(as_messages("one", "eins"), 8)
        self.book.roll_back(1)
        self.book.compare([], 9)


def make_data(grows=None, slow_ms=1.0, wrong=0):
    """Figures of a run in which nothing happens, but for what is asked for."""
    samples = [{"seconds": at, **{held: 100.0 + (at / 4 if held == grows else 0) for held in HELD}}
               for at in range(1, SECONDS)]
    probes = [(at / 100, slow_ms if at % 500 == 0 else 1.0, 0.2) for at in range(SECONDS * 100)]
    return {"at-rest": report.describe(samples, SECONDS), "wrong": wrong,
            "property-reads": sum_up(probes, 0, SECONDS)}


class Judgement(unittest.TestCase):
    def test_good(self):
        self.assertTrue(report.is_good(make_data()))

    def test_growth(self):
        for held in HELD:
            data = make_data(grows=held)
            self.assertEqual(report.find_growing(data),
                             [] if held in report.MAY_CHANGE else [held])
            self.assertEqual(report.is_good(data), held in report.MAY_CHANGE)

    def test_slow_answer(self):
        self.assertFalse(report.is_good(make_data(slow_ms=60)))

    def test_wrong(self):
        self.assertFalse(report.is_good(make_data(wrong=1)))


class Numbers(unittest.TestCase):
    def test_same_as_in_c(self):
        """bench-random.h gives these for the same seed."""
        random = Random.derive(1, 2)
        self.assertEqual([random.next() for _ in range(2)],
                         [15287607234741920061, 16287601470165433696])


class Run(unittest.TestCase):
    def test_quick(self):
        data = rig.read_json(*SOAK)
        self.assertEqual(data["complaints"], [])
        self.assertEqual(data["wrong"], 0)
        self.assertGreater(data["turns"], 0)
        self.assertEqual(list(data["calls"]), [name for name, _, _ in OPERATIONS])
        self.assertGreater(data["calls"]["Generate, read to the end"], 0)
        # Half of the contexts have names and outlive the service.
        compared = [data[f"compared-{when}"] for when in ("at-end", "after-kill", "after-end")]
        self.assertEqual(compared, [32, 16, 16])
        # Nobody else is left at rest: these, and the one that asks.
        self.assertEqual(data["at-rest"]["contexts"]["last-quarter"], 33)
        self.assertEqual(data["at-rest"]["calls"]["last-quarter"], 0)
        self.assertGreater(data["property-reads"]["n"], 0)

    def test_hostile(self):
        data = rig.read_json(*SOAK, "--hostile", "garbage", "--hostile", "connections")
        # The steady caller had its answers beside both.
        for kind in ("garbage", "connections"):
            self.assertGreater(data[f"{kind}: first token, beside it"]["median"], 0)

    def test_bad_input(self):
        outcome = rig.run("soak", "--model", rig.MODEL)
        self.assertEqual(outcome.returncode, 2)
        self.assertIn("--daemon", outcome.stderr)
        outcome = rig.run(*SOAK, "--hostile", "rudeness")
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("rudeness", outcome.stderr)
        outcome = rig.run("soak", "--daemon", "/bin/false", "--model", rig.MODEL)
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("llmsvc-bench: ", outcome.stderr)


unittest.main()
