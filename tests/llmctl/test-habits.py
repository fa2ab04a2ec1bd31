# SPDX-License-Identifier: LGPL-2.1-or-later
"""What those who come from other programs type: their words, llmctl alone, a pager, a line of
progress, an option with a typing error."""
import unittest

import rig

RULES = [
    {"when": {"contains": "never"}, "text": "late", "delay-ms": 3600000},
    {"text": "You said: {prompt}"},
]


class Habits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = rig.Rig({"rules": RULES})

    @classmethod
    def tearDownClass(cls):
        cls.rig.close()

    def check(self, words, said, status=0):
        outcome = self.rig.run(*words)
        self.assertEqual(outcome.status, status, outcome)
        self.assertRegex(outcome.output + outcome.complaint, said)

    def test_words(self):
        self.assertEqual(self.rig.run("list").output, self.rig.run("model", "list").output)
        self.assertEqual(self.rig.run("ls", "--json").output,
                         self.rig.run("model", "list", "--json").output)
        self.assertEqual(self.rig.run("show").output, self.rig.run("model", "show").output)
        self.check(["ps"], r"^Service: ")
        self.check(["context", "ls"], "There is no context")
        self.assertEqual(self.rig.run("run", input="Hi\n").output, "You said: Hi\n")
        self.check(["run", "llama3", "Hi"], "llmctl model use ID", 2)
        self.check(["pull", "llama3"], "install -D -m 644 -t ~/.local/share/llmsvc/models FILE", 2)
        self.check(["rm", "x"], "llmctl context rm NAME", 2)
        self.check(["stop"], "llmctl trim critical", 2)
        self.check(["serve"], "The first call starts the service", 2)
        self.check(["lisst"], "Unknown command “lisst” of “llmctl”", 2)

    def test_alone(self):
        self.rig.run("ask", "Hi")
        self.check([], r"(?s)^Service: .*Next:.*llmctl ask.*llmctl doctor.*llmctl help")
        self.assertIn("running", self.rig.json())

    def test_no_context(self):
        outcome = self.rig.run("ask", "--context", "zz", "--continue")
        self.assertIn("llmctl context new zz", outcome.complaint)
        self.assertNotIn("create = true", outcome.complaint)

    def test_counters(self):
        output = self.rig.run("stats").output
        self.assertRegex(output, r"(?ms)^Requests since.*^Tokens.*^KV cache.*^Contexts on storage")
        self.assertNotIn("Requests", self.rig.run("memory").output)

    def test_doctor(self):
        outcome = self.rig.run("doctor")
        self.assertRegex(outcome.output, r"(?s)What to do:\n  1\. |Next: llmctl ask")

    def test_pager(self):
        self.rig.environment["PAGER"] = "sed s/^/P:/"
        try:
            terminal = self.rig.terminal("help", term="xterm")
            self.assertEqual(terminal.finish(), 0)
            lines = terminal.text.splitlines()
            self.assertGreater(len(lines), 20)
            self.assertTrue(all(line.startswith("P:") for line in lines), terminal.text)
            for words, variables in ((["help"], {"term": "dumb"}),
                                     (["help", "--json"], {"term": "xterm"}),
                                     (["ask", "Hi"], {"term": "xterm"})):
                terminal = self.rig.terminal(*words, **variables)
                self.assertEqual(terminal.finish(), 0)
                self.assertNotIn("P:", terminal.text)
            self.assertNotIn("P:", self.rig.run("help").output)
            # leaving it early is no failure, and what comes from outside stays harmless
            self.rig.environment["PAGER"] = "true"
            terminal = self.rig.terminal("introspect", term="xterm")
            self.assertEqual(terminal.finish(), 0)
        finally:
            self.rig.environment["PAGER"] = "cat"

    def test_progress(self):
        terminal = self.rig.terminal("ask", "never", term="xterm")
        terminal.expect("Prefill: 0 of ")
        terminal.send("\x03")
        self.assertEqual(terminal.finish(), 130)
        self.assertTrue(terminal.text.rstrip().endswith("\r\x1b[K"), repr(terminal.text))

    def test_interrupted_line(self):
        terminal = self.rig.terminal("chat", term="xterm")
        terminal.expect("> ")
        terminal.send("not this\x1b[D\x1b[D\x1b[D\x1b[D")
        # all four: the terminal drops what is not read yet when it sees Ctrl-C, half a key as well
        terminal.expect("not this", *"\b\b\b\b")
        terminal.send("\x03")
        terminal.expect("^C")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)
        self.assertRegex(terminal.text, r"\x08(this|\x1b\[4?C|\x1b\[C\x1b.*)\^C")

    def test_set(self):
        terminal = self.rig.terminal("chat")
        terminal.say("/set temprature=0")
        terminal.expect("Unknown option “temprature”; did you mean “temperature”?")
        terminal.say("/set colour=red")
        terminal.expect("Unknown option “colour”")
        terminal.say("/set temperature=0")
        terminal.say("/set")
        terminal.expect("temperature=0.0")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)


if __name__ == "__main__":
    unittest.main()
