# SPDX-License-Identifier: LGPL-2.1-or-later
"""Files that an answer keeps to: a schema, and tools. The real model."""
import json
import unittest

import rig

SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Bonn", "Kiel"]}, "people":
          {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["city", "people"]}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Bonn", "Kiel"]}}, "required": ["city"]}}}]
GREEDY = ["--temperature", "0", "--max-tokens", "60"]


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = rig.Rig()

    @classmethod
    def tearDownClass(cls):
        cls.rig.close()

    def write(self, name, data):
        path = self.rig.folder / name
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return str(path)

    def ask(self, *arguments):
        return self.rig.run("ask", *GREEDY, *arguments)

    def test_schema(self):
        outcome = self.ask("--schema", self.write("s.json", SCHEMA), "A table in Kiel, please.")
        self.assertEqual(outcome.status, 0, outcome.complaint)
        answer = json.loads(outcome.output)
        self.assertIn(answer["city"], ("Bonn", "Kiel"))
        self.assertTrue(1 <= answer["people"] <= 9)

    def test_tools(self):
        outcome = self.ask("--tools", self.write("t.json", TOOLS), "--option",
                           "tool-choice=required", "How is the weather in Bonn?")
        self.assertEqual(outcome.status, 0, outcome.complaint)
        self.assertIn('"get_weather"', outcome.output)

    def test_wrong_files(self):
        for option in ("--schema", "--tools"):
            wrong = self.write("w.json", '{"a": 1,\n"b": tru}')
            outcome = self.ask(option, wrong, "Hello")
            self.assertEqual(outcome.status, 2, outcome.complaint)
            self.assertIn(f"{wrong}: line 2", outcome.complaint)
            for wrong, said in (("{", "line 1"), ('{"type": 7}', "#")):
                with self.subTest(option + wrong):
                    outcome = self.ask(option, self.write("w.json", wrong), "Hello")
                    self.assertNotEqual(outcome.status, 0)
                    self.assertEqual(outcome.output, "")
                    self.assertIn(said, outcome.complaint)
            outcome = self.ask(option, str(self.rig.folder / "none"), "Hello")
            self.assertNotEqual(outcome.status, 0)
            self.assertIn("none", outcome.complaint)


unittest.main()
