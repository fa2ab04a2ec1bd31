#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""docs/mock.md against the service: its scripts are taken, its shell lines work, and
what it lists is what the reader of scripts knows.

Arguments: the repository and llmsvcd.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
LLMSVCD = sys.argv.pop(1)
PAGE = (ROOT / "docs/mock.md").read_text(encoding="utf-8")
ASK = """#!/bin/sh
set -eu
exec gdbus call --session --timeout 60 --dest org.llm.Service --object-path /org/llm/Service \\
  --method org.llm.Service.Complete "What is the capital of France?" "{'require': <['mock']>}"
"""


def read_blocks():
    """Indented blocks of the page, without their indentation."""
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE, re.M)
    return [re.sub(r"^    ", "", block, flags=re.M).strip("\n") + "\n" for block in blocks]


class Docs(unittest.TestCase):
    def setUp(self):
        self.blocks = read_blocks()
        self.scripts = [block for block in self.blocks if block.startswith("{")]
        folder = tempfile.TemporaryDirectory(prefix="llmsvc-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_scripts_are_taken(self):
        self.assertEqual(len(self.scripts), 3)
        for script in self.scripts:
            path = self.folder / "script.json"
            path.write_text(script, encoding="utf-8")
            # the script is read before a bus is looked for
            done = subprocess.run(
                [LLMSVCD, "--mock", path], capture_output=True, text=True, check=False,
                env=dict(os.environ, DBUS_SESSION_BUS_ADDRESS="unix:path=/nonexistent"))
            self.assertEqual(done.returncode, 1)
            self.assertTrue(done.stderr.startswith("llmsvcd: No session bus"), done.stderr)

    def test_shell_lines(self):
        (lines,) = [block for block in self.blocks if block.startswith("export")]
        self.assertEqual(lines.count("/usr/libexec/llmsvcd"), 1)
        tests = self.folder / "tests"
        tests.mkdir()
        (tests / "llm.json").write_text(self.scripts[0], encoding="utf-8")
        ask = self.folder / "run-tests"
        ask.write_text(ASK, encoding="utf-8")
        ask.chmod(0o755)
        done = subprocess.run(["sh", "-eu", "-c", lines.replace("/usr/libexec/llmsvcd", LLMSVCD)],
                              cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("The capital of France is Paris.", done.stdout)

    def test_keys(self):
        source = (ROOT / "service/decoding/llm-script-read.c").read_text(encoding="utf-8")
        lists = re.findall(r"static const char \*const (\w+)\[\] = \{([^}]*)\}", source)
        known = {"keys": set(re.findall(r'\{ "([\w-]+)", read_\w+', source)), "values": set()}
        for name, text in lists:
            if name != "of_text":
                known["values"].update(re.findall(r'"([^"]+)"', text))
        self.assertGreater(len(known["keys"]), 15)
        listed = set(re.findall(r"^- `([\w-]+)`:", PAGE, re.M))
        # the two keys of “error” are told of with it
        self.assertEqual(known["keys"] - {"when", "name", "message"}, listed)
        for word in known["keys"] | known["values"]:
            self.assertIn(f"`{word}`", PAGE)


if __name__ == "__main__":
    unittest.main()
