# SPDX-License-Identifier: LGPL-2.1-or-later
"""Damaged rows of the context database, as the user of llmctl sees them: the service runs, other
contexts work, the damaged one is named and can be removed."""
import sqlite3
import unittest

import rig

ONE = "(SELECT id FROM contexts WHERE name = 'one')"
DAMAGES = {
    "the id is no part of an object path":
        "UPDATE turns SET context = '../up'; UPDATE messages SET context = '../up';"
        "UPDATE contexts SET id = '../up' WHERE name = 'one';",
    "the text is not UTF-8":
        f"UPDATE messages SET text = CAST (x'ff41' AS TEXT) WHERE context = {ONE};",
    "an unknown role": f"UPDATE messages SET role = 'wizard' WHERE context = {ONE};",
    "another text": f"UPDATE messages SET text = 'Hullo!' WHERE context = {ONE} AND number = 0;",
    "a negative revision": "UPDATE contexts SET revision = -1 WHERE name = 'one';",
}


class Damage(unittest.TestCase):
    def setUp(self):
        self.rig = rig.Rig()

    def tearDown(self):
        self.rig.close()

    def ask(self, name):
        return self.rig.run("ask", "--context", name, "--max-tokens", "4", "Hello!")

    def residencies(self):
        return {context["name"]: context["residency"]
                for context in self.rig.json("context", "list")["contexts"]}

    def damage(self, statements):
        self.rig.stop()
        database = sqlite3.connect(self.rig.folder / "state" / "contexts.db")
        database.executescript(statements)
        database.close()
        self.rig.start()

    def test_rows(self):
        for what, statements in DAMAGES.items():
            with self.subTest(what):
                self.assertEqual(self.ask("one").status, 0)
                self.damage(statements)
                outcome = self.ask("one")
                self.assertNotEqual(outcome.status, 0)
                self.assertIn("“one” is damaged", outcome.complaint)
                self.assertEqual(self.ask("two").status, 0)
                self.assertEqual(self.residencies()["one"], "damaged")
                self.assertNotEqual(self.residencies()["two"], "damaged")
                self.rig.stop()
                self.rig.start()
                self.assertNotEqual(self.ask("one").status, 0)
                self.assertEqual(self.rig.run("context", "rm", "one").status, 0)
                self.assertNotIn("one", self.residencies())


if __name__ == "__main__":
    unittest.main()
