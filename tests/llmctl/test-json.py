# SPDX-License-Identifier: LGPL-2.1-or-later
"""What --json prints, of every command of llmctl and llmsvc-tool that has it: a document has a
version, and all keys are written alike."""
import json
import os
import re
import subprocess
import tempfile
import unittest

import rig

KEY = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
# names that a key may be beside: of interfaces, and numbers
DATA = re.compile(r"org(\.[A-Za-z]+)+|[0-9]+")
# not what one word means
SPELLINGS = ("quantisation", "Quantization")

FOLDER = tempfile.TemporaryDirectory(prefix="llmctl-keys-")
KEYS = os.path.join(FOLDER.name, "http-keys")

# Commands, by the first words that name them; None: without --json there is none either.
COMMANDS = {
    "ask": ["ask", "Hi"],
    "chat": ["chat"],
    "context list": ["context", "list"],
    "context show": ["context", "show", "notes"],
    "context new": ["context", "new", "fresh"],
    "context rm": ["context", "rm", "fresh"],
    "context export": ["context", "export", "notes"],
    "context import": ["context", "import", "-", "copy"],
    "model list": ["model", "list"],
    "model show": ["model", "show"],
    "model use": ["model", "use", "llmsvc-demo-8M-Q8_0"],
    "model check": ["model", "check", rig.MODEL],
    "status": ["status"],
    "memory": ["memory"],
    "trim": ["trim", "low"],
    "stats": ["stats"],
    "metrics": ["metrics"],
    "apps": ["apps"],
    "quota": ["quota"],
    "top": ["top", "--count=2", "--interval=0.1"],
    "monitor": ["monitor", "--timeout", "0.5"],
    "doctor": ["doctor"],
    "tree": ["tree"],
    "introspect": ["introspect"],
    "call": ["call", "CountTokens", "user:Hi"],
    "get": ["get"],
    "http key add": ["http", "key", "add", "Newelle", "--file", KEYS],
    "http key list": ["http", "key", "list", "--file", KEYS],
    "http key remove": ["http", "key", "remove", "Newelle", "--file", KEYS],
    "set": None,
    "complete": None,
    "help": ["help"],
}
MORE = [["introspect", "Complete"], ["introspect", "org.llm.Service.Memory"], ["get", "ApiVersion"],
        ["get", "org.llm.Service.Memory.Reclaimable"], ["call", "GetStatistics"],
        ["call", "OpenContext", "notes"], ["call", "Prewarm"], ["ask", "--raw", "Hi"],
        ["ask", "-c", "notes", "Hi"], ["quota", "org.example.App", "contexts=3"], ["tree", "--all"],
        ["status", "--session-bus"]]
INPUTS = {"chat": "Hi\nAgain\n"}
TOOL = [["generate", "-n", "2", "-m", rig.MODEL, "Hi"], ["tokenize", "-m", rig.MODEL, "Hi"],
        ["inspect", rig.MODEL], ["options"], ["profile", "-m", rig.MODEL]]


def list_leaves(commands, before=""):
    for command in commands:
        name = f"{before}{command['name']}"
        if "commands" in command:
            yield from list_leaves(command["commands"], name + " ")
        else:
            yield name


class Json(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = rig.Rig()
        cls.addClassCleanup(cls.rig.close)
        assert cls.rig.run("ask", "-n", "2", "-c", "notes", "Hello").status == 0
        cls.exported = cls.rig.run("context", "export", "notes").output

    def check_keys(self, value, where):
        if isinstance(value, list):
            for item in value:
                self.check_keys(item, where)
        if isinstance(value, dict):
            for key, item in value.items():
                self.assertTrue(KEY.fullmatch(key) or DATA.fullmatch(key), (where, key))
                for spelling in SPELLINGS:
                    self.assertNotIn(spelling, key, where)
                self.check_keys(item, [*where, key])

    def check_document(self, text, where):
        """One object, or one a line; the first tells the version."""
        try:
            documents = [json.loads(text)]
        except json.JSONDecodeError:
            documents = [json.loads(line) for line in text.splitlines()]
        self.assertGreater(len(documents), 0, where)
        for document in documents:
            self.assertIsInstance(document, dict, where)
            self.check_keys(document, where)
        self.assertEqual(documents[0].get("version"), 1, (where, text[:200]))
        self.assertEqual(list(documents[0])[0] if where[0] == "llmctl" and
                         "export" not in where else "version", "version", where)
        return documents

    def test_every_command(self):
        listed = set(list_leaves(self.rig.json("help")["commands"]))
        self.assertEqual(listed, set(COMMANDS))
        for name, arguments in COMMANDS.items():
            if arguments is not None:
                text = self.exported if "import" in name else INPUTS.get(name)
                outcome = self.rig.run(*arguments, "--json", input=text)
                self.assertIn(outcome.status, (0, 1) if name == "doctor" else (0,), (name, outcome))
                self.check_document(outcome.output, ["llmctl", *arguments])

    def test_more(self):
        for arguments in MORE:
            outcome = self.rig.run(*arguments, "--json")
            self.assertEqual(outcome.status, 0, (arguments, outcome))
            self.check_document(outcome.output, ["llmctl", *arguments])

    def test_tool(self):
        for arguments in TOOL:
            done = subprocess.run([rig.TOOL, *arguments, "--json"], capture_output=True, text=True,
                                  env=self.rig.environment, timeout=rig.LIMIT_S, check=True)
            self.check_document(done.stdout, ["llmsvc-tool", *arguments])

    def test_one_word(self):
        """The same thing has the same name wherever it is told."""
        model = self.rig.json("model", "show")
        self.assertEqual(model["info"]["quantization"], "Q8_0")
        self.assertEqual(self.rig.json("model", "check", rig.MODEL)["quantization"], "Q8_0")
        self.assertEqual(self.rig.json("status")["model"]["info"]["quantization"], "Q8_0")
        self.assertEqual(self.rig.json("memory").keys(), self.rig.json("status")["memory"].keys())


if __name__ == "__main__":
    unittest.main(verbosity=2)
